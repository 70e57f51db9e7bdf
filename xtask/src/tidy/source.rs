//! Sizes of files and functions, and where `unsafe` may stand.

use super::{File, lexer};

/// Longest file, without tests.
const FILE_LINES: usize = 500;

/// Longest function, from its `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;

/// The only folders with `unsafe` in them.
const UNSAFE_HOMES: &[&str] = &["spur-agent/src/sys.rs", "spur-agent/src/sys/", "spur-ebpf/"];

pub(super) fn check(file: &File, found: &mut Vec<String>) {
    let code = lexer::code_only(&file.text);
    let path = &file.path;
    for line in unsafe_lines(&code) {
        if !UNSAFE_HOMES.iter().any(|home| path.starts_with(home)) {
            found.push(format!(
                "{path}:{line}: unsafe outside {}",
                UNSAFE_HOMES.join(", ")
            ));
        }
    }
    if is_test(path) {
        return;
    }
    let tests = inline_tests(&code);
    let lines = code.lines().count() - tests.as_ref().map_or(0, |range| range.len());
    if lines > FILE_LINES {
        found.push(format!(
            "{path}: {lines} lines without tests, more than {FILE_LINES}"
        ));
    }
    for (line, length) in functions(&code) {
        let tested = tests.as_ref().is_some_and(|range| range.contains(&line));
        if length > FUNCTION_LINES && !tested && !excused(&file.text, line) {
            found.push(format!(
                "{path}:{line}: {length} lines in a function, more than {FUNCTION_LINES}"
            ));
        }
    }
}

/// Whether the lines above a function expect clippy to find it long, with a reason.
fn excused(text: &str, line: usize) -> bool {
    let above = text.lines().take(line - 1).collect::<Vec<_>>();
    let attributes = above
        .iter()
        .rev()
        .take_while(|line| !line.trim().is_empty() && line.trim() != "}");
    attributes
        .into_iter()
        .any(|line| line.contains("clippy::too_many_lines"))
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn unsafe_lines(code: &str) -> Vec<usize> {
    let is_unsafe = |line: &str| words(line).any(|(_, word)| word == "unsafe");
    (1..)
        .zip(code.lines())
        .filter(|(_, line)| is_unsafe(line))
        .map(|(number, _)| number)
        .collect()
}

/// Identifiers and keywords of a text, with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !part(c))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// Lines of the file's own `mod tests { … }`, numbered from 1.
fn inline_tests(code: &str) -> Option<std::ops::Range<usize>> {
    let at = code.find("mod tests {")?;
    let first = line_of(code, at);
    Some(first..first + body_lines(&code[at..]))
}

/// First line and length of every function with a body, closures and nested ones counted within.
fn functions(code: &str) -> Vec<(usize, usize)> {
    let starts = words(code)
        .filter(|(_, word)| *word == "fn")
        .map(|(at, _)| at);
    let named = starts.filter(|at| {
        code[at + 2..]
            .trim_start()
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    });
    named
        .filter(|at| has_body(&code[*at..]))
        .map(|at| (line_of(code, at), body_lines(&code[at..])))
        .collect()
}

/// Whether `{` comes before `;` (arrays in a signature hold `;` within brackets).
fn has_body(code: &str) -> bool {
    let mut depth = 0_i32;
    for byte in code.bytes() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return false,
            b'{' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Lines up to the brace that closes the first one opened outside brackets.
fn body_lines(code: &str) -> usize {
    let (mut depth, mut lines) = (0_i32, 1);
    for byte in code.bytes() {
        match byte {
            b'\n' => lines += 1,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return lines;
                }
            }
            _ => {}
        }
    }
    lines
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].bytes().filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(path: &str, text: String) -> Vec<String> {
        let mut found = Vec::new();
        check(
            &File {
                path: path.to_owned(),
                text,
            },
            &mut found,
        );
        found
    }

    #[test]
    fn a_long_function_is_found_and_a_long_test_is_not() {
        let long = format!(
            "fn f(x: [u8; 3]) {{\n{}}}\n",
            "    g();\n".repeat(FUNCTION_LINES)
        );
        let found = breaches("a/src/b.rs", format!("trait T {{ fn g(&self); }}\n{long}"));
        assert_eq!(
            found,
            ["a/src/b.rs:2: 72 lines in a function, more than 70"]
        );
        let excused = format!("#[expect(clippy::too_many_lines, reason = \"a table\")]\n{long}");
        assert_eq!(breaches("a/src/b.rs", excused), [""; 0]);
        let in_tests = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert_eq!(breaches("a/src/b.rs", in_tests), [""; 0]);
    }

    #[test]
    fn a_long_file_is_found() {
        let text = "const A: u8 = 1;\n".repeat(FILE_LINES + 1);
        assert_eq!(breaches("a/src/b.rs", text.clone()).len(), 1);
        assert_eq!(breaches("a/src/b/tests.rs", text), [""; 0]);
    }

    #[test]
    fn unsafe_stays_at_home() {
        let text = "// unsafe\nfn f() { unsafe { g() } }\n".to_owned();
        let found = breaches("spur-ctl/src/main.rs", text.clone());
        assert!(
            found[0].starts_with("spur-ctl/src/main.rs:2: unsafe outside"),
            "{found:?}"
        );
        assert_eq!(breaches("spur-agent/src/sys/clone.rs", text), [""; 0]);
    }
}

//! Just enough of Rust's lexical grammar to know code from comments and literals.

/// The source with every comment, string and character literal replaced by spaces. Line breaks stay, so line numbers hold.
pub(super) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = at + skipped(&bytes[at..], at.checked_sub(1).map(|before| bytes[before]));
        if end == at {
            out.push(if bytes[at].is_ascii() {
                bytes[at]
            } else {
                b'_'
            });
            at += 1;
        }
        while at < end {
            out.push(if bytes[at] == b'\n' { b'\n' } else { b' ' });
            at += 1;
        }
    }
    String::from_utf8(out).expect("only ASCII is pushed")
}

/// How many bytes from here are a comment or a literal; 0 for code.
fn skipped(rest: &[u8], before: Option<u8>) -> usize {
    let in_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match rest {
        [b'/', b'/', ..] => rest
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest, b'"'),
        [b'\'', ..] => character(rest),
        [b'r', b'"' | b'#', ..] if !in_word => raw_string(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !in_word => raw_string(rest, 2),
        _ => 0,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character literal; a lifetime is code.
fn character(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', ..] => quoted(rest, b'\''),
        [_, first, ..] => {
            // One character of UTF-8, then the closing quote.
            let width = match first {
                0xF0.. => 4,
                0xE0.. => 3,
                0xC0.. => 2,
                _ => 1,
            };
            if rest.get(1 + width) == Some(&b'\'') {
                width + 2
            } else {
                0
            }
        }
        _ => 0,
    }
}

fn raw_string(rest: &[u8], prefix: usize) -> usize {
    let hashes = rest[prefix..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let open = prefix + hashes;
    // `r#type` is an identifier.
    if rest.get(open) != Some(&b'"') {
        return 0;
    }
    let close: Vec<u8> = std::iter::once(b'"')
        .chain(std::iter::repeat_n(b'#', hashes))
        .collect();
    let body = &rest[open + 1..];
    let end = body.windows(close.len()).position(|window| window == close);
    end.map_or(rest.len(), |end| open + 1 + end + close.len())
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn comments_and_literals_are_blanked() {
        let cases = [
            ("a // {\nb", "a b"),
            ("a /* x /* y */ */ b", "a b"),
            (r#"f("a\"{", '{', '\'')"#, "f( , , )"),
            ("r#\"{\"# + br\"{\"", "+"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("r#type 'é' x", "r#type x"),
        ];
        for (source, wanted) in cases {
            let got = code_only(source);
            let words: Vec<&str> = got.split_whitespace().collect();
            assert_eq!(words.join(" "), wanted, "{source}");
            assert_eq!(
                (got.len(), got.lines().count()),
                (source.len(), source.lines().count())
            );
        }
    }
}

//! Batch scripts: whether a text is one, and the options on its `#SBATCH` lines.

/// The mark at the start of a line with options.
const MARK: &str = "#SBATCH";

/// Options found on one line, quotes removed and split into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Line number in the script, from 1.
    pub line: u32,
    /// The words; bytes that are no UTF-8 as [`super::raw`] has them.
    pub args: Vec<String>,
}

/// A quote that is not closed on its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: Unmatched `{quote}` in [{text}]")]
pub struct Unmatched {
    /// Line number in the script, from 1.
    pub line: u32,
    /// The quote.
    pub quote: char,
    /// The line without its mark.
    pub text: String,
}

/// The options in a script: of every `#SBATCH` line before the first command. Blank lines and other comments are passed over.
pub fn directives(script: &[u8]) -> Result<Vec<Directive>, Unmatched> {
    let mut found = Vec::new();
    for (bytes, line) in script.split(|b| *b == b'\n').zip(1u32..) {
        let text = super::raw::text(bytes);
        if let Some(options) = text.strip_prefix(MARK) {
            let args = words(options).map_err(|quote| Unmatched {
                line,
                quote,
                text: options.to_owned(),
            })?;
            if !args.is_empty() {
                found.push(Directive { line, args });
            }
        } else if text.trim_start().starts_with(|c| c != '#') {
            break;
        }
    }
    Ok(found)
}

/// Splits a line as Slurm does: blanks part words, quotes keep them together, a backslash takes the next character as it is,
/// an open `#` ends the line. The error is the quote that was left open.
fn words(line: &str) -> Result<Vec<String>, char> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(chars.next()),
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            ('#', None) => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.map_or(Ok(words), Err)
}

/// Why a text is no batch script, in Slurm's words; each line of the text is a message of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadScript {
    /// Nothing in it.
    #[error("Batch script is empty!")]
    Empty,
    /// Only blanks in it.
    #[error("Batch script contains only whitespace!")]
    Blank,
    /// No interpreter line.
    #[error(
        "This does not look like a batch script.  The first\nline must start with #! followed by the path to an interpreter.\nFor instance: #!/bin/sh"
    )]
    NoInterpreter,
    /// A NUL byte.
    #[error("The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'.")]
    Nul,
    /// Lines end as in DOS.
    #[error(
        "Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n)."
    )]
    DosLines,
}

/// Checks a script before it is sent.
pub fn check(script: &[u8]) -> Result<(), BadScript> {
    if script.is_empty() {
        Err(BadScript::Empty)
    } else if script.iter().all(u8::is_ascii_whitespace) {
        Err(BadScript::Blank)
    } else if !script.starts_with(b"#!") {
        Err(BadScript::NoInterpreter)
    } else if script.contains(&0) {
        Err(BadScript::Nul)
    } else if script.windows(2).any(|pair| pair == b"\r\n") {
        Err(BadScript::DosLines)
    } else {
        Ok(())
    }
}

/// The script that runs `--wrap`'s command.
pub fn wrap(command: &str) -> Vec<u8> {
    format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn args(script: &str) -> Vec<String> {
        directives(script.as_bytes())
            .unwrap()
            .into_iter()
            .flat_map(|d| d.args)
            .collect()
    }

    #[test]
    fn options_are_split_as_slurm_splits_them() {
        for (line, words) in [
            ("#SBATCH --time=10", &["--time=10"][..]),
            ("#SBATCH --array               1-3", &["--array", "1-3"]),
            (
                "#SBATCH -N2 -n 4  --gres=gpu:1\t-J x",
                &["-N2", "-n", "4", "--gres=gpu:1", "-J", "x"],
            ),
            (
                "#SBATCH --comment=\"two words\" -J 'a b'",
                &["--comment=two words", "-J", "a b"],
            ),
            ("#SBATCH --comment=\"it's\"", &["--comment=it's"]),
            ("#SBATCH --comment=a\\ b\\\"c", &["--comment=a b\"c"]),
            ("#SBATCH --comment \"\" -n1", &["--comment", "", "-n1"]),
            ("#SBATCH -n1 # four", &["-n1"]),
            ("#SBATCH -n1#four", &["-n1"]),
            ("#SBATCH --comment='#1'", &["--comment=#1"]),
            ("#SBATCH--mem=1G", &["--mem=1G"]),
            ("#SBATCH", &[]),
            ("##SBATCH -n1", &[]),
            (" #SBATCH -n1", &[]),
            ("#sbatch -n1", &[]),
            ("#SBATCH -J \\", &["-J", ""]),
        ] {
            assert_eq!(args(&format!("#!/bin/sh\n{line}\n")), words, "{line}");
        }
    }

    #[test]
    fn options_end_at_the_first_command() {
        let script =
            "#!/bin/sh\n#SBATCH -n1\n\n  # comment\n \t\n#SBATCH -N1\n  echo\n#SBATCH -c1\n";
        let found = directives(script.as_bytes()).unwrap();
        let lines: Vec<_> = found.iter().map(|d| (d.line, d.args[0].as_str())).collect();
        assert_eq!(lines, [(2, "-n1"), (6, "-N1")]);
        assert_eq!(args("#SBATCH -n1"), ["-n1"]);
        assert!(args("").is_empty());
    }

    #[test]
    fn an_open_quote_is_refused() {
        let open = directives(b"#!/bin/sh\n#SBATCH -J 'a b\n").unwrap_err();
        assert_eq!(open.to_string(), "line 2: Unmatched `'` in [ -J 'a b]");
    }

    #[test]
    fn scripts_are_checked() {
        for (script, verdict) in [
            (&b"#!/bin/sh\ntrue\n"[..], Ok(())),
            (b"#!/bin/sh", Ok(())),
            (b"", Err(BadScript::Empty)),
            (b" \n\t\n", Err(BadScript::Blank)),
            (b"true\n", Err(BadScript::NoInterpreter)),
            (b"#!/bin/sh\n\0", Err(BadScript::Nul)),
            (b"#!/bin/sh\r\ntrue\r\n", Err(BadScript::DosLines)),
        ] {
            assert_eq!(check(script), verdict);
        }
        assert_eq!(check(&wrap("true")), Ok(()));
        assert_eq!(BadScript::NoInterpreter.to_string().lines().count(), 3);
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec("\\PC{0,12}", 0..6)) {
            let quoted: Vec<String> = words
                .iter()
                .map(|word| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")))
                .collect();
            prop_assert_eq!(args(&format!("#SBATCH {}", quoted.join(" "))), words);
        }

        #[test]
        fn any_bytes_are_split_or_refused(bytes: Vec<u8>, near in "#SBATCH[ a'\"\\\\#\n]{0,16}") {
            let _split = (directives(&bytes), directives(near.as_bytes()));
            let _checked = check(&bytes);
        }
    }
}

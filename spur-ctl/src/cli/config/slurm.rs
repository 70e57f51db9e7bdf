//! Slurm's configuration files as lines of `KEY=VALUE`.

use std::path::{Path, PathBuf};

/// Deepest nesting of `Include`.
const DEPTH_MAX: usize = 10;
/// Most lines of all files.
const LINES_MAX: usize = 1_000_000;

/// A line: where it is, and its pairs in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// `slurm.conf:12`.
    pub(super) at: String,
    /// Keys as written, and values without quotes.
    pub(super) pairs: Vec<(String, String)>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadFile {
    /// The system says no.
    #[error("cannot read {path}: {cause}")]
    Read {
        path: PathBuf,
        cause: std::io::Error,
    },
    /// Files include one another.
    #[error("{0}: included too deeply, or too many lines")]
    TooMuch(PathBuf),
}

/// Reads a file and what it includes.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, BadFile> {
    let mut lines = Vec::new();
    read_into(path, 0, &mut lines)?;
    Ok(lines)
}

fn read_into(path: &Path, depth: usize, into: &mut Vec<Line>) -> Result<(), BadFile> {
    if depth > DEPTH_MAX || into.len() > LINES_MAX {
        return Err(BadFile::TooMuch(path.to_owned()));
    }
    let bytes = std::fs::read(path).map_err(|cause| BadFile::Read {
        path: path.to_owned(),
        cause,
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    let mut whole = String::new();
    let mut first = 0;
    for (line, number) in text.lines().zip(1usize..) {
        if whole.is_empty() {
            first = number;
        }
        let bare = uncommented(line);
        if let Some(begun) = bare.strip_suffix('\\') {
            whole.push_str(begun);
            whole.push(' ');
            continue;
        }
        whole.push_str(bare);
        let line = std::mem::take(&mut whole);
        let included = line
            .trim()
            .get(..8)
            .filter(|word| word.eq_ignore_ascii_case("include "));
        if included.is_some() {
            let file = line.trim()[8..].trim();
            read_into(&path.with_file_name(file), depth + 1, into)?;
            continue;
        }
        let pairs = pairs(&line);
        if !pairs.is_empty() {
            let at = format!("{name}:{first}");
            into.push(Line { at, pairs });
        }
    }
    Ok(())
}

/// The line up to a `#` that no backslash protects.
fn uncommented(line: &str) -> &str {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if c == '#' && before != '\\' {
            return line[..at].trim_end();
        }
        before = c;
    }
    line.trim_end()
}

/// `KEY=VALUE` words; quotes hold blanks together.
fn pairs(line: &str) -> Vec<(String, String)> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    let pair = |word: &String| match word.split_once('=') {
        Some((key, value)) => (key.trim_end_matches('+').to_owned(), value.to_owned()),
        None => (word.clone(), String::new()),
    };
    words.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_comments_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("slurm.conf");
        std::fs::write(dir.path().join("more.conf"), "NodeName=n2\n").unwrap();
        let text = "# nothing\nClusterName=c # here\nPartitionName=p \\\n  Nodes=n[1-2]\ninclude more.conf\nX=\"a b\"\n";
        std::fs::write(&file, text).unwrap();
        let lines = read(&file).unwrap();
        let shown: Vec<String> = lines
            .iter()
            .map(|line| format!("{} {:?}", line.at, line.pairs))
            .collect();
        assert_eq!(
            shown,
            [
                "slurm.conf:2 [(\"ClusterName\", \"c\")]",
                "slurm.conf:3 [(\"PartitionName\", \"p\"), (\"Nodes\", \"n[1-2]\")]",
                "more.conf:1 [(\"NodeName\", \"n2\")]",
                "slurm.conf:6 [(\"X\", \"a b\")]",
            ]
        );
    }
}

//! A recorded file: `$ command` (`#` where root ran it), `--- stdout`, `--- stderr`, `--- exit N`.

use crate::host;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A command and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Root ran it, and not the user.
    pub root: bool,
    /// The line for the shell.
    pub command: String,
    /// The three sections as text.
    pub text: String,
}

impl Record {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, rest) = text.split_once('\n')?;
        // A command may have several lines; it ends where the output begins.
        let (more, sections) = rest.split_once("--- stdout\n")?;
        let (root, command) = match first.strip_prefix("$ ") {
            Some(command) => (false, command),
            None => (true, first.strip_prefix("# ")?),
        };
        let command = if more.is_empty() {
            command.to_owned()
        } else {
            format!("{command}\n{}", more.trim_end_matches('\n'))
        };
        Some(Self {
            root,
            command,
            text: format!("--- stdout\n{sections}"),
        })
    }

    /// What the command wrote to its standard output.
    pub fn out(&self) -> &str {
        let rest = self.text.strip_prefix("--- stdout\n").unwrap_or_default();
        rest.rfind("--- stderr\n").map_or(rest, |end| &rest[..end])
    }
}

/// The sections of a command that was run now.
pub fn sections(out: &str, err: &str, code: i32) -> String {
    format!("--- stdout\n{out}--- stderr\n{err}--- exit {code}\n")
}

/// Where the recordings are: beside the workspace, or where `SPUR_GOLDEN` says.
pub fn folder() -> PathBuf {
    if let Some(dir) = std::env::var_os("SPUR_GOLDEN") {
        return dir.into();
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/slurm-golden")
}

/// Every recording of the folder by its name without `.txt`; `None` if the folder is not there.
pub fn all(folder: &Path) -> Option<BTreeMap<String, Record>> {
    let entries = fs::read_dir(folder).ok()?;
    let mut found = BTreeMap::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name()?.to_str()?.to_owned();
        let Some(name) = name.strip_suffix(".txt") else {
            continue;
        };
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
        match Record::parse(&text) {
            Some(record) => drop(found.insert(name.to_owned(), record)),
            None => host::skip(&format!("{} is no recording", path.display())),
        }
    }
    (!found.is_empty()).then_some(found)
}

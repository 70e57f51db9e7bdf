//! How a command fails: what it says and the code that it exits with. Made by the pure parts, printed once by the caller.

use super::flags::Command;
use spur_core::slurm::timespec::begin::BadBegin;
use std::fmt;

/// Why a command ends early. The text is complete lines as Slurm's command would print them to stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For stderr; ends with a newline unless empty.
    pub text: String,
    /// For the shell.
    pub code: u8,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// One line, as it stands.
    pub fn plain(line: impl fmt::Display, code: u8) -> Self {
        Self {
            text: format!("{line}\n"),
            code,
        }
    }

    /// `NAME: error: WHY`, exit code 1; every line of `why` gets the prefix.
    pub fn error(who: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::prefixed(&format!("{who}: error: "), &why.to_string(), 1)
    }

    /// `NAME: fatal: WHY`, exit code 1.
    pub fn fatal(who: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::prefixed(&format!("{who}: fatal: "), &why.to_string(), 1)
    }

    /// A value that an option cannot have: `NAME: error: WHY` with the command's code for bad options.
    pub fn usage(command: Command, why: impl fmt::Display) -> Self {
        Self::error(command, why).with_code(command.usage_code())
    }

    /// Ends without a word.
    pub fn silent(code: u8) -> Self {
        Self {
            text: String::new(),
            code,
        }
    }

    /// The same with one line more: the right word that a wrong one is a slip of, if it is one of any.
    #[must_use]
    pub fn nearest<'a>(mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        if let Some(meant) = super::flags::nearest::slip(word, known) {
            self.text.push_str(&format!("Did you mean {meant}?\n"));
        }
        self
    }

    /// The same with another code.
    #[must_use]
    pub fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// The same, said after another error line.
    #[must_use]
    pub fn after(mut self, who: impl fmt::Display, why: impl fmt::Display) -> Self {
        self.text.insert_str(0, &Self::error(who, why).text);
        self
    }

    /// The same, said after where a moment cannot be read, which Slurm says without its name in front.
    #[must_use]
    pub fn after_moment(mut self, why: &BadBegin) -> Self {
        if matches!(why, BadBegin::At { .. }) {
            self.text.insert_str(0, &format!("{why}\n"));
        }
        self
    }

    fn prefixed(prefix: &str, why: &str, code: u8) -> Self {
        let text = why
            .lines()
            .map(|line| format!("{prefix}{line}\n"))
            .collect();
        Self { text, code }
    }
}

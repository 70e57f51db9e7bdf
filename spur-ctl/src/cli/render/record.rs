//! Records of `scontrol show`: lines of `Key=Value`, or all in one line (`-o`).

use std::fmt::{self, Write as _};

/// A record in the making.
#[derive(Debug)]
pub struct Record {
    text: String,
    one_line: bool,
}

impl Record {
    /// A record that begins with this line.
    pub fn new(first: String, one_line: bool) -> Self {
        Self {
            text: first,
            one_line,
        }
    }

    /// Adds a line.
    pub fn line(&mut self, line: impl fmt::Display) {
        self.text
            .push_str(if self.one_line { " " } else { "\n   " });
        write!(self.text, "{line}").expect("writing to a string cannot fail");
    }

    /// Adds a line if there is one.
    pub fn maybe(&mut self, line: Option<String>) {
        if let Some(line) = line {
            self.line(line);
        }
    }

    /// The whole, with the blank line that parts it from the next.
    pub fn end(mut self) -> String {
        self.text
            .push_str(if self.one_line { "\n" } else { "\n\n" });
        self.text
    }
}

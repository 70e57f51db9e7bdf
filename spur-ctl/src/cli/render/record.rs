//! Records of `scontrol show`: lines of `Key=Value`, or all in one line (`-o`).

use spur_core::slurm::digits;
use std::fmt::{self, Write as _};

/// What a value of a record is written from, without a text of its own.
pub trait Put {
    /// Adds it.
    fn put(self, out: &mut String);
}

impl Put for &str {
    fn put(self, out: &mut String) {
        out.push_str(self);
    }
}

impl Put for &String {
    fn put(self, out: &mut String) {
        out.push_str(self);
    }
}

impl Put for u64 {
    fn put(self, out: &mut String) {
        digits::push(out, self);
    }
}

impl Put for i32 {
    fn put(self, out: &mut String) {
        out.push_str(if self < 0 { "-" } else { "" });
        digits::push(out, self.unsigned_abs().into());
    }
}

/// Numbers that are a `u64` as well.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Put for $number {
            fn put(self, out: &mut String) {
                digits::push(out, self.into());
            }
        }
    )*};
}
numbers!(bool, u8, u32);

/// What adds itself.
struct By<F>(F);

impl<F: FnOnce(&mut String)> Put for By<F> {
    fn put(self, out: &mut String) {
        (self.0)(out);
    }
}

/// A value that a function adds.
pub fn by(add: impl FnOnce(&mut String)) -> impl Put {
    By(add)
}

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

    /// Begins another line.
    pub fn begin(&mut self) -> &mut Self {
        self.text
            .push_str(if self.one_line { " " } else { "\n   " });
        self
    }

    /// Adds what stands before a value, and the value.
    pub fn add(&mut self, before: &str, value: impl Put) -> &mut Self {
        self.text.push_str(before);
        value.put(&mut self.text);
        self
    }

    /// Adds a line.
    pub fn line(&mut self, line: impl fmt::Display) {
        self.begin();
        write!(self.text, "{line}").expect("writing to a string cannot fail");
    }

    /// Adds a line if there is one.
    pub fn maybe(&mut self, line: Option<String>) {
        if let Some(line) = line {
            self.begin().add("", &line);
        }
    }

    /// Adds what parts it from the next.
    pub fn end(&mut self) {
        self.text
            .push_str(if self.one_line { "\n" } else { "\n\n" });
    }

    /// What was added so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Forgets what was added so far, for the next records.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// The whole.
    pub fn into_text(self) -> String {
        self.text
    }
}

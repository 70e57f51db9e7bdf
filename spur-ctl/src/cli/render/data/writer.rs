//! A document in the making.

use super::asked::{Asked, Parser, Style};
use super::{json, yaml};
use crate::cli::output;

/// What is gathered before it goes to standard output.
const SPILL: usize = 256 << 10;

/// A number that may be missing or without bound: `{"set":…,"infinite":…,"number":…}`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Not set.
    Unset,
    /// Without bound.
    Infinite,
    /// This.
    Is(u64),
    /// Not set, where the number has a fraction.
    UnsetFraction,
    /// This, with a fraction.
    Fraction(f64),
}

impl Number {
    /// The number, or not set.
    pub fn maybe(number: Option<u64>) -> Self {
        number.map_or(Self::Unset, Self::Is)
    }
}

/// A list or an object that is being written.
struct Level {
    list: bool,
    /// Elements so far.
    count: usize,
    /// Column of its keys or dashes (YAML), of its elements (JSON).
    indent: usize,
}

/// A document in the making. What is long goes to standard output piece by piece, unless it is [kept](Document::kept).
pub struct Document {
    asked: Asked,
    out: String,
    levels: Vec<Level>,
    /// Where the line that is being written begins in `out`.
    line: usize,
    spills: bool,
}

impl Document {
    /// A document of which the outermost object is open.
    pub fn begin(asked: Asked) -> Self {
        let out = match asked.style {
            Style::Json => "{",
            Style::Yaml => "%YAML 1.1\n--- !!map",
        };
        let indent = match asked.style {
            Style::Json => 2,
            Style::Yaml => 0,
        };
        Self {
            asked,
            out: out.to_owned(),
            levels: vec![Level {
                list: false,
                count: 0,
                indent,
            }],
            line: 0,
            spills: true,
        }
    }

    /// The same, kept whole for [`Document::into_text`].
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.spills = false;
        self
    }

    /// Which version of the shapes is asked for.
    pub fn parser(&self) -> Parser {
        self.asked.parser
    }

    /// An object under a key.
    pub fn map(&mut self, key: &str, body: impl FnOnce(&mut Self)) {
        self.key(key);
        self.inside(false, body);
    }

    /// An object without keys.
    pub fn empty_map(&mut self, key: &str) {
        self.map(key, |_| ());
    }

    /// A list under a key; `each` writes one element for each item.
    pub fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.key(key);
        self.inside(true, |doc| {
            for item in items {
                each(doc, item);
                doc.spill();
            }
        });
    }

    /// An object as an element of a list.
    pub fn item(&mut self, body: impl FnOnce(&mut Self)) {
        self.element();
        self.inside(false, body);
    }

    /// A text as an element of a list.
    pub fn item_text(&mut self, text: &str) {
        self.element();
        self.scalar_text(text);
    }

    /// A list of texts.
    pub fn texts<'a>(&mut self, key: &str, texts: impl IntoIterator<Item = &'a str>) {
        self.list(key, texts, |doc, text| doc.item_text(text));
    }

    /// A text.
    pub fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        self.scalar_text(text);
    }

    /// A number.
    pub fn int(&mut self, key: &str, number: impl Into<i64>) {
        self.key(key);
        self.scalar("!!int", |out| decimal(out, number.into()));
    }

    /// A number that is never below 0.
    pub fn count(&mut self, key: &str, number: u64) {
        self.int(key, i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// A number with a fraction.
    pub fn float(&mut self, key: &str, number: f64) {
        self.key(key);
        self.scalar_float(number);
    }

    /// Yes or no.
    pub fn bool(&mut self, key: &str, value: bool) {
        self.key(key);
        self.scalar("!!bool", |out| {
            out.push_str(if value { "true" } else { "false" })
        });
    }

    /// Nothing.
    pub fn null(&mut self, key: &str) {
        self.key(key);
        self.scalar("!!null", |out| out.push_str("null"));
    }

    /// A number that may be missing.
    pub fn number(&mut self, key: &str, number: Number) {
        if self.asked.complex {
            return self.plain_number(key, number);
        }
        self.map(key, |doc| {
            let set = matches!(number, Number::Is(_) | Number::Fraction(_));
            doc.bool("set", set);
            doc.bool("infinite", number == Number::Infinite);
            match number {
                Number::Unset | Number::Infinite => doc.int("number", 0),
                Number::Is(number) => doc.count("number", number),
                Number::UnsetFraction => doc.float("number", 0.0),
                Number::Fraction(number) => doc.float("number", number),
            }
        });
    }

    fn plain_number(&mut self, key: &str, number: Number) {
        match number {
            Number::Unset | Number::UnsetFraction => self.null(key),
            Number::Infinite => self.float(key, f64::INFINITY),
            Number::Is(number) => self.count(key, number),
            Number::Fraction(number) => self.float(key, number),
        }
    }

    /// Closes the outermost object and prints what is left.
    pub fn end(self) {
        output::print(&self.into_text());
    }

    /// Closes the outermost object: what was not printed yet.
    pub fn into_text(mut self) -> String {
        self.close();
        match self.asked.style {
            Style::Json => self.out.push('\n'),
            Style::Yaml => self.out.push_str("\n...\n\n"),
        }
        self.out
    }

    fn spill(&mut self) {
        if self.spills && self.out.len() >= SPILL && !output::is_over() {
            output::print(&self.out);
            self.line = 0;
            self.out.clear();
        }
    }

    /// Begins an element: what parts it from the one before, and its indentation.
    fn next(&mut self) {
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        if level.count > 0 && self.asked.style == Style::Json {
            self.out.push(',');
        }
        level.count += 1;
        self.out.push('\n');
        self.line = self.out.len();
        blanks(&mut self.out, level.indent);
    }

    fn element(&mut self) {
        self.next();
        if self.asked.style == Style::Yaml {
            self.out.push_str("- ");
        }
    }

    fn key(&mut self, key: &str) {
        self.next();
        match self.asked.style {
            Style::Json => {
                self.out.push('"');
                self.out.push_str(key);
                self.out.push_str("\": ");
            }
            Style::Yaml => {
                self.out.push_str("!!str ");
                self.out.push_str(key);
                self.out.push_str(": ");
            }
        }
    }

    fn inside(&mut self, list: bool, body: impl FnOnce(&mut Self)) {
        let (inside_list, indent) = self
            .levels
            .last()
            .map_or((false, 0), |l| (l.list, l.indent));
        let indent = match self.asked.style {
            Style::Json => {
                self.out.push(if list { '[' } else { '{' });
                indent + 2
            }
            Style::Yaml => {
                self.out.push_str(if list { "!!seq" } else { "!!map" });
                // A list in an object stands at the object's own column.
                if list && !inside_list {
                    indent
                } else {
                    indent + 2
                }
            }
        };
        self.levels.push(Level {
            list,
            count: 0,
            indent,
        });
        body(self);
        self.close();
    }

    fn close(&mut self) {
        let Some(level) = self.levels.pop() else {
            return;
        };
        match self.asked.style {
            Style::Json => {
                if level.count > 0 {
                    self.out.push('\n');
                    blanks(&mut self.out, level.indent - 2);
                }
                self.out.push(if level.list { ']' } else { '}' });
            }
            Style::Yaml if level.count == 0 => {
                self.out.push_str(if level.list { " []" } else { " {}" });
            }
            Style::Yaml => {}
        }
    }

    fn scalar(&mut self, tag: &str, write: impl FnOnce(&mut String)) {
        if self.asked.style == Style::Yaml {
            self.out.push_str(tag);
            self.out.push(' ');
        }
        write(&mut self.out);
    }

    fn scalar_float(&mut self, number: f64) {
        match self.asked.style {
            Style::Json if number.is_infinite() => self.out.push_str("Infinity"),
            Style::Json => self.out.push_str(&format!("{number:?}")),
            Style::Yaml => self.out.push_str(&format!("!!float {number:.6}")),
        }
    }

    fn scalar_text(&mut self, text: &str) {
        match self.asked.style {
            Style::Json => json::text(&mut self.out, text),
            Style::Yaml => {
                let indent = self.levels.last().map_or(0, |level| level.indent);
                let column = self.out.len().saturating_sub(self.line);
                yaml::text(&mut self.out, text, column, indent + 2);
            }
        }
    }
}

fn blanks(out: &mut String, count: usize) {
    const BLANKS: &str = "                                ";
    let mut left = count;
    while left > 0 {
        let now = left.min(BLANKS.len());
        out.push_str(&BLANKS[..now]);
        left -= now;
    }
}

/// Adds a number in decimal digits, without a text of its own.
fn decimal(out: &mut String, number: i64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push('-');
    }
    out.extend(digits[at..].iter().map(|digit| char::from(*digit)));
}

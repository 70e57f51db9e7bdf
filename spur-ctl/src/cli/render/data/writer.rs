//! A document in the making.

use super::asked::{Asked, Parser, Style};
use super::{json, yaml};
use crate::cli::output;
use spur_core::slurm::digits;

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

/// What is around the digits of a [`Number`] in JSON.
struct Frame {
    set: String,
    infinite: String,
    unset: String,
    end: String,
}

impl Frame {
    /// Of a number whose key stands in this column.
    fn at(column: usize) -> Self {
        let line = |what: &str| format!("\n{:1$}{what}", "", column + 2);
        let before = |set: bool, infinite: bool| {
            let set = line(&format!("\"set\": {set},"));
            let infinite = line(&format!("\"infinite\": {infinite},"));
            format!("{{{set}{infinite}{}", line("\"number\": "))
        };
        Self {
            set: before(true, false),
            infinite: before(false, true),
            unset: before(false, false),
            end: format!("\n{:column$}}}", ""),
        }
    }
}

/// How lines in a column begin: with the end of the line before them, and in JSON with its comma if something is there, and with the
/// quote of a key.
struct Column {
    /// Of the first, or in YAML.
    first: String,
    first_key: String,
    other: String,
    other_key: String,
    number: Frame,
}

impl Column {
    fn at(column: usize) -> Self {
        let start = |before: &str, quote: &str| format!("{before}\n{:column$}{quote}", "");
        Self {
            first: start("", ""),
            first_key: start("", "\""),
            other: start(",", ""),
            other_key: start(",", "\""),
            number: Frame::at(column),
        }
    }
}

/// A document in the making. What is long goes to standard output piece by piece, unless it is [kept](Document::kept).
pub struct Document {
    asked: Asked,
    out: String,
    levels: Vec<Level>,
    /// Where the line that is being written begins in `out`.
    line: usize,
    spills: bool,
    /// What is the same of all lines in a column, by half the column.
    columns: Vec<Column>,
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
        let mut doc = Self {
            asked,
            out: out.to_owned(),
            levels: vec![Level {
                list: false,
                count: 0,
                indent,
            }],
            line: 0,
            spills: true,
            columns: Vec::new(),
        };
        doc.prepare(indent);
        doc
    }

    /// Makes what is the same of all lines in a column.
    fn prepare(&mut self, column: usize) {
        for half in self.columns.len()..=column / 2 {
            self.columns.push(Column::at(half * 2));
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
        self.int(key, whole(number));
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
        if self.asked.style == Style::Json {
            return self.json_number(key, number);
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

    /// The same as an object with three keys, of which all but the digits is made once: documents are full of them.
    fn json_number(&mut self, key: &str, number: Number) {
        self.key(key);
        let column = self.levels.last().map_or(0, |level| level.indent);
        let frame = &self.columns[column / 2].number;
        self.out.push_str(match number {
            Number::Is(_) | Number::Fraction(_) => &frame.set,
            Number::Infinite => &frame.infinite,
            Number::Unset | Number::UnsetFraction => &frame.unset,
        });
        match number {
            Number::Unset | Number::Infinite => self.out.push('0'),
            Number::Is(number) => decimal(&mut self.out, whole(number)),
            Number::UnsetFraction => json_float(&mut self.out, 0.0),
            Number::Fraction(number) => json_float(&mut self.out, number),
        }
        self.out.push_str(&frame.end);
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

    /// What is there. Nothing in JSON stands for other bytes: it need not be looked through.
    fn print(&self) {
        match self.asked.style {
            Style::Json => output::write(self.out.as_bytes()),
            Style::Yaml => output::print(&self.out),
        }
    }

    fn spill(&mut self) {
        if self.spills && self.out.len() >= SPILL && !output::is_over() {
            self.print();
            self.line = 0;
            self.out.clear();
        }
    }

    /// Begins an element: what parts it from the one before, and its indentation.
    fn next(&mut self, quote: bool) {
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        let parted = level.count > 0 && self.asked.style == Style::Json;
        level.count += 1;
        let column = &self.columns[level.indent / 2];
        self.line = self.out.len() + 1;
        self.out.push_str(match (parted, quote) {
            (false, false) => &column.first,
            (false, true) => &column.first_key,
            (true, false) => &column.other,
            (true, true) => &column.other_key,
        });
    }

    fn element(&mut self) {
        self.next(false);
        if self.asked.style == Style::Yaml {
            self.out.push_str("- ");
        }
    }

    fn key(&mut self, key: &str) {
        self.next(self.asked.style == Style::Json);
        match self.asked.style {
            Style::Json => {
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
        self.prepare(indent);
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
                    self.out.push_str(&self.columns[level.indent / 2 - 1].first);
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
            Style::Json => json_float(&mut self.out, number),
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

/// As far as a number of Slurm's goes.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn json_float(out: &mut String, number: f64) {
    if number.is_infinite() {
        out.push_str("Infinity");
    } else {
        out.push_str(&format!("{number:?}"));
    }
}

/// Adds a number in decimal digits.
fn decimal(out: &mut String, number: i64) {
    if number < 0 {
        out.push('-');
    }
    digits::push(out, number.unsigned_abs());
}

//! Columns by name, as `sacct` and `sstat` take them: `JobID,State%20,NodeList%-40`, in any case, and lines in columns or parted by
//! a delimiter.

use super::{Context, Row};
use crate::cli::flags::nearest::slip;

/// A column that a format may name.
pub struct Field {
    /// Its name, which is also its header.
    pub name: &'static str,
    /// Its width unless another is asked for.
    pub width: usize,
    /// Whether it is filled on the right.
    pub left: bool,
    /// Its text.
    pub cell: fn(&Context, &Row) -> String,
    /// Slurm has no such column: it is taken by name, and is in no list of all.
    pub own: bool,
}

/// How lines are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Style {
    /// In columns; what is too long is cut, which a `+` says.
    Columns,
    /// Parted by this, and ended by it as well if so.
    Parted(String, bool),
}

/// The columns of an output.
pub struct Sheet {
    columns: Vec<(&'static Field, usize, bool)>,
    style: Style,
    raw: bool,
}

impl Sheet {
    /// Reads a list. The error names what is no column.
    pub fn parse(list: &str, table: &'static [Field], style: Style) -> Result<Self, String> {
        let mut columns = Vec::new();
        for word in list
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let (name, shape) = word
                .split_once('%')
                .map_or((word, None), |(name, shape)| (name, Some(shape)));
            if name.eq_ignore_ascii_case("all") {
                let slurms = table.iter().filter(|field| !field.own);
                columns.extend(slurms.map(|field| (field, field.width, field.left)));
                continue;
            }
            let unknown = || {
                let near = slip(name, table.iter().map(|field| field.name));
                let hint = near.map_or_else(String::new, |near| format!("\nDid you mean {near}?"));
                format!("Invalid field requested: \"{name}\"{hint}")
            };
            let field = find(name, table).ok_or_else(unknown)?;
            let (left, digits) = match shape.and_then(|shape| shape.strip_prefix('-')) {
                Some(digits) => (true, Some(digits)),
                None => (field.left, shape),
            };
            let width = match digits {
                None => field.width,
                Some(digits) => digits
                    .parse()
                    .ok()
                    .filter(|width| (1..=10_000).contains(width))
                    .ok_or_else(|| format!("Invalid field width: \"{word}\""))?,
            };
            columns.push((field, width, left));
        }
        if columns.is_empty() {
            return Err("No fields requested".to_owned());
        }
        Ok(Self {
            columns,
            style,
            raw: false,
        })
    }

    /// The same with every character as it is. Without it, those that steer a terminal are shown as `?`: names and comments are
    /// users', and whoever looks at a terminal must not be deceived by them; a program that reads a pipe wants them unharmed.
    #[must_use]
    pub fn raw(mut self, raw: bool) -> Self {
        self.raw = raw;
        self
    }

    /// The lines above the rows.
    pub fn header(&self) -> String {
        let names = self.line(|field| field.name.to_owned());
        match self.style {
            Style::Parted(..) => names,
            Style::Columns => {
                let dashes = |(_, width, _): &(&Field, usize, bool)| "-".repeat(*width) + " ";
                names + &self.columns.iter().map(dashes).collect::<String>() + "\n"
            }
        }
    }

    /// The line of a row.
    pub fn row(&self, context: &Context, row: &Row) -> String {
        self.line(|field| (field.cell)(context, row))
    }

    fn line(&self, text: impl Fn(&Field) -> String) -> String {
        let mut line = String::new();
        for (at, (field, width, left)) in self.columns.iter().enumerate() {
            let mut text = text(field);
            if !self.raw && text.contains(char::is_control) {
                text = text.replace(char::is_control, "?");
            }
            match &self.style {
                Style::Columns => {
                    put(&mut line, &text, *width, *left);
                    line.push(' ');
                }
                Style::Parted(delimiter, ends) => {
                    line.push_str(&text);
                    if *ends || at + 1 < self.columns.len() {
                        line.push_str(delimiter);
                    }
                }
            }
        }
        line.push('\n');
        line
    }
}

/// By its name, or by the beginning of it.
fn find(name: &str, table: &'static [Field]) -> Option<&'static Field> {
    let whole = table
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case(name));
    whole.or_else(|| {
        let begins = |field: &&Field| {
            let begin = field.name.get(..name.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(name))
        };
        table.iter().find(begins)
    })
}

fn put(line: &mut String, text: &str, width: usize, left: bool) {
    let length = text.chars().count();
    let cut: String = if length > width {
        text.chars().take(width - 1).chain(['+']).collect()
    } else {
        text.to_owned()
    };
    let fill = " ".repeat(width.saturating_sub(length));
    if left {
        line.push_str(&cut);
        line.push_str(&fill);
    } else {
        line.push_str(&fill);
        line.push_str(&cut);
    }
}

/// `--helpformat`: the names, four to a line.
pub fn help<'a>(table: impl Iterator<Item = &'a Field>) -> String {
    let slurms = table.filter(|field| !field.own);
    let mut names: Vec<&str> = slurms.map(|field| field.name).collect();
    names.sort_by_key(|name| name.to_ascii_lowercase());
    let line = |names: &[&str]| {
        let names = names.iter().map(|name| format!("{name:<19}"));
        names.collect::<Vec<_>>().join(" ") + "\n"
    };
    names.chunks(4).map(line).collect()
}

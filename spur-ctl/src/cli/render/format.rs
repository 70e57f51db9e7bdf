//! The format engine: `-o '%.18i %j'` and `-O jobid:10,name` over a table of columns. A table is data, so that a new column is
//! one row and `--helpformat` cannot miss it.

use super::View;
use std::cmp::Ordering;

/// Width of a `-O` column that asks for none.
const NAMED_WIDTH: usize = 20;

/// What sorts a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// By number.
    Number(i128),
    /// By text.
    Text(String),
}

/// One column that a format may name.
pub struct Column<T: 'static> {
    /// Letter in `-o` and `-S`.
    pub letter: Option<char>,
    /// Names in `-O`, compared without regard to case; the first is shown by `--helpFormat`.
    pub names: &'static [&'static str],
    /// Header.
    pub header: &'static str,
    /// Text of a row.
    pub cell: fn(&View, &T) -> String,
    /// What sorts it; by its text if there is none.
    pub key: Option<fn(&T) -> Key>,
}

/// A column as a format asks for it.
struct Cell<T: 'static> {
    column: Option<&'static Column<T>>,
    width: usize,
    right: bool,
    suffix: String,
}

/// A parsed format.
pub struct Layout<T: 'static> {
    prefix: String,
    cells: Vec<Cell<T>>,
    /// What could not be understood; the rest is shown all the same.
    pub errors: Vec<String>,
}

impl<T> Layout<T> {
    /// Parses the `-o` kind: text, then `%[.][WIDTH]LETTER` each with the text that follows it. `%all` means every letter.
    pub fn letters(format: &str, table: &'static [Column<T>]) -> Self {
        if format.eq_ignore_ascii_case("%all") {
            return Self::letters(&all_letters(table), table);
        }
        let (prefix, rest) = format.split_at(format.find('%').unwrap_or(format.len()));
        let mut layout = Self {
            prefix: prefix.to_owned(),
            cells: Vec::new(),
            errors: Vec::new(),
        };
        for token in rest.split('%').filter(|token| !token.is_empty()) {
            layout.letter(token, table);
        }
        layout
    }

    fn letter(&mut self, token: &str, table: &'static [Column<T>]) {
        let (right, sized) = strip_dot(token);
        let (width, named) = leading_number(sized);
        let mut chars = named.chars();
        let letter = chars.next();
        let column = letter.and_then(|l| table.iter().find(|column| column.letter == Some(l)));
        if column.is_some() {
            let suffix = chars.as_str().to_owned();
            self.cells.push(Cell {
                column,
                width: width.unwrap_or(0),
                right,
                suffix,
            });
        } else {
            let shown = letter.map(String::from).unwrap_or_default();
            self.errors
                .push(format!("Invalid job format specification: {shown}"));
            self.cells.push(Cell {
                column,
                width: 0,
                right,
                suffix: format!("%{token}"),
            });
        }
    }

    /// Parses the `-O` kind: `NAME[:[.][WIDTH][SUFFIX]]`, separated by commas.
    pub fn names(list: &str, table: &'static [Column<T>]) -> Self {
        let mut layout = Self {
            prefix: String::new(),
            cells: Vec::new(),
            errors: Vec::new(),
        };
        for token in list.split(',').filter(|token| !token.is_empty()) {
            let (name, shape) = token
                .split_once(':')
                .map_or((token, None), |(n, s)| (n, Some(s)));
            let known = |c: &&Column<T>| c.names.iter().any(|n| n.eq_ignore_ascii_case(name));
            let Some(column) = table.iter().find(known) else {
                layout
                    .errors
                    .push(format!("Invalid job format specification: {token}"));
                continue;
            };
            let (right, sized) = shape.map_or((false, ""), strip_dot);
            let (width, suffix) = leading_number(sized);
            let width = width.unwrap_or(if shape.is_none() { NAMED_WIDTH } else { 0 });
            let suffix = suffix.to_owned();
            layout.cells.push(Cell {
                column: Some(column),
                width,
                right,
                suffix,
            });
        }
        layout
    }

    /// The header line, without its newline.
    pub fn header(&self) -> String {
        self.line(|column| column.header.to_owned())
    }

    /// The line of a row, without its newline.
    pub fn row(&self, view: &View, row: &T) -> String {
        self.line(|column| (column.cell)(view, row))
    }

    /// Whether the format has this letter.
    pub fn has(&self, letter: char) -> bool {
        self.cells
            .iter()
            .any(|cell| cell.column.is_some_and(|c| c.letter == Some(letter)))
    }

    /// The columns in order.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column<T>> + '_ {
        self.cells.iter().filter_map(|cell| cell.column)
    }

    fn line(&self, text: impl Fn(&'static Column<T>) -> String) -> String {
        let mut line = self.prefix.clone();
        for cell in &self.cells {
            if let Some(column) = cell.column {
                pad(&mut line, &text(column), cell.width, cell.right);
            }
            line.push_str(&cell.suffix);
        }
        line
    }
}

/// Adds the text, cut or filled to the width; width 0 leaves it as it is.
fn pad(line: &mut String, text: &str, width: usize, right: bool) {
    if width == 0 {
        line.push_str(text);
        return;
    }
    let cut: String = text.chars().take(width).collect();
    let fill = width - cut.chars().count();
    let blanks = " ".repeat(fill);
    if right {
        line.push_str(&blanks);
        line.push_str(&cut);
    } else {
        line.push_str(&cut);
        line.push_str(&blanks);
    }
}

fn strip_dot(text: &str) -> (bool, &str) {
    text.strip_prefix('.')
        .map_or((false, text), |rest| (true, rest))
}

/// The number in front, at most four digits wide, and the rest.
fn leading_number(text: &str) -> (Option<usize>, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len())
        .min(4);
    (text[..end].parse().ok(), &text[end..])
}

fn all_letters<T>(table: &[Column<T>]) -> String {
    let mut letters: Vec<char> = table.iter().filter_map(|column| column.letter).collect();
    letters.sort_by_key(|letter| (letter.is_ascii_uppercase(), *letter));
    letters.dedup();
    letters
        .iter()
        .map(|letter| format!("%{letter}"))
        .collect::<Vec<_>>()
        .join("|")
}

/// An order of rows: columns, each rising or falling.
pub struct Order<T: 'static> {
    keys: Vec<(&'static Column<T>, bool)>,
}

/// Reads a `-S` list such as `P,t,-p`. The error names a letter that means nothing.
pub fn order<T>(list: &str, table: &'static [Column<T>]) -> Result<Order<T>, String> {
    let mut keys = Vec::new();
    for token in list
        .split(',')
        .map(str::trim)
        .filter(|token| !token.is_empty())
    {
        let (descending, letter) = match token.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, token.strip_prefix('+').unwrap_or(token)),
        };
        // `#P` asks for the order of the configuration, which is how partitions sort anyway.
        let mut chars = letter.trim_start_matches('#').chars();
        let wanted = chars.next();
        let column = table
            .iter()
            .find(|column| column.letter.is_some() && column.letter == wanted);
        let (Some(column), None) = (column, chars.next()) else {
            return Err(format!("Invalid sort specification: {token}"));
        };
        keys.push((column, descending));
    }
    Ok(Order { keys })
}

impl<T> Order<T> {
    /// Compares two rows.
    pub fn compare(&self, view: &View, a: &T, b: &T) -> Ordering {
        for (column, descending) in &self.keys {
            let order = match column.key {
                Some(key) => key(a).cmp(&key(b)),
                None => (column.cell)(view, a).cmp(&(column.cell)(view, b)),
            };
            let order = if *descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// Sorts rows by a `-S` list; the order among equals stays.
pub fn sort<T>(
    rows: &mut [T],
    list: &str,
    table: &'static [Column<T>],
    view: &View,
) -> Result<(), String> {
    let order = order(list, table)?;
    rows.sort_by(|a, b| order.compare(view, a, b));
    Ok(())
}

/// `--helpformat`: every letter; eight to a line.
pub fn letters_help<T>(table: &[Column<T>]) -> String {
    let letters = table
        .iter()
        .filter_map(|column| column.letter)
        .map(|letter| format!("%{letter}"));
    in_columns(letters.collect(), 8, 6)
}

/// `--helpFormat`: every name; four to a line.
pub fn names_help<T>(table: &[Column<T>]) -> String {
    let mut names: Vec<_> = table
        .iter()
        .filter_map(|c| c.names.first())
        .map(|n| (*n).to_owned())
        .collect();
    names.sort_by_key(|name| name.to_ascii_lowercase());
    names.dedup();
    in_columns(names, 4, NAMED_WIDTH)
}

fn in_columns(words: Vec<String>, per_line: usize, width: usize) -> String {
    let line = |words: &[String]| {
        words
            .iter()
            .map(|word| format!("{word:<width$}"))
            .collect::<String>()
            + "\n"
    };
    words.chunks(per_line).map(line).collect()
}

#[cfg(test)]
mod tests;

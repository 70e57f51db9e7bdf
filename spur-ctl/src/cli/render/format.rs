//! The format engine: `-o '%.18i %j'` and `-O jobid:10,name` over a table of columns. A table is data, so that a new column is
//! one row and `--helpformat` cannot miss it. Cells are written into the line itself: a row costs no allocation but the line's.

mod order;
mod place;

pub use order::{Key, Order, order, sort};

use super::View;

/// Width of a `-O` column that asks for none.
const NAMED_WIDTH: i32 = 20;
/// The widest column that is honoured: what is beyond would only fill memory.
const WIDTH_MAX: i32 = 65_535;

/// How a column writes a row.
pub enum Cell<T: 'static> {
    /// Makes the text.
    Text(fn(&View, &T) -> String),
    /// Adds to the line.
    Write(fn(&View, &T, &mut String)),
    /// Has the text already.
    Name(fn(&T) -> &str),
    /// Always the same.
    Fixed(&'static str),
}

/// Which texts of a column are not cut when they are on the right. Slurm has it so for lists of nodes and for times.
pub enum Whole<T: 'static> {
    /// None.
    None,
    /// The rows.
    Rows,
    /// The header, and rows of which this is true.
    HeaderAnd(fn(&T) -> bool),
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
    pub cell: Cell<T>,
    /// What sorts it; by its text if there is none.
    pub key: Option<fn(&T) -> Key>,
    /// Which texts that are longer than the width stand whole when they are on the right.
    pub whole: Whole<T>,
    /// Not shown by `--helpformat` and `--helpFormat`.
    pub hidden: bool,
}

impl<T> Column<T> {
    /// A column with a letter and names.
    pub const fn new(
        letter: Option<char>,
        names: &'static [&'static str],
        header: &'static str,
        cell: Cell<T>,
    ) -> Self {
        Self {
            letter,
            names,
            header,
            cell,
            key: None,
            whole: Whole::None,
            hidden: false,
        }
    }

    /// The same, sorted by a key.
    #[must_use]
    pub const fn by(mut self, key: fn(&T) -> Key) -> Self {
        self.key = Some(key);
        self
    }

    /// The same, with rows that are not cut on the right.
    #[must_use]
    pub const fn whole(mut self) -> Self {
        self.whole = Whole::Rows;
        self
    }

    /// The same, with a header that is not cut either, and of the rows only those that say so.
    #[must_use]
    pub const fn whole_if(mut self, rows: fn(&T) -> bool) -> Self {
        self.whole = Whole::HeaderAnd(rows);
        self
    }

    /// The same, not listed.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Adds the text of a row.
    pub fn write(&self, view: &View, row: &T, out: &mut String) {
        match self.cell {
            Cell::Text(text) => out.push_str(&text(view, row)),
            Cell::Write(write) => write(view, row, out),
            Cell::Name(name) => out.push_str(name(row)),
            Cell::Fixed(text) => out.push_str(text),
        }
    }

    /// The text of a row.
    pub fn text(&self, view: &View, row: &T) -> String {
        let mut text = String::new();
        self.write(view, row, &mut text);
        text
    }
}

/// Columns and what is said of formats that name others.
pub struct Table<T: 'static> {
    /// The columns, in lists that follow one another.
    pub parts: &'static [&'static [Column<T>]],
    /// What an unknown letter is answered with, before the letter.
    pub bad_letter: &'static str,
    /// What an unknown name is answered with, before the name.
    pub bad_name: &'static str,
}

impl<T> Table<T> {
    /// The columns in order.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column<T>> + use<T> {
        self.parts.iter().copied().flatten()
    }
}

/// A column as a format asks for it.
struct Place<T: 'static> {
    column: Option<&'static Column<T>>,
    /// In bytes; 0 leaves a text as it is, below 0 adds a blank.
    width: i32,
    right: bool,
    suffix: String,
}

/// A parsed format.
pub struct Layout<T: 'static> {
    prefix: String,
    places: Vec<Place<T>>,
    /// What could not be understood; the rest is shown all the same.
    pub errors: Vec<String>,
}

impl<T> Layout<T> {
    /// Parses the `-o` kind: text, then `%[.][WIDTH]LETTER` each with the text that follows it. `%all` means every letter.
    pub fn letters(format: &str, table: &Table<T>) -> Self {
        if format.eq_ignore_ascii_case("%all") {
            return Self::letters(&all_letters(table), table);
        }
        let (prefix, rest) = format.split_at(format.find('%').unwrap_or(format.len()));
        let mut layout = Self {
            prefix: prefix.to_owned(),
            places: Vec::new(),
            errors: Vec::new(),
        };
        for token in rest.split('%').filter(|token| !token.is_empty()) {
            layout.letter(token, table);
        }
        layout
    }

    fn letter(&mut self, token: &str, table: &Table<T>) {
        let (right, sized) = strip_dot(token);
        let (width, named) = leading_digits(sized);
        let mut chars = named.chars();
        let letter = chars.next();
        let column = letter.and_then(|l| table.columns().find(|c| c.letter == Some(l)));
        let suffix = if column.is_some() {
            chars.as_str().to_owned()
        } else {
            let shown = letter.map(String::from).unwrap_or_default();
            self.errors.push(format!("{}: {shown}", table.bad_letter));
            format!("%{token}")
        };
        self.places.push(Place {
            column,
            width,
            right,
            suffix,
        });
    }

    /// Parses the `-O` kind: `NAME[:[.][WIDTH][SUFFIX]]`, separated by commas.
    pub fn names(list: &str, table: &Table<T>) -> Self {
        let mut layout = Self {
            prefix: String::new(),
            places: Vec::new(),
            errors: Vec::new(),
        };
        for token in list.split(',').filter(|token| !token.is_empty()) {
            layout.name(token, table);
        }
        layout
    }

    fn name(&mut self, token: &str, table: &Table<T>) {
        let (name, shape) = token
            .split_once(':')
            .map_or((token, None), |(name, shape)| (name, Some(shape)));
        let (width, right, suffix) = match shape {
            None => (NAMED_WIDTH, false, ""),
            Some(shape) => {
                let (right, sized) = strip_dot(shape);
                let (width, suffix) = leading_number(sized);
                (width, right, suffix)
            }
        };
        let known = |c: &&Column<T>| c.names.iter().any(|n| n.eq_ignore_ascii_case(name));
        let column = table.columns().find(known);
        if column.is_none() {
            self.errors.push(format!("{}: {name}", table.bad_name));
            let known = table.columns().flat_map(|c| c.names.iter().copied());
            let near = crate::cli::flags::nearest::slip(name, known);
            self.errors
                .extend(near.map(|near| format!("Did you mean {near}?")));
        }
        self.places.push(Place {
            column,
            width,
            right,
            suffix: suffix.to_owned(),
        });
    }

    /// Puts the columns of another layout before those of this one.
    #[must_use]
    pub fn after(mut self, first: Self) -> Self {
        let mut places = first.places;
        places.append(&mut self.places);
        self.places = places;
        self.errors.splice(0..0, first.errors);
        self
    }

    /// The header line, without its newline.
    pub fn header(&self) -> String {
        let mut line = String::new();
        self.line(&mut line, |column, line| {
            line.push_str(column.header);
            matches!(column.whole, Whole::HeaderAnd(_))
        });
        line
    }

    /// The line of a row, without its newline.
    pub fn row(&self, view: &View, row: &T) -> String {
        let mut line = String::new();
        self.write(view, row, &mut line);
        line
    }

    /// Adds the line of a row, without its newline.
    pub fn write(&self, view: &View, row: &T, out: &mut String) {
        self.line(out, |column, out| {
            column.write(view, row, out);
            match column.whole {
                Whole::None => false,
                Whole::Rows => true,
                Whole::HeaderAnd(rows) => rows(row),
            }
        });
    }

    /// Whether the format has this letter.
    pub fn has(&self, letter: char) -> bool {
        self.columns().any(|column| column.letter == Some(letter))
    }

    /// The columns in order.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column<T>> + '_ {
        self.places.iter().filter_map(|place| place.column)
    }

    /// `write` adds a text and says whether it stands whole.
    fn line(&self, out: &mut String, write: impl Fn(&'static Column<T>, &mut String) -> bool) {
        out.push_str(&self.prefix);
        for place in &self.places {
            if let Some(column) = place.column {
                let start = out.len();
                let whole = write(column, out);
                place::fit(out, start, place.width, place.right, whole);
            }
            out.push_str(&place.suffix);
        }
    }
}

fn strip_dot(text: &str) -> (bool, &str) {
    text.strip_prefix('.')
        .map_or((false, text), |rest| (true, rest))
}

/// The digits in front as a width, and the rest.
fn leading_digits(text: &str) -> (i32, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let width = text[..end].bytes().fold(0_i32, |sum, digit| {
        (sum * 10 + i32::from(digit - b'0')).min(WIDTH_MAX)
    });
    (width, &text[end..])
}

/// The number in front, perhaps with a sign, and the rest.
fn leading_number(text: &str) -> (i32, &str) {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return (0, text);
    }
    let (width, rest) = leading_digits(digits);
    (sign * width, rest)
}

fn all_letters<T>(table: &Table<T>) -> String {
    let mut letters: Vec<char> = table.columns().filter_map(|column| column.letter).collect();
    letters.sort_by_key(|letter| (letter.is_ascii_uppercase(), *letter));
    letters.dedup();
    let all: Vec<String> = letters.iter().map(|letter| format!("%{letter}")).collect();
    all.join("|")
}

/// `--helpformat`: every letter; eight to a line.
pub fn letters_help<T>(table: &Table<T>) -> String {
    let listed = table.columns().filter(|column| !column.hidden);
    let letters = listed.filter_map(|column| column.letter);
    in_columns(letters.map(|letter| format!("%{letter}")).collect(), 8, 6)
}

/// `--helpFormat`: every name; four to a line.
pub fn names_help<T>(table: &Table<T>) -> String {
    let listed = table.columns().filter(|column| !column.hidden);
    let names = listed.filter_map(|column| column.names.first());
    in_columns(names.map(|name| (*name).to_owned()).collect(), 4, 20)
}

fn in_columns(words: Vec<String>, per_line: usize, width: usize) -> String {
    let line = |words: &[String]| {
        let padded: String = words.iter().map(|word| format!("{word:<width$}")).collect();
        padded + "\n"
    };
    words.chunks(per_line).map(line).collect()
}

#[cfg(test)]
mod tests;

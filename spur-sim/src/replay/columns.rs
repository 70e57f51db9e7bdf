//! Text in named columns, and errors that say where: file, line, column, value.

use std::collections::BTreeMap;

/// Why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTrace {
    /// A cell that is not what its column holds.
    #[error("{file}:{line}: column {column}: {value:?} is not {wanted}")]
    Value {
        /// File as the caller calls it.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// Column by name.
        column: String,
        /// What stands there.
        value: String,
        /// What should.
        wanted: &'static str,
    },
    /// A line with more or fewer cells than the first.
    #[error("{file}:{line}: {found} columns where the first line names {named}")]
    Width {
        /// File as the caller calls it.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// Cells on the line.
        found: usize,
        /// Columns named.
        named: usize,
    },
    /// The first line names no such set of columns.
    #[error(
        "{file}:1: no column {missing:?}; a trace starts with \
         timestamp,duration,num_gpus,gpu_time,cluster or is what sacct -P prints with at least Submit, Start and End"
    )]
    Column {
        /// File as the caller calls it.
        file: String,
        /// The column that is missed.
        missing: &'static str,
    },
    /// No job in it.
    #[error("{file}: no job in it that ran")]
    Empty {
        /// File as the caller calls it.
        file: String,
    },
    /// More jobs than are replayed.
    #[error("{file}:{line}: more than {most} jobs")]
    Long {
        /// File as the caller calls it.
        file: String,
        /// The line that is one too many.
        line: usize,
        /// The bound.
        most: usize,
    },
}

/// The columns of a text, by the names on its first line.
pub(super) struct Columns<'a> {
    file: &'a str,
    separator: char,
    names: BTreeMap<String, usize>,
    count: usize,
}

/// One line.
pub(super) struct Row<'a> {
    columns: &'a Columns<'a>,
    pub(super) line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    /// From the first line. Names are compared without case.
    pub(super) fn new(file: &'a str, header: &str, separator: char) -> Self {
        let names: Vec<String> = header
            .trim_start_matches('\u{feff}')
            .trim_end()
            .split(separator)
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        Self {
            file,
            separator,
            count: names.len(),
            names: names.into_iter().zip(0..).collect(),
        }
    }

    /// Whether there is such a column.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains_key(&name.to_ascii_lowercase())
    }

    /// The first of these that is missing.
    pub(super) fn require(&self, names: &[&'static str]) -> Result<(), BadTrace> {
        match names.iter().find(|name| !self.has(name)) {
            None => Ok(()),
            Some(missing) => Err(BadTrace::Column {
                file: self.file.to_owned(),
                missing,
            }),
        }
    }

    /// The lines after the first, without empty ones.
    pub(super) fn rows(&'a self, text: &'a str) -> impl Iterator<Item = Result<Row<'a>, BadTrace>> {
        let lines = (1..).zip(text.lines()).skip(1);
        lines
            .filter(|(_, line)| !line.trim().is_empty())
            .map(move |(line, text)| {
                let cells: Vec<&str> = text.split(self.separator).map(str::trim).collect();
                if cells.len() == self.count {
                    Ok(Row {
                        columns: self,
                        line,
                        cells,
                    })
                } else {
                    Err(BadTrace::Width {
                        file: self.file.to_owned(),
                        line,
                        found: cells.len(),
                        named: self.count,
                    })
                }
            })
    }
}

impl Row<'_> {
    /// A cell as it stands; empty if there is no such column.
    pub(super) fn text(&self, column: &str) -> &str {
        let at = self.columns.names.get(&column.to_ascii_lowercase());
        at.and_then(|at| self.cells.get(*at)).copied().unwrap_or("")
    }

    /// A cell, read by `read`; the error says what was wanted there.
    pub(super) fn read<T>(
        &self,
        column: &str,
        wanted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, BadTrace> {
        let value = self.text(column);
        read(value).ok_or_else(|| BadTrace::Value {
            file: self.columns.file.to_owned(),
            line: self.line,
            column: column.to_owned(),
            value: value.to_owned(),
            wanted,
        })
    }
}

/// Whole seconds of a number that may have a fraction, rounded; `None` for what is no number or negative.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || whole.starts_with('+') {
        return None;
    }
    let up = fraction.bytes().next().is_some_and(|byte| byte >= b'5');
    whole.parse::<u64>().ok()?.checked_add(u64::from(up))
}

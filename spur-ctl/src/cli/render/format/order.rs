//! Orders of rows: `-S P,t,-p`.

use super::{Column, Table};
use crate::cli::render::View;
use std::cmp::Ordering;

/// What sorts a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// By number.
    Number(i128),
    /// By text.
    Text(String),
}

/// An order of rows: columns, each rising or falling.
pub struct Order<T: 'static> {
    keys: Vec<(&'static Column<T>, bool)>,
}

/// Reads a `-S` list such as `P,t,-p`. Letters need no comma between them, and a sign counts for the letter that follows. The
/// error names a letter that means nothing.
pub fn order<T>(list: &str, table: &Table<T>) -> Result<Order<T>, String> {
    let mut keys = Vec::new();
    let mut descending = false;
    for letter in list.chars() {
        match letter {
            // `#P` asks for the order of the configuration, which is how partitions sort anyway.
            ',' | '+' | '#' | ' ' => descending = false,
            '-' => descending = true,
            letter => {
                let known = |column: &&Column<T>| column.letter == Some(letter);
                let column = table.columns().find(known);
                let column =
                    column.ok_or_else(|| format!("Invalid sort specification: {letter}"))?;
                keys.push((column, descending));
                descending = false;
            }
        }
    }
    Ok(Order { keys })
}

impl<T> Order<T> {
    /// Compares two rows.
    pub fn compare(&self, view: &View, a: &T, b: &T) -> Ordering {
        for (column, descending) in &self.keys {
            let order = match column.key {
                Some(key) => key(a).cmp(&key(b)),
                None => column.text(view, a).cmp(&column.text(view, b)),
            };
            let order = if *descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }

    /// What sorts a row: for long lists, worked out once for each.
    pub fn keys(&self, view: &View, row: &T) -> Vec<Key> {
        let key = |(column, _): &(&'static Column<T>, bool)| match column.key {
            Some(key) => key(row),
            None => Key::Text(column.text(view, row)),
        };
        self.keys.iter().map(key).collect()
    }

    /// Compares two rows by their [`Order::keys`].
    pub fn compare_keys(&self, a: &[Key], b: &[Key]) -> Ordering {
        for ((a, b), (_, descending)) in a.iter().zip(b).zip(&self.keys) {
            let order = if *descending { b.cmp(a) } else { a.cmp(b) };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// Sorts rows by a `-S` list; the order among equals stays.
pub fn sort<T>(rows: &mut [T], list: &str, table: &Table<T>, view: &View) -> Result<(), String> {
    let order = order(list, table)?;
    rows.sort_by(|a, b| order.compare(view, a, b));
    Ok(())
}

//! Tables as `sacctmgr`, `sshare` and `sreport` print them: fixed widths with a blank behind each field, or parted by `|`.

use std::fmt::Write as _;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// What stands above it.
    pub header: String,
    /// Characters; below 0: to the left.
    pub width: i32,
}

/// How fields are parted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parting {
    /// Fixed widths.
    #[default]
    Widths,
    /// `a|b|` (`--parsable`).
    Ended,
    /// `a|b` (`--parsable2`).
    Between,
}

/// A table's shape.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// How they are parted.
    pub parting: Parting,
}

impl Table {
    /// The lines above the rows.
    pub fn heading(&self) -> String {
        let headers: Vec<&str> = self
            .columns
            .iter()
            .map(|column| column.header.as_str())
            .collect();
        let mut text = self.row(&headers);
        if self.parting == Parting::Widths {
            for column in &self.columns {
                let width = column.width.unsigned_abs() as usize;
                text.push_str(&"-".repeat(width));
                text.push(' ');
            }
            text.push('\n');
        }
        text
    }

    /// A row; missing fields are empty.
    pub fn row<T: AsRef<str>>(&self, fields: &[T]) -> String {
        let mut text = String::new();
        for (at, column) in self.columns.iter().enumerate() {
            let field = fields.get(at).map_or("", AsRef::as_ref);
            match self.parting {
                Parting::Widths => fixed(&mut text, field, column.width),
                Parting::Between if at > 0 => {
                    text.push('|');
                    text.push_str(field);
                }
                Parting::Between => text.push_str(field),
                Parting::Ended => {
                    text.push_str(field);
                    text.push('|');
                }
            }
        }
        text.push('\n');
        text
    }
}

/// A field in its width; one that is longer is cut, and a plus says so.
fn fixed(text: &mut String, field: &str, width: i32) {
    let wide = width.unsigned_abs() as usize;
    let mut field = std::borrow::Cow::Borrowed(field);
    if wide > 0 && field.chars().count() > wide {
        let kept = field.chars().take(wide - 1);
        field = kept.chain(['+']).collect::<String>().into();
    }
    let written = if width < 0 {
        write!(text, "{field:<wide$} ")
    } else {
        write!(text, "{field:>wide$} ")
    };
    written.expect("writing to a string cannot fail");
}

/// Parts a list of fields as users write it, `account%20,user%-8`: names, each with its width if one is given.
pub fn fields(list: &str) -> Vec<(&str, Option<i32>)> {
    let names = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let parted = |name| match str::split_once(name, '%') {
        Some((name, width)) => (name, width.parse().ok()),
        None => (name, None),
    };
    names.map(parted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(parting: Parting) -> Table {
        let column = |header: &str, width| Column {
            header: header.to_owned(),
            width,
        };
        Table {
            columns: vec![column("User", 6), column("Account", -4)],
            parting,
        }
    }

    #[test]
    fn fields_have_their_widths_or_their_bars() {
        let wide = table(Parting::Widths);
        assert_eq!(wide.heading(), "  User Acc+ \n------ ---- \n");
        assert_eq!(wide.row(&["slurmtest", "ab"]), "slurm+ ab   \n");
        assert_eq!(table(Parting::Ended).row(&["a", "b"]), "a|b|\n");
        assert_eq!(table(Parting::Between).row(&["a"]), "a|\n");
    }

    #[test]
    fn lists_of_fields_are_parted() {
        assert_eq!(
            fields("account%256, user%-8,,x"),
            [("account", Some(256)), ("user", Some(-8)), ("x", None)]
        );
    }
}

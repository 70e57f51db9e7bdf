//! The table of escapes: the known ways in which such fences fail, and what stands in each one's way here.
//!
//! The rows ([`rows::ROWS`]) name tests; [`markdown`] makes the table of `docs/security.md` of them, and [`judge`] holds them against
//! what ran. A row without a test that held is not closed, whatever the documentation says.

pub mod rows;

use rows::ROWS;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Most rows that may wait for a later issue.
pub const LATER_MAX: usize = 8;

/// Where the table is: after the first and before the second of these lines of [`DOCUMENT`].
pub const MARKS: [&str; 2] = [
    "<!-- escapes: made by cargo xtask escapes --write -->",
    "<!-- end of escapes -->",
];

/// The document with the table, from the workspace's root.
pub const DOCUMENT: &str = "docs/security.md";

/// One way in which a fence fails.
pub struct Row {
    /// In a few words.
    pub title: &'static str,
    /// What stands against it.
    pub verdict: Verdict,
}

/// What stands against an escape. Tests are `NAME` in the virtual machine, or `CRATE::NAME` on the machine that builds.
pub enum Verdict {
    /// These tests try it, and fail to get through.
    Closed(&'static [&'static str]),
    /// It is not closed; this section of the document says why, and these tests hold what can be held.
    Limit(&'static str, &'static [&'static str]),
    /// It waits for this; these tests hold what is closed already.
    Later(&'static str, &'static [&'static str]),
    /// These tests run on stand-ins or captured trees; the last word is the hardware's.
    NeedsHardware(&'static [&'static str]),
}

impl Verdict {
    /// The tests that it names.
    pub fn tests(&self) -> &'static [&'static str] {
        match self {
            Self::Closed(tests)
            | Self::Limit(_, tests)
            | Self::Later(_, tests)
            | Self::NeedsHardware(tests) => tests,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Closed(_) => "closed".to_owned(),
            Self::Limit(section, _) => format!("limit ([{section}](#{}))", anchor(section)),
            Self::Later(what, _) => format!("later ({what})"),
            Self::NeedsHardware(_) => "needs hardware".to_owned(),
        }
    }
}

/// Where a heading's link leads.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| {
        if c == ' ' {
            '-'
        } else {
            c.to_ascii_lowercase()
        }
    })
    .collect()
}

/// The table, as the document has it between its marks.
pub fn markdown() -> String {
    let mut text = String::from("\n| | escape | verdict | tests |\n|---|---|---|---|\n");
    for (number, row) in (1..).zip(ROWS) {
        let tests: Vec<String> = row
            .verdict
            .tests()
            .iter()
            .map(|test| format!("`{test}`"))
            .collect();
        let line = format!(
            "| {number} | {} | {} | {} |",
            row.title,
            row.verdict.words(),
            tests.join(", ")
        );
        text.push_str(&line);
        text.push('\n');
    }
    text.push('\n');
    text
}

/// The document with a fresh table; `None` if it has not both marks.
pub fn renewed(document: &str) -> Option<String> {
    let (before, rest) = document.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    Some(format!(
        "{before}{}\n{}{}{after}",
        MARKS[0],
        markdown(),
        MARKS[1]
    ))
}

/// Every test that a row names: crate (none for the guest's), name.
pub fn tests() -> BTreeSet<(Option<&'static str>, &'static str)> {
    let all = ROWS.iter().flat_map(|row| row.verdict.tests());
    all.map(|test| match test.split_once("::") {
        Some((package, name)) => (Some(package), name),
        None => (None, *test),
    })
    .collect()
}

/// How a test ended, somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It held.
    Held,
    /// It could not be made there.
    Skipped,
    /// It did not hold.
    Failed,
}

/// Where (`host`, or a kernel's version) which test ended how.
#[derive(Default)]
pub struct Results {
    all: BTreeMap<String, BTreeMap<String, Ended>>,
}

impl Results {
    /// Reads lines `WHERE TEST ok|skipped|FAILED`; others are passed over.
    pub fn read(text: &str) -> Self {
        let mut results = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [place, test, ended, ..] = words[..] else {
                continue;
            };
            let ended = match ended {
                "ok" => Ended::Held,
                "skipped" => Ended::Skipped,
                "FAILED" => Ended::Failed,
                _ => continue,
            };
            results
                .all
                .entry(test.to_owned())
                .or_default()
                .insert(place.to_owned(), ended);
        }
        results
    }

    /// Places where a test ended so, joined.
    fn places(&self, test: &str, ended: &Ended) -> Vec<&str> {
        let places = self.all.get(test).into_iter().flatten();
        places
            .filter(|(_, how)| *how == ended)
            .map(|(place, _)| place.as_str())
            .collect()
    }
}

/// The table with what ran, and whether every row is as it says. `whole` is false when only a part was asked for: then a test that
/// did not run is no fault.
pub fn judge(results: &Results, whole: bool) -> (String, bool) {
    let (mut text, mut good) = (String::new(), true);
    let later = ROWS
        .iter()
        .filter(|row| matches!(row.verdict, Verdict::Later(..)))
        .count();
    for (number, row) in (1..).zip(ROWS) {
        let (state, fine) = judge_row(row, results, whole);
        good &= fine;
        writeln!(text, "{number:>2}  {:<66} {state}", row.title).expect("writing to memory");
    }
    if ROWS.len() != rows::COUNT || later > LATER_MAX {
        writeln!(
            text,
            "{} rows, {later} of them later: there must be {} and at most {LATER_MAX}",
            ROWS.len(),
            rows::COUNT
        )
        .expect("writing to memory");
        good = false;
    }
    (text, good)
}

fn judge_row(row: &Row, results: &Results, whole: bool) -> (String, bool) {
    let tests = row.verdict.tests();
    let failed: Vec<String> = tests
        .iter()
        .flat_map(|test| {
            results
                .places(test, &Ended::Failed)
                .into_iter()
                .map(move |place| format!("{test} on {place}"))
        })
        .collect();
    if !failed.is_empty() {
        return (format!("OPEN: {}", failed.join(", ")), false);
    }
    let idle: Vec<&&str> = tests
        .iter()
        .filter(|test| results.places(test, &Ended::Held).is_empty())
        .collect();
    if !idle.is_empty() {
        let names: Vec<&str> = idle.into_iter().copied().collect();
        return (format!("NOT RUN: {}", names.join(", ")), !whole);
    }
    if tests.is_empty() && matches!(row.verdict, Verdict::Closed(_) | Verdict::NeedsHardware(_)) {
        return ("OPEN: no test".to_owned(), false);
    }
    // A place where one of them could not be made is no place where the row holds.
    let all = |ended: &Ended| -> BTreeSet<&str> {
        let places = tests.iter().flat_map(|test| results.places(test, ended));
        places.collect()
    };
    let (held, skipped) = (all(&Ended::Held), all(&Ended::Skipped));
    let places: Vec<&str> = held.difference(&skipped).copied().collect();
    let word = if let Verdict::Limit(section, _) = &row.verdict {
        format!("limit ({section})")
    } else {
        row.verdict.words()
    };
    let tried = if places.is_empty() {
        String::new()
    } else {
        format!("  [{}]", places.join(" "))
    };
    (format!("{word}{tried}"), true)
}

#[cfg(test)]
mod tests;

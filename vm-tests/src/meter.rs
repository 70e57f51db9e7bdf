//! The meter against the truth, for tests and for `cargo xtask meter-check`: what it counts of control groups in which a known amount
//! of work is done.

pub mod cpu;
pub mod groups;
pub mod printer;

use std::fmt;

/// Begins a line of [`Row`].
pub const MARK: &str = "meter-check: ";

/// How far what is counted may be from what was done, in percent.
pub const LIMIT: f64 = 1.0;

/// One comparison. As text: fields between bars, which `xtask` reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which point of the promise.
    pub point: u8,
    /// What was done.
    pub case: String,
    /// What was counted, with its unit.
    pub what: &'static str,
    /// By the meter; `None` if it does not count that here.
    pub measured: Option<u64>,
    /// By who knows.
    pub truth: u64,
}

impl Row {
    /// Percent of the truth by which the meter is off.
    pub fn error(&self) -> Option<f64> {
        let measured = self.measured?;
        if self.truth == 0 {
            return Some(if measured == 0 { 0.0 } else { 100.0 });
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a percentage needs no more than 52 bits"
        )]
        let (measured, truth) = (measured as f64, self.truth as f64);
        Some((measured - truth) / truth * 100.0)
    }

    /// Within the promise.
    pub fn good(&self) -> bool {
        self.error().is_some_and(|error| error.abs() <= LIMIT)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            point,
            case,
            what,
            measured,
            truth,
        } = self;
        let measured = measured.map_or("-".to_owned(), |value| value.to_string());
        let error = self
            .error()
            .map_or("-".to_owned(), |error| format!("{error:+.3}"));
        let verdict = if self.good() { "holds" } else { "BROKEN" };
        write!(
            f,
            "{MARK}{point}|{case}|{what}|{measured}|{truth}|{error}|{verdict}"
        )
    }
}

/// Panics if a comparison is beyond the promise; all are shown.
pub fn hold(rows: &[Row]) {
    for row in rows {
        println!("{row}");
    }
    let broken: Vec<String> = rows
        .iter()
        .filter(|row| !row.good())
        .map(Row::to_string)
        .collect();
    assert!(broken.is_empty(), "beyond {LIMIT} %: {}", broken.join("; "));
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn one_percent_is_the_limit() {
        let row = |measured, truth| Row {
            point: 1,
            case: "two jobs".into(),
            what: "busy ns",
            measured,
            truth,
        };
        assert!(row(Some(1010), 1000).good());
        assert!(!row(Some(989), 1000).good());
        assert!(!row(None, 1000).good());
        assert!(!row(Some(1), 0).good());
        assert!(row(Some(0), 0).good());
        assert_eq!(
            row(Some(995), 1000).to_string(),
            "meter-check: 1|two jobs|busy ns|995|1000|-0.500|holds"
        );
    }
}

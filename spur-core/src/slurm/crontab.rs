//! Crontabs as `scrontab` takes them: when jobs begin, lines of options, variables, and what to run.
//!
//! ```text
//! NAME=VALUE                    $NAME stands for it in the commands that follow
//! #SCRON --time=10              options of the next entry, as those of sbatch
//! 30 6-22/4 * jan-jun mon,fri   ./report --all
//! @hourly                       ./check
//! ```

use super::timespec::calendar::Local;
use crate::time::Millis;
use std::fmt;

#[cfg(test)]
mod tests;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Most entries of a table.
pub const ENTRIES_MAX: usize = 1_000;
/// Days after which a time that did not come never comes: there is a 29th of February every eight years at least.
const DAYS_MAX: u64 = 8 * 366 + 1;

/// The longest command, with the variables put in: each may name the next one twice.
const COMMAND_MAX: usize = 1 << 20;

/// What a field may hold.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        least: 0,
        most: 59,
        names: &[],
    },
    Field {
        name: "hour",
        least: 0,
        most: 23,
        names: &[],
    },
    Field {
        name: "day of the month",
        least: 1,
        most: 31,
        names: &[],
    },
    Field {
        name: "month",
        least: 1,
        most: 12,
        names: &MONTHS,
    },
    // 7 is a Sunday too.
    Field {
        name: "day of the week",
        least: 0,
        most: 7,
        names: &WEEKDAYS,
    },
];

/// Words for whole times.
const WORDS: [(&str, &str); 11] = [
    ("@annually", "0 0 1 1 *"),
    ("@yearly", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
    ("@elevenses", "0 11 * * *"),
    ("@fika", "0 15 * * *"),
    ("@noon", "0 12 * * *"),
    ("@teatime", "0 16 * * *"),
];

/// What is wrong with a line of a crontab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCrontab {
    /// A time without its five fields and a command.
    #[error("a line has minute, hour, day of the month, month, day of the week, and a command")]
    Short,
    /// A word that stands for no time.
    #[error("{0}: no such time")]
    Word(String),
    /// A field that cannot be read.
    #[error(
        "{field} {text:?}: use *, numbers from {least} to {most}, ranges a-b, steps a-b/n, and commas"
    )]
    Field {
        /// Which.
        field: &'static str,
        /// As written.
        text: String,
        /// The least number.
        least: u32,
        /// The greatest.
        most: u32,
    },
    /// The variables of the table make more of a command than there is room for.
    #[error("with the variables put in, the command has more than {COMMAND_MAX} bytes")]
    Long,
    /// No year has such a day.
    #[error("there is no such day in any year")]
    Never,
}

/// When something is to begin, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Of minutes, hours, days of the month, months and days of the week, in bits.
    sets: [u64; 5],
    /// Which of them are `*`.
    any: [bool; 5],
}

impl Times {
    /// Reads the time at the beginning of a line; what follows it is the rest.
    pub fn read(line: &str) -> Result<(Self, &str), BadCrontab> {
        let line = line.trim_start();
        if line.starts_with('@') {
            let (word, rest) = word(line);
            let small = word.to_ascii_lowercase();
            let known = WORDS.iter().find(|(name, _)| *name == small);
            let (_, text) = known.ok_or_else(|| BadCrontab::Word(word.to_owned()))?;
            return Ok((Self::read(text)?.0, rest));
        }
        let mut rest = line;
        let (mut sets, mut any) = ([0; 5], [false; 5]);
        for (at, field) in FIELDS.iter().enumerate() {
            let text;
            (text, rest) = word(rest);
            if text.is_empty() {
                return Err(BadCrontab::Short);
            }
            let set = field.read(text).ok_or_else(|| BadCrontab::Field {
                field: field.name,
                text: text.to_owned(),
                least: field.least,
                most: field.most,
            })?;
            (sets[at], any[at]) = (set, text == "*");
        }
        // A Sunday is 0.
        sets[4] = (sets[4] | sets[4] >> 7) & 0x7f;
        let times = Self { sets, any };
        if times.has_a_day() {
            Ok((times, rest))
        } else {
            Err(BadCrontab::Never)
        }
    }

    /// Whether a month that is meant has a day that is meant.
    fn has_a_day(&self) -> bool {
        const LONGEST: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let first = self.sets[2].trailing_zeros();
        let long = |(days, month): (&u32, u32)| self.has(3, month) && first <= *days;
        self.any[2] || !self.any[4] || LONGEST.iter().zip(1..).any(long)
    }

    fn has(&self, field: usize, number: u32) -> bool {
        self.sets[field] & 1 << number != 0
    }

    /// As in cron, a day is meant by either of its two fields if both say something.
    fn is_day(&self, days: u64, local: &Local) -> bool {
        let number = |n: u64| u32::try_from(n).unwrap_or(0);
        // The first of January 1970 was a Thursday.
        let weekday = number((days + 4) % 7);
        let by_month = self.has(2, number(local.day));
        let by_week = self.has(4, weekday);
        let day = match (self.any[2], self.any[4]) {
            (true, true) => true,
            (true, false) => by_week,
            (false, true) => by_month,
            (false, false) => by_month || by_week,
        };
        day && self.has(3, number(local.month))
    }

    /// The first such minute that begins after a moment, where clocks are `utc_offset` seconds ahead of Greenwich.
    #[must_use]
    pub fn next(&self, after: Millis, utc_offset: i32) -> Option<Millis> {
        let offset = i64::from(utc_offset);
        let local = (after.0 / 1000).checked_add_signed(offset)?;
        let from = local / 60 * 60 + 60;
        for days in from / DAY..=from / DAY + DAYS_MAX {
            let midnight = Millis(days * DAY * 1000);
            if !self.is_day(days, &Local::at(midnight, 0)) {
                continue;
            }
            let least = from.saturating_sub(days * DAY) / 60;
            let minutes = least..DAY / 60;
            let is_meant = |minute: &u64| {
                let number = |n: u64| u32::try_from(n).unwrap_or(0);
                self.has(1, number(minute / 60)) && self.has(0, number(minute % 60))
            };
            if let Some(minute) = minutes.into_iter().find(is_meant) {
                let found = (days * DAY + minute * 60).checked_add_signed(-offset)?;
                return Some(Millis(found * 1000));
            }
        }
        None
    }

    /// The same where clocks are put forward and back; `ahead`: by how many seconds they are ahead of Greenwich at a moment. As with
    /// cron, what is meant at certain hours comes once that night: as much later if its hour is skipped, in the first of two that are
    /// alike. What is meant at every hour goes on.
    #[must_use]
    pub fn next_by(&self, after: Millis, ahead: impl Fn(Millis) -> i32) -> Option<Millis> {
        let now = ahead(after);
        let found = self.next(after, now)?;
        let then = ahead(found);
        if then == now {
            return Some(found);
        }
        if (0..24).all(|hour| self.has(1, hour)) {
            let other = self.next(after, then);
            return other.filter(|at| ahead(*at) == then).or(Some(found));
        }
        let late = 1000 * (i64::from(now) - i64::from(then));
        let moved = Millis(found.0.checked_add_signed(late)?);
        let same = ahead(moved) == then;
        Some(if same { moved } else { found })
    }
}

impl fmt::Display for Times {
    /// As Slurm writes it: `0,30 6-22 * * 1-5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for at in 0..FIELDS.len() {
            if at > 0 {
                f.write_str(" ")?;
            }
            if self.any[at] {
                f.write_str("*")?;
                continue;
            }
            let (mut left, mut first) = (self.sets[at], true);
            while left != 0 {
                let low = left.trailing_zeros();
                let run = (left >> low).trailing_ones();
                let high = low + run - 1;
                f.write_str(if first { "" } else { "," })?;
                match run {
                    1 => write!(f, "{low}")?,
                    _ => write!(f, "{low}-{high}")?,
                }
                first = false;
                left &= u64::MAX.checked_shl(high + 1).unwrap_or(0);
            }
        }
        Ok(())
    }
}

impl Field {
    /// A list, in bits.
    fn read(&self, text: &str) -> Option<u64> {
        let mut set = 0;
        for part in text.split(',') {
            set |= self.part(part)?;
        }
        Some(set)
    }

    fn part(&self, part: &str) -> Option<u64> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, plain(step).filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (low, high) = if range == "*" {
            // 7 is a Sunday that is there already.
            (
                self.least,
                self.most.min(if self.least == 0 && self.most == 7 {
                    6
                } else {
                    self.most
                }),
            )
        } else if let Some((low, high)) = range.split_once('-') {
            (self.number(low)?, self.number(high)?)
        } else {
            let low = self.number(range)?;
            // `5/10` means from 5 on.
            (low, if part.contains('/') { self.most } else { low })
        };
        let steps = (low..=high).step_by(usize::try_from(step).ok()?);
        (low <= high).then(|| steps.fold(0, |set, number| set | 1 << number))
    }

    fn number(&self, text: &str) -> Option<u32> {
        let small = text.to_ascii_lowercase();
        if let Some(at) = self.names.iter().position(|name| *name == small) {
            return Some(u32::try_from(at).ok()? + self.least);
        }
        plain(text).filter(|number| (self.least..=self.most).contains(number))
    }
}

/// A number of nothing but digits.
fn plain(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// The first word, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

/// An entry of a crontab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line where it begins, with its options; lines count from 0.
    pub first: u32,
    /// The line with its time.
    pub last: u32,
    /// When.
    pub times: Times,
    /// That as it is written.
    pub written: String,
    /// Its lines of options, without `#SCRON`, with their numbers.
    pub options: Vec<(u32, String)>,
    /// What to run, with the variables of the table put in.
    pub command: String,
}

/// Reads a table. The error is of the first line that cannot be read, which counts from 0.
pub fn parse(table: &str) -> Result<Vec<Entry>, (u32, BadCrontab)> {
    let (mut entries, mut options, mut variables) = (Vec::new(), Vec::new(), Vec::new());
    for (line, number) in table.lines().zip(0..) {
        let text = line.trim_start();
        if let Some(option) = text.strip_prefix("#SCRON") {
            options.push((number, option.trim().to_owned()));
            continue;
        }
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(variable) = assignment(text) {
            variables.retain(|(name, _)| *name != variable.0);
            variables.push(variable);
            continue;
        }
        let (times, rest) = Times::read(text).map_err(|why| (number, why))?;
        if rest.is_empty() {
            return Err((number, BadCrontab::Short));
        }
        let written = text.strip_suffix(rest).unwrap_or_default().trim_end();
        let mut given = variables.iter();
        let command = given.try_fold(rest.trim_end().to_owned(), put_in);
        let options = std::mem::take(&mut options);
        entries.push(Entry {
            first: options.first().map_or(number, |(first, _)| *first),
            last: number,
            times,
            written: written.to_owned(),
            options,
            command: command.map_err(|why| (number, why))?,
        });
    }
    Ok(entries)
}

/// A command with a variable's value in its places.
fn put_in(command: String, (name, value): &(&str, String)) -> Result<String, BadCrontab> {
    let name = format!("${name}");
    let places = command.matches(&name).count();
    let length = value.len().saturating_mul(places);
    if command.len().saturating_add(length) > COMMAND_MAX {
        return Err(BadCrontab::Long);
    }
    Ok(command.replace(&name, value))
}

/// `NAME=VALUE`, with blanks around the sign and quotes around the value, or without.
fn assignment(text: &str) -> Option<(&str, String)> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim();
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(legal) || name.starts_with(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let value = value.trim();
    let quoted = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    Some((name, value.to_owned()))
}

/// A table with these lines, the first of which is 0, made comments.
#[must_use]
pub fn disabled(table: &str, first: u32, last: u32, mark: &str) -> String {
    let mut text = String::new();
    for (line, number) in table.lines().zip(0..) {
        if (first..=last).contains(&number) && !line.starts_with(mark) {
            text.push_str(mark);
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

//! `--begin`: when a job may start at the earliest; `sacct -S`, and every other moment that Slurm's commands take.
//!
//! ```text
//!  now[{+|-}COUNT[seconds|minutes|hours|days|weeks]]   or   utsSECONDS
//!  dates and times, parted by blanks, `-` or `T` or by nothing; of each kind the last counts
//!  DATE: YYYY-MM-DD, MMDD[YY], MM/DD[/YY], MM.DD[.YY], today, tomorrow
//!  TIME: HH:MM[:SS][ ][AM|PM], midnight, noon, elevenses, fika, teatime
//! ```
//!
//! Of a text that cannot be read the place is told where Slurm gives up, which for a number out of range lies before it.

use super::calendar::Local;
use crate::time::Millis;

/// A text that is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBegin {
    /// It cannot be read from here on.
    #[error("Invalid time specification (pos={at}): {text}")]
    At {
        /// The text.
        text: String,
        /// Place, in bytes from its begin; before it for a month that is one digit and zero.
        at: i32,
    },
    /// It says nothing: blanks.
    #[error("no time is said: write now+1hour, 16:00, 2026-11-30T16:00:00, tomorrow or the like")]
    Nothing,
}

/// Seconds of a unit, by its name; a name before those that it begins with.
const UNITS: [(&str, u64); 10] = [
    ("seconds", 1),
    ("second", 1),
    ("minutes", 60),
    ("minute", 60),
    ("hours", 3600),
    ("hour", 3600),
    ("days", DAY),
    ("day", DAY),
    ("weeks", 7 * DAY),
    ("week", 7 * DAY),
];

/// Hours that have a name.
const HOURS: [(&str, u64); 5] = [
    ("midnight", 0),
    ("elevenses", 11),
    ("noon", 12),
    ("fika", 15),
    ("teatime", 16),
];

const DAY: u64 = 86_400;

/// The least number of seconds that `uts` takes.
const UTS_MIN: u64 = 1_000_000;

/// Reads a moment that is to come: a time without a date is the next such time, a date without a year the next such date. A date
/// without a time is its first second; the result may lie in the past.
pub fn parse_begin(text: &str, now: Millis, utc_offset: i32) -> Result<Millis, BadBegin> {
    parse(text, now, utc_offset, Side::Coming)
}

/// Reads a moment of the past, as `sacct -S` means it: [`parse_begin`], but a time without a date is today's, and a date without a
/// year is of a month that has begun.
pub fn parse_past(text: &str, now: Millis, utc_offset: i32) -> Result<Millis, BadBegin> {
    parse(text, now, utc_offset, Side::Past)
}

/// On which side of now a moment lies of which not everything is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Past,
    Coming,
}

fn parse(text: &str, now: Millis, utc_offset: i32, side: Side) -> Result<Millis, BadBegin> {
    let line = text.split('\n').next().unwrap_or_default();
    let mut reader = Reader {
        text: line.as_bytes(),
        at: 0,
    };
    let moment = match reader.uts() {
        Some(moment) => moment,
        None => reader
            .said(now, utc_offset)
            .and_then(|said| match said.is_nothing() {
                true => Ok(None),
                false => said
                    .moment(now, utc_offset, side)
                    .map(Some)
                    .ok_or(reader.stop(0)),
            }),
    };
    match moment {
        Ok(moment) => moment.ok_or(BadBegin::Nothing),
        Err(Stop(at)) => Err(BadBegin::At {
            text: text.to_owned(),
            at,
        }),
    }
}

/// Where a text cannot be read.
#[derive(Clone, Copy)]
struct Stop(i32);

/// Hour, minute, second.
type Clock = (u64, u64, u64);

/// What a text says.
#[derive(Default)]
struct Said {
    clock: Option<Clock>,
    /// Month and day.
    date: Option<(u64, u64)>,
    year: Option<u64>,
}

impl Said {
    fn is_nothing(&self) -> bool {
        self.clock.is_none() && self.date.is_none()
    }

    fn on(&mut self, day: Local) {
        self.date = Some((day.month, day.day));
        self.year = Some(day.year);
    }

    fn moment(&self, now: Millis, utc_offset: i32, side: Side) -> Option<Millis> {
        let today = Local::at(now, utc_offset);
        let (hour, minute, second) = self.clock.unwrap_or((0, 0, 0));
        let at = |year, (month, day)| {
            let local = Local {
                year,
                month,
                day,
                hour,
                minute,
                second,
            };
            local.moment(utc_offset)
        };
        let Some(date) = self.date else {
            let first = at(today.year, (today.month, today.day))?;
            if side == Side::Past || first > now {
                return Some(first);
            }
            let next = Local::at(now.plus_secs(DAY), utc_offset);
            return at(next.year, (next.month, next.day));
        };
        match (self.year, side) {
            (Some(year), _) => at(year, date),
            (None, Side::Past) => at(today.year - u64::from(date.0 > today.month), date),
            (None, Side::Coming) => at(today.year, date)
                .filter(|moment| *moment > now)
                .or_else(|| at(today.year + 1, date)),
        }
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn stop(&self, back: usize) -> Stop {
        let number = |place: usize| i32::try_from(place).unwrap_or(i32::MAX);
        Stop(number(self.at) - number(back))
    }

    /// The byte so far ahead; zero behind the end.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Takes a word, in any case, if it stands here.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.text.get(self.at..self.at + word.len());
        let here = rest.is_some_and(|rest| rest.eq_ignore_ascii_case(word.as_bytes()));
        if here {
            self.at += word.len();
        }
        here
    }

    fn named(&mut self, names: &[(&str, u64)]) -> Option<u64> {
        let (_, number) = names.iter().find(|(name, _)| self.word(name))?;
        Some(*number)
    }

    fn take(&mut self, marks: &[u8]) -> bool {
        let here = marks.contains(&self.peek(0));
        self.at += usize::from(here);
        here
    }

    fn blanks(&mut self) {
        while self.take(b" \t") {}
    }

    /// Takes a digit if one stands here.
    fn maybe_digit(&mut self) -> Option<u64> {
        let digit = char::from(self.peek(0)).to_digit(10)?;
        self.at += 1;
        Some(digit.into())
    }

    fn digit(&mut self) -> Result<u64, Stop> {
        self.maybe_digit().ok_or(self.stop(0))
    }

    fn two_digits(&mut self) -> Result<u64, Stop> {
        Ok(self.digit()? * 10 + self.digit()?)
    }

    /// One digit or two.
    fn short(&mut self) -> Result<u64, Stop> {
        let first = self.digit()?;
        Ok(self
            .maybe_digit()
            .map_or(first, |second| first * 10 + second))
    }

    /// A number that must be one of these, or the place two bytes back is told.
    fn within(&self, number: u64, range: std::ops::RangeInclusive<u64>) -> Result<u64, Stop> {
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(self.stop(2))
        }
    }

    /// `uts1796002864`; `None` if the text is no such thing.
    fn uts(&mut self) -> Option<Result<Option<Millis>, Stop>> {
        if !self.word("uts") {
            return None;
        }
        let digits = std::str::from_utf8(&self.text[self.at..]).unwrap_or_default();
        let secs = digits.parse().ok().filter(|secs| *secs >= UTS_MIN);
        let millis = secs.and_then(|secs: u64| secs.checked_mul(1000));
        Some(millis.map(|at| Some(Millis(at))).ok_or(Stop(0)))
    }

    fn said(&mut self, now: Millis, utc_offset: i32) -> Result<Said, Stop> {
        let mut said = Said::default();
        while self.at < self.text.len() {
            if self.word("today") {
                said.on(Local::at(now, utc_offset));
            } else if self.word("tomorrow") {
                said.on(Local::at(now.plus_secs(DAY), utc_offset));
            } else if let Some(hour) = self.named(&HOURS) {
                said.clock = Some((hour, 0, 0));
            } else if self.word("now") {
                let local = Local::at(self.shifted(now)?, utc_offset);
                said.on(local);
                said.clock = Some((local.hour, local.minute, local.second));
            } else if b" \t-T".contains(&self.peek(0)) {
                self.at += 1;
            } else if !self.peek(0).is_ascii_digit() {
                return Err(self.stop(0));
            } else if self.peek(1) == b':' || self.peek(2) == b':' {
                said.clock = Some(self.clock()?);
            } else {
                self.date(&mut said)?;
            }
        }
        Ok(said)
    }

    /// What follows `now`.
    fn shifted(&mut self, now: Millis) -> Result<Millis, Stop> {
        self.blanks();
        let mark = self.stop(0);
        let back = match self.peek(0) {
            0 => return Ok(now),
            b'+' => false,
            b'-' => true,
            _ => return Err(mark),
        };
        self.at += 1;
        let mut count: Option<u64> = None;
        while self.at < self.text.len() {
            if let Some(digit) = self.maybe_digit() {
                let more = count
                    .unwrap_or(0)
                    .checked_mul(10)
                    .and_then(|n| n.checked_add(digit));
                count = Some(more.ok_or(mark)?);
            } else if let Some(factor) = self.named(&UNITS) {
                count = count.and_then(|count| count.checked_mul(factor));
                break;
            } else if !self.take(b" \t") {
                return Err(self.stop(1));
            }
        }
        let millis = count.and_then(|count| count.checked_mul(1000));
        let moment = millis.and_then(|millis| match back {
            true => now.0.checked_sub(millis),
            false => now.0.checked_add(millis),
        });
        moment.map(Millis).ok_or(mark)
    }

    /// `HH:MM[:SS][ ][AM|PM]`.
    fn clock(&mut self) -> Result<Clock, Stop> {
        let hour = self.short()?;
        let hour = self.within(hour, 0..=23)?;
        if !self.take(b":") {
            return Err(self.stop(0));
        }
        let minute = self.two_digits()?;
        let minute = self.within(minute, 0..=59)?;
        let second = if self.take(b":") {
            let second = self.two_digits()?;
            self.within(second, 0..=59)?
        } else {
            0
        };
        self.blanks();
        let half = self.stop(0);
        let hour = if self.word("am") {
            (hour <= 12).then_some(hour % 12)
        } else if self.word("pm") {
            (hour <= 12).then_some(hour % 12 + 12)
        } else {
            Some(hour)
        };
        let hour = hour.ok_or(half)?;
        Ok((hour, minute, second))
    }

    /// `YYYY-MM-DD`, `MMDD[YY]`, `MM/DD[/YY]`, `MM.DD[.YY]`.
    fn date(&mut self, said: &mut Said) -> Result<(), Stop> {
        if self.peek(4) == b'-' && self.peek(7) == b'-' {
            let year = self.two_digits()? * 100 + self.two_digits()?;
            self.at += 1;
            // What is no digit is a number out of range.
            let first = self.maybe_digit();
            self.at += usize::from(first.is_none());
            let month = match (first, self.maybe_digit()) {
                (None, _) => 0,
                (Some(first), second) => second.map_or(first, |second| first * 10 + second),
            };
            let month = self.within(month, 1..=12)?;
            self.at += 1;
            let day = self.short()?;
            said.date = Some((month, self.within(day, 1..=31)?));
            said.year = Some(year);
            return Ok(());
        }
        let month = self.short()?;
        let month = self.within(month, 1..=12)?;
        self.take(b"./");
        let day = self.short()?;
        said.date = Some((month, self.within(day, 1..=31)?));
        self.take(b"./");
        if self.peek(0).is_ascii_digit() {
            said.year = Some(2000 + self.two_digits()?);
        }
        Ok(())
    }
}

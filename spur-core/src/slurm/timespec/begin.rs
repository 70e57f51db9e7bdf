//! `--begin`: when a job may start at the earliest.
//!
//! ```text
//!  now[{+|-}COUNT[seconds|minutes|hours|days|weeks]]
//!  [DATE][{T| }TIME]   or   [TIME][ DATE]
//!  DATE: YYYY-MM-DD, MMDD[YY], MM/DD[/YY], MM.DD.YY, today, tomorrow
//!  TIME: HH:MM[:SS][AM|PM], midnight, noon, elevenses, fika, teatime
//! ```

use super::calendar::Local;
use crate::time::Millis;

/// A text that is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid time specification {0:?}: write now+1hour, 16:00, 2026-11-30T16:00:00, tomorrow or the like"
)]
pub struct BadBegin(pub String);

/// The longest text that is looked at, in bytes.
const MAX_TEXT: usize = 128;

/// Reads a moment. A time without a date is today's, or tomorrow's if it is past; a date without a time is its first second;
/// the result may lie in the past.
pub fn parse_begin(text: &str, now: Millis, utc_offset: i32) -> Result<Millis, BadBegin> {
    parse(text, now, utc_offset, Daytime::Coming)
}

/// Reads a moment of the past, as `sacct -S` means it: [`parse_begin`], but a time without a date is always today's.
pub fn parse_past(text: &str, now: Millis, utc_offset: i32) -> Result<Millis, BadBegin> {
    parse(text, now, utc_offset, Daytime::Today)
}

/// Which day's a time without a date is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Daytime {
    Today,
    Coming,
}

fn parse(text: &str, now: Millis, utc_offset: i32, day: Daytime) -> Result<Millis, BadBegin> {
    let bad = || BadBegin(text.to_owned());
    if text.len() > MAX_TEXT {
        return Err(bad());
    }
    let lower = text.trim().to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("now") {
        return relative(rest.trim(), now).ok_or_else(bad);
    }
    absolute(&lower, now, utc_offset, day).ok_or_else(bad)
}

fn relative(rest: &str, now: Millis) -> Option<Millis> {
    if rest.is_empty() {
        return Some(now);
    }
    let (back, rest) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix('+')?),
    };
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (count, unit) = rest.split_at(end);
    let factor: u64 = match unit.trim() {
        "" | "second" | "seconds" => 1,
        "minute" | "minutes" => 60,
        "hour" | "hours" => 3600,
        "day" | "days" => 86_400,
        "week" | "weeks" => 604_800,
        _ => return None,
    };
    let millis = count
        .parse::<u64>()
        .ok()?
        .checked_mul(factor)?
        .checked_mul(1000)?;
    if back {
        now.0.checked_sub(millis)
    } else {
        now.0.checked_add(millis)
    }
    .map(Millis)
}

type Clock = (u64, u64, u64);
type Date = (u64, u64, u64);

fn absolute(text: &str, now: Millis, utc_offset: i32, day: Daytime) -> Option<Millis> {
    let today = Local::at(now, utc_offset);
    let (mut clock, mut date) = (None, None);
    for word in words(text) {
        if let Some(found) = read_clock(word) {
            if clock.replace(found).is_some() {
                return None;
            }
        } else if date
            .replace(read_date(word, today, now, utc_offset)?)
            .is_some()
        {
            return None;
        }
    }
    let on = |(year, month, day): Date, (hour, minute, second): Clock| {
        Local {
            year,
            month,
            day,
            hour,
            minute,
            second,
        }
        .moment(utc_offset)
    };
    match (date, clock) {
        (Some(date), clock) => on(date, clock.unwrap_or((0, 0, 0))),
        (None, Some(clock)) => {
            let first = on((today.year, today.month, today.day), clock)?;
            if day == Daytime::Today || first > now {
                Some(first)
            } else {
                on(date_of(now.plus_secs(86_400), utc_offset), clock)
            }
        }
        (None, None) => None,
    }
}

/// Words are parted by blanks, or by a `t` between a date and a time.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match word.split_once('t') {
            Some((date, time)) if date.ends_with(|c: char| c.is_ascii_digit()) => {
                words.extend([date, time])
            }
            _ => words.push(word),
        }
    }
    words
}

fn date_of(at: Millis, utc_offset: i32) -> Date {
    let Local {
        year, month, day, ..
    } = Local::at(at, utc_offset);
    (year, month, day)
}

/// A number written with so many digits.
fn fixed(text: &str, widths: std::ops::RangeInclusive<usize>) -> Option<u64> {
    let plain = widths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn read_clock(word: &str) -> Option<Clock> {
    match word {
        "midnight" => return Some((0, 0, 0)),
        "elevenses" => return Some((11, 0, 0)),
        "noon" => return Some((12, 0, 0)),
        "fika" => return Some((15, 0, 0)),
        "teatime" => return Some((16, 0, 0)),
        _ => {}
    }
    let (digits, half) = match (word.strip_suffix("am"), word.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(0)),
        (_, Some(digits)) => (digits, Some(12)),
        (None, None) => (word, None),
    };
    let parts: Vec<&str> = digits.split(':').collect();
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, "00"),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let (hour, minute, second) = (
        fixed(hour, 1..=2)?,
        fixed(minute, 2..=2)?,
        fixed(second, 2..=2)?,
    );
    let hour = match half {
        Some(_) if hour == 0 || hour > 12 => return None,
        Some(half) => hour % 12 + half,
        None => hour,
    };
    (hour < 24 && minute < 60 && second < 60).then_some((hour, minute, second))
}

fn read_date(word: &str, today: Local, now: Millis, utc_offset: i32) -> Option<Date> {
    let this_or_next = |month: u64, day: u64| {
        let past = (month, day) < (today.month, today.day);
        (today.year + u64::from(past), month, day)
    };
    match word {
        "today" => return Some((today.year, today.month, today.day)),
        "tomorrow" => return Some(date_of(now.plus_secs(86_400), utc_offset)),
        _ => {}
    }
    if let [year, month, day] = word.split('-').collect::<Vec<_>>()[..] {
        return Some((
            fixed(year, 4..=4)?,
            fixed(month, 1..=2)?,
            fixed(day, 1..=2)?,
        ));
    }
    match word.split(['/', '.']).collect::<Vec<_>>()[..] {
        [month, day] => Some(this_or_next(fixed(month, 1..=2)?, fixed(day, 1..=2)?)),
        [month, day, year] => Some((
            2000 + fixed(year, 2..=2)?,
            fixed(month, 1..=2)?,
            fixed(day, 1..=2)?,
        )),
        _ => {
            let digits = fixed(word, 4..=6)?;
            match word.len() {
                4 => Some(this_or_next(digits / 100, digits % 100)),
                6 => Some((2000 + digits % 100, digits / 10_000, digits / 100 % 100)),
                _ => None,
            }
        }
    }
}

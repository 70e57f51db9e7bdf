//! Time as Slurm writes it: limits (`1-00:00:00`, `30`), elapsed time (`1:05`), moments (`2026-11-30T01:41:00`) and `--begin`.
//!
//! The core knows no time zone: the local offset from UTC, in seconds, is an argument.

pub mod begin;
pub mod calendar;

use crate::slurm::digits;
use crate::time::TimeLimit;

/// A text that is no time limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid time {0:?}: write minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED")]
pub struct BadTime(pub String);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The longest span that is read: a hundred years and a bit.
const MAX_SECS: u64 = 36_525 * DAY;

/// A span in seconds, exactly as written: `30` is thirty minutes, `0:30` thirty seconds, `1-12` a day and a half. `-1`, `INFINITE`
/// and `UNLIMITED` (in any case) are [`TimeLimit::Unlimited`]; zero is `Secs(0)`.
pub fn parse_span(text: &str) -> Result<TimeLimit, BadTime> {
    if ["-1", "INFINITE", "UNLIMITED"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word))
    {
        return Ok(TimeLimit::Unlimited);
    }
    let bad = || BadTime(text.to_owned());
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days), clock),
        None => (None, text),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let factors: &[u64] = match (days, parts.len()) {
        (None, 1 | 2) => &[MINUTE, 1],
        (None, 3) | (Some(_), 1..=3) => &[HOUR, MINUTE, 1],
        _ => return Err(bad()),
    };
    let days = days.map_or(Some(0), |days| part(days, DAY));
    let mut secs = days.ok_or_else(bad)?;
    for (text, factor) in parts.iter().zip(factors) {
        secs += part(text, *factor).ok_or_else(bad)?;
    }
    if secs > MAX_SECS {
        Err(bad())
    } else {
        Ok(TimeLimit::Secs(secs))
    }
}

fn part(digits: &str, factor: u64) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits
        .parse::<u64>()
        .ok()?
        .checked_mul(factor)
        .filter(|secs| *secs <= MAX_SECS)
}

/// A job's time limit: as [`parse_span`], rounded up to whole minutes; zero asks for no limit, as in Slurm.
pub fn parse_limit(text: &str) -> Result<TimeLimit, BadTime> {
    Ok(match parse_span(text)? {
        TimeLimit::Secs(0) | TimeLimit::Unlimited => TimeLimit::Unlimited,
        TimeLimit::Secs(secs) => TimeLimit::Secs(secs.div_ceil(MINUTE) * MINUTE),
    })
}

/// A limit as `squeue` shows it: `30:00`, `2:30:00`, `1-00:00:00`, `UNLIMITED`.
pub fn limit(limit: TimeLimit) -> String {
    match limit {
        TimeLimit::Secs(secs) => elapsed(secs),
        TimeLimit::Unlimited => "UNLIMITED".to_owned(),
    }
}

/// A limit as `scontrol` shows it: `00:30:00`, `1-00:00:00`, `UNLIMITED`.
pub fn limit_long(limit: TimeLimit) -> String {
    written(|out| write_limit_long(limit, out))
}

/// Adds the same.
pub fn write_limit_long(limit: TimeLimit, out: &mut String) {
    match limit {
        TimeLimit::Secs(secs) => write_elapsed_long(secs, out),
        TimeLimit::Unlimited => out.push_str("UNLIMITED"),
    }
}

/// Elapsed time as `squeue` shows it: `0:05`, `59:55`, `1:00:00`, `1-00:00:00`.
pub fn elapsed(secs: u64) -> String {
    written(|out| write_elapsed(secs, out))
}

/// Adds the same.
pub fn write_elapsed(secs: u64, out: &mut String) {
    if secs < HOUR {
        digits::push(out, secs / MINUTE);
        out.push(':');
        return digits::two(out, secs % MINUTE);
    }
    if secs < DAY {
        digits::push(out, secs / HOUR);
    } else {
        digits::push(out, secs / DAY);
        out.push('-');
        digits::two(out, secs % DAY / HOUR);
    }
    below_hours(secs, out);
}

/// Elapsed time as `scontrol` shows it: `00:00:06`, `1-00:00:00`.
pub fn elapsed_long(secs: u64) -> String {
    written(|out| write_elapsed_long(secs, out))
}

/// Adds the same.
pub fn write_elapsed_long(secs: u64, out: &mut String) {
    if secs >= DAY {
        digits::push(out, secs / DAY);
        out.push('-');
    }
    digits::two(out, secs % DAY / HOUR);
    below_hours(secs, out);
}

/// `:05:00`.
fn below_hours(secs: u64, out: &mut String) {
    for number in [secs % HOUR / MINUTE, secs % MINUTE] {
        out.push(':');
        digits::two(out, number);
    }
}

fn written(write: impl FnOnce(&mut String)) -> String {
    let mut text = String::new();
    write(&mut text);
    text
}

#[cfg(test)]
mod tests;

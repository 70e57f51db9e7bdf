//! Time as Slurm writes it: limits (`1-00:00:00`, `30`), elapsed time (`1:05`), moments (`2026-11-30T01:41:00`) and `--begin`.
//!
//! The core knows no time zone: the local offset from UTC, in seconds, is an argument.

pub mod begin;
pub mod calendar;

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
    match limit {
        TimeLimit::Secs(secs) => elapsed_long(secs),
        TimeLimit::Unlimited => "UNLIMITED".to_owned(),
    }
}

/// Elapsed time as `squeue` shows it: `0:05`, `59:55`, `1:00:00`, `1-00:00:00`.
pub fn elapsed(secs: u64) -> String {
    match (secs / DAY, secs / HOUR) {
        (0, 0) => format!("{}:{:02}", secs / MINUTE, secs % MINUTE),
        (0, hours) => format!("{hours}:{:02}:{:02}", secs % HOUR / MINUTE, secs % MINUTE),
        _ => elapsed_long(secs),
    }
}

/// Adds the same.
pub fn write_elapsed(secs: u64, out: &mut String) {
    use std::fmt::Write as _;
    let (days, hours, minutes) = (secs / DAY, secs % DAY / HOUR, secs % HOUR / MINUTE);
    let written = match (days, hours) {
        (0, 0) => write!(out, "{minutes}"),
        (0, hours) => write!(out, "{hours}:"),
        (days, _) => write!(out, "{days}-"),
    };
    written.expect("writing to a string cannot fail");
    if days > 0 {
        calendar::two(hours, out);
        out.push(':');
    }
    if days > 0 || hours > 0 {
        calendar::two(minutes, out);
    }
    out.push(':');
    calendar::two(secs % MINUTE, out);
}

/// Elapsed time as `scontrol` shows it: `00:00:06`, `1-00:00:00`.
pub fn elapsed_long(secs: u64) -> String {
    let clock = format!(
        "{:02}:{:02}:{:02}",
        secs % DAY / HOUR,
        secs % HOUR / MINUTE,
        secs % MINUTE
    );
    if secs < DAY {
        clock
    } else {
        format!("{}-{clock}", secs / DAY)
    }
}

#[cfg(test)]
mod tests;

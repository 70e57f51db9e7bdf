//! Moments as local dates and times, in the proleptic Gregorian calendar.

use crate::time::Millis;

/// A local date and time. Months and days count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Local {
    /// Year, 1970 or later.
    pub year: u64,
    /// Month, 1 to 12.
    pub month: u64,
    /// Day of the month, from 1.
    pub day: u64,
    /// Hour, 0 to 23.
    pub hour: u64,
    /// Minute, 0 to 59.
    pub minute: u64,
    /// Second, 0 to 59.
    pub second: u64,
}

const DAY: u64 = 86_400;

/// The last moment that is shown as such (the end of the year 9999); later ones are shown as this.
const LAST: u64 = 253_402_300_799;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Adds `2026-11-30T01:41:00`.
pub fn write_moment(at: Millis, utc_offset: i32, out: &mut String) {
    let local = Local::at(at, utc_offset);
    two(local.year / 100, out);
    two(local.year % 100, out);
    for (mark, number) in [
        ('-', local.month),
        ('-', local.day),
        ('T', local.hour),
        (':', local.minute),
        (':', local.second),
    ] {
        out.push(mark);
        two(number, out);
    }
}

/// Adds a number below 100 as two digits.
pub(super) fn two(number: u64, out: &mut String) {
    let digit = |digit: u64| char::from_digit(u32::try_from(digit % 10).unwrap_or(0), 10);
    out.extend([digit(number / 10), digit(number)].into_iter().flatten());
}

fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the epoch to the first of January of a year from 1970 on.
fn days_before(year: u64) -> u64 {
    let leaps = |y: u64| y / 4 - y / 100 + y / 400;
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
}

/// Local seconds since the epoch, from 1970 to 9999.
fn local_secs(at: Millis, utc_offset: i32) -> u64 {
    at.secs()
        .saturating_add_signed(i64::from(utc_offset))
        .min(LAST)
}

impl Local {
    /// The local time at a moment, `utc_offset` seconds east of Greenwich.
    pub fn at(at: Millis, utc_offset: i32) -> Self {
        let secs = local_secs(at, utc_offset);
        let mut days = secs / DAY;
        // A year has at most 366 days, so this guess is never too late, and at most a few years too early.
        let mut year = 1970 + days / 366;
        while days_before(year + 1) <= days {
            year += 1;
        }
        days -= days_before(year);
        let mut month = 1;
        while days >= days_in(year, month) {
            days -= days_in(year, month);
            month += 1;
        }
        let second = secs % DAY;
        Self {
            year,
            month,
            day: days + 1,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }

    /// The moment at which it is this local time; `None` if there is no such date or time, or it lies outside 1970 to 9999.
    pub fn moment(self, utc_offset: i32) -> Option<Millis> {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
        } = self;
        let legal = (1970..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !legal {
            return None;
        }
        let months: u64 = (1..month).map(|month| days_in(year, month)).sum();
        let days = days_before(year) + months + day - 1;
        let local = days * DAY + hour * 3600 + minute * 60 + second;
        local
            .checked_add_signed(-i64::from(utc_offset))
            .map(|secs| Millis(secs * 1000))
    }
}

/// `2026-11-30T01:41:00`.
pub fn timestamp(at: Millis, utc_offset: i32) -> String {
    let Local {
        year,
        month,
        day,
        hour,
        minute,
        second,
    } = Local::at(at, utc_offset);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// `Mon Nov 30 01:41:04 2026`, the first line of `squeue -l`.
pub fn headline(at: Millis, utc_offset: i32) -> String {
    let Local {
        year,
        month,
        day,
        hour,
        minute,
        second,
    } = Local::at(at, utc_offset);
    let name = |names: &[&'static str], at: u64| {
        names
            .iter()
            .zip(0u64..)
            .find(|(_, i)| *i == at)
            .map_or("", |(n, _)| n)
    };
    let weekday = name(&WEEKDAYS, local_secs(at, utc_offset) / DAY % 7);
    format!(
        "{weekday} {} {day:>2} {hour:02}:{minute:02}:{second:02} {year}",
        name(&MONTHS, month - 1)
    )
}

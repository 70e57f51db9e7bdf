//! Moments as local dates and times, in the proleptic Gregorian calendar.

use crate::slurm::digits;
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
    digits::two(out, local.year / 100);
    digits::two(out, local.year);
    for (mark, number) in [
        ('-', local.month),
        ('-', local.day),
        ('T', local.hour),
        (':', local.minute),
        (':', local.second),
    ] {
        out.push(mark);
        digits::two(out, number);
    }
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

/// The date so many days after the epoch. Counted in years that begin in March, so that the day which some have more is their last.
fn date(days: u64) -> (u64, u64, u64) {
    /// Days of four hundred years.
    const CYCLE: u64 = 146_097;
    /// Days from the first of March of the year 0 to the epoch.
    const EPOCH: u64 = 719_468;
    let (cycle, day) = ((days + EPOCH) / CYCLE, (days + EPOCH) % CYCLE);
    // A day for every four years, but not for every hundred, has gone by more than 365 for each.
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (next, month) = if month < 10 {
        (0, month + 3)
    } else {
        (1, month - 9)
    };
    (cycle * 400 + year + next, month, day)
}

impl Local {
    /// The local time at a moment, `utc_offset` seconds east of Greenwich.
    pub fn at(at: Millis, utc_offset: i32) -> Self {
        let secs = local_secs(at, utc_offset);
        let (year, month, day) = date(secs / DAY);
        let second = secs % DAY;
        Self {
            year,
            month,
            day,
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

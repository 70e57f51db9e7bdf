//! Moments in the user's time zone.

use spur_core::slurm::timespec::calendar;
use spur_core::time::Millis;
use std::cell::RefCell;
use tz::{DateTime, TimeZone};

/// The present and the way moments are written (`SLURM_TIME_FORMAT`).
#[derive(Clone, Debug)]
pub struct Clock {
    /// The present.
    pub now: Millis,
    zone: TimeZone,
    pattern: Option<String>,
    /// Moments are written by how many days they are away.
    relative: bool,
    /// The last moment that was written, in seconds, and how: of neighbours many are the same.
    last: RefCell<(u64, String)>,
}

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl Clock {
    /// UTC and the standard format.
    pub fn utc(now: Millis) -> Self {
        Self {
            now,
            zone: TimeZone::utc(),
            pattern: None,
            relative: false,
            last: RefCell::default(),
        }
    }

    /// The user's zone (`TZ`, else the machine's; UTC if neither can be read) and format: `standard`, or a pattern as
    /// `strftime` takes.
    pub fn local(now: Millis, zone: Option<&str>, format: Option<&str>) -> Self {
        let found = match zone {
            Some(name) if !name.is_empty() => TimeZone::from_posix_tz(name),
            _ => TimeZone::local(),
        };
        let pattern = format.filter(|f| !matches!(*f, "" | "standard" | "relative"));
        Self {
            now,
            zone: found.unwrap_or_else(|_| TimeZone::utc()),
            pattern: pattern.map(str::to_owned),
            relative: format == Some("relative"),
            last: RefCell::default(),
        }
    }

    /// The zone's broken-down time; `None` beyond the calendar.
    pub fn fields(&self, at: Millis) -> Option<DateTime> {
        let secs = i64::try_from(at.secs()).ok()?;
        DateTime::from_timespec(secs, 0, self.zone.as_ref()).ok()
    }

    /// Seconds by which the zone is ahead of UTC at that moment.
    pub fn utc_offset(&self, at: Millis) -> i32 {
        self.fields(at)
            .map_or(0, |time| time.local_time_type().ut_offset())
    }

    /// `2026-11-30T01:41:00`, or as the user's pattern says. The epoch itself stands for a moment that never was.
    pub fn stamp(&self, at: Millis) -> String {
        let known = self.fields(at).filter(|_| at.0 > 0);
        let Some(time) = known else {
            return "Unknown".to_owned();
        };
        match &self.pattern {
            Some(pattern) => expand(pattern, &time),
            None if self.relative => self.by_distance(&time),
            None => standard(&time),
        }
    }

    /// As short as its day allows: the nearer, the less is said of the day.
    fn by_distance(&self, time: &DateTime) -> String {
        let Some(today) = self.fields(self.now) else {
            return standard(time);
        };
        let pattern = match day(time) - day(&today) {
            -1 => "Ystday %H:%M",
            0 => "%H:%M:%S",
            1 => "Tomorr %H:%M",
            2..=6 => "%a %H:%M",
            -365..=365 => "%-d %b %H:%M",
            _ => "%-d %b %Y",
        };
        let unpadded = pattern.replace("%-d", &time.month_day().to_string());
        expand(&unpadded, time)
    }

    /// Adds the same.
    pub fn write(&self, at: Millis, out: &mut String) {
        // Moments of a second are written alike, but for the very first.
        let mut last = self.last.borrow_mut();
        let (secs, text) = &mut *last;
        if at.secs() == 0 || *secs != at.secs() || text.is_empty() {
            *secs = at.secs();
            text.clear();
            self.write_anew(at, text);
        }
        out.push_str(text);
    }

    fn write_anew(&self, at: Millis, out: &mut String) {
        if self.pattern.is_some() || self.relative || at.0 == 0 {
            out.push_str(&self.stamp(at));
            return;
        }
        match i64::try_from(at.secs()) {
            Ok(secs) => calendar::write_moment(at, self.offset(secs), out),
            Err(_) => out.push_str("Unknown"),
        }
    }

    /// Seconds by which the zone is ahead of UTC: without breaking the moment down.
    fn offset(&self, secs: i64) -> i32 {
        let found = self.zone.find_local_time_type(secs);
        found.map_or(0, |kind| kind.ut_offset())
    }

    /// A moment that may be unknown.
    pub fn stamp_or(&self, at: Option<Millis>, unknown: &str) -> String {
        at.map_or_else(|| unknown.to_owned(), |at| self.stamp(at))
    }

    /// `Mon Nov 30 01:41:04 2026`: the line above long lists.
    pub fn heading(&self) -> String {
        self.fields(self.now)
            .map(|time| expand("%a %b %d %H:%M:%S %Y", &time))
            .unwrap_or_default()
    }
}

/// The number of its day in its zone.
fn day(time: &DateTime) -> i64 {
    let offset = i64::from(time.local_time_type().ut_offset());
    time.unix_time()
        .saturating_add(offset)
        .div_euclid(24 * 60 * 60)
}

fn standard(time: &DateTime) -> String {
    expand("%Y-%m-%dT%H:%M:%S", time)
}

/// The conversions of `strftime` that make sense for a moment; others stay as they are.
fn expand(pattern: &str, time: &DateTime) -> String {
    let mut text = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some(letter) => text.push_str(&conversion(letter, time)),
            None => text.push('%'),
        }
    }
    text
}

fn conversion(letter: char, time: &DateTime) -> String {
    let two = |n: u8| format!("{n:02}");
    match letter {
        'Y' => time.year().to_string(),
        'y' => format!("{:02}", time.year().rem_euclid(100)),
        'm' => two(time.month()),
        'd' => two(time.month_day()),
        'e' => format!("{:2}", time.month_day()),
        'H' => two(time.hour()),
        'I' => two((time.hour() + 11) % 12 + 1),
        'p' => if time.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        'M' => two(time.minute()),
        'S' => two(time.second()),
        's' => time.unix_time().to_string(),
        'j' => format!("{:03}", time.year_day() + 1),
        'a' => DAYS[usize::from(time.week_day() % 7)].to_owned(),
        'b' | 'h' => MONTHS[usize::from((time.month() + 11) % 12)].to_owned(),
        'F' => expand("%Y-%m-%d", time),
        'T' => expand("%H:%M:%S", time),
        'R' => expand("%H:%M", time),
        'D' => expand("%m/%d/%y", time),
        'c' => expand("%a %b %e %H:%M:%S %Y", time),
        'x' => expand("%m/%d/%y", time),
        'X' => expand("%H:%M:%S", time),
        'z' => offset(time.local_time_type().ut_offset()),
        'Z' => time.local_time_type().time_zone_designation().to_owned(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        other => format!("%{other}"),
    }
}

fn offset(secs: i32) -> String {
    let sign = if secs < 0 { '-' } else { '+' };
    let minutes = secs.unsigned_abs() / 60;
    format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Millis = Millis(1_796_002_864_000);

    #[test]
    fn moments_are_written_as_slurm_does() {
        let clock = Clock::utc(AT);
        assert_eq!(clock.stamp(AT), "2026-11-30T01:41:04");
        assert_eq!(clock.heading(), "Mon Nov 30 01:41:04 2026");
        assert_eq!(clock.stamp_or(None, "N/A"), "N/A");
    }

    #[test]
    fn relative_moments_say_no_more_of_the_day_than_is_needed() {
        // It is 01:41:04 on a Monday, the thirtieth of November; in this zone still Sunday.
        let shown = |zone: Option<&str>, days: i64| {
            let clock = Clock::local(AT, zone, Some("relative"));
            let at = Millis(AT.0.saturating_add_signed(days * 86_400_000));
            let mut text = String::new();
            clock.write(at, &mut text);
            assert_eq!(text, clock.stamp(at));
            text
        };
        let utc = Some("UTC0");
        for (days, text) in [
            (0, "01:41:04"),
            (-1, "Ystday 01:41"),
            (1, "Tomorr 01:41"),
            (2, "Wed 01:41"),
            (6, "Sun 01:41"),
            (7, "7 Dec 01:41"),
            (-2, "28 Nov 01:41"),
            (40, "9 Jan 01:41"),
            (-365, "30 Nov 01:41"),
            (366, "1 Dec 2027"),
            (-366, "29 Nov 2025"),
        ] {
            assert_eq!(shown(utc, days), text, "{days}");
        }
        assert_eq!(shown(Some("EST5"), 0), "20:41:04");
        assert_eq!(shown(Some("EST5"), 2), "Tue 20:41");
    }

    #[test]
    fn the_zone_and_the_pattern_are_the_users() {
        let clock = Clock::local(AT, Some("EST5EDT,M3.2.0,M11.1.0"), Some("%s %z %I%p"));
        assert_eq!(clock.stamp(AT), "1796002864 -0500 08PM");
        let standard = Clock::local(AT, Some("<+0530>-5:30"), Some("standard"));
        assert_eq!(standard.stamp(AT), "2026-11-30T07:11:04");
        assert_eq!(standard.utc_offset(AT), 19_800);
    }
}

use super::begin::{BadBegin, parse_begin, parse_past};
use super::calendar::{Local, headline, timestamp};
use super::*;
use crate::time::Millis;
use proptest::prelude::*;

#[test]
fn every_form_of_a_span_is_read() {
    for (text, secs) in [
        ("0", 0),
        ("30", 1800),
        ("0:30", 30),
        ("90:05", 5405),
        ("1:00:00", 3600),
        ("00:90:00", 5400),
        ("1-0", 86_400),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-12:30:15", 131_415),
        ("0-00:03:00", 180),
        ("0:7200", 7200),
    ] {
        assert_eq!(parse_span(text), Ok(TimeLimit::Secs(secs)), "{text}");
    }
    for text in ["-1", "INFINITE", "unlimited", "Infinite"] {
        assert_eq!(parse_span(text), Ok(TimeLimit::Unlimited), "{text}");
    }
}

#[test]
fn what_is_no_span_is_refused() {
    for text in [
        "",
        "abc",
        "-5",
        "1:2:3:4",
        "1-2-3",
        "1-2:3:4:5",
        "1:-2",
        ":",
        "1:",
        ":1",
        "1-",
        "-",
        "+1",
        "1.5",
        " 1",
        "1h",
        "99999999999999999999",
        "18446744073709551615",
        "9999999-0",
        "１",
    ] {
        assert!(parse_span(text).is_err(), "{text}");
    }
}

#[test]
fn limits_are_whole_minutes_and_zero_is_none() {
    for (text, limit) in [
        ("0:01", TimeLimit::Secs(60)),
        ("1:01", TimeLimit::Secs(120)),
        ("60", TimeLimit::Secs(3600)),
        ("0", TimeLimit::Unlimited),
        ("UNLIMITED", TimeLimit::Unlimited),
    ] {
        assert_eq!(parse_limit(text), Ok(limit), "{text}");
    }
}

#[test]
fn spans_are_shown_short_and_long() {
    for (secs, short, long) in [
        (0, "0:00", "00:00:00"),
        (5, "0:05", "00:00:05"),
        (1800, "30:00", "00:30:00"),
        (3595, "59:55", "00:59:55"),
        (3600, "1:00:00", "01:00:00"),
        (9000, "2:30:00", "02:30:00"),
        (86_399, "23:59:59", "23:59:59"),
        (86_400, "1-00:00:00", "1-00:00:00"),
        (10 * 86_400 + 3661, "10-01:01:01", "10-01:01:01"),
    ] {
        assert_eq!(
            (elapsed(secs).as_str(), elapsed_long(secs).as_str()),
            (short, long)
        );
        let secs = TimeLimit::Secs(secs);
        assert_eq!(
            (limit(secs).as_str(), limit_long(secs).as_str()),
            (short, long)
        );
    }
    assert_eq!(limit(TimeLimit::Unlimited), "UNLIMITED");
    assert_eq!(limit_long(TimeLimit::Unlimited), "UNLIMITED");
}

/// 2026-11-30T01:41:04 UTC, a Monday.
const NOW: Millis = Millis(1_796_002_864_000);

#[test]
fn moments_are_shown_in_local_time() {
    assert_eq!(timestamp(NOW, 0), "2026-11-30T01:41:04");
    assert_eq!(timestamp(NOW, 3600), "2026-11-30T02:41:04");
    assert_eq!(timestamp(NOW, -2 * 3600), "2026-11-29T23:41:04");
    assert_eq!(timestamp(Millis(0), 0), "1970-01-01T00:00:00");
    assert_eq!(timestamp(Millis(951_782_400_000), 0), "2000-02-29T00:00:00");
    assert_eq!(timestamp(Millis(u64::MAX), 0), "9999-12-31T23:59:59");
    assert_eq!(headline(NOW, 0), "Mon Nov 30 01:41:04 2026");
    assert_eq!(headline(Millis(0), 0), "Thu Jan  1 00:00:00 1970");
}

#[test]
fn begin_takes_all_of_slurms_forms() {
    for (text, moment) in [
        ("now", "2026-11-30T01:41:04"),
        ("NOW+60", "2026-11-30T01:42:04"),
        ("now+1hour", "2026-11-30T02:41:04"),
        ("now + 2 days", "2026-12-02T01:41:04"),
        ("now+1week", "2026-12-07T01:41:04"),
        ("now-1minute", "2026-11-30T01:40:04"),
        ("16:00", "2026-11-30T16:00:00"),
        ("01:00", "2026-12-01T01:00:00"),
        ("1:00PM", "2026-11-30T13:00:00"),
        ("12:30am", "2026-12-01T00:30:00"),
        ("midnight", "2026-12-01T00:00:00"),
        ("noon", "2026-11-30T12:00:00"),
        ("fika", "2026-11-30T15:00:00"),
        ("teatime", "2026-11-30T16:00:00"),
        ("today", "2026-11-30T00:00:00"),
        ("tomorrow", "2026-12-01T00:00:00"),
        ("noon tomorrow", "2026-12-01T12:00:00"),
        ("tomorrow 10:30:15", "2026-12-01T10:30:15"),
        ("2010-01-20", "2010-01-20T00:00:00"),
        ("2027-01-20T12:34:00", "2027-01-20T12:34:00"),
        ("2027-01-20T12:34", "2027-01-20T12:34:00"),
        ("2027-01-20 12:34", "2027-01-20T12:34:00"),
        ("1225", "2026-12-25T00:00:00"),
        ("0120", "2027-01-20T00:00:00"),
        ("01/20/28", "2028-01-20T00:00:00"),
        ("01.20.28", "2028-01-20T00:00:00"),
        ("012028", "2028-01-20T00:00:00"),
        ("12/24", "2026-12-24T00:00:00"),
        ("12/24/27-10:30", "2027-12-24T10:30:00"),
        ("11/30", "2027-11-30T00:00:00"),
        ("11/30 16:00", "2026-11-30T16:00:00"),
        ("4:00 pm", "2026-11-30T16:00:00"),
        ("0:30pm", "2026-11-30T12:30:00"),
        ("noon teatime today tomorrow", "2026-12-01T16:00:00"),
        ("2026-12-01T", "2026-12-01T00:00:00"),
        ("uts1796002865", "2026-11-30T01:41:05"),
    ] {
        let shown = parse_begin(text, NOW, 0).map(|at| timestamp(at, 0));
        assert_eq!(shown.as_deref(), Ok(moment), "{text}");
    }
    let local = parse_begin("16:00", NOW, 3600).map(|at| timestamp(at, 0));
    assert_eq!(local.as_deref(), Ok("2026-11-30T15:00:00"));
}

#[test]
fn a_past_moment_is_not_to_come() {
    for (text, moment) in [
        ("16:00", "2026-11-30T16:00:00"),
        ("01:00", "2026-11-30T01:00:00"),
        ("1225", "2025-12-25T00:00:00"),
        ("1130", "2026-11-30T00:00:00"),
        ("0120", "2026-01-20T00:00:00"),
    ] {
        let shown = parse_past(text, NOW, 0).map(|at| timestamp(at, 0));
        assert_eq!(shown.as_deref(), Ok(moment), "{text}");
    }
}

/// Where Slurm gives up.
#[test]
fn what_is_no_moment_is_refused_with_its_place() {
    for (text, at) in [
        ("soon", 0),
        ("yesterdayish", 0),
        ("noon!", 4),
        ("tomorrow at noon", 9),
        ("now+", 3),
        ("now +", 4),
        ("now+hour", 3),
        ("now+1fortnight", 4),
        ("now+1hourly", 9),
        ("now+99999999999999999999", 3),
        ("now-99999999999", 3),
        ("now*2", 3),
        ("25:00", 0),
        ("1a:00", 1),
        ("12:60", 3),
        ("12:6", 4),
        ("12:00:61", 6),
        ("12:00:0x", 7),
        ("13:00pm", 5),
        ("13:00 am", 6),
        ("12", 2),
        ("12345", 2),
        ("99/99", 0),
        ("0/5", -1),
        ("01/20/2", 7),
        ("2026", 0),
        ("2026-13-01", 5),
        ("2026-xx-01", 4),
        ("2026-11-32", 8),
        ("2026-11-x1", 8),
        ("2026-1-05", 0),
        ("2026-11-30t10:00", 10),
        ("2026-11-30T25:00", 11),
        ("10000-01-01", 2),
        ("2026-02-30", 10),
        ("1969-01-01", 10),
        ("uts12", 0),
        ("uts1796002864x", 0),
        ("１", 0),
    ] {
        let bad = BadBegin::At {
            text: text.to_owned(),
            at,
        };
        assert_eq!(parse_begin(text, NOW, 0), Err(bad), "{text}");
    }
    for text in ["", " ", "-", "T"] {
        assert_eq!(parse_begin(text, NOW, 0), Err(BadBegin::Nothing), "{text}");
    }
}

proptest! {
    #[test]
    fn spans_read_back(secs in 0u64..=MAX_SECS, hours in 3600u64..=MAX_SECS) {
        prop_assert_eq!(parse_span(&elapsed_long(secs)), Ok(TimeLimit::Secs(secs)));
        prop_assert_eq!(parse_span(&elapsed(hours)), Ok(TimeLimit::Secs(hours)));
        prop_assert_eq!(parse_span(&elapsed(secs)), Ok(TimeLimit::Secs(secs)));
    }

    #[test]
    fn moments_read_back(secs in 0u64..253_402_000_000, offset in -43_200i32..43_200) {
        let at = Millis((secs + 43_200) * 1000);
        prop_assert_eq!(Local::at(at, offset).moment(offset), Some(at));
        prop_assert_eq!(parse_begin(&timestamp(at, offset), NOW, offset), Ok(at));
    }

    #[test]
    fn later_is_later(a in 0u64..253_402_000_000, b in 0u64..253_402_000_000) {
        let shown = (timestamp(Millis(a * 1000), 0), timestamp(Millis(b * 1000), 0));
        prop_assert_eq!(a.cmp(&b), shown.0.cmp(&shown.1));
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC*", near in "(now|today|[0-9apmt:/.+ \\-]){0,12}", now: u64, offset: i32) {
        for text in [text, near] {
            let _span = (parse_span(&text), parse_limit(&text));
            let _moment = (parse_begin(&text, Millis(now), offset), parse_past(&text, Millis(now), offset));
        }
        let _shown = (timestamp(Millis(now), offset), headline(Millis(now), offset), elapsed(now), elapsed_long(now));
    }
}

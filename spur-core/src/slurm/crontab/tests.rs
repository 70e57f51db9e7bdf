use super::*;
use crate::slurm::timespec::calendar;
use proptest::prelude::*;

fn times(text: &str) -> Times {
    let (times, rest) = Times::read(text).unwrap();
    assert_eq!(rest, "", "{text}");
    times
}

/// 2026-11-30 was a Monday; 12:34:56.
const NOW: Millis = Millis(1_796_042_096_000);

fn next(text: &str, utc_offset: i32) -> Option<String> {
    let found = times(text).next(NOW, utc_offset)?;
    Some(calendar::timestamp(found, utc_offset))
}

#[test]
fn times_come_as_crons_do() {
    assert_eq!(calendar::timestamp(NOW, 0), "2026-11-30T12:34:56");
    for (text, at) in [
        ("* * * * *", "2026-11-30T12:35:00"),
        ("*/10 * * * *", "2026-11-30T12:40:00"),
        ("34 * * * *", "2026-11-30T13:34:00"),
        ("5/20 * * * *", "2026-11-30T12:45:00"),
        ("0 12 * * *", "2026-12-01T12:00:00"),
        ("30 6-22/4 * jan-jun mon,fri", "2027-01-01T06:30:00"),
        ("0 0 31 * *", "2026-12-31T00:00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00"),
        ("0 0 * * 7", "2026-12-06T00:00:00"),
        ("0 0 * * SUN", "2026-12-06T00:00:00"),
        // Either day will do if both are said.
        ("0 0 15 * fri", "2026-12-04T00:00:00"),
        ("59 23 30 11 *", "2026-11-30T23:59:00"),
        ("@hourly", "2026-11-30T13:00:00"),
        ("@daily", "2026-12-01T00:00:00"),
        ("@Weekly", "2026-12-06T00:00:00"),
        ("@monthly", "2026-12-01T00:00:00"),
        ("@yearly", "2027-01-01T00:00:00"),
        ("@teatime", "2026-11-30T16:00:00"),
    ] {
        assert_eq!(next(text, 0).as_deref(), Some(at), "{text}");
    }
    assert_eq!(
        next("0 2 * * *", 7_200).as_deref(),
        Some("2026-12-01T02:00:00")
    );
    assert_eq!(
        next("0 2 * * *", -39_600).as_deref(),
        Some("2026-11-30T02:00:00")
    );
}

#[test]
fn what_is_no_time_is_named() {
    let why = |text: &str| Times::read(text).unwrap_err().to_string();
    let field = |text: &str| why(text).split(':').next().unwrap_or_default().to_owned();
    assert_eq!(field("60 * * * * x"), "minute \"60\"");
    assert_eq!(field("* 24 * * * x"), "hour \"24\"");
    assert_eq!(field("* * 0 * * x"), "day of the month \"0\"");
    assert_eq!(field("* * * foo * x"), "month \"foo\"");
    assert_eq!(field("* * * * 8 x"), "day of the week \"8\"");
    for bad in [
        "5-1",
        "*/0",
        "1,",
        "-1",
        "+1",
        "1-2-3",
        "a/b",
        "",
        "1//2",
        "99999999999",
    ] {
        assert!(Times::read(&format!("{bad}, * * * * x")).is_err(), "{bad}");
    }
    assert_eq!(Times::read("* * * *"), Err(BadCrontab::Short));
    assert_eq!(
        Times::read("@reboot x"),
        Err(BadCrontab::Word("@reboot".to_owned()))
    );
    assert_eq!(Times::read("0 0 31 2,4 *"), Err(BadCrontab::Never));
    assert!(Times::read("0 0 30 2 mon").is_ok(), "Mondays there are");
}

#[test]
fn times_are_shown_as_slurm_shows_them() {
    for (text, shown) in [
        ("*/15 0 1-3,7 * sun", "0,15,30,45 0 1-3,7 * 0"),
        ("@hourly", "0 * * * *"),
        ("0-59 * * 12 1-5", "0-59 * * 12 1-5"),
    ] {
        assert_eq!(times(text).to_string(), shown);
    }
}

#[test]
fn a_table_is_read_line_by_line() {
    let table = "# nothing\n\nDIR = \"/data/a b\"\n#SCRON -J report\n#SCRON --time=10 -p gpu\n# why\n\
        30 6 * * *\t$DIR/report  --all \nDIR=/new\n@hourly true $DIR\n";
    let entries = parse(table).unwrap();
    let (first, second) = (&entries[0], &entries[1]);
    assert_eq!(entries.len(), 2);
    assert_eq!((first.first, first.last), (3, 6));
    assert_eq!(
        first.options,
        [
            (3, "-J report".to_owned()),
            (4, "--time=10 -p gpu".to_owned())
        ]
    );
    assert_eq!(
        (first.written.as_str(), first.command.as_str()),
        ("30 6 * * *", "/data/a b/report  --all")
    );
    assert_eq!((second.first, second.last), (8, 8));
    assert_eq!(
        (second.written.as_str(), second.command.as_str()),
        ("@hourly", "true /new")
    );
    assert!(second.options.is_empty());
    assert_eq!(parse("x\n* * * * *\n").unwrap_err().0, 0);
    assert_eq!(parse("@hourly\n").unwrap_err(), (0, BadCrontab::Short));
    assert_eq!(parse("").unwrap(), []);
}

#[test]
fn lines_are_made_comments() {
    assert_eq!(
        disabled("a\nb\nc", 1, 2, "#DISABLED: "),
        "a\n#DISABLED: b\n#DISABLED: c\n"
    );
    let twice = disabled(&disabled("a\n", 0, 0, "#D: "), 0, 0, "#D: ");
    assert_eq!(twice, "#D: a\n");
}

/// Berlin in 2026: clocks go forward at 01:00 UTC on March 29, and back at 01:00 UTC on October 25.
fn berlin(at: Millis) -> i32 {
    let summer = 1_774_746_000_000..1_792_890_000_000;
    if summer.contains(&at.0) { 7200 } else { 3600 }
}

#[test]
fn clocks_that_are_put_forward_and_back_shift_no_entry() {
    const SPRING: u64 = 1_774_746_000;
    const AUTUMN: u64 = 1_792_890_000;
    // Entry, minutes after a change, and how many minutes after the same change it comes.
    let cases = [
        ("0 4 * * *", SPRING, -30, 60),
        ("30 2 * * *", SPRING, -30, 30),
        ("30 2 * * *", SPRING, 40, 23 * 60 + 30),
        ("*/5 * * * *", SPRING, -3, 0),
        ("0 4 * * *", AUTUMN, -30, 120),
        ("30 2 * * *", AUTUMN, -60, -30),
        ("30 2 * * *", AUTUMN, -25, 24 * 60 + 30),
        ("*/5 * * * *", AUTUMN, -3, 0),
        ("30 * * * *", AUTUMN, -25, 30),
        ("0 12 1 6 *", SPRING, -30, 64 * 24 * 60 + 9 * 60),
    ];
    for (entry, change, after, next) in cases {
        let at = |minutes: i64| Millis(change.saturating_add_signed(minutes * 60) * 1000);
        let found = times(entry).next_by(at(after), berlin);
        assert_eq!(found, Some(at(next)), "{entry} {after}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_table_or_not(text in "([0-9*/,@a-z\\- =#$\"\n]|\\PC)*") {
        drop(parse(&text));
    }

    /// The next time is the first minute that matches, by the plainest way to look for it.
    #[test]
    fn the_next_time_is_the_first_that_matches(
        minutes in 0u64..60, hours in 0u64..24, day in 1u32..29, at in 0u64..4_000_000_000, offset in -43_200i32..43_200,
    ) {
        let text = format!("{minutes} {hours},{} {day} * *", (hours + 7) % 24);
        let found = times(&text).next(Millis(at * 1000), offset).unwrap();
        prop_assert!(found.0 > at * 1000);
        let local = Local::at(found, offset);
        prop_assert_eq!((local.minute, local.day, local.second), (minutes, u64::from(day), 0));
        prop_assert!(local.hour == hours || local.hour == (hours + 7) % 24);
        // Nothing that matches lies between.
        let mut between = at / 60 * 60 + 60;
        while between * 1000 < found.0 {
            let local = Local::at(Millis(between * 1000), offset);
            let hit = local.minute == minutes && local.day == u64::from(day) && (local.hour == hours || local.hour == (hours + 7) % 24);
            prop_assert!(!hit || local.second != 0);
            between += 60;
        }
    }

    #[test]
    fn what_is_shown_reads_the_same(text in "[0-9*,/-]{1,6} [0-9*,/-]{1,6} [0-9*,/-]{1,6} [0-9*,/-]{1,6} [0-9*,/-]{1,6}") {
        if let Ok((times, _)) = Times::read(&text) {
            prop_assert_eq!(Times::read(&times.to_string()).map(|(times, _)| times), Ok(times));
        }
    }
}

#[test]
fn variables_that_double_a_command_without_end_are_refused() {
    let few = "A=$B $B\nB=x\n@daily $A\n";
    assert_eq!(parse(few).unwrap()[0].command, "x x");
    let many: String = (0..40)
        .map(|n| format!("V{n}_=$V{0}_$V{0}_\n", n + 1))
        .chain(["@daily $V0_\n".to_owned()])
        .collect();
    assert_eq!(parse(&many), Err((40, BadCrontab::Long)));
}

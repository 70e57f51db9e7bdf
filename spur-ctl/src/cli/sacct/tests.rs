//! What options ask for.

use super::*;
use crate::cli::flags::getopt::{self, Source};
use spur_core::id::JobId;
use spur_core::job::state::JobState;
use std::ffi::OsString;

fn read(line: &str) -> Result<Query, Failure> {
    let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let options = getopt::parse(Command::Sacct, &args, Source::CommandLine)?;
    // 2026-11-30T01:41:00.
    query(&options, &Clock::utc(Millis(1_796_002_860_000)))
}

#[test]
fn jobs_may_be_named_again_and_again_and_lift_the_window() {
    let query = read("-j 4 -j 5.batch,5.0 -D").unwrap();
    assert_eq!(query.filter.ids, [JobId(4), JobId(5)]);
    assert_eq!((query.filter.since, query.filter.duplicates), (None, true));
    let tasks = read("-j 3_[1,4],7_2.0").unwrap();
    assert_eq!(tasks.filter.ids, [JobId(3), JobId(7)]);
    assert_eq!(tasks.named.len(), 2);
    assert!(read("-j x").is_err());
}

#[test]
fn logs_of_completed_jobs_are_none_and_a_moment_says_where_it_is_wrong() {
    let said = |line: &str| {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let options = getopt::parse(Command::Sacct, &args, Source::CommandLine).unwrap();
        completion_log(&options).unwrap_err().text
    };
    assert_eq!(said("-c"), "Slurm job completion is disabled\n");
    assert_eq!(said("-f /nowhere"), "/nowhere is not a valid file\n");
    assert_eq!(said("-f /etc/passwd"), "Slurm job completion is disabled\n");
    assert_eq!(
        read("-X one -n two").unwrap_err().text,
        "sacct: error: Unknown arguments:\nsacct: error:  one\nsacct: error:  two\n"
    );
    let failure = read("-S now+1fortnight").unwrap_err();
    assert_eq!(
        (failure.text.as_str(), failure.code),
        ("Invalid time specification (pos=4): now+1fortnight\n", 1)
    );
    assert_eq!(
        read("-S 1225").unwrap().filter.since,
        Some(Millis(1_766_620_800_000))
    );
}

#[test]
fn the_window_is_the_present_day_unless_said_otherwise() {
    let midnight = Millis(1_795_996_800_000);
    assert_eq!(read("").unwrap().filter.since, Some(midnight));
    let query = read("-S 2026-11-01 -E now -s CD,F,RQ --name a,b -r gpu").unwrap();
    assert_eq!(query.filter.since, Some(Millis(1_793_491_200_000)));
    assert_eq!(query.filter.until, Some(Millis(1_796_002_860_000)));
    assert_eq!(query.filter.states, [JobState::Completed, JobState::Failed]);
    assert!(
        read("-s RQ").unwrap().nothing,
        "no job of ours is in that state"
    );
    let earlier = read("-S 00:30 -E 01:00").unwrap().filter;
    assert_eq!(
        earlier.since,
        Some(Millis(midnight.0 + 1_800_000)),
        "of today, though it is past"
    );
    // With states, a window is a moment unless both of its ends are said.
    let now = read("-s R").unwrap().filter;
    assert_eq!(
        (now.since, now.until),
        (Some(Millis(1_796_002_860_000)), now.since)
    );
    let once = read("-s CD -S 2026-11-01").unwrap().filter;
    assert_eq!(once.until, once.since);
    for (wrong, start, end) in [
        ("-S now -E now-1hour", "01:41:00", "00:41:00"),
        ("-S now+1hour", "02:41:00", "01:41:00"),
    ] {
        let said = read(wrong).unwrap_err().text;
        assert!(
            said.contains(&format!("T{start}) requested is after end time (")),
            "{said}"
        );
        assert!(said.contains(&format!("T{end}).")), "{said}");
    }
    assert!(read("-S whenever").is_err());
    assert!(read("-s WHAT").is_err());
}

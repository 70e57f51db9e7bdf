use super::*;
use crate::cli::flags::getopt::{Source, parse};
use spur_core::job::state::JobState;
use std::ffi::OsString;

fn query(words: &[&str]) -> Result<Query, Failure> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let options = parse(Command::Squeue, &words, Source::CommandLine)?;
    read(&options, Uid(7), |name| (name == "alice").then_some(Uid(1)))
}

#[test]
fn jobs_and_tasks_are_named_in_several_ways() {
    let of = |job, task| Named {
        job: JobId(job),
        task,
        component: None,
    };
    let named = |words: &[&str]| query(words).unwrap().jobs;
    assert_eq!(named(&["-j", "12"]), [of(12, None)]);
    assert_eq!(named(&["-j12,9_3"]), [of(12, None), of(9, Some(3))]);
    assert_eq!(named(&["--jobs=7,7"]), [of(7, None), of(7, None)]);
    assert!(!query(&["--jobs=7,7"]).unwrap().is_of_one_job());
    let failure = query(&["-j", "abc"]).unwrap_err();
    assert_eq!(failure.text, "squeue: error: Invalid job id: abc\n");
    assert_eq!(failure.code, 1);
}

#[test]
fn hidden_partitions_are_shown_to_who_names_them_or_a_job() {
    let visible = |words: &[&str]| query(words).unwrap().filter.visible;
    assert!(visible(&[]) && visible(&["-u", "alice"]) && visible(&["--hide"]));
    for words in [&["-a"][..], &["-p", "dark"], &["-j", "7"], &["-s", "7.0"]] {
        assert!(!visible(words), "{words:?}");
    }
}

#[test]
fn steps_are_named_by_job_and_number() {
    let steps = query(&["-s", "12.0"]).unwrap().steps;
    assert_eq!(steps[0].1, StepKind::Numbered(0));
    assert!(
        query(&["-s", "12"])
            .unwrap_err()
            .text
            .contains("Invalid job_step id: 12")
    );
}

#[test]
fn users_that_do_not_exist_have_no_jobs_and_are_named() {
    let query = query(&["-u", "alice,bob"]).unwrap();
    assert_eq!(query.filter.users, [Uid(1), NOBODY]);
    assert_eq!(query.notices, ["squeue: error: Invalid user: bob\n"]);
}

#[test]
fn states_are_read_or_the_right_ones_listed() {
    let pending = query(&["-t", "pd"]).unwrap();
    assert_eq!(pending.filter.states, [JobState::Pending]);
    assert!(query(&["-t", "PREEMPTED"]).unwrap().nothing);
    let text = query(&["-t", "NOPE"]).unwrap_err().text;
    assert!(text.starts_with("squeue: error: Invalid job state specified: NOPE\nsqueue: error: Valid job states include: pending,"));
}

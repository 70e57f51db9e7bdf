use super::*;
use spur_core::api::{Release, StartEstimate, Stopped};
use spur_core::job::state::{ExitStatus, JobState, Reason};

const NOW: Millis = Millis(1_796_040_000_000);

fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn sample() -> Explanation {
    Explanation {
        job: JobId(21),
        reason: Reason::Resources,
        words: "Resources".to_owned(),
        partition: "gpu".to_owned(),
        need: "4 h200 on one node".to_owned(),
        cause: String::new(),
        eligible: NOW,
        ahead: 0,
        nodes: 4,
        stopped: vec![
            Stopped {
                by: Stop::Drained,
                detail: "bad fan".to_owned(),
                nodes: 1,
                names: vec![name("n4")],
                until: None,
            },
            Stopped {
                by: Stop::Busy,
                detail: "2 of 8 h200 free".to_owned(),
                nodes: 2,
                names: vec![name("n1"), name("n2")],
                until: None,
            },
            Stopped {
                by: Stop::Busy,
                detail: "0 of 8 h200 free".to_owned(),
                nodes: 1,
                names: vec![name("n3")],
                until: None,
            },
        ],
        releases: vec![Release {
            node: name("n3"),
            job: JobId(17),
            user: "bob".to_owned(),
            gives: "4 h200".to_owned(),
            until: Some(NOW.plus_secs(300)),
            cleaning: false,
        }],
        by_limits: Some(NOW.plus_secs(300)),
        expected: Some(StartEstimate {
            start: Some(NOW.plus_secs(300)),
            basis: StartBasis::Reserved,
            nodes: vec![name("n3")],
        }),
        advice: vec!["2 h200 are free on n1 now, if it can do with that".to_owned()],
        network: None,
        network_until: None,
        blocked: None,
    }
}

#[test]
fn people_read_what_is_missing_where_and_until_when() {
    let text = text(&Clock::utc(NOW), &sample());
    let wanted = "\
Job 21 waits: Resources
  needs 4 h200 on one node; n1 and n2: 2 of 8 h200 free; n3: 0 of 8 h200 free; n4 is drained (bad fan); \
job 17 of bob gives 4 h200 back on n3 by 12:05 at the latest; what it needs is reserved from 12:05 on n3

Nodes of partition gpu by what keeps it off them
      1  drained (bad fan): n4
      2  busy (2 of 8 h200 free): n[1-2]
      1  busy (0 of 8 h200 free): n3

Expected start: 2026-11-30T12:05:00 (reserved) on n3
If nobody were before it: 12:05 at the latest, by the limits of what runs
What can be done: 2 h200 are free on n1 now, if it can do with that
";
    assert_eq!(text, wanted);
}

#[test]
fn programs_read_one_object() {
    let object: serde_json::Value =
        serde_json::from_str(&json::text(&Clock::utc(NOW), &sample())).unwrap();
    assert_eq!(object["reason"], "Resources");
    assert_eq!(object["stopped"][1]["by"], "busy");
    assert_eq!(object["stopped"][1]["names"][1], "n2");
    assert_eq!(object["releases"][0]["until_ms"], NOW.0 + 300_000);
    assert_eq!(object["expected"]["basis"], "reserved");
    assert!(
        object["sentence"]
            .as_str()
            .unwrap()
            .contains("by 12:05 at the latest")
    );
}

#[test]
fn moments_of_another_day_have_their_date() {
    let clock = Clock::utc(NOW);
    assert_eq!(moment(&clock, NOW), "12:00");
    assert_eq!(moment(&clock, NOW.plus_secs(86_400)), "2026-12-01 12:00");
}

#[test]
fn a_job_that_waits_no_more_is_told_of_in_a_sentence() {
    let mut row = crate::cli::render::tests::samples::wrapped();
    row.id = JobId(18);
    row.state = JobState::Running;
    assert_eq!(past(&row), "Job 18 waits no more: it is RUNNING.\n");
    row.state = JobState::Failed;
    row.reason = Reason::JobLaunchFailure;
    row.reason_text = "n1: Could not open stdout file /root/x: Permission denied".to_owned();
    row.exit = ExitStatus {
        code: 0,
        signal: 53,
    };
    assert_eq!(
        past(&row),
        "Job 18 has ended as FAILED (JobLaunchFailure): n1: Could not open stdout file /root/x: Permission denied. \
         Exit code 0:53.\n"
    );
    row.state = JobState::Completed;
    (row.reason, row.exit) = (Reason::None, ExitStatus::default());
    row.reason_text.clear();
    assert_eq!(past(&row), "Job 18 has ended as COMPLETED.\n");
    (row.state, row.started) = (JobState::Cancelled, None);
    (row.reason, row.reason_text) = (Reason::JobHeldUser, "cancelled by user 7".to_owned());
    assert_eq!(
        past(&row),
        "Job 18 has ended as CANCELLED (it had waited: JobHeldUser): cancelled by user 7.\n"
    );
}

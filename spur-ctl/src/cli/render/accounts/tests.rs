//! Next to the recordings, where they are at hand.

use super::sheet::{Sheet, Style, help};
use super::{Context, Row, fields, rows};
use crate::cli::render::tests::golden::recorded;
use crate::cli::render::tests::samples::{at, big, job, spec, train, view, wrapped};
use spur_core::api::{AccountedJob, JobView, StepView};
use spur_core::id::{StepKind, Uid};
use spur_core::job::state::{ExitStatus, JobState};
use spur_core::job::step::{StepShare, StepState};
use std::sync::Arc;

fn context() -> Context {
    Context {
        view: view(at(60)),
        cluster: "base".into(),
        units: None,
        expand: false,
        accounts: Default::default(),
    }
}

/// As the recorded jobs ended: cancelled after eight seconds.
fn cancelled(mut job: JobView) -> JobView {
    if job.started.is_some() {
        let first = &job.nodes[0];
        let share = StepShare {
            share: spur_core::resources::NodeShare {
                tasks: 1,
                ..first.share.clone()
            },
            task_ids: vec![0],
        };
        job.steps = vec![StepView {
            kind: StepKind::Batch,
            name: "batch".into(),
            state: StepState::Ended,
            started: at(1),
            ended: Some(at(9)),
            shares: vec![share],
            exit: ExitStatus {
                code: 0,
                signal: 15,
            },
            suspended_ms: 0,
        }];
    }
    job.exit = ExitStatus {
        code: 0,
        signal: 15,
    };
    job.state = JobState::Cancelled;
    job.cancelled_by = Some(Uid(1001));
    job.ended = Some(at(9));
    job
}

fn sleeper() -> JobView {
    let ids = crate::cli::render::tests::samples::ids;
    let held = [("n0001", ids(&[(0, 0)]), 1024, ids(&[]))];
    crate::cli::render::tests::samples::running(job(2, spec("sleeper")), &held)
}

fn lines(jobs: Vec<JobView>, list: &str, style: &Style, steps: bool) -> String {
    let sheet = Sheet::parse(list, fields::FIELDS, style.clone()).unwrap();
    let mut text = sheet.header();
    let rows = jobs.into_iter().flat_map(|job| {
        let run = AccountedJob {
            job: Arc::new(job),
            requeued: None,
            nodes: Vec::new(),
            steps: Vec::new(),
            live: false,
        };
        rows(run, Vec::new(), steps)
    });
    for row in rows {
        text.push_str(&sheet.row(&context(), &row));
    }
    text
}

fn jobs() -> Vec<JobView> {
    [sleeper(), wrapped(), train(), big()]
        .map(cancelled)
        .to_vec()
}

/// Every one of our lines must be among the recorded ones.
#[track_caller]
fn within(name: &str, ours: &str) {
    let Some(theirs) = recorded(name) else { return };
    for line in ours.lines() {
        assert!(
            theirs.lines().any(|other| other == line),
            "{name} has no line {line:?}"
        );
    }
}

#[test]
fn the_usual_columns() {
    within(
        "sacct.txt",
        &lines(jobs(), fields::DEFAULT, &Style::Columns, true),
    );
    let list = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode,AllocTRES,Elapsed";
    let parted = Style::Parted("|".into(), false);
    within("sacct-X-parsable.txt", &lines(jobs(), list, &parted, false));
}

#[test]
fn the_long_list_has_slurm_s_widths() {
    let header = |name: &str, list| {
        if let Some(theirs) = recorded(name) {
            let ours = Sheet::parse(list, fields::FIELDS, Style::Columns)
                .unwrap()
                .header();
            let theirs: String = theirs
                .lines()
                .take(2)
                .map(|line| format!("{line}\n"))
                .collect();
            // A column may have got wider since the recording.
            assert_eq!(ours, theirs, "{name}");
        }
    };
    header("sacct-l1.txt", fields::LONG);
    header("sstat-none.txt", fields::STEPS);
}

#[test]
fn a_job_that_ran_in_every_column_that_we_have() {
    let Some(theirs) = recorded("sacct-o-all.txt") else {
        return;
    };
    let mut theirs = theirs.lines();
    let names: Vec<&str> = theirs.next().unwrap().split('|').collect();
    let line = theirs.find(|line| line.contains("|4|4|train|")).unwrap();
    let values: Vec<&str> = line.split('|').collect();
    // What is another's by its nature, or what we do not record.
    let not_ours = [
        "AssocID",
        "DBIndex",
        "Flags",
        "QOSRAW",
        "SLUID",
        "SubmitLine",
        "WCKeyID",
        "StdErr",
        "StdOut",
        "Eligible",
        "DerivedExitCode",
        "Comment",
        "SystemCPU",
        "TotalCPU",
        "UserCPU",
    ];
    for (name, value) in names.iter().zip(values) {
        if not_ours.contains(name) {
            continue;
        }
        let ours = lines(
            vec![cancelled(train())],
            name,
            &Style::Parted("|".into(), false),
            false,
        );
        assert_eq!(ours.lines().nth(1), Some(value), "{name}");
    }
}

#[test]
fn the_list_of_columns_has_all_of_slurm_s() {
    let ours = help(fields::FIELDS.iter());
    let ours: Vec<&str> = ours.split_whitespace().collect();
    let theirs = recorded("sacct-helpformat.txt").unwrap_or_default();
    for name in theirs.split_whitespace() {
        assert!(ours.contains(&name), "{name}");
    }
}

#[test]
fn formats() {
    let read = |list: &str| Sheet::parse(list, fields::FIELDS, Style::Columns);
    let header = |list: &str| {
        read(list)
            .unwrap()
            .header()
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(header("jobid%4,STATE%-7,user%3"), "Job+ State   Us+ ");
    assert_eq!(header("jobname%3"), "Jo+ ");
    assert_eq!(
        read("nonsense").err().unwrap(),
        "Invalid field requested: \"nonsense\""
    );
    assert!(read("").is_err());
    assert!(read("JobID%x").is_err());
    assert!(read("JobID%99999").is_err());
    assert!(read("é").is_err());
}

#[test]
fn memory_is_in_the_unit_that_is_asked_for() {
    let shown = |units| {
        let context = Context { units, ..context() };
        let style = Style::Parted("|".to_owned(), false);
        let sheet = Sheet::parse("AllocTRES", fields::FIELDS, style).unwrap();
        let run = AccountedJob {
            job: Arc::new(cancelled(sleeper())),
            requeued: None,
            nodes: Vec::new(),
            steps: Vec::new(),
            live: false,
        };
        let rows = rows(run, Vec::new(), false);
        sheet.row(&context, &rows[0])
    };
    for (units, memory) in [
        (None, "1G"),
        (Some('K'), "1048576K"),
        (Some('M'), "1024M"),
        (Some('T'), "0.00T"),
    ] {
        let tres = shown(units);
        assert!(tres.contains(&format!(",mem={memory},")), "{tres}");
    }
}

#[test]
fn time_for_which_a_job_stood_still_is_not_elapsed() {
    let list = "JobID,State,Elapsed,ElapsedRaw,Suspended,CPUTimeRAW";
    let style = Style::Parted("|".into(), false);
    let mut job = cancelled(sleeper());
    job.suspended_ms = 3_000;
    job.steps[0].suspended_ms = 2_000;
    let ours = lines(vec![job], list, &style, true);
    let ours: Vec<&str> = ours.lines().skip(1).collect();
    assert_eq!(
        ours,
        [
            "2|CANCELLED by 1001|00:00:05|5|00:00:03|5",
            "2.batch|CANCELLED|00:00:06|6|00:00:02|6"
        ]
    );
    let mut job = sleeper();
    job.state = JobState::Suspended;
    job.suspended = Some(at(41));
    let ours = lines(vec![job], list, &style, false);
    assert!(
        ours.ends_with("\n2|SUSPENDED|00:00:40|40|00:00:19|40\n"),
        "{ours}"
    );
}

#[test]
fn a_requeued_run_says_so() {
    let run = AccountedJob {
        job: Arc::new(sleeper()),
        requeued: Some(at(6)),
        nodes: Vec::new(),
        steps: Vec::new(),
        live: false,
    };
    let rows: Vec<Row> = rows(run, Vec::new(), false);
    let sheet = Sheet::parse(
        "State,Elapsed",
        fields::FIELDS,
        Style::Parted("|".into(), false),
    )
    .unwrap();
    assert_eq!(sheet.row(&context(), &rows[0]), "REQUEUED|00:00:05\n");
}

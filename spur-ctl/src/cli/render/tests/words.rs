//! What has no recording.

use super::samples::{at, big, drained, held, mixed, node, train, view, wrapped};
use crate::cli::render::format::Layout;
use crate::cli::render::job_row::JobRow;
use crate::cli::render::show_job::{self, Details};
use crate::cli::render::{job_columns, job_text, node_groups, show_node};
use spur_core::api::{JobView, LinesMaker};
use spur_core::denial::{Denial, DenialCount, DenialReason, DeviceOp};
use spur_core::id::{JobId, NodeName, Uid};
use spur_core::job::array::{ArrayView, TaskSet};
use spur_core::job::state::{JobState, Reason};
use spur_core::node::FenceState;
use std::sync::Arc;

fn denial() -> Denial {
    Denial {
        at: at(5),
        node: NodeName::new("n0001").unwrap(),
        job: JobId(3),
        pid: 4711,
        uid: Uid(0),
        command: "sh".to_owned(),
        major: 120,
        minor: 7,
        device: "/dev/gpu7".to_owned(),
        op: DeviceOp::Read,
        seq: 0,
        reason: DenialReason::NotGranted,
        target_pid: None,
        object: String::new(),
        noted: false,
        label: None,
    }
}

#[test]
fn details_show_what_the_fence_refused() {
    let mut job = wrapped();
    job.denials = DenialCount {
        total: 12,
        suppressed: 11,
    };
    job.reason_text = "a sentence".to_owned();
    let details = Details {
        denials: &[denial()],
    };
    let text = show_job::record(&view(at(6)), &job, Some(&details), false);
    let end = "   ReasonText=a sentence\n   FenceDenials=12 FenceSuppressed=11\n     \
               Denied=2026-11-30T01:41:05 JobId=3 Node=n0001 Pid=4711 UserId=root(0) Command=sh \
               Device=/dev/gpu7(120:7) Op=open-read Reason=not-granted\n   \n\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn an_unfenced_node_says_why_and_more_details_say_what_is_ours() {
    let mut shown = node(1);
    shown.node.inventory.simulated = true;
    shown.node.fence = FenceState::Unfenced;
    shown.node.fence_note = "canary was not refused".to_owned();
    let record = |details| show_node::record(&view(at(6)), &shown, details, false);
    let text = record(show_node::Details::None);
    assert!(text.contains("State=IDLE+DRAIN "), "{text}");
    let why = "   Reason=canary was not refused\n   Fence=unfenced\n   FenceNote=canary was not refused\n\n";
    assert!(text.ends_with(why), "{text}");
    assert!(record(show_node::Details::All).contains("Simulated=Yes\n\n"));
}

#[test]
fn ended_jobs_show_nodes_or_the_reason() {
    let mut job = train();
    job.state = JobState::Failed;
    job.reason = Reason::NonZeroExitCode;
    let shown = |job: &JobView| {
        let row = JobRow::new(Arc::new(job.clone()));
        Layout::letters("%t %R", &job_columns::TABLE).row(&view(at(7)), &row)
    };
    assert_eq!(shown(&job), "F (NonZeroExitCode)");
    job.completing = true;
    assert_eq!(shown(&job), "CG n[0001-0002]");
    job.completing = false;
    job.state = JobState::Completed;
    assert_eq!(shown(&job), "CD n[0001-0002]");
    assert_eq!(job_text::time_left(&view(at(11)), &train()), "2:29:50");
}

#[test]
fn nodes_and_cpus_are_counted_by_what_they_do() {
    let nodes = [mixed(), node(2), drained()].map(Arc::new);
    assert_eq!(node_groups::node_counts(&nodes), [1, 1, 1, 3]);
    assert_eq!(node_groups::cpu_counts(&nodes), [13, 115, 64, 192]);
}

#[test]
fn short_lines_show_the_same_as_whole_jobs() {
    let mut array = held();
    array.array = Some(ArrayView {
        job: JobId(9),
        task: None,
        tasks: (2..20).collect(),
        throttle: 2,
    });
    let mut task = train();
    task.array = Some(ArrayView {
        job: JobId(9),
        task: Some(1),
        tasks: TaskSet::new(),
        throttle: 2,
    });
    let jobs = [big(), held(), wrapped(), train(), array, task].map(Arc::new);
    let mut maker = LinesMaker::new();
    jobs.iter().for_each(|job| maker.push(job, None));
    let lines = maker.done();
    let format = "%i|%A|%F|%K|%P|%j|%u|%U|%a|%q|%t|%T|%M|%l|%L|%D|%R|%r|%N|%Q|%p|%V";
    let layout = Layout::letters(format, &job_columns::TABLE);
    let shown = |job: Arc<JobView>| layout.row(&view(at(7)), &JobRow::new(job));
    for (at, job) in jobs.into_iter().enumerate() {
        assert_eq!(shown(Arc::new(lines.job(at).unwrap())), shown(job));
    }
}

//! Who may open what, what is refused, and what becomes of a fence that does not hold.

use super::node::{Node, possible, wait};
use super::orders::{batch, job, run};
use spur_core::agent::order::{FromAgent, Report, ToAgent};
use spur_core::denial::{DenialCount, DeviceOp};
use spur_core::id::JobId;
use spur_core::node::FenceState;

fn count(node: &Node, job: u32) -> Option<DenialCount> {
    let all = node.controller.heard(|message| match message {
        FromAgent::Denials { counts, .. } => counts
            .iter()
            .find(|(of, _)| *of == JobId(job))
            .map(|(_, count)| *count),
        _ => None,
    });
    all.last().copied()
}

#[test]
fn a_job_opens_its_own_gpus_and_the_rest_is_reported() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let hello = node.controller.hello(1);
    assert_eq!(
        (hello.fence, hello.inventory.gpus.len()),
        (FenceState::Fenced, 8),
        "{}",
        hello.fence_note
    );
    assert!(hello.inventory.simulated);
    run(
        &node,
        1,
        5,
        &[2, 5],
        &format!("{}exit 3", node.try_all("opened")),
    );
    run(&node, 2, 6, &[0], &node.try_all("other"));
    assert_eq!(node.text("opened"), "2 5\n");
    assert_eq!(node.text("other"), "0\n");
    let report = node.controller.report("the end of the step", |report| {
        matches!(report, Report::StepEnded { job: JobId(1), .. })
    });
    let Report::StepEnded {
        exit, generation, ..
    } = report
    else {
        panic!()
    };
    assert_eq!((exit.code, exit.signal, generation.0), (3, 0, 5));
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    assert!(node.traces(1).is_empty(), "{:?}", node.traces(1));
    let denial = node.controller.hear("a refusal", |message| match message {
        FromAgent::Denials { events, .. } => {
            events.iter().find(|event| event.job == JobId(1)).cloned()
        }
        _ => None,
    });
    assert!(denial.device.contains("/dev/gpu"), "{denial:?}");
    assert_eq!(
        (denial.uid.0, denial.command.as_str(), denial.op),
        (65534, "slurm_script", DeviceOp::Read)
    );
    wait("all refusals are counted", || {
        (count(&node, 1)?.total == 6).then_some(())
    });
    let rows = node.controller.hear("all kinds", |message| match message {
        FromAgent::Denials { rows, .. } => {
            let of_job = rows.iter().find(|rows| rows.job == JobId(1))?;
            (of_job.rows.len() == 6).then(|| of_job.clone())
        }
        _ => None,
    });
    assert_eq!(rows.generation.0, 5);
    for row in &rows.rows {
        let key = &row.key;
        assert_eq!((row.total, key.op, key.label), (1, DeviceOp::Read, None));
        assert!(key.device.contains("/dev/gpu"), "{row:?}");
    }
    node.controller.revoke(2, 6);
    node.controller.cleaned(2);
    node.finish();
}

#[test]
fn a_fence_that_does_not_refuse_starts_no_job() {
    if !possible() {
        return;
    }
    let object = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(object.path(), spur_ebpf::test_objects::ALLOW_ALL).unwrap();
    let node = Node::start(&format!("fence_object = {:?}", object.path()));
    let hello = node.controller.hello(1);
    assert_eq!(hello.fence, FenceState::Unfenced);
    assert!(
        hello.fence_note.starts_with("the fence "),
        "{}",
        hello.fence_note
    );
    run(&node, 1, 5, &[0], "echo ran > ran");
    let report = node.controller.report("the failure", |report| {
        matches!(report, Report::LaunchFailed { .. })
    });
    let Report::LaunchFailed {
        why, node_fault, ..
    } = report
    else {
        panic!()
    };
    assert!(node_fault && why.contains("fence"), "{why}");
    assert!(node.traces(1).is_empty() && !node.out("ran").exists());
    let doctor = node.spurd("doctor");
    assert!(!doctor.status.success());
    node.finish();
}

#[test]
fn a_flood_is_counted_whole_and_costs_little() {
    const OPENS: u64 = 200_000;
    if !possible() {
        return;
    }
    let node = Node::start("");
    let resident = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", node.agent_pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let before = resident();
    // `test -r` asks access(2), which the fence answers too: no process for each try.
    let device = node.device(3);
    let script = format!(
        "n=0; while [ $n -lt {OPENS} ]; do [ -r {device} ] && exit 1; n=$((n+1)); done; exit 0"
    );
    run(&node, 1, 5, &[0], &script);
    let report = node.controller.report("the end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    assert!(
        matches!(report, Report::StepEnded { exit, .. } if exit.code == 0),
        "{report:?}"
    );
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    let total = wait("the last count", || {
        count(&node, 1).filter(|count| count.total >= OPENS)
    });
    assert_eq!(
        total.total, OPENS,
        "the canary is not counted, everything else is"
    );
    assert!(total.suppressed > OPENS / 2, "{total:?}");
    let messages = node
        .controller
        .heard(|message| matches!(message, FromAgent::Denials { .. }).then_some(()))
        .len();
    assert!(messages < 500, "{messages} messages");
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 * 1024, "grew by {grown} KiB");
    node.finish();
}

#[test]
fn an_older_placement_is_refused() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    run(&node, 1, 5, &[0], &node.try_all("new"));
    assert_eq!(node.text("new"), "0\n");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    let stale = job(&node, 1, 4, &[1]);
    node.controller.send(&ToAgent::Assign(stale.clone()));
    node.controller.send(&ToAgent::Launch(batch(
        &node,
        &stale,
        &node.try_all("stale"),
    )));
    run(&node, 2, 6, &[1], &node.try_all("next"));
    assert_eq!(node.text("next"), "1\n");
    assert!(!node.out("stale").exists() && node.traces(1).is_empty());
    node.finish();
}

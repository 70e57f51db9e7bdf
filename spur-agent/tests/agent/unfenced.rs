//! Jobs that were started without a fence, and fenced ones where none is required.

use super::node::{Node, possible, wait};
use super::orders::{batch, run};
use spur_core::agent::order::{FromAgent, Report};
use spur_core::node::FenceState;

/// Says that it runs, and after each `goN` what it can open.
fn script(node: &Node) -> String {
    let look = |n: u32| {
        let opened = node.try_all(&format!("opened{n}"));
        format!("while [ ! -e go{n} ]; do sleep 0.02; done; {opened}")
    };
    let last = "while [ ! -e end ]; do sleep 0.02; done; exit 7";
    format!("echo started > started; {}{}{last}", look(1), look(2))
}

fn opened(node: &Node, n: u32) -> String {
    std::fs::write(node.out(&format!("go{n}")), "").unwrap();
    node.text(&format!("opened{n}"))
}

fn end(node: Node) {
    std::fs::write(node.out("end"), "").unwrap();
    let report = node.controller.report("the end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    assert!(
        matches!(report, Report::StepEnded { exit, .. } if (exit.code, exit.signal) == (7, 0)),
        "{report:?}"
    );
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

#[test]
fn a_job_that_never_had_a_fence_gets_one_and_goes_on() {
    if !possible() {
        return;
    }
    let object = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(object.path(), spur_ebpf::test_objects::ALLOW_ALL).unwrap();
    let object = format!("fence_object = {:?}", object.path());
    let mut node = Node::start(&format!("require = \"none\"\n{object}"));
    let order = run(&node, 1, 5, &[2], &script(&node));
    node.text("started");
    assert_eq!(opened(&node, 1), "0 1 2 3 4 5 6 7\n");
    node.kill_agent();
    node.configure("");
    node.start_agent();
    assert_ne!(node.controller.hello(2).fence, FenceState::Unfenced);
    let step = batch(&node, &order, "false");
    node.controller.welcome_to(5, [order], [step]);
    assert_eq!(opened(&node, 2), "2\n", "fenced from now on");
    end(node);
}

#[test]
fn a_fence_that_comes_up_late_is_put_around_jobs_that_run() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let late = dir.path().join("late");
    std::fs::write(&late, "in the way").unwrap();
    let node = Node::start_at("require = \"none\"", Some(&late.join("bpf")));
    run(&node, 1, 5, &[2], &script(&node));
    node.text("started");
    assert_eq!(opened(&node, 1), "0 1 2 3 4 5 6 7\n");
    std::fs::remove_file(&late).unwrap();
    wait("the job has a fence", || {
        node.log().contains("and goes on").then_some(())
    });
    assert_eq!(opened(&node, 2), "2\n");
    end(node);
}

#[test]
fn a_fenced_job_whose_fence_was_taken_away_is_killed_whatever_is_required() {
    if !possible() {
        return;
    }
    let mut node = Node::start("require = \"none\"");
    let order = run(&node, 1, 5, &[2], &script(&node));
    node.text("started");
    assert_eq!(opened(&node, 1), "2\n");
    node.kill_agent();
    std::fs::remove_dir_all(node.pins()).unwrap();
    node.start_agent();
    let hello = node.controller.hello(2);
    let said = "job 1 was killed: its fence was taken away while no agent ran";
    assert!(hello.fence_note.contains(said), "{}", hello.fence_note);
    let step = batch(&node, &order, "false");
    node.controller.welcome_to(5, [order], [step]);
    node.controller.hear("the end", |message| match message {
        FromAgent::Report {
            report: Report::StepEnded { exit, .. },
            ..
        } => (exit.signal == 9).then_some(()),
        _ => None,
    });
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

//! Steps whose command comes from a client.

use super::node::{Node, possible};
use super::orders::{USER, job, step, ticket};
use spur_core::agent::order::{FromAgent, Report, StepOrder, ToAgent};
use spur_core::id::StepKind;
use spur_proto::frame::{read_frame, write_frame};
use spur_proto::wire::{FromStep, Open, ToStep, from_step, to_step};
use std::os::unix::net::UnixStream;

/// What a client is told, put together.
#[derive(Debug, Default)]
pub struct Told {
    pub output: String,
    pub error: String,
    pub refused: bool,
    pub code: Option<u32>,
    pub ended: bool,
}

/// Connects as `uid`.
pub fn connect(node: &Node, uid: u32) -> UnixStream {
    let socket = node.dir.path().join("spurd.sock");
    // Who the client is is decided when it connects: a thread of its own takes the user's identity for that moment.
    let connecting = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(uid)).unwrap();
        UnixStream::connect(socket).unwrap()
    });
    connecting.join().unwrap()
}

/// Connects as `uid` and runs a shell line.
pub fn client(node: &Node, ticket: Vec<u8>, uid: u32, line: &str) -> Told {
    let mut stream = connect(node, uid);
    let open = Open {
        ticket,
        argv: ["/bin/sh", "-c", line]
            .map(|word| word.as_bytes().to_vec())
            .to_vec(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec()],
        work_dir: node
            .dir
            .path()
            .join("out")
            .display()
            .to_string()
            .into_bytes(),
        umask: 0o22,
        ..Open::default()
    };
    write_frame(
        &mut stream,
        &ToStep {
            kind: Some(to_step::Kind::Open(open)),
        },
    )
    .unwrap();
    let mut told = Told::default();
    while let Ok(Some(message)) = read_frame::<FromStep>(&mut stream) {
        match message.kind.unwrap() {
            from_step::Kind::Started(_) => {}
            from_step::Kind::Output(output) => {
                told.output.push_str(&String::from_utf8_lossy(&output.data))
            }
            from_step::Kind::Exit(exit) => told.code = Some(exit.code),
            from_step::Kind::Error(error) => {
                told.error.push_str(&error.text);
                told.refused |= error.refused;
            }
            from_step::Kind::Ended(_) => told.ended = true,
            from_step::Kind::Skipped(_) => {}
            from_step::Kind::Exchange(_)
            | from_step::Kind::Abort(_)
            | from_step::Kind::Name(_)
            | from_step::Kind::Taken(_)
            | from_step::Kind::Pmix(_) => panic!("nobody asked for MPI: {told:?}"),
        }
    }
    told
}

pub fn order(node: &Node, number: u32, gpus: &[u32]) -> StepOrder {
    let order = job(node, number, 5, gpus);
    node.controller.send(&ToAgent::Assign(order.clone()));
    step(&order, StepKind::Numbered(0))
}

#[test]
fn a_client_gets_its_output_and_its_exit_code() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let step = order(&node, 1, &[2]);
    node.controller.send(&ToAgent::Launch(step.clone()));
    let told = client(
        &node,
        ticket(&step, USER),
        USER,
        "id -u; echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES; exit 6",
    );
    assert_eq!(told.output, "65534\n0 2\n", "{told:?}");
    assert_eq!((told.code, told.ended), (Some(6), true));
    let report = node.controller.report("the end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    assert!(
        matches!(report, Report::StepEnded { exit, .. } if exit.code == 6),
        "{report:?}"
    );
    let again = client(&node, ticket(&step, USER), USER, "echo twice");
    assert!(again.refused && again.output.is_empty(), "{again:?}");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

#[test]
fn a_step_that_is_killed_before_its_client_came_is_over() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let step = order(&node, 1, &[2]);
    node.controller.send(&ToAgent::Launch(step.clone()));
    let kill = |signal| ToAgent::Signal {
        job: step.job,
        step: Some(step.step),
        signal,
        group: false,
    };
    // It may take its time until the node waits for the client; other signals have nobody to go to.
    node.controller.send(&kill(15));
    let exit = super::node::wait("the step is over", || {
        node.controller.send(&kill(9));
        let ended = |told: &FromAgent| match told {
            FromAgent::Report {
                report: Report::StepEnded { exit, .. },
                ..
            } => Some(*exit),
            _ => None,
        };
        node.controller.heard(ended).first().copied()
    });
    assert_eq!((exit.code, exit.signal), (0, 9));
    let late = client(&node, ticket(&step, USER), USER, "echo late");
    assert!(late.refused && late.output.is_empty(), "{late:?}");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

#[test]
fn a_client_may_come_before_its_order() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let step = order(&node, 1, &[2]);
    let told = std::thread::scope(|scope| {
        let early = scope.spawn(|| client(&node, ticket(&step, USER), USER, "echo here"));
        std::thread::sleep(std::time::Duration::from_millis(200));
        node.controller.send(&ToAgent::Launch(step.clone()));
        early.join().unwrap()
    });
    assert_eq!(
        (told.output.as_str(), told.code),
        ("here\n", Some(0)),
        "{told:?}"
    );
    node.finish();
}

#[test]
fn a_ticket_counts_for_its_user_and_step_only() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let step = order(&node, 1, &[2]);
    node.controller.send(&ToAgent::Launch(step.clone()));
    let good = ticket(&step, USER);
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    let older = StepOrder {
        generation: spur_core::id::Generation(4),
        ..step.clone()
    };
    for (what, bytes, uid) in [
        ("another user", good.clone(), 65533),
        ("even root", good.clone(), 0),
        ("a forged one", forged, USER),
        ("none", Vec::new(), USER),
        ("an older placement", ticket(&older, USER), USER),
    ] {
        let told = client(&node, bytes, uid, "echo in > broke-in");
        assert!(
            told.refused && told.ended && !told.error.is_empty(),
            "{what}: {told:?}"
        );
    }
    assert!(!node.out("broke-in").exists());
    let told = client(&node, good, USER, "echo mine");
    assert_eq!(told.output, "mine\n", "{told:?}");
    node.finish();
}

#[test]
fn a_step_with_fewer_gpus_opens_only_those() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let mut narrow = order(&node, 1, &[2, 4, 6]);
    narrow.share.gpus = [4].into_iter().collect();
    node.controller.send(&ToAgent::Launch(narrow.clone()));
    let told = client(&node, ticket(&narrow, USER), USER, &node.try_all("narrow"));
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(node.text("narrow"), "4\n");
    let mut whole = narrow.clone();
    whole.step = StepKind::Numbered(1);
    whole.share.gpus = [2, 4, 6].into_iter().collect();
    node.controller.send(&ToAgent::Launch(whole.clone()));
    client(&node, ticket(&whole, USER), USER, &node.try_all("whole"));
    assert_eq!(node.text("whole"), "2 4 6\n");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    assert!(node.traces(1).is_empty(), "{:?}", node.traces(1));
    node.finish();
}

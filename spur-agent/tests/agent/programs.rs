//! Programs of the operator around jobs.

use super::node::{Node, possible, wait};
use super::orders::{USER, batch, job, run, step, ticket};
use super::steps::client;
use spur_agent::agent::EARLY_PATIENCE;
use spur_core::agent::order::{FromAgent, Report, ToAgent};
use spur_core::agent::programs::{HealthCheck, NodePrograms};
use spur_core::id::{Generation, JobId, NodeId, StepKind};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

/// A program that root alone may read and run.
fn program(node: &Node, name: &str, script: &str) -> String {
    let path = node.dir.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path.display().to_string()
}

fn welcome(node: &Node, programs: NodePrograms) {
    node.controller.send(&ToAgent::Welcome {
        node: NodeId(0),
        generation: Generation(0),
        jobs: vec![],
        steps: vec![],
        programs: Some(programs),
        ticket_key: None,
    });
}

fn text(node: &Node, name: &str) -> String {
    std::fs::read_to_string(node.dir.path().join(name)).unwrap_or_default()
}

#[test]
fn a_prolog_is_over_before_a_job_starts_and_its_epilog_comes_when_it_is_gone() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let log = node.dir.path().join("said").display().to_string();
    let says = |what: &str| {
        let vars =
            "$SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $SLURM_JOB_USER $SLURM_JOB_GPUS $SLURMD_NODENAME";
        format!("sleep 1; echo {what} $(id -u) {vars} >> {log}")
    };
    let epilog = format!(
        "pgrep -u 65534 -f slurm_script >> {log}; {}",
        says("epilog")
    );
    welcome(
        &node,
        NodePrograms {
            prolog: vec![program(&node, "prolog", &says("prolog"))],
            epilog: vec![program(&node, "epilog", &epilog)],
            prolog_timeout: 60,
            ..NodePrograms::default()
        },
    );
    let copy = node.out("copy").display().to_string();
    run(&node, 1, 5, &[2], &format!("cat {log} > {copy}"));
    node.controller.report("its end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    let prolog = "prolog 0 prolog_slurmd 1 nobody 2 n1\n";
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), prolog);
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    let both = format!("{prolog}epilog 0 epilog_slurmd 1 nobody 2 n1\n");
    assert_eq!(
        text(&node, "said"),
        both,
        "it is not said to be clean before its epilog is over"
    );
    node.finish();
}

/// A script that says its process number to `name`, and ends when there is a file `go`.
fn waits_for_go(node: &Node, name: &str, then: &str) -> String {
    let (said, go) = (node.dir.path().join(name), node.dir.path().join("go"));
    let (said, go) = (said.display(), go.display());
    format!("echo begin $$ >> {said}; while [ ! -e {go} ]; do sleep 0.02; done; {then}")
}

#[test]
fn a_client_waits_for_a_long_prolog() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let prolog = |then: &str| NodePrograms {
        prolog: vec![program(&node, "prolog", &waits_for_go(&node, "said", then))],
        ..NodePrograms::default()
    };
    for (number, generation, then, runs) in [(1, 5, "true", true), (2, 6, "exit 1", false)] {
        std::fs::remove_file(node.dir.path().join("go")).ok();
        welcome(&node, prolog(then));
        let order = job(&node, number, generation, &[2]);
        let order = step(&order, StepKind::Numbered(0));
        let told = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| client(&node, ticket(&order, USER), USER, "echo here"));
            node.controller
                .send(&ToAgent::Assign(job(&node, number, generation, &[2])));
            node.controller.send(&ToAgent::Launch(order.clone()));
            let long = EARLY_PATIENCE + Duration::from_secs(1);
            std::thread::sleep(if runs { long } else { Duration::from_secs(1) });
            assert!(!waiting.is_finished(), "the prolog is not over");
            std::fs::write(node.dir.path().join("go"), "").unwrap();
            waiting.join().unwrap()
        });
        if runs {
            assert_eq!((told.output.as_str(), told.code), ("here\n", Some(0)));
            node.controller.revoke(number, generation);
        } else {
            assert!(told.refused && told.error.contains("set up"), "{told:?}");
        }
        node.controller.cleaned(number);
    }
    node.finish();
}

#[test]
fn a_step_that_is_killed_during_the_prolog_does_not_begin() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    welcome(
        &node,
        NodePrograms {
            prolog: vec![program(
                &node,
                "prolog",
                &waits_for_go(&node, "said", "true"),
            )],
            ..NodePrograms::default()
        },
    );
    let order = job(&node, 1, 5, &[2]);
    let steps = [0, 1].map(|number| step(&order, StepKind::Numbered(number)));
    node.controller.send(&ToAgent::Assign(order));
    for step in &steps {
        node.controller.send(&ToAgent::Launch(step.clone()));
    }
    wait("the prolog runs", || {
        (!text(&node, "said").is_empty()).then_some(())
    });
    node.controller.send(&ToAgent::Signal {
        job: JobId(1),
        step: Some(StepKind::Numbered(0)),
        signal: 9,
        group: false,
    });
    let report = node.controller.report("its end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    assert!(
        matches!(report, Report::StepEnded { step: StepKind::Numbered(0), exit, .. } if exit.signal == 9),
        "{report:?}"
    );
    std::fs::write(node.dir.path().join("go"), "").unwrap();
    let [killed, other] = steps.map(|step| client(&node, ticket(&step, USER), USER, "echo here"));
    assert!(killed.refused && killed.output.is_empty(), "{killed:?}");
    assert_eq!(other.output, "here\n", "{other:?}");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

/// The process number in the line `begin NUMBER` with this place in a file.
fn begun(node: &Node, name: &str, at: usize) -> String {
    wait(&format!("{name} has begun\n{}", node.log()), || {
        let text = text(node, name);
        let words: Vec<&str> = text.lines().nth(at)?.split(' ').collect();
        (text.ends_with('\n') && words[0] == "begin").then(|| words[1].to_owned())
    })
}

fn is_dead(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z"))
}

#[test]
fn a_prolog_that_an_agent_did_not_see_end_is_run_again_before_anything_starts() {
    if !possible() {
        return;
    }
    for wanted in [true, false] {
        let mut node = Node::start("");
        let end = format!("echo end >> {}", node.dir.path().join("said").display());
        let programs = NodePrograms {
            prolog: vec![program(&node, "prolog", &waits_for_go(&node, "said", &end))],
            epilog: vec![program(
                &node,
                "epilog",
                &format!("echo over >> {}", node.dir.path().join("said").display()),
            )],
            ..NodePrograms::default()
        };
        welcome(&node, programs.clone());
        let (copy, said) = (node.out("copy"), node.dir.path().join("said"));
        let script = format!("cat {} > {}; exit 7", said.display(), copy.display());
        let order = run(&node, 1, 5, &[2], &script);
        let first = begun(&node, "said", 0);
        node.kill_agent();
        assert!(!is_dead(&first), "it outlives its agent");
        node.start_agent();
        assert!(is_dead(&first), "but not the next one's start");
        let held = node.controller.hello(2).jobs;
        assert_eq!(held, [(JobId(1), Generation(5))]);
        let (jobs, steps) = match wanted {
            true => (vec![order.clone()], vec![batch(&node, &order, &script)]),
            false => (vec![], vec![]),
        };
        node.controller.send(&ToAgent::Welcome {
            node: NodeId(0),
            generation: Generation(5),
            jobs,
            steps,
            programs: Some(programs),
            ticket_key: None,
        });
        if wanted {
            let second = begun(&node, "said", 1);
            assert!(!copy.exists(), "nothing starts before it is over");
            std::fs::write(node.dir.path().join("go"), "").unwrap();
            node.controller.report(
                "its end",
                |report| matches!(report, Report::StepEnded { exit, .. } if exit.code == 7),
            );
            let prologs = format!("begin {first}\nbegin {second}\nend\n");
            assert_eq!(std::fs::read_to_string(&copy).unwrap(), prologs);
            node.controller.revoke(1, 5);
        }
        node.controller.cleaned(1);
        assert_eq!(text(&node, "said").lines().last(), Some("over"));
        assert!(node.traces(1).is_empty(), "{:?}", node.traces(1));
        node.finish();
    }
}

#[test]
fn an_epilog_that_an_agent_did_not_see_end_is_run_again() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    let end = format!("echo end >> {}", node.dir.path().join("said").display());
    let programs = NodePrograms {
        epilog: vec![program(&node, "epilog", &waits_for_go(&node, "said", &end))],
        ..NodePrograms::default()
    };
    welcome(&node, programs.clone());
    run(&node, 1, 5, &[2], "true");
    node.controller.report("its end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    node.controller.revoke(1, 5);
    let first = begun(&node, "said", 0);
    node.kill_agent();
    node.start_agent();
    assert!(is_dead(&first));
    welcome(&node, programs);
    let second = begun(&node, "said", 1);
    std::fs::write(node.dir.path().join("go"), "").unwrap();
    node.controller.cleaned(1);
    let all = format!("begin {first}\nbegin {second}\nend\n");
    assert_eq!(text(&node, "said"), all);
    node.finish();
}

#[test]
fn a_job_whose_prolog_fails_does_not_start() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    welcome(
        &node,
        NodePrograms {
            prolog: vec![program(&node, "prolog", "echo no scratch; exit 3")],
            ..NodePrograms::default()
        },
    );
    let ran = node.out("ran");
    run(&node, 1, 5, &[2], &format!("touch {}", ran.display()));
    let report = node.controller.report("the failure", |report| {
        matches!(report, Report::ProgramFailed { .. })
    });
    let Report::ProgramFailed { epilog, why, .. } = report else {
        panic!("{report:?}");
    };
    assert!(
        !epilog && why.ends_with("exit status: 3: no scratch"),
        "{why}"
    );
    node.controller.cleaned(1);
    assert!(!ran.exists());
    // Nothing of it is left: the next one gets the same devices.
    welcome(&node, NodePrograms::default());
    run(&node, 2, 6, &[2], "true");
    node.controller.report("its end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    node.controller.revoke(2, 6);
    node.controller.cleaned(2);
    node.finish();
}

#[test]
fn a_prolog_that_hangs_and_an_epilog_that_fails_are_told_of() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    welcome(
        &node,
        NodePrograms {
            prolog: vec![program(&node, "prolog", "sleep 600")],
            epilog: vec![program(&node, "epilog", "exit 1")],
            prolog_timeout: 1,
            ..NodePrograms::default()
        },
    );
    node.controller
        .send(&ToAgent::Assign(job(&node, 1, 5, &[2])));
    node.controller.cleaned(1);
    let told = node.controller.heard(|message| match message {
        FromAgent::Report {
            report: Report::ProgramFailed { epilog, why, .. },
            ..
        } => Some((*epilog, why.clone())),
        _ => None,
    });
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        !told[0].0 && told[0].1.ends_with("it took longer than 1 seconds"),
        "{told:?}"
    );
    assert!(
        told[1].0 && told[1].1.ends_with("exit status: 1"),
        "{told:?}"
    );
    node.finish();
}

#[test]
fn a_node_is_checked_again_and_again() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let log = node.dir.path().join("said").display().to_string();
    let check = |name: &str, states: &[&str]| NodePrograms {
        health: Some(HealthCheck {
            program: program(
                &node,
                name,
                &format!("echo {name} $SLURMD_NODENAME >> {log}; exit 1"),
            ),
            interval: 1,
            states: states.iter().map(|state| (*state).to_owned()).collect(),
        }),
        ..NodePrograms::default()
    };
    welcome(&node, check("busy", &["ALLOC"]));
    welcome(&node, check("idle", &["IDLE"]));
    let end = Instant::now() + Duration::from_secs(60);
    while text(&node, "said").lines().count() < 3 {
        assert!(Instant::now() < end, "{}", text(&node, "said"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(text(&node, "said").lines().all(|line| line == "idle n1"));
    welcome(&node, NodePrograms::default());
    node.finish();
}

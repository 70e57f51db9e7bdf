//! Agents that die, and jobs that do not want to.

use super::node::{Node, possible, wait};
use super::orders::{batch, run};
use spur_core::agent::order::{FromAgent, JobOrder, Report, ToAgent};
use spur_core::id::{Generation, JobId};

/// A script that says that it runs, waits for the file `go`, and then looks what it can open.
fn waiting(node: &Node, end: &str) -> String {
    format!(
        "echo started > started; while [ ! -e go ]; do sleep 0.02; done; {}{end}",
        node.try_all("opened")
    )
}

#[test]
fn a_job_is_fenced_without_an_agent_and_adopted_by_the_next() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    let order = run(
        &node,
        1,
        5,
        &[1, 2],
        &waiting(&node, "while [ ! -e end ]; do sleep 0.02; done; exit 7"),
    );
    node.text("started");
    node.kill_agent();
    std::fs::write(node.out("go"), "").unwrap();
    assert_eq!(node.text("opened"), "1 2\n", "fenced while no agent lives");
    node.start_agent();
    let hello = node.controller.hello(2);
    assert_eq!(hello.jobs, [(JobId(1), Generation(5))]);
    let step = batch(&node, &order, "false");
    node.controller.welcome_to(5, [order], [step]);
    std::fs::write(node.out("end"), "").unwrap();
    let report = node.controller.report("the end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    assert!(
        matches!(report, Report::StepEnded { exit, .. } if exit.code == 7),
        "{report:?}"
    );
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    assert!(node.traces(1).is_empty(), "{:?}", node.traces(1));
    node.finish();
}

#[test]
fn an_end_that_no_agent_saw_is_reported_by_the_next() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    run(&node, 1, 5, &[1], &waiting(&node, "exit 9"));
    node.text("started");
    node.kill_agent();
    std::fs::write(node.out("go"), "").unwrap();
    wait("the job has ended", || {
        node.procs(1).is_empty().then_some(())
    });
    node.start_agent();
    let report = node.controller.report("the end", |report| {
        matches!(report, Report::StepEnded { .. })
    });
    assert!(
        matches!(report, Report::StepEnded { exit, .. } if exit.code == 9),
        "{report:?}"
    );
    // The controller has given the job up meanwhile: what is not wanted goes.
    node.controller.welcome();
    node.controller.cleaned(1);
    assert!(node.traces(1).is_empty());
    node.finish();
}

#[test]
fn a_step_of_which_nothing_ran_when_all_was_killed_is_started_anew_and_another_is_not() {
    if !possible() {
        return;
    }
    for (marked, runs) in [(true, 2), (false, 1)] {
        let mut node = Node::start("");
        let script = "echo run >> runs; while [ ! -e end ]; do sleep 0.02; done; exit 7";
        let order = run(&node, 1, 5, &[1], script);
        node.text("runs");
        node.kill_agent();
        let dir = node.step_dir("1.batch");
        kill_supervisor(&dir);
        std::fs::write(node.job_cgroup(1).join("cgroup.kill"), "1").unwrap();
        wait("its tasks are gone", || {
            node.procs(1).is_empty().then_some(())
        });
        if marked {
            // As it was until the moment at which its tasks were let go.
            std::fs::write(dir.join("starting"), "").unwrap();
        }
        node.start_agent();
        let step = batch(&node, &order, script);
        node.controller.welcome_to(5, [order], [step]);
        std::fs::write(node.out("end"), "").unwrap();
        let report = node.controller.report("the end", |report| {
            matches!(report, Report::StepEnded { .. })
        });
        let code = if marked { (7, 0) } else { (0, 9) };
        assert!(
            matches!(report, Report::StepEnded { exit, .. } if (exit.code, exit.signal) == code),
            "{report:?}"
        );
        assert_eq!(node.text("runs"), "run\n".repeat(runs));
        node.controller.revoke(1, 5);
        node.controller.cleaned(1);
        node.finish();
    }
}

/// The controller may not have given the node up yet when the agent is back: the job is lost all the same, and does not run again
/// under the same generation.
#[test]
fn a_job_that_ended_for_want_of_an_agent_is_lost_and_does_not_run_again() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    let script = "echo run >> runs; while :; do sleep 0.02; done";
    let order = JobOrder {
        node_timeout: 1,
        ..super::orders::job(&node, 1, 5, &[1])
    };
    let step = batch(&node, &order, script);
    node.controller.send(&ToAgent::Assign(order.clone()));
    node.controller.send(&ToAgent::Launch(step.clone()));
    node.text("runs");
    node.kill_agent();
    wait("the job ends by itself", || {
        node.procs(1).is_empty().then_some(())
    });
    node.start_agent();
    let hello = node.controller.hello(2);
    assert_eq!(hello.jobs, [(JobId(1), Generation(5))]);
    node.controller.welcome_to(5, [order], [step]);
    let report = node.controller.report("what became of it", |report| {
        matches!(report, Report::StepEnded { .. } | Report::Cleaned { .. })
    });
    assert!(matches!(report, Report::Cleaned { .. }), "{report:?}");
    assert!(node.traces(1).is_empty());
    assert_eq!(node.text("runs"), "run\n");
    node.finish();
}

/// `kill -9` of the process that supervises the step in this folder.
fn kill_supervisor(dir: &std::path::Path) {
    let own = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&&b"supervise"[..]) && words.contains(&dir.as_os_str().as_encoded_bytes())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let pid = pids.find(own).expect("the step has a supervisor");
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn reports_are_repeated_until_they_are_acknowledged() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    node.controller.mute(true);
    run(&node, 1, 5, &[1], "exit 4");
    let number = |node: &Node| {
        node.controller.heard(|message| match message {
            FromAgent::Report {
                number,
                report: Report::StepEnded { job: JobId(1), .. },
            } => Some(*number),
            _ => None,
        })
    };
    wait("the report", || (number(&node).len() == 1).then_some(()));
    node.kill_agent();
    node.controller.mute(false);
    node.start_agent();
    wait("the report again", || {
        (number(&node).len() == 2).then_some(())
    });
    assert_eq!(number(&node)[0], number(&node)[1]);
    wait("the acknowledgement", || {
        (node.controller.acked() == number(&node)[1]).then_some(())
    });
    node.controller.welcome();
    node.controller.cleaned(1);
    node.stop_agent();
    node.start_agent();
    node.controller.welcome();
    // Reports go out in order: when a later one is heard, an older one that was not forgotten would have been.
    run(&node, 2, 6, &[1], "exit 5");
    node.controller.report("the end of another job", |report| {
        matches!(report, Report::StepEnded { job: JobId(2), .. })
    });
    assert_eq!(
        number(&node).len(),
        2,
        "once acknowledged it is not said again"
    );
    node.finish();
}

#[test]
fn a_stopped_agent_leaves_jobs_alone() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    run(&node, 1, 5, &[3], &waiting(&node, ""));
    node.text("started");
    node.stop_agent();
    assert!(!node.procs(1).is_empty());
    std::fs::write(node.out("go"), "").unwrap();
    assert_eq!(node.text("opened"), "3\n");
    node.finish();
}

#[test]
fn a_job_that_ignores_term_and_hides_is_gone_before_its_gpu_is_free() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let hide = "trap '' TERM; setsid sh -c 'trap \"\" TERM; (while :; do sleep 0.05; done) & echo hidden > started; wait' & trap '' TERM; wait";
    run(&node, 1, 5, &[0], hide);
    node.text("started");
    assert!(node.procs(1).len() >= 2);
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    assert!(node.procs(1).is_empty() && node.traces(1).is_empty());
    let ended = node.controller.heard(|message| match message {
        FromAgent::Report { report, .. } => Some(matches!(report, Report::StepEnded { .. })),
        _ => None,
    });
    assert_eq!(ended, [true, false], "the step's end comes before Cleaned");
    run(&node, 2, 6, &[0], &node.try_all("next"));
    assert_eq!(node.text("next"), "0\n");
    node.finish();
}

#[test]
fn leftovers_of_a_murdered_node_are_removed() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    run(&node, 1, 5, &[0], &waiting(&node, ""));
    node.text("started");
    node.kill_agent();
    node.finish();
}

#[test]
fn a_second_agent_is_kept_out() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let second = std::process::Command::new(super::node::SPURD)
        .arg("--config")
        .arg(node.dir.path().join("spurd.toml"))
        .output()
        .unwrap();
    assert!(!second.status.success());
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("another spurd uses state_dir"),
        "{second:?}"
    );
    assert!(
        !node.spurd("leftovers").status.success(),
        "nor is anything removed under a living agent"
    );
    node.finish();
}

#[test]
fn a_client_that_does_not_read_holds_no_gpu() {
    use super::orders::{USER, job, step, ticket};
    use spur_core::id::StepKind;
    use spur_proto::frame::write_frame;
    use spur_proto::wire::{Open, ToStep, to_step};
    if !possible() {
        return;
    }
    let node = Node::start("");
    let order = job(&node, 1, 5, &[0]);
    let order_of_step = step(&order, StepKind::Numbered(0));
    node.controller.send(&ToAgent::Assign(order));
    node.controller
        .send(&ToAgent::Launch(order_of_step.clone()));
    let mut client = super::steps::connect(&node, USER);
    let line = "echo started > started; while :; do echo some words that nobody reads; done";
    let open = Open {
        ticket: ticket(&order_of_step, USER),
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
        &mut client,
        &ToStep {
            kind: Some(to_step::Kind::Open(open)),
        },
    )
    .unwrap();
    node.text("started");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    assert!(node.traces(1).is_empty());
    drop(client);
    node.finish();
}

/// `SPUR_OLDER_SPURD` is an agent of an earlier version, which the one under test follows.
#[test]
fn an_earlier_version_is_followed_without_a_gap() {
    let Some(older) = std::env::var_os("SPUR_OLDER_SPURD").filter(|_| possible()) else {
        return eprintln!("skipped: SPUR_OLDER_SPURD does not name an earlier spurd");
    };
    let mut node = Node::start_program("", None, older.as_ref());
    // Says every other answer than a refusal by the foreign device, and every refusal by its own.
    let script = format!(
        "echo started > started; n=0; while [ ! -e end ]; do\n\
         case $( {{ : < {}; }} 2>&1 ) in *'not permitted'*) ;; *) echo foreign >> wrong;; esac\n\
         case $( {{ : < {}; }} 2>&1 ) in *'not permitted'*) echo own >> wrong;; esac\n\
         n=$((n+1)); done; echo $n > rounds.new; mv rounds.new rounds",
        node.device(1),
        node.device(2)
    );
    let order = run(&node, 1, 5, &[2], &script);
    node.text("started");
    let doctor = node.spurd("doctor");
    let said = String::from_utf8_lossy(&doctor.stderr).into_owned();
    assert!(
        !doctor.status.success() && said.contains("an agent of another build runs here"),
        "{said}"
    );
    node.stop_agent();
    node.program = super::node::SPURD.into();
    node.start_agent();
    let hello = node.controller.hello(2);
    assert_eq!(hello.jobs, [(JobId(1), Generation(5))]);
    assert_eq!(hello.fence_suffices, Some(true), "{}", hello.fence_note);
    let step = batch(&node, &order, "false");
    node.controller.welcome_to(5, [order], [step]);
    run(&node, 2, 6, &[4], &node.try_all("other"));
    assert_eq!(node.text("other"), "4\n");
    std::fs::write(node.out("end"), "").unwrap();
    let rounds = node.text("rounds");
    let wrong = std::fs::read_to_string(node.out("wrong")).unwrap_or_default();
    assert_eq!(wrong, "", "in {rounds} rounds");
    for (number, generation) in [(1, 5), (2, 6)] {
        node.controller.revoke(number, generation);
        node.controller.cleaned(number);
        assert!(node.traces(number).is_empty(), "{:?}", node.traces(number));
    }
    node.finish();
}

//! Fences that somebody takes off under a living agent, and nodes with less than they require.

use super::node::{Node, possible, wait};
use super::orders::{batch, job, run, share};
use spur_core::agent::order::{FromAgent, Report, ToAgent};
use spur_core::id::JobId;
use spur_core::node::FenceState;
use spur_ebpf::{Adopted, Fence, links_folder};
use std::time::Instant;

/// What the agent said of its fence since its Hello: state, whether that suffices, note.
fn said(node: &Node) -> Vec<(FenceState, Option<bool>, String)> {
    node.controller.heard(|message| match message {
        FromAgent::Fence {
            state,
            note,
            suffices,
            gpus_sick: _,
            gpu_notes: _,
            stuck: _,
        } => Some((*state, *suffices, note.clone())),
        _ => None,
    })
}

/// Takes the fence off a cgroup as root would: link detached, pin removed.
fn take_off(node: &Node, pin: &str, cgroup: &std::path::Path) {
    let fence = Fence::open_or_load(&node.pins()).unwrap();
    let Adopted::Fence(job) = fence.adopt(pin, cgroup).unwrap() else {
        panic!("{pin} is not up");
    };
    job.detach().unwrap();
}

#[test]
fn a_fence_that_root_takes_off_is_noticed_and_put_back() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let before = node.controller.hello(1).fence;
    let order = job(&node, 1, 5, &[2, 3]);
    node.controller.send(&ToAgent::Assign(order.clone()));
    // A step that holds less than its job has a fence of its own.
    let script = format!(
        "echo started > started; while [ ! -e go ]; do sleep 0.02; done; {}while [ ! -e end ]; do sleep 0.02; done",
        node.try_all("opened")
    );
    let mut step = batch(&node, &order, &script);
    step.share = share(&[2]);
    node.controller.send(&ToAgent::Launch(step));
    node.text("started");

    let group = node.job_cgroup(1);
    let taken = Instant::now();
    take_off(&node, "job_1_step_batch", &group.join("step_batch"));
    take_off(&node, "job_1", &group);
    // And all that is pinned besides: links, program, maps, guard.
    std::fs::remove_dir_all(node.pins()).unwrap();
    wait("the agent says that the fence is lost", || {
        said(&node)
            .iter()
            .any(|(state, suffices, _)| (*state, *suffices) == (FenceState::Unfenced, Some(false)))
            .then_some(())
    });
    eprintln!("noticed after {:?}", taken.elapsed());
    let (state, suffices, note) = wait("the fence is back", || {
        said(&node).into_iter().find(|(state, ..)| *state == before)
    });
    eprintln!("back after {:?}", taken.elapsed());
    assert_eq!((state, suffices), (before, Some(true)));
    assert!(
        note.contains("the fence of job_1") && note.contains("and put back"),
        "{note}"
    );
    std::fs::write(node.out("go"), "").unwrap();
    assert_eq!(node.text("opened"), "2\n", "the step's policy is back too");
    let log = node.log();
    assert!(log.contains("taken off by hand") && log.contains("the fence is back and proven"));
    // Everything is pinned again: the next agent finds it, and a new job is taken.
    assert_eq!(
        std::fs::read_dir(links_folder(&node.pins()))
            .unwrap()
            .count(),
        2
    );
    run(&node, 2, 6, &[4], &node.try_all("other"));
    assert_eq!(node.text("other"), "4\n");
    std::fs::write(node.out("end"), "").unwrap();
    for (number, generation) in [(1, 5), (2, 6)] {
        node.controller.revoke(number, generation);
        node.controller.cleaned(number);
        assert!(node.traces(number).is_empty(), "{:?}", node.traces(number));
    }
    assert_eq!(
        said(&node)
            .iter()
            .filter(|(state, ..)| *state == FenceState::Unfenced)
            .count(),
        1,
        "a job that ends is no loss: {:?}",
        said(&node)
    );
    node.finish();
}

#[test]
fn a_policy_that_root_widens_is_put_back() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let script = format!(
        "echo started > started; while [ ! -e go ]; do sleep 0.02; done; {}",
        node.try_all("opened")
    );
    run(&node, 1, 5, &[2], &script);
    node.text("started");
    let fence = Fence::open_or_load(&node.pins()).unwrap();
    let Adopted::Fence(own) = fence.adopt("job_1", &node.job_cgroup(1)).unwrap() else {
        panic!()
    };
    let mut wide = own.read_policy().unwrap().unwrap();
    let narrow = wide.clone();
    wide.grants.insert(spur_ebpf::GrantBit::new(5).unwrap());
    own.write_policy(&wide).unwrap();
    wait("the policy is as it was", || {
        (own.read_policy().unwrap().as_ref() == Some(&narrow)).then_some(())
    });
    wait("the node is fenced again", || {
        said(&node)
            .iter()
            .any(|(state, suffices, note)| {
                *state != FenceState::Unfenced
                    && *suffices == Some(true)
                    && note.contains("put back")
            })
            .then_some(())
    });
    std::fs::write(node.out("go"), "").unwrap();
    assert_eq!(node.text("opened"), "2\n");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

#[test]
fn a_table_that_root_empties_is_written_again() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let fence = Fence::open_or_load(&node.pins()).unwrap();
    let table = fence.devices().unwrap();
    let script = format!(
        "echo started > started; while [ ! -e go ]; do sleep 0.02; done; {}",
        node.try_all("opened")
    );
    run(&node, 1, 5, &[2], &script);
    node.text("started");
    fence.set_devices(&spur_ebpf::DeviceTable::new()).unwrap();
    wait("the node is fenced again", || {
        said(&node)
            .iter()
            .any(|(state, suffices, note)| {
                *state != FenceState::Unfenced
                    && *suffices == Some(true)
                    && note.contains("the table of devices was changed, and put back")
            })
            .then_some(())
    });
    assert_eq!(fence.devices().unwrap(), table);
    std::fs::write(node.out("go"), "").unwrap();
    assert_eq!(node.text("opened"), "2\n");
    // The agent's own changes are none of root's.
    let losses = said(&node).len();
    assert!(node.spurd("doctor").status.success());
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    assert_eq!(said(&node).len(), losses, "{:?}", said(&node));
    node.finish();
}

#[test]
fn a_fence_that_could_not_be_opened_comes_up_later() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let late = dir.path().join("late");
    std::fs::write(&late, "in the way").unwrap();
    let bpffs = late.join("bpf");
    let node = Node::start_at("", Some(&bpffs));
    let hello = node.controller.hello(1);
    assert_eq!(
        (hello.fence, hello.fence_suffices),
        (FenceState::Unfenced, Some(false))
    );
    assert!(
        hello.fence_note.starts_with("no fence: "),
        "{}",
        hello.fence_note
    );
    std::fs::remove_file(&late).unwrap();
    wait("the fence is up", || {
        said(&node)
            .iter()
            .any(|(state, suffices, _)| *state != FenceState::Unfenced && *suffices == Some(true))
            .then_some(())
    });
    run(&node, 1, 5, &[6], &node.try_all("opened"));
    assert_eq!(node.text("opened"), "6\n");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

#[test]
fn jobs_run_without_a_fence_only_where_none_is_required() {
    if !possible() {
        return;
    }
    let object = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(object.path(), spur_ebpf::test_objects::ALLOW_ALL).unwrap();
    let node = Node::start(&format!(
        "require = \"none\"\nfence_object = {:?}",
        object.path()
    ));
    let hello = node.controller.hello(1);
    assert_eq!(
        (hello.fence, hello.fence_suffices),
        (FenceState::Unfenced, Some(true))
    );
    assert!(
        hello
            .fence_note
            .starts_with("JOBS RUN UNFENCED, as require = \"none\" allows: the fence "),
        "{}",
        hello.fence_note
    );
    run(&node, 1, 5, &[0], &node.try_all("opened"));
    assert_eq!(
        node.text("opened"),
        "0 1 2 3 4 5 6 7\n",
        "that is what unfenced means"
    );
    let doctor = node.spurd("doctor");
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        doctor.status.success() && text.contains("verdict       jobs are NOT FENCED: "),
        "{text}"
    );
    assert!(node.log().contains("JOBS RUN UNFENCED"));
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

#[test]
fn a_node_without_the_guard_that_it_requires_takes_no_job_and_says_why() {
    if !possible() {
        return;
    }
    let node = Node::start("require = \"guard\"");
    let hello = node.controller.hello(1);
    let doctor = node.spurd("doctor");
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(text.contains("guard         file_receive: "), "{text}");
    if hello.fence == FenceState::Guarded {
        eprintln!("skipped: this kernel guards, so nothing is missing");
        assert_eq!(hello.fence_suffices, Some(true));
        assert!(
            doctor.status.success() && text.contains("jobs are fenced and guarded"),
            "{text}"
        );
        return node.finish();
    }
    assert_eq!(
        (hello.fence, hello.fence_suffices),
        (FenceState::Fenced, Some(false))
    );
    assert!(
        hello
            .fence_note
            .starts_with("no jobs, since require = \"guard\" "),
        "{}",
        hello.fence_note
    );
    assert!(
        !doctor.status.success() && text.contains("verdict       NO JOBS: no jobs, since"),
        "{text}"
    );
    run(&node, 1, 5, &[0], "echo ran > ran");
    let report = node.controller.report("the failure", |report| {
        matches!(report, Report::LaunchFailed { job: JobId(1), .. })
    });
    let Report::LaunchFailed { node_fault, .. } = report else {
        panic!()
    };
    assert!(node_fault && !node.out("ran").exists());
    node.finish();
}

#[test]
fn a_file_system_of_pins_that_root_unmounts_is_there_again() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    let before = node.controller.hello(1).fence;
    let script = format!(
        "echo started > started; while [ ! -e go ]; do sleep 0.02; done; {}",
        node.try_all("opened")
    );
    run(&node, 1, 5, &[3], &script);
    node.text("started");
    let bpffs = node.pins().parent().unwrap().to_owned();
    rustix::mount::unmount(&bpffs, rustix::mount::UnmountFlags::DETACH).unwrap();
    wait("the fence is back", || {
        said(&node)
            .iter()
            .any(|(state, suffices, note)| {
                *state == before && *suffices == Some(true) && note.contains("put back")
            })
            .then_some(())
    });
    assert_eq!(
        std::fs::read_dir(links_folder(&node.pins()))
            .unwrap()
            .count(),
        1
    );
    std::fs::write(node.out("go"), "").unwrap();
    assert_eq!(node.text("opened"), "3\n");
    node.controller.revoke(1, 5);
    node.controller.cleaned(1);
    node.finish();
}

/// A device node with a driver behind it, of the miscellaneous devices (`include/linux/miscdevice.h`): one that opens here.
fn living_device(dir: &std::path::Path) -> Option<std::fs::File> {
    for minor in [229, 200, 237, 235, 183, 144] {
        let path = dir.join(format!("misc{minor}"));
        spur_agent::fence::standin::make(&path, 10, minor).unwrap();
        let mut options = std::fs::OpenOptions::new();
        if let Ok(file) = options.read(true).write(true).open(&path) {
            return Some(file);
        }
    }
    eprintln!("skipped: no miscellaneous device opens here");
    None
}

#[test]
fn a_job_that_used_the_gap_is_killed() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(device) = living_device(dir.path()) else {
        return;
    };
    // On this machine every miscellaneous device is a GPU, says the file that the agent reads.
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::write(
        root.join("proc/devices"),
        "Character devices:\n 10 nvidia-misc\n",
    )
    .unwrap();
    let node = Node::start(&format!("root = {root:?}"));
    for (number, gpu) in [(1, 3), (2, 4)] {
        let script = format!("echo started > started{number}; exec sleep 1000");
        run(&node, number, u64::from(number) + 5, &[gpu], &script);
        node.text(&format!("started{number}"));
    }
    let group = |number: u32| node.job_cgroup(number).join("step_batch");
    // A process that opened the device while nothing kept it from doing so.
    let mut thief = std::process::Command::new("sleep")
        .arg("1000")
        .stdin(device)
        .spawn()
        .unwrap();
    std::fs::write(group(1).join("cgroup.procs"), thief.id().to_string()).unwrap();
    for number in [1, 2] {
        take_off(&node, &format!("job_{number}"), &node.job_cgroup(number));
    }
    let report = node.controller.report("the end of the step", |report| {
        matches!(report, Report::StepEnded { job: JobId(1), .. })
    });
    assert!(
        matches!(report, Report::StepEnded { exit, .. } if exit.signal == 9),
        "{report:?}"
    );
    let note = wait("the node says why", || {
        said(&node)
            .into_iter()
            .map(|(_, _, note)| note)
            .find(|note| note.contains("job 1 was killed"))
    });
    let why = format!("job 1 was killed: process {} has open ", thief.id());
    assert!(
        note.contains(&why) && note.contains(", which the job was not given"),
        "{note}"
    );
    assert!(
        !note.contains("job 2 was killed") && !node.procs(2).is_empty(),
        "{note}"
    );
    assert!(!thief.wait().unwrap().success());
    for number in [1, 2] {
        node.controller.revoke(number, u64::from(number) + 5);
        node.controller.cleaned(number);
    }
    node.finish();
}

/// `cargo nextest run -p spur-agent --run-ignored only watchdog_costs --no-capture`
#[test]
#[ignore = "a measurement"]
fn what_the_watchdog_costs() {
    const JOBS: u32 = 100;
    const SECONDS: u64 = 20;
    if !possible() {
        return;
    }
    let node = Node::start("");
    for number in 1..=JOBS {
        let script = format!("echo started > started{number}; exec sleep 1000");
        let mut order = job(&node, number, u64::from(number) + 5, &[]);
        let mut nodes = order.nodes.to_vec();
        nodes[0].share.cpus = [number].into_iter().collect();
        order.nodes = nodes.into();
        node.controller.send(&ToAgent::Assign(order.clone()));
        let step = batch(&node, &order, &script);
        node.controller.send(&ToAgent::Launch(step));
        node.text(&format!("started{number}"));
    }
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.agent_pid())).unwrap();
    let task = tasks
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "watchdog\n")
        })
        .unwrap();
    let ran_ns = || -> u64 {
        let text = std::fs::read_to_string(task.join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    let before = ran_ns();
    std::thread::sleep(std::time::Duration::from_secs(SECONDS));
    let each_ns = (ran_ns() - before) / SECONDS;
    eprintln!(
        "{JOBS} jobs: {} us a second, {}.{:02} % of one CPU",
        each_ns / 1000,
        each_ns / 10_000_000,
        each_ns / 100_000 % 100
    );
    node.finish();
}

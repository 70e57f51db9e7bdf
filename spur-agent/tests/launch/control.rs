//! Signals, ends by order, and what survives whom.

use super::support::{Bench, PATIENCE, cancel, eventually, log, stdin_all, tasks, wait, wait_gone};
use spur_agent::launch::{AgentWatch, EndReason, Supervisor, exit_record};
use spur_core::job::state::ExitStatus;
use spur_proto::wire::{Signal, from_step, to_step};
use std::time::{Duration, Instant};

const KILLED: ExitStatus = ExitStatus { code: 0, signal: 9 };
const TERMINATED: ExitStatus = ExitStatus {
    code: 0,
    signal: 15,
};

fn populated(cgroup: &std::path::Path) -> bool {
    std::fs::read_to_string(cgroup.join("cgroup.events"))
        .unwrap()
        .contains("populated 1")
}

/// A command that starts a process in a session of its own, orphaned and deaf to TERM, and says when it is there.
const ORPHAN: &str = "(setsid sh -c 'trap \"\" TERM HUP; echo up; exec sleep 1000' &)";

#[test]
fn signals_come_from_the_client_and_from_the_agent() {
    let bench = Bench::new();
    let spec = bench.sh(
        "trap 'echo usr1' USR1; trap 'echo int; exit 5' INT; echo up; while :; do sleep 0.01; done",
    );
    let client = bench.connect(&spec);
    client.read_until("up");
    client.supervisor.signal(10, false).unwrap();
    client.read_until("usr1");
    client.send(to_step::Kind::Signal(Signal { number: 999 }));
    client.send(to_step::Kind::Signal(Signal { number: 2 }));
    let heard = client.finish();
    assert_eq!(heard.text(), "int\n");
    assert_eq!(heard.record.exit.code, 5);
}

#[test]
fn leftovers_die_with_the_last_task_and_do_not_hold_the_end() {
    let bench = Bench::new();
    let spec = bench.sh(&format!("{ORPHAN}; exit 4"));
    let heard = bench.run(&spec);
    assert_eq!(heard.record.exit.code, 4);
    assert!(heard.ended.is_some() && !heard.record.cancelled);
    assert!(!populated(&spec.cgroup));
}

#[test]
fn a_task_that_ignores_term_is_killed_after_the_grace() {
    let bench = Bench::new();
    let spec = bench.sh(&format!(
        "trap '' TERM; {ORPHAN}; while :; do sleep 1000; done"
    ));
    let client = bench.connect(&spec);
    client.read_until("up");
    cancel(&client.supervisor, PATIENCE);
    // A later order shortens the time.
    cancel(&client.supervisor, Duration::from_millis(50));
    let heard = client.finish();
    assert_eq!(heard.record.exit, KILLED);
    assert!(heard.record.cancelled && heard.ended.as_ref().unwrap().cancelled);
    assert!(
        heard
            .stderr
            .starts_with("slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2"),
        "{}",
        heard.stderr
    );
    assert_eq!(heard.stderr.matches("***").count(), 2);
    assert!(!populated(&spec.cgroup));
}

#[test]
fn a_stopped_task_ends_by_request() {
    let bench = Bench::new();
    let client = bench.connect(&bench.sh("echo up; kill -STOP $$; sleep 1000"));
    client.read_until("up");
    client
        .supervisor
        .end(PATIENCE, EndReason::TimeLimit)
        .unwrap();
    let heard = client.finish();
    assert_eq!(heard.record.exit, TERMINATED);
    assert!(heard.record.timed_out && !heard.record.cancelled);
    assert!(heard.stderr.trim_end().ends_with("DUE TO TIME LIMIT ***"));
}

#[test]
fn a_cancelled_batch_script_has_slurm_s_line_in_its_file() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let mut spec = bench.sh("echo up; sleep 1000");
    spec.step.step = spur_core::id::StepKind::Batch;
    spec.work_dir = dir.clone();
    let file = spur_agent::launch::Output::File {
        path: super::support::bytes("out"),
        append: false,
    };
    (spec.stdio.stdout, spec.stdio.stderr) = (file.clone(), file);
    let supervisor = bench.start(&spec, None);
    let out = || std::fs::read_to_string(dir.join("out")).unwrap_or_default();
    eventually("the script runs", || out() == "up\n");
    cancel(&supervisor, PATIENCE);
    assert_eq!(wait(&supervisor).exit, TERMINATED);
    assert!(
        out().starts_with("up\nslurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2"),
        "{}",
        out()
    );
}

#[test]
fn what_a_shell_waited_for_has_the_grace_too() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let mut spec = bench.sh(
        "(trap 'sleep 0.5; echo saved; exit' TERM; echo up; while :; do sleep 0.1; done); true",
    );
    spec.step.step = spur_core::id::StepKind::Batch;
    spec.work_dir = dir.clone();
    let file = spur_agent::launch::Output::File {
        path: super::support::bytes("out"),
        append: false,
    };
    (spec.stdio.stdout, spec.stdio.stderr) = (file.clone(), file);
    let supervisor = bench.start(&spec, None);
    let out = || std::fs::read_to_string(dir.join("out")).unwrap_or_default();
    eventually("the script runs", || out() == "up\n");
    cancel(&supervisor, PATIENCE);
    assert_eq!(wait(&supervisor).exit, TERMINATED);
    assert!(out().ends_with("saved\n"), "{}", out());
}

#[test]
fn a_bad_exit_ends_the_others_if_so_asked() {
    let bench = Bench::new();
    let mut spec = bench.sh("");
    spec.tasks = tasks(4, "test $SLURM_PROCID = 2 && exit 3; sleep 1000");
    spec.kill_on_bad_exit = true;
    let heard = bench.run(&spec);
    let statuses: Vec<_> = heard.record.tasks.iter().map(|end| end.exit).collect();
    assert_eq!(
        statuses,
        [
            TERMINATED,
            TERMINATED,
            ExitStatus { code: 3, signal: 0 },
            TERMINATED
        ]
    );
    assert!(!heard.record.cancelled);
}

#[test]
fn a_step_ends_by_its_own_limit() {
    let bench = Bench::new();
    let mut spec = bench.sh("trap '' TERM; echo up; while :; do sleep 1; done");
    (spec.time_limit, spec.kill_wait) = (1, 1);
    let heard = bench.run(&spec);
    assert!(heard.record.timed_out && !heard.record.cancelled);
    assert_eq!(heard.record.exit.signal, 9, "TERM was not enough");
    assert!(
        heard.stderr.contains(" DUE TO TIME LIMIT ***"),
        "{}",
        heard.stderr
    );
}

#[test]
fn a_step_whose_client_is_killed_ends() {
    let bench = Bench::new();
    let mut spec = bench.sh(&format!("trap '' TERM; {ORPHAN}; yes"));
    spec.kill_wait = 0;
    stdin_all(&mut spec);
    let mut client = bench.connect(&spec);
    client.read_until("up");
    drop(client.socket.take());
    let record = wait(&client.supervisor);
    assert_eq!((record.exit, record.cancelled), (KILLED, true));
    assert!(!populated(&spec.cgroup));
}

#[test]
fn a_client_that_breaks_the_protocol_is_as_good_as_gone() {
    use std::io::Write;
    let bench = Bench::new();
    let client = bench.connect(&bench.sh("echo up; sleep 1000"));
    client.read_until("up");
    client
        .socket
        .as_ref()
        .unwrap()
        .write_all(&[0xff; 64])
        .unwrap();
    let record = wait(&client.supervisor);
    assert_eq!((record.exit, record.cancelled), (TERMINATED, true));
}

#[test]
fn a_batch_step_needs_no_client_and_no_agent() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let mut spec = bench.sh("echo up > up; read x < go; exit 6");
    spec.work_dir = dir.clone();
    let made = std::process::Command::new("mkfifo")
        .args(["-m", "666"])
        .arg(dir.join("go"))
        .status()
        .unwrap();
    assert!(made.success());
    let supervisor = bench.start(&spec, None);
    let (pid, step) = (supervisor.pid(), supervisor.dir().to_owned());
    // A restarted agent knows the folder only.
    drop(supervisor);
    eventually("the task runs", || dir.join("up").exists());
    let adopted = Supervisor::adopt(&step).unwrap().unwrap();
    assert_eq!(adopted.pid(), pid);
    assert_eq!(exit_record(&step).unwrap(), None);
    adopted.signal(18, false).unwrap();
    std::fs::write(dir.join("go"), "x\n").unwrap();
    assert_eq!(wait(&adopted).exit.code, 6);
    assert!(Supervisor::adopt(&step).unwrap().is_none());
    assert_eq!(
        adopted.signal(15, false).unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
}

#[test]
fn a_killed_supervisor_is_noticed_and_leaves_no_record() {
    let bench = Bench::new();
    let spec = bench.sh("echo up; sleep 1000");
    let client = bench.connect(&spec);
    client.read_until("up");
    rustix::process::pidfd_send_signal(client.supervisor.pidfd(), rustix::process::Signal::KILL)
        .unwrap();
    wait_gone(&client.supervisor);
    assert_eq!(exit_record(&client.dir).unwrap(), None);
    assert!(Supervisor::adopt(&client.dir).unwrap().is_none());
    assert!(populated(&spec.cgroup), "the tasks are the agent's to kill");
}

#[test]
fn a_supervisor_that_starts_too_late_does_nothing() {
    let bench = Bench::new();
    let spec = bench.sh("sleep 1000");
    // Whichever is first: either the supervisor is found, or it never runs anything.
    let supervisor = bench.start(&spec, None);
    if Supervisor::adopt(supervisor.dir()).unwrap().is_some() {
        cancel(&supervisor, Duration::ZERO);
        wait(&supervisor);
    } else {
        wait_gone(&supervisor);
        assert!(
            log(&supervisor).contains("No such file"),
            "{}",
            log(&supervisor)
        );
    }
    assert!(!populated(&spec.cgroup));
}

#[test]
fn terminating_the_supervisor_ends_the_step_in_order() {
    let bench = Bench::new();
    let client = bench
        .connect(&bench.sh("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"));
    client.read_until("up");
    rustix::process::pidfd_send_signal(client.supervisor.pidfd(), rustix::process::Signal::TERM)
        .unwrap();
    let heard = client.finish();
    assert_eq!((heard.text(), heard.record.exit.code), ("bye\n", 7));
}

#[test]
fn supervisors_leave_no_zombie_and_no_process() {
    let bench = Bench::new();
    for _ in 0..20 {
        let spec = bench.sh("(sleep 1000 &) ; (true &)");
        let client = bench.connect(&spec);
        let pid = client.supervisor.pid();
        client.finish();
        // Its parent, if that is the starter, hears of its end when we do.
        let path = format!("/proc/{pid}");
        let end = Instant::now() + Duration::from_secs(20);
        while std::path::Path::new(&path).exists() {
            assert!(Instant::now() < end, "{pid} is there still");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::remove_dir(&spec.cgroup).unwrap();
    }
}

#[test]
fn what_a_shell_waits_for_is_asked_to_end_too() {
    let bench = Bench::new();
    let child = "trap 'echo child; exit' TERM; echo up; while :; do sleep 0.01; done";
    let mut spec = bench.sh("");
    // The shell's own trap runs only when its child has ended.
    let parent = format!("trap 'echo parent; exit 0' TERM; sh -c \"{child}\"");
    spec.tasks = vec![super::support::task(0, &["sh", "-c", &parent])];
    let client = bench.connect(&spec);
    client.read_until("up");
    cancel(&client.supervisor, PATIENCE);
    assert_eq!(client.finish().text(), "child\nparent\n");
}

#[test]
fn a_task_in_a_session_of_its_own_is_asked_to_end_too() {
    let bench = Bench::new();
    let mut spec = bench.sh("");
    // The first task leads the group and cannot leave it, the second can.
    let command = "echo up; test $SLURM_PROCID = 1 && exec setsid sleep 1000; exec sleep 1000";
    spec.tasks = tasks(2, command);
    let client = bench.connect(&spec);
    client.read_until("up\nup");
    cancel(&client.supervisor, PATIENCE);
    let statuses: Vec<_> = client
        .finish()
        .record
        .tasks
        .iter()
        .map(|end| end.exit)
        .collect();
    assert_eq!(statuses, [TERMINATED; 2]);
}

#[test]
fn a_step_ends_before_its_node_counts_as_lost_if_no_agent_is_there() {
    let bench = Bench::new();
    let lock = bench.user_dir().join("lock");
    let file = std::fs::File::create(&lock).unwrap();
    let mut spec = bench.sh("echo up; sleep 1000");
    spec.kill_wait = 30;
    spec.agent = Some(AgentWatch {
        lock,
        node_timeout: 1,
    });
    let began = Instant::now();
    let client = bench.connect(&spec);
    client.read_until("up");
    let heard = client.finish();
    assert_eq!(heard.record.exit, TERMINATED);
    assert!(heard.record.orphaned && began.elapsed() >= Duration::from_millis(800));
    assert!(
        heard.stderr.contains("DUE TO NODE FAILURE"),
        "{}",
        heard.stderr
    );

    // With an agent it runs on.
    let held = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::fcntl_lock(&file, held).unwrap();
    spec.step.step = spur_core::id::StepKind::Numbered(1);
    spec.tasks[0].argv[2] = super::support::bytes("sleep 2; echo over");
    assert_eq!(bench.run(&spec).text(), "over\n");
}

/// A small file system at the folder of steps; gone when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn at(path: std::path::PathBuf) -> Self {
        use rustix::mount::{MountFlags, mount};
        std::fs::create_dir_all(&path).unwrap();
        let options = c"size=256k,mode=0711";
        mount("spur-test", &path, "tmpfs", MountFlags::empty(), options).unwrap();
        Self(path)
    }

    /// Takes all that is left.
    fn fill(&self, name: &str) -> std::path::PathBuf {
        use std::io::Write;
        let path = self.0.join(name);
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write(&[0; 4096]).is_ok_and(|written| written == 4096) {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).ok();
    }
}

#[test]
fn the_end_of_a_step_is_kept_on_a_disk_that_is_full_by_then() {
    let bench = Bench::new();
    let disk = SmallDisk::at(bench.state.path().join("steps"));
    let go = |code: u8| bench.user_dir().join(format!("go{code}"));
    let start = |code: u8| {
        let spec = bench.sh(&format!(
            "echo up; until test -e {}; do sleep 0.01; done; exit {code}",
            go(code).display()
        ));
        let client = bench.connect(&spec);
        client.read_until("up");
        client
    };
    let (kept, late) = (start(3), start(4));
    // The room that was taken for the end of this one is lost.
    std::fs::remove_file(late.dir.join("exit.new")).unwrap();
    disk.fill("ballast");
    std::fs::write(go(3), "").unwrap();
    assert_eq!(kept.finish().record.exit.code, 3);
    // What a record did not need is free again.
    let ballast = disk.fill("more");
    std::fs::write(go(4), "").unwrap();
    let heard = std::iter::from_fn(|| late.receive());
    let ended = heard
        .into_iter()
        .any(|kind| matches!(kind, from_step::Kind::Ended(_)));
    assert!(ended, "its client hears of it");
    assert_eq!(exit_record(&late.dir).unwrap(), None);
    assert!(
        !late.supervisor.reap().unwrap(),
        "it knows, and nobody else"
    );
    std::fs::remove_file(ballast).unwrap();
    assert_eq!(wait(&late.supervisor).exit.code, 4);
}

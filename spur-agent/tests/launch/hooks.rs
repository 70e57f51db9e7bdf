//! Programs around tasks.

use super::support::{Bench, bytes, tasks};
use spur_agent::launch::{Hooks, StepLaunch};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A script of the test's user.
fn script(bench: &Bench, name: &str, text: &str) -> PathBuf {
    let path = bench.user_dir().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn around(bench: &Bench, prolog: Option<PathBuf>, epilog: Option<PathBuf>) -> Hooks {
    let program = |path: Option<PathBuf>| {
        path.map_or_else(Default::default, |path| bytes(path.to_str().unwrap()))
    };
    drop(bench.user_dir());
    Hooks {
        prolog: program(prolog),
        epilog: program(epilog),
    }
}

#[test]
fn what_the_program_before_a_task_prints_is_its_environment() {
    let bench = Bench::new();
    let prolog = "echo export ADDED=\"for $SLURM_PROCID\"; echo 'unset SHARED'; echo print said $SLURM_SCRIPT_CONTEXT as $(id -u); \
                  echo noise; echo aside >&2";
    let spec = StepLaunch {
        hooks: around(&bench, Some(script(&bench, "prolog", prolog)), None),
        ..bench.sh("echo $ADDED:${SHARED-gone}:$$")
    };
    let heard = bench.run(&spec);
    let mut lines = heard.text().lines();
    assert_eq!(lines.next(), Some("said prolog_task as 54321"));
    let pid = heard.record.tasks[0].pid;
    assert_eq!(lines.next(), Some(format!("for 0:gone:{pid}").as_str()));
    assert_eq!((lines.next(), heard.stderr.as_str()), (None, "aside\n"));
}

#[test]
fn a_task_whose_program_before_it_fails_does_not_run() {
    let bench = Bench::new();
    for (prolog, code, said) in [
        ("exit 7", 7, "--task-prolog failed status=7"),
        ("kill -9 $$", 137, "--task-prolog failed status=137"),
    ] {
        let spec = StepLaunch {
            hooks: around(&bench, Some(script(&bench, "prolog", prolog)), None),
            ..bench.sh("echo never")
        };
        let heard = bench.run(&spec);
        assert_eq!((heard.text(), heard.exits[0].code), ("", code));
        assert_eq!(heard.stderr, format!("slurmstepd-n1: error: {said}\n"));
    }
    let spec = StepLaunch {
        hooks: around(&bench, Some("/none".into()), None),
        ..bench.sh("echo never")
    };
    let heard = bench.run(&spec);
    assert_eq!(
        heard.stderr,
        "slurmstepd-n1: error: --task-prolog /none: No such file or directory\n"
    );
}

#[test]
fn what_the_program_before_a_task_leaves_behind_holds_nothing_up() {
    let bench = Bench::new();
    // A name that cannot be one, more than is looked at, and somebody who holds the pipe.
    let prolog = "echo export ADDED=1; printf 'export N\\0=x\\n'; head -c 3000000 /dev/zero | tr '\\0' x || exit 9; \
                  echo; echo export LATE=1; sleep 1000 &";
    let spec = StepLaunch {
        hooks: around(&bench, Some(script(&bench, "prolog", prolog)), None),
        ..bench.sh("echo $ADDED:${LATE-none}")
    };
    let heard = bench.run(&spec);
    assert_eq!((heard.text(), heard.stderr.as_str()), ("1:none\n", ""));
}

#[test]
fn programs_whose_paths_hold_a_nul_are_refused() {
    let bench = Bench::new();
    let nul = || bytes("/bin/true\0x");
    let none = Default::default;
    for (prolog, epilog) in [(nul(), none()), (none(), nul())] {
        let spec = StepLaunch {
            hooks: Hooks { prolog, epilog },
            ..bench.sh("")
        };
        let refused = bench.launcher().start(&spec, &bench.dir(&spec), None);
        let why = refused.unwrap_err().to_string();
        assert!(why.contains("holds a NUL byte"), "{why}");
    }
}

#[test]
fn a_program_runs_after_each_task_as_its_user_in_its_fence() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let epilog = "echo $SLURM_PROCID $SLURM_SCRIPT_CONTEXT $(id -u) $(grep -c job_7 /proc/self/cgroup) >> ended; exit $SLURM_PROCID";
    let spec = StepLaunch {
        hooks: around(&bench, None, Some(script(&bench, "epilog", epilog))),
        work_dir: dir.clone(),
        tasks: tasks(2, "exit 3"),
        ..bench.sh("")
    };
    let heard = bench.run(&spec);
    let ended = std::fs::read_to_string(dir.join("ended")).unwrap();
    let mut ended: Vec<&str> = ended.lines().collect();
    ended.sort_unstable();
    assert_eq!(ended, ["0 epilog_task 54321 1", "1 epilog_task 54321 1"]);
    assert_eq!(heard.exits.len(), 2);
    assert_eq!(heard.record.exit.code, 3, "the task's own code counts");
    assert_eq!(
        heard.stderr,
        "slurmstepd-n1: error: --task-epilog failed status=1\n"
    );
}

#[test]
fn what_runs_after_a_task_for_too_long_is_ended() {
    let bench = Bench::new();
    let spec = StepLaunch {
        hooks: around(&bench, None, Some(script(&bench, "epilog", "sleep 1000"))),
        ..bench.sh("exit 2")
    };
    let heard = bench.run(&spec);
    assert_eq!(heard.exits[0].code, 2);
    assert_eq!(
        heard.stderr,
        "slurmstepd-n1: error: --task-epilog failed status=137\n"
    );
}

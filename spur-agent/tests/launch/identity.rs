//! Who and what a task is, and how its end is told.

use super::support::{Bench, GID, GROUP, UID, bytes, eventually, owner, task, tasks, wait};
use spur_agent::launch::{LaunchError, Output, Rlimit};
use spur_core::job::state::ExitStatus;

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}"))
        .trim()
}

#[test]
fn a_user_s_task_has_its_identity_and_nothing_more() {
    let bench = Bench::new();
    let heard = bench.run(&bench.sh("cat /proc/self/status; umask; pwd"));
    let status = heard.text();
    let (uid, gid) = (UID.to_string(), GID.to_string());
    assert!(field(status, "Uid").split('\t').all(|id| id == uid));
    assert!(field(status, "Gid").split('\t').all(|id| id == gid));
    assert_eq!(field(status, "Groups"), format!("{GID} {GROUP}"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(status, set), "0000000000000000", "{set}");
    }
    assert_eq!(field(status, "NoNewPrivs"), "1");
    assert_eq!(field(status, "SigBlk"), "0000000000000000");
    assert_eq!(field(status, "SigIgn"), "0000000000000000");
    assert!(status.ends_with("0027\n/tmp\n"), "{status}");
    assert_eq!(heard.record.exit, ExitStatus::default());
}

#[test]
fn a_task_of_root_lacks_what_takes_fences_down() {
    let bench = Bench::new();
    let mut spec = bench.sh("cat /proc/self/status");
    spec.owner = owner(0, 0, &[0]);
    let heard = bench.run(&spec);
    let bounding = u64::from_str_radix(field(heard.text(), "CapBnd"), 16).unwrap();
    // linux/capability.h: SYS_MODULE 16, SYS_RAWIO 17, SYS_PTRACE 19, SYS_ADMIN 21, MKNOD 27, PERFMON 38, BPF 39.
    for refused in [16, 17, 19, 21, 27, 38, 39] {
        assert_eq!(bounding & (1 << refused), 0, "capability {refused}");
    }
    // CHOWN 0, KILL 5: what an administrator's script needs.
    assert_eq!(bounding & 0b10_0001, 0b10_0001);
    for set in ["CapPrm", "CapEff"] {
        let have = u64::from_str_radix(field(heard.text(), set), 16).unwrap();
        assert_eq!(have & !bounding, 0, "{set}");
        assert_ne!(have, 0, "{set}");
    }
}

#[test]
fn a_task_inherits_three_descriptors_only() {
    let bench = Bench::new();
    let mut spec = bench.sh("");
    spec.tasks = (0..3)
        .map(|id| task(id, &["ls", "/proc/self/fd"]))
        .collect();
    let heard = bench.run(&spec);
    // The fourth is the folder that `ls` itself reads.
    assert_eq!(heard.text(), "0\n1\n2\n3\n".repeat(3));
    assert_eq!(heard.exits.len(), 3);
}

#[test]
fn exit_codes_and_signals_are_told_and_the_worst_counts() {
    let bench = Bench::new();
    let mut spec = bench.sh("");
    spec.tasks = tasks(
        4,
        "test $SLURM_PROCID = 1 && kill -9 $$; exit $SLURM_PROCID",
    );
    let mut heard = bench.run(&spec);
    heard.exits.sort_by_key(|exit| exit.task);
    let told: Vec<_> = heard
        .exits
        .iter()
        .map(|exit| (exit.code, exit.signal))
        .collect();
    assert_eq!(told, [(0, 0), (0, 9), (2, 0), (3, 0)]);
    assert_eq!(heard.record.exit, ExitStatus { code: 0, signal: 9 });
    let kept: Vec<_> = heard
        .record
        .tasks
        .iter()
        .map(|end| (end.id, end.exit.code, end.exit.signal))
        .collect();
    assert_eq!(kept, [(0, 0, 0), (1, 0, 9), (2, 2, 0), (3, 3, 0)]);
    assert!(heard.record.started.0 > 0 && heard.record.ended >= heard.record.started);
    assert!(heard.ended.is_some());
}

#[test]
fn a_program_that_cannot_run_gives_slurm_s_message_and_code() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let script = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        path.display().to_string()
    };
    let (bare, lost) = (
        script("bare", "echo hello\n"),
        script("lost", "#!/nonexistent/sh\n"),
    );
    let folder = dir.display().to_string();
    for (program, code, text) in [
        (
            "/nonexistent",
            2,
            "execve(): /nonexistent: No such file or directory".to_owned(),
        ),
        (
            "nonexistent",
            2,
            "execve(): nonexistent: No such file or directory".to_owned(),
        ),
        (
            &folder,
            13,
            format!("execve(): {folder}: Permission denied"),
        ),
        (&bare, 8, format!("execve(): {bare}: Exec format error")),
        (
            &lost,
            2,
            "execve(): bad interpreter(/nonexistent/sh): No such file or directory".to_owned(),
        ),
    ] {
        let mut spec = bench.sh("");
        spec.tasks = vec![task(0, &[program])];
        let heard = bench.run(&spec);
        assert_eq!(heard.stderr, format!("slurmstepd-n1: error: {text}\n"));
        assert_eq!(
            (heard.exits[0].code, heard.record.exit.code),
            (code, u8::try_from(code).unwrap())
        );
        assert_eq!(heard.record.failure, None);
    }
}

#[test]
fn a_missing_working_directory_is_replaced_by_tmp() {
    let bench = Bench::new();
    let mut spec = bench.sh("pwd");
    spec.work_dir = "/nonexistent".into();
    let heard = bench.run(&spec);
    assert_eq!(heard.text(), "/tmp\n");
    let text = "couldn't chdir to `/nonexistent': No such file or directory: going to /tmp instead";
    assert_eq!(heard.stderr, format!("slurmstepd-n1: error: {text}\n"));
}

#[test]
fn environment_limits_and_cpus_are_as_told() {
    let bench = Bench::new();
    let mut spec = bench.sh("echo $SHARED $OWN $SLURM_PROCID; test $SLURM_TASK_PID = $$ && ulimit -n; env | wc -l; nproc");
    spec.tasks[0].env.extend([
        bytes("SHARED=task"),
        bytes("OWN=a=b c"),
        bytes("=nameless"),
        bytes("valueless"),
    ]);
    spec.rlimits = vec![Rlimit {
        resource: libc::RLIMIT_NOFILE,
        soft: 123,
    }];
    spec.tasks[0].cpus = vec![0];
    let heard = bench.run(&spec);
    // PATH, SHARED, OWN, SLURM_PROCID, SLURM_TASK_PID, and the shell's own PWD.
    assert_eq!(heard.text(), "task a=b c 0\n123\n6\n1\n");
    assert_eq!(heard.stderr, "");
}

#[test]
fn a_batch_script_runs_by_its_shebang_with_arguments_and_files() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let mut spec = bench.sh("");
    spec.script = Some(bytes(
        "#!/bin/sh -e\necho \"$1 $#\"; echo err >&2; ls -l \"$0\" | cut -c1-10; basename \"$0\"\n",
    ));
    spec.tasks = vec![task(0, &["first", "second arg"])];
    spec.work_dir = dir.clone();
    let out = |name: &str, append| Output::File {
        path: bytes(name),
        append,
    };
    // Batch names come expanded: what looks like a pattern is a name.
    (spec.stdio.stdout, spec.stdio.stderr) = (out("out-%j", false), out("out-%j", false));
    let read = || std::fs::read_to_string(dir.join("out-%j")).unwrap();
    std::fs::write(dir.join("out-%j"), "old\n").unwrap();
    std::os::unix::fs::chown(dir.join("out-%j"), Some(UID), None).unwrap();
    let supervisor = bench.start(&spec, None);
    let record = wait(&supervisor);
    assert_eq!((record.exit, record.failure), (ExitStatus::default(), None));
    let once = "first 2\nerr\n-r-x------\nslurm_script\n";
    assert_eq!(read(), once);
    spec.step = bench.sh("").step;
    (spec.stdio.stdout, spec.stdio.stderr) = (out("out-%j", true), out("err", true));
    wait(&bench.start(&spec, None));
    assert_eq!(read(), format!("{once}{}", once.replace("err\n", "")));
    assert_eq!(std::fs::read_to_string(dir.join("err")).unwrap(), "err\n");
}

#[test]
fn files_are_opened_as_the_user_or_nothing_runs() {
    let bench = Bench::new();
    let mut spec = bench.sh("echo ran");
    // Root could write here, the user cannot.
    let path = bench.state.path().join("refused").display().to_string();
    spec.stdio.stderr = Output::File {
        path: bytes(&path),
        append: false,
    };
    let heard = bench.run(&spec);
    assert_eq!(heard.text(), "");
    let why = format!("Could not open stderr file {path}: Permission denied");
    assert_eq!(heard.errors[0].text, format!("slurmstepd-n1: error: {why}"));
    assert!(!heard.errors[0].refused);
    assert_eq!(heard.record.failure, Some(why));
    assert!(!heard.record.node_fault);
    assert!(heard.ended.is_some() && heard.exits.is_empty() && heard.started == 0);
}

#[test]
fn a_folder_for_output_may_come_after_the_job_but_must_come() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let mut spec = bench.sh("echo ran");
    let path = dir.join("late/out");
    spec.stdio.stdout = Output::File {
        path: bytes(&path.display().to_string()),
        append: false,
    };
    let supervisor = bench.start(&spec, None);
    std::thread::sleep(std::time::Duration::from_millis(500));
    std::fs::create_dir(dir.join("late")).unwrap();
    std::os::unix::fs::chown(dir.join("late"), Some(UID), None).unwrap();
    assert_eq!(wait(&supervisor).failure, None);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "ran\n");
    let mut spec = bench.sh("echo ran");
    spec.stdio.stdout = Output::File {
        path: bytes(&dir.join("never/out").display().to_string()),
        append: false,
    };
    let failure = bench.run(&spec).record.failure.unwrap();
    assert!(
        failure.ends_with("never/out: No such file or directory (os error 2)")
            || failure.ends_with("never/out: No such file or directory"),
        "{failure}"
    );
}

#[test]
fn what_makes_no_sense_is_refused_and_leaves_nothing() {
    let bench = Bench::new();
    let refused = |change: &dyn Fn(&mut spur_agent::launch::StepLaunch)| {
        let mut spec = bench.sh("true");
        change(&mut spec);
        let error = bench
            .launcher()
            .start(&spec, &bench.dir(&spec), None)
            .unwrap_err();
        assert!(matches!(error, LaunchError::Invalid { .. }), "{error}");
        assert!(!bench.dir(&spec).exists());
    };
    refused(&|spec| spec.tasks.clear());
    refused(&|spec| spec.tasks[0].argv.clear());
    refused(&|spec| spec.tasks[0].argv[1] = bytes("a\0b"));
    refused(&|spec| spec.env.push(bytes("A=\0")));
    let spec = bench.sh("true");
    wait(&bench.start(&spec, None));
    let again = bench
        .launcher()
        .start(&spec, &bench.dir(&spec), None)
        .unwrap_err();
    assert!(again.to_string().contains("File exists"), "{again}");
    assert!(
        spur_agent::launch::exit_record(&bench.dir(&spec))
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_lost_cgroup_is_the_node_s_fault() {
    let bench = Bench::new();
    let spec = bench.sh("true");
    std::fs::remove_dir(&spec.cgroup).unwrap();
    let heard = bench.run(&spec);
    assert!(heard.record.node_fault);
    assert_eq!(
        heard.record.failure.as_deref(),
        Some("the step's cgroup is gone")
    );
    assert!(heard.errors[0].refused);
}

#[test]
fn a_canary_that_is_not_refused_stops_the_step() {
    let bench = Bench::new();
    for (canary, answer) in [
        ("/dev/null", "succeeded"),
        ("/nonexistent", "gave 2 (No such file or directory)"),
    ] {
        let mut spec = bench.sh("echo ran");
        spec.canary = Some(canary.into());
        spec.tasks = tasks(3, "echo ran");
        let heard = bench.run(&spec);
        let why = format!("the fence is not proven: opening {canary} {answer} where EPERM was due");
        assert_eq!(heard.record.failure, Some(why));
        assert!(heard.record.node_fault && heard.errors[0].refused);
        assert!(heard.stdout.is_empty() && heard.ended.is_some());
    }
}

#[test]
fn no_user_can_make_a_step_fail_by_the_node_s_fault() {
    let bench = Bench::new();
    // Neither by limits in which nothing can be prepared: of address space, descriptors and size of files, ...
    for resource in [9, 7, 1] {
        let mut spec = bench.sh("true");
        spec.rlimits = vec![Rlimit { resource, soft: 1 }];
        let record = bench.run(&spec).record;
        assert!(!record.node_fault && record.failure.is_none(), "{record:?}");
    }
    // ... nor by killing a task that waits for the other end of a pipe of its user's.
    let mut spec = bench.sh("true");
    spec.work_dir = bench.user_dir();
    let fifo = spec.work_dir.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o666.into(),
        0,
    )
    .unwrap();
    std::os::unix::fs::chown(&fifo, Some(UID), Some(GID)).unwrap();
    spec.stdio.stdout = Output::File {
        path: bytes("fifo"),
        append: false,
    };
    let supervisor = bench.start(&spec, None);
    let mut theirs = None;
    eventually("the task is its user's", || {
        let pids = std::fs::read_to_string(spec.cgroup.join("cgroup.procs")).unwrap();
        theirs = pids.lines().next().map(str::to_owned);
        let status = theirs
            .as_ref()
            .and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok());
        status.is_some_and(|status| field(&status, "Uid").starts_with("54321"))
    });
    let pid = rustix::process::Pid::from_raw(theirs.unwrap().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let record = wait(&supervisor);
    assert!(record.failure.is_some() && !record.node_fault, "{record:?}");
}

#[test]
fn a_user_can_open_nothing_in_a_step_s_folder() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let spec = bench.sh("echo up; sleep 1000");
    let client = bench.connect(&spec);
    client.read_until("up");
    let files: Vec<_> = std::fs::read_dir(bench.dir(&spec)).unwrap().collect();
    for file in files.iter().map(|file| file.as_ref().unwrap()) {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", file.path());
    }
    assert!(files.len() >= 4, "{files:?}");
    client.supervisor.signal(9, false).unwrap();
}

#[test]
fn many_tasks_need_not_fit_the_agent_s_limit_of_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(256);
    setrlimit(Resource::Nofile, limit).unwrap();
    let bench = Bench::new();
    let mut spec = bench.sh("");
    spec.tasks = tasks(100, "ulimit -n");
    let heard = bench.run(&spec);
    assert_eq!(heard.record.failure, None);
    assert_eq!(heard.text(), "256\n".repeat(100), "and they get it back");
}

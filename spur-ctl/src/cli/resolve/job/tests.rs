use super::super::super::flags::getopt::{Source, parse};
use super::super::script;
use super::*;
use spur_core::resources::{GpuCount, MemoryRequest};
use spur_core::time::{Millis, TimeLimit};
use std::ffi::OsString;

fn here() -> Surroundings {
    Surroundings {
        env: vec!["HOME=/home/u".to_owned(), "A=1".to_owned()],
        cwd: "/work".to_owned(),
        host: "login".to_owned(),
        session: 77,
        uid: 1001,
        gid: 1002,
        now: Millis(1_796_002_864_000),
        utc_offset: 0,
        niceness: 0,
        umask: 0o022,
        submit_line: String::new(),
        request_id: 0,
        rlimits: vec![(7, 1024), (4, 0)],
    }
}

fn options(command: Command, line: &str) -> Options {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    parse(command, &words, Source::CommandLine).unwrap()
}

fn resolved(command: Command, line: &str) -> (JobSpec, Vec<String>) {
    spec(&options(command, line), &here(), "name", "cmd").unwrap()
}

fn failed(command: Command, line: &str) -> (String, u8) {
    let failure = spec(&options(command, line), &here(), "name", "cmd").unwrap_err();
    (failure.text, failure.code)
}

#[test]
fn nothing_given_means_one_task_on_one_node() {
    let (spec, warnings) = resolved(Command::Sbatch, "");
    assert!(warnings.is_empty());
    assert_eq!(
        (spec.nodes_min, spec.nodes_max, spec.nodes_set),
        (1, 1, false)
    );
    assert_eq!(
        (spec.tasks, spec.tasks_set, spec.cpus_per_task),
        (1, false, 1)
    );
    assert_eq!(
        (spec.kind, spec.requeue, spec.hold),
        (JobKind::Batch, true, false)
    );
    assert_eq!(
        (spec.name.as_str(), spec.work_dir.as_str()),
        ("name", "/work")
    );
    assert_eq!(
        (spec.memory, spec.time_limit),
        (MemoryRequest::Default, None)
    );
    assert_eq!((spec.submit_host.as_str(), spec.submit_sid), ("login", 77));
}

#[test]
fn nodes_and_tasks_depend_on_each_other() {
    let shape = |line: &str| {
        let (spec, _) = resolved(Command::Srun, line);
        (spec.nodes_min, spec.nodes_max, spec.tasks)
    };
    assert_eq!(shape("-N2"), (2, 2, 2));
    assert_eq!(shape("-N2-4"), (2, 4, 2));
    assert_eq!(shape("-n8"), (1, 8, 8));
    assert_eq!(shape("-N2 --ntasks-per-node=4"), (2, 2, 8));
    assert_eq!(shape("-n8 --ntasks-per-node=4"), (2, 8, 8));
    assert_eq!(shape("-w n[1-3],n1"), (3, 3, 3));
    let (spec, warnings) = resolved(Command::Srun, "-N4 -n2");
    assert_eq!((spec.nodes_min, spec.nodes_max, spec.tasks), (2, 2, 2));
    assert_eq!(
        warnings,
        ["srun: warning: can't run 2 processes on 4 nodes, setting nnodes to 2"]
    );
}

#[test]
fn everyday_options_are_carried_over() {
    let line = "-p gpu -J train -t 2:30:00 --mem=64G -c2 --gres=gpu:h200:4 -o out -e err -D sub \
                --exclusive -A acct -q high --nice --no-requeue -x n9 -C fast -H --begin=now+1hour";
    let (spec, _) = resolved(Command::Sbatch, line);
    assert_eq!(spec.time_limit, Some(TimeLimit::Secs(9000)));
    assert_eq!(spec.memory, MemoryRequest::PerNode(65_536));
    assert_eq!(
        spec.gpus_per_node,
        Some(GpuCount {
            model: "h200".to_owned(),
            count: 4
        })
    );
    assert_eq!(
        (spec.stdout.as_str(), spec.work_dir.as_str()),
        ("out", "/work/sub")
    );
    assert_eq!(
        (spec.exclusive, spec.nice, spec.requeue, spec.hold),
        (true, 100, false, true)
    );
    assert_eq!(spec.begin, Some(Millis(1_796_002_864_000 + 3_600_000)));
    assert_eq!(
        (spec.exclude.as_slice(), spec.constraint.as_str()),
        (&["n9".to_owned()][..], "fast")
    );
}

#[test]
fn bad_values_fail_with_slurms_words_and_codes() {
    let cases = [
        (
            Command::Sbatch,
            "-t abc",
            "sbatch: error: Invalid --time specification\n",
            255,
        ),
        (
            Command::Srun,
            "-t abc",
            "srun: error: Invalid --time specification\n",
            255,
        ),
        (
            Command::Sbatch,
            "--mem=lots",
            "sbatch: error: Invalid --mem specification\n",
            255,
        ),
        (
            Command::Srun,
            "-n 0",
            "srun: error: Invalid numeric value \"0\" for --ntasks.\n",
            1,
        ),
        (
            Command::Srun,
            "--gres=tpu:1",
            "srun: error: Invalid generic resource (gres) specification\n",
            1,
        ),
        (
            Command::Salloc,
            "-N 4-2",
            "salloc: error: Maximum node count 2 is less than minimum node count 4\n",
            255,
        ),
        (
            Command::Sbatch,
            "--mem=1G --mem-per-cpu=1G",
            "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.\n",
            1,
        ),
    ];
    for (command, line, text, code) in cases {
        assert_eq!(failed(command, line), (text.to_owned(), code), "{line}");
    }
}

fn none() -> Options {
    Options::none(Command::Sbatch)
}

#[test]
fn a_stronger_source_decides_what_memory_means() {
    let mut all = vec![options(Command::Sbatch, "--mem-per-cpu=2G")];
    script::read_options(
        "s.sh",
        b"#!/bin/sh\n#SBATCH --mem=8G\n#SBATCH -J inner -n4\ntrue\n",
        &mut all,
        none,
    )
    .unwrap();
    let (spec, _) = spec(&all[0], &here(), "name", "").unwrap();
    assert_eq!(spec.memory, MemoryRequest::PerCpu(2048));
    assert_eq!((spec.name.as_str(), spec.tasks), ("inner", 4));
}

#[test]
fn a_moment_that_cannot_be_read_is_told_with_its_place() {
    for (line, text) in [
        (
            "--begin=2026-13-01",
            "Invalid time specification (pos=5): 2026-13-01\nsbatch: error: Invalid --begin specification\n",
        ),
        (
            "--deadline=12:60",
            "Invalid time specification (pos=3): 12:60\nsbatch: error: Invalid --deadline specification\n",
        ),
        ("--begin=", "sbatch: error: Invalid --begin specification\n"),
    ] {
        assert_eq!(
            failed(Command::Sbatch, line),
            (text.to_owned(), 255),
            "{line}"
        );
    }
}

#[test]
fn scripts_are_checked_and_their_options_too() {
    let read = |script: &[u8]| {
        let failure = script::read_options("s.sh", script, &mut vec![none()], none).unwrap_err();
        (failure.text, failure.code)
    };
    assert_eq!(read(b"").0, "sbatch: error: Batch script is empty!\n");
    assert_eq!(
        read(b"true\n"),
        (
            "sbatch: error: This does not look like a batch script.  The first\n\
             sbatch: error: line must start with #! followed by the path to an interpreter.\n\
             sbatch: error: For instance: #!/bin/sh\n"
                .to_owned(),
            1
        )
    );
    let (text, code) = read(b"#!/bin/sh\n#SBATCH --nope\n");
    assert_eq!(
        (text.lines().next().unwrap(), code),
        ("sbatch: unrecognized option '--nope'", 255)
    );
}

#[test]
fn limits_are_propagated_as_asked() {
    let limits = |line: &str| limits(&options(Command::Sbatch, line), &here()).unwrap();
    assert_eq!(limits(""), [(7, 1024), (4, 0)]);
    assert_eq!(limits("--propagate=NOFILE"), [(7, 1024)]);
    assert_eq!(limits("--propagate=NONE"), []);
    let bad = super::limits(&options(Command::Sbatch, "--propagate=X"), &here()).unwrap_err();
    assert_eq!(
        bad.text,
        "sbatch: error: Bad rlimit name: X\nsbatch: error: --propagate=X is not valid.\n"
    );
}

#[test]
fn gpus_of_a_stronger_source_win_and_of_one_source_must_agree() {
    let environment = |name: &str| (name == "SBATCH_GPUS_PER_NODE").then(|| "4".to_owned());
    let mut all = options(Command::Sbatch, "--gres=gpu:1");
    all.merge(super::super::super::flags::getopt::environment(
        Command::Sbatch,
        environment,
    ));
    let (found, _) = spec(&all, &here(), "name", "").unwrap();
    assert_eq!(found.gpus_per_node.map(|gpus| gpus.count), Some(1));
    let (text, _) = failed(Command::Sbatch, "--gres=gpu:1 --gpus-per-node=2");
    assert!(text.contains("different numbers of GPUs"));
    let (none, _) = resolved(Command::Sbatch, "--gres=none");
    assert_eq!(none.gpus_per_node.map(|gpus| gpus.count), Some(0));
}

#[test]
fn a_step_that_asks_for_gpus_for_each_task_binds_them_in_a_job_that_is_there_already() {
    use super::super::submission::of_step;
    let bind = |line: &str, new_job| {
        let env = of_step(&options(Command::Srun, line), &here(), new_job);
        env.contains(&"SLURM_TRES_BIND=gres/gpu:per_task:2".to_owned())
            && env.contains(&"SLURM_TRES_PER_TASK=gres/gpu=2".to_owned())
    };
    assert!(bind("--gpus-per-task=2 true", false));
    assert!(bind("--gpus-per-task=2 true", true));
    assert!(bind("--tres-per-task=gres/gpu:2 true", false));
    assert!(bind("--tres-per-task=gres/gpu:2 true", true));
    assert!(!bind("--gres=gpu:2 true", false));
}

#[test]
fn tasks_that_share_a_gpu_see_it_alone_unless_a_binding_is_given() {
    use super::super::submission::{of_batch, of_step};
    let bound = |line: &str| {
        let srun = |new_job| of_step(&options(Command::Srun, line), &here(), new_job);
        let batch = of_batch(&options(Command::Sbatch, line), &here());
        [srun(false), srun(true), batch].map(|env| {
            let mut said = env.into_iter();
            said.find_map(|entry| entry.strip_prefix("SLURM_TRES_BIND=").map(str::to_owned))
        })
    };
    let all = |bind: &str| [(); 3].map(|()| Some(bind.to_owned()));
    assert_eq!(bound("-n4 --ntasks-per-gpu=2 x"), all("gres/gpu:single:2"));
    for (line, bind) in [
        ("-n4 --ntasks-per-gpu=2 --gpu-bind=none x", "gres/gpu:none"),
        ("--gpus-per-task=1 --gpu-bind=none x", "gres/gpu:none"),
        (
            "--gpus-per-task=1 --tres-bind=gres/gpu:map:1 x",
            "gres/gpu:map:1",
        ),
    ] {
        assert_eq!(bound(line), all(bind), "{line}");
    }
    let (spec, _) = resolved(Command::Sbatch, "-n4 --ntasks-per-gpu=2");
    assert_eq!(spec.extras().tres_bind, "gres/gpu:single:2");
}

#[test]
fn planes_are_told_with_their_size() {
    use super::super::super::flags::getopt::environment;
    use super::super::submission::of_batch;
    let env = of_batch(&options(Command::Sbatch, "-m plane=4,NoPack"), &here());
    for entry in ["SLURM_DISTRIBUTION=plane", "SLURM_DIST_PLANESIZE=4"] {
        assert!(env.contains(&entry.to_owned()), "{entry} {env:?}");
    }
    let get = |name: &str| {
        let entry = env.iter().find_map(|entry| entry.strip_prefix(name));
        entry?.strip_prefix('=').map(str::to_owned)
    };
    let told = environment(Command::Srun, get);
    assert_eq!(told.value("distribution"), Some("plane=4"));
    let env = of_batch(&options(Command::Sbatch, "-m cyclic"), &here());
    assert!(!env.iter().any(|entry| entry.contains("PLANESIZE")));
}

#[test]
fn what_is_exported_to_a_script_is_what_it_hands_on_to_its_steps() {
    use super::super::submission::of_batch;
    for (line, handed_on) in [
        ("", None),
        ("--export=all", None),
        ("--export=NONE", Some("NONE")),
        ("--export=NIL", Some("NIL")),
        ("--export=A,B=2", Some("A,B=2")),
        ("--export=ALL,B=2", Some("ALL,B=2")),
    ] {
        let env = of_batch(&options(Command::Sbatch, line), &here());
        let found = env
            .iter()
            .find_map(|entry| entry.strip_prefix("SLURM_EXPORT_ENV="));
        assert_eq!(found, handed_on, "{line}");
    }
}

#[test]
fn steps_of_a_script_open_their_files_as_the_script_does() {
    use super::super::submission::of_batch;
    let mode = |line: &str| {
        let env = of_batch(&options(Command::Sbatch, line), &here());
        let mut modes = env
            .into_iter()
            .filter(|entry| entry.starts_with("SLURM_OPEN_MODE="));
        modes.next()
    };
    assert_eq!(
        mode("--open-mode=append").as_deref(),
        Some("SLURM_OPEN_MODE=a")
    );
    assert_eq!(
        mode("--open-mode=Truncate").as_deref(),
        Some("SLURM_OPEN_MODE=t")
    );
    assert_eq!(mode(""), None);
}

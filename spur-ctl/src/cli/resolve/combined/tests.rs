use super::super::super::flags::Command;
use super::super::super::flags::getopt::{Options, Source, environment, parse};
use super::super::input::Surroundings;
use super::super::job;
use spur_core::job::spec::{GresFlags, JobSpec, Switches};
use spur_core::time::Millis;
use std::ffi::OsString;

fn here(env: &[&str]) -> Surroundings {
    Surroundings {
        env: env.iter().map(|entry| (*entry).to_owned()).collect(),
        cwd: "/work".to_owned(),
        host: "login".to_owned(),
        session: 1,
        uid: 1,
        gid: 1,
        now: Millis(1),
        utc_offset: 0,
        niceness: 0,
        umask: 0o022,
        submit_line: String::new(),
        request_id: 0,
        rlimits: Vec::new(),
    }
}

/// `NAME=VALUE` words come from the environment.
fn resolved(command: Command, line: &str) -> Result<JobSpec, (String, u8)> {
    let variable =
        |word: &&str| !word.starts_with('-') && word.starts_with('S') && word.contains('=');
    let (env, words): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(variable);
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let get = |name: &str| {
        let entry = env
            .iter()
            .find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
        entry.map(str::to_owned)
    };
    let fail = |failure: crate::cli::failure::Failure| (failure.text, failure.code);
    let mut options: Options = environment(command, get);
    options.merge(parse(command, &words, Source::CommandLine).map_err(fail)?);
    let (spec, _) = job::spec(&options, &here(&env), "name", "cmd").map_err(fail)?;
    Ok(spec)
}

fn taken(line: &str) -> JobSpec {
    resolved(Command::Sbatch, line).unwrap_or_else(|(text, _)| panic!("{line}: {text}"))
}

#[test]
fn options_of_placement_are_carried_over() {
    let spec = taken(
        "--gpus-per-socket=h200:2 --sockets-per-node=2 --ntasks-per-socket=4 --mincpus=8 --segment=4 --contiguous \
         --prefer=ib|hdr -C a100&ib --switches=2@1:30 --gres-flags=Enforce-Binding,multiple-tasks-per-sharing \
         --cpus-per-gpu=3 -N2",
    );
    assert_eq!(spec.gpus_per_socket.unwrap().count, 2);
    assert_eq!((spec.sockets_per_node, spec.tasks_per_socket), (2, 4));
    assert_eq!((spec.mincpus, spec.segment, spec.contiguous), (8, 4, true));
    assert_eq!(
        (spec.prefer.as_str(), spec.constraint.as_str()),
        ("ib|hdr", "a100&ib")
    );
    assert_eq!(spec.cpus_per_gpu, 3);
    assert_eq!(
        spec.switches,
        Some(Switches {
            count: 2,
            max_wait_secs: Some(90)
        })
    );
    assert_eq!(
        spec.gres_flags,
        GresFlags {
            enforce_binding: true,
            multiple_tasks_per_sharing: true,
            ..GresFlags::default()
        }
    );
    assert_eq!(taken("--ntasks-per-gpu=2 -G4").tasks, 8);
    assert_eq!(
        taken("--ntasks-per-tres=2 -n8").gpus_total.unwrap().count,
        4
    );
    assert_eq!(taken("--segment=0").segment, 0);
}

#[test]
fn the_environment_gives_them_too() {
    let switches = |line| {
        let switches = taken(line).switches.unwrap();
        (switches.count, switches.max_wait_secs)
    };
    assert_eq!(switches("SBATCH_REQ_SWITCH=3"), (3, None));
    assert_eq!(switches("--switches=1@soon"), (1, None));
    assert_eq!(
        switches("SBATCH_REQ_SWITCH=3 SBATCH_WAIT4SWITCH=10"),
        (3, Some(600))
    );
    assert_eq!(
        switches("--switches=1 SBATCH_WAIT4SWITCH=10"),
        (1, Some(600))
    );
    assert_eq!(
        switches("--switches=1@unlimited SBATCH_WAIT4SWITCH=10"),
        (1, None)
    );
    let spec = taken(
        "SBATCH_CPUS_PER_GPU=4 SBATCH_GPUS_PER_SOCKET=1 --sockets-per-node=2 SBATCH_CONSTRAINT=x",
    );
    assert_eq!((spec.cpus_per_gpu, spec.constraint.as_str()), (4, "x"));
    assert_eq!(spec.gpus_per_socket.unwrap().count, 1);
    assert!(
        taken("SBATCH_GRES_FLAGS=disable-binding")
            .gres_flags
            .disable_binding
    );
    let srun = resolved(
        Command::Srun,
        "SLURM_NTASKS_PER_GPU=2 SLURM_NSOCKETS_PER_NODE=2 -G2",
    )
    .unwrap();
    assert_eq!((srun.tasks, srun.sockets_per_node), (4, 2));
    // What the user writes wins.
    assert_eq!(taken("SBATCH_CPUS_PER_GPU=4 -c2 -G1").cpus_per_gpu, 0);
    let other = taken("SBATCH_CPUS_PER_TASK=4 --cpus-per-gpu=2 -G1");
    assert_eq!((other.cpus_per_gpu, other.cpus_per_task_set), (2, false));
    let both = resolved(
        Command::Srun,
        "SLURM_NTASKS_PER_TRES=4 --ntasks-per-gpu=2 -G2",
    )
    .unwrap();
    assert_eq!(both.tasks_per_gpu, 2);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn malformed_values_fail_with_slurms_words_and_codes() {
    let table = [
        (
            "--cpus-per-gpu=0",
            "error: Invalid numeric value \"0\" for --cpus-per-gpu.\n",
            1,
        ),
        (
            "--ntasks-per-gpu=x",
            "error: Invalid numeric value \"x\" for --ntasks-per-gpu.\n",
            1,
        ),
        (
            "--mincpus=-1",
            "error: Invalid numeric value \"-1\" for --mincpus.\n",
            1,
        ),
        (
            "--ntasks-per-socket=0",
            "error: Invalid numeric value \"0\" for --ntasks-per-socket.\n",
            1,
        ),
        (
            "--sockets-per-node=",
            "error: Invalid numeric value \"\" for --sockets-per-node.\n",
            1,
        ),
        (
            "--switches=0",
            "error: Invalid numeric value \"0\" for --switches.\n",
            1,
        ),
        (
            "--segment=-1",
            "error: Invalid --segment specification\n",
            255,
        ),
        (
            "--segment=65534",
            "error: Invalid --segment specification\n",
            255,
        ),
        (
            "--gres-flags=nope",
            "error: Invalid --gres-flags specification: nope\n",
            255,
        ),
        (
            "--gres-flags=disable-binding,enforce-binding",
            "error: Invalid --gres-flags combo: disable-binding and enforce-binding are mutually exclusive.\n",
            255,
        ),
        (
            "--gres-flags=allow-task-sharing",
            "error: --gres-flags=allow-task-sharing is only used with srun.\n",
            255,
        ),
        (
            "--gres-flags=one-task-per-sharing",
            "error: In order to use --gres-flags=one-task-per-sharing you must also have \
             SelectTypeParameters=MULTIPLE_SHARING_GRES_PJ in your slurm.conf\n",
            255,
        ),
    ];
    for (line, text, code) in table {
        let expected = Err((format!("sbatch: {text}"), code));
        assert_eq!(
            resolved(Command::Sbatch, line).map(drop),
            expected,
            "{line}"
        );
    }
    assert!(
        resolved(Command::Srun, "--gres-flags=allow-task-sharing")
            .unwrap()
            .gres_flags
            .allow_task_sharing
    );
}

#[test]
fn combinations_are_checked_as_slurm_does() {
    let exclusive = "is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU\n";
    let gres = "srun: error: Invalid generic resource (gres) specification\n";
    let table = [
        ("--ntasks-per-gpu=2 --gpus-per-task=1", format!("srun: fatal: --gpus-per-task {exclusive}")),
        (
            "--ntasks-per-gpu=2 SLURM_GPUS_PER_SOCKET=1",
            format!("srun: fatal: SLURM_GPUS_PER_SOCKET {exclusive}"),
        ),
        (
            "--ntasks-per-node=2 SLURM_NTASKS_PER_GPU=1",
            format!("srun: fatal: --ntasks-per-node {exclusive}"),
        ),
        (
            "--ntasks-per-gpu=2 --ntasks-per-tres=3",
            "srun: fatal: Inconsistent values set to --ntasks-per-gpu=2 and --ntasks-per-tres=3 \n".to_owned(),
        ),
        (
            "-c2 --cpus-per-gpu=2 -G1",
            "srun: fatal: --cpus-per-task, --tres-per-task=cpu:#, and --cpus-per-gpu are mutually exclusive\n".to_owned(),
        ),
        (
            "-S1 --thread-spec=1",
            "srun: fatal: -S/--core-spec and --thred-spec options are mutually exclusive\n".to_owned(),
        ),
        (
            "SLURM_CORE_SPEC=1 SLURM_THREAD_SPEC=1",
            "srun: fatal: Both --core-spec and --thread-spec set using environment variables. Those options are mutually exclusive.\n"
                .to_owned(),
        ),
        (
            "--exclusive --oversubscribe",
            "srun: fatal: --exclusive and --oversubscribe options are mutually exclusive\n".to_owned(),
        ),
        (
            "--gpus-per-socket=2",
            format!("srun: error: --gpus-per-socket option requires --sockets-per-node specification\n{gres}"),
        ),
        (
            "--cpus-per-gpu=2",
            format!("srun: error: Requested cpus_per_tres=gres/gpu:2 but did not request any GPU.\n{gres}"),
        ),
        (
            "--mem-per-gpu=2G",
            format!("srun: error: Requested mem_per_tres=gres/gpu:2048 but did not request any GPU.\n{gres}"),
        ),
        (
            "--gpus-per-task=1",
            format!(
                "srun: error: Failed to validate job spec. --gpus-per-task or --tres-per-task used without either \
                 --gpus or -n/--ntasks is not allowed.\n{gres}"
            ),
        ),
        (
            "-G3 --gpus-per-task=2",
            format!("srun: error: Failed to validate job spec, --gpus not multiple of --gpus-per-task\n{gres}"),
        ),
        (
            "--ntasks-per-gpu=2",
            format!(
                "srun: error: gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a \
                 node/ntask specification\n{gres}"
            ),
        ),
    ];
    for (line, text) in table {
        let found = resolved(Command::Srun, line).map(drop);
        assert_eq!(found, Err((text, 1)), "{line}");
    }
}

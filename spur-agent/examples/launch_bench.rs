//! What a launch costs: `launch_bench SPURD [ROUNDS]`, as root. Prints the median and the 95th percentile of making a step's
//! cgroup, `start` and the end of the supervisor, for `true` as an ordinary user, and of a bare spawn of `true` beside it.

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags};
use spur_agent::cgroup::{Cgroup, Root};
use spur_agent::launch::{
    Input, Launcher, Output, Stdio, StepLaunch, TaskLaunch, exit_record, remove_dir, step_dir,
};
use spur_core::id::{Gid, JobId, StepId, StepKind, Uid};
use spur_core::job::spec::Owner;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let program: PathBuf = args
        .next()
        .context("usage: launch_bench SPURD [ROUNDS]")?
        .into();
    let rounds = args
        .next()
        .map_or(Ok(200), |n| n.to_string_lossy().parse())?;
    let root = Root::open(&format!("spur-bench-{}", std::process::id()))?;
    let state = tempfile::tempdir()?;
    let measured = measure(&root, &program, state.path(), rounds);
    root.remove()?;
    measured
}

fn measure(root: &Root, program: &Path, state: &Path, rounds: u32) -> Result<()> {
    let job = root.create_job(JobId(1))?;
    let launcher = Launcher {
        program: program.to_owned(),
        starter: Some(Default::default()),
    };
    let (mut started, mut whole, mut heard, mut bare) = (vec![], vec![], vec![], vec![]);
    for round in 0..rounds {
        let begin = Instant::now();
        std::process::Command::new("/bin/true").status()?;
        bare.push(begin.elapsed());
        let one = launch(&job, &launcher, state, round)?;
        started.push(one[0]);
        heard.push(one[1]);
        whole.push(one[2]);
    }
    job.remove()?;
    show("spawn of /bin/true, no supervisor", &mut bare);
    show("until start returned", &mut started);
    show("until the client heard the end", &mut heard);
    show("until the supervisor was reaped", &mut whole);
    Ok(())
}

fn launch(job: &Cgroup, launcher: &Launcher, state: &Path, round: u32) -> Result<[Duration; 3]> {
    let step = StepId {
        job: JobId(1),
        step: StepKind::Numbered(round),
    };
    let dir = step_dir(state, step);
    let (ours, theirs) = UnixStream::pair()?;
    let begin = Instant::now();
    let cgroup = job.step(step.step)?;
    let spec = spec(step, cgroup.path());
    let supervisor = launcher.start(&spec, &dir, Some(OwnedFd::from(theirs)))?;
    let started = begin.elapsed();
    std::io::copy(&mut &ours, &mut std::io::sink())?;
    let heard = begin.elapsed();
    while !supervisor.reap()? {
        rustix::event::poll(
            &mut [PollFd::from_borrowed_fd(supervisor.pidfd(), PollFlags::IN)],
            None,
        )?;
    }
    let whole = begin.elapsed();
    let record = exit_record(&dir)?.context("no exit record")?;
    ensure!(
        record.failure.is_none() && record.exit.code == 0,
        "{record:?}"
    );
    remove_dir(&dir)?;
    cgroup.remove()?;
    Ok([started, heard, whole])
}

fn spec(step: StepId, cgroup: &Path) -> StepLaunch {
    let owner = Owner {
        uid: Uid(65_534),
        gid: Gid(65_534),
        groups: vec![Gid(65_534)],
        user: "nobody".into(),
        group: "nogroup".into(),
        home: "/".into(),
        shell: "/bin/sh".into(),
    };
    let bytes = |text: &str| serde_bytes::ByteBuf::from(text.as_bytes());
    let argv = vec![bytes("/bin/true")];
    StepLaunch {
        step,
        node: "n1".into(),
        node_index: 0,
        job_name: "bench".into(),
        cgroup: cgroup.into(),
        canary: None,
        owner,
        umask: 0o022,
        rlimits: Vec::new(),
        work_dir: "/".into(),
        stdio: Stdio {
            stdin: Input::Null,
            stdout: Output::Stream,
            stderr: Output::Stream,
        },
        script: None,
        env: (0..60)
            .map(|n| bytes(&format!("SLURM_VARIABLE_{n}=some value of usual length")))
            .collect(),
        tasks: vec![TaskLaunch {
            id: 0,
            argv,
            env: Vec::new(),
            cpus: Vec::new(),
            told: Default::default(),
        }],
        kill_on_bad_exit: false,
        time_limit: 0,
        kill_wait: 30,
        client_early: serde_bytes::ByteBuf::new(),
        fenced: Vec::new(),
        terminal: None,
        hooks: spur_agent::launch::Hooks::default(),
        agent: None,
        array: None,
        mpi: None,
    }
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |percent: usize| {
        times
            .get(times.len() * percent / 100)
            .map_or(0, Duration::as_micros)
    };
    println!("{what:<36} median {:>6} us   p95 {:>6} us", at(50), at(95));
}

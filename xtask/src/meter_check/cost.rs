//! What the meter costs its node: a development cluster of one node with eight stand-ins for GPUs and a hundred jobs, metered once a
//! second, then ten times a second because somebody looks.

use super::Row;
use crate::dev::DevCluster;
use crate::sh;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// GPUs of the node, and jobs, of which so many hold one.
const GPUS: u32 = 8;
const JOBS: u32 = 100;

/// Thousandths of a percent of one core that the meter's threads may take at ten readings a second: half a percent.
const CPU_LIMIT: u64 = 500;

/// MiB that the agent may have, its ring of ten minutes in it.
const MEMORY_LIMIT: u64 = 128;

/// Readings in a hundred seconds that there must be, for the cost to be that of ten a second.
const READINGS: u64 = 900;

/// How long jobs may take to start.
const LIMIT: Duration = Duration::from_secs(120);

/// From the last job's start to the first measurement.
const SETTLE: Duration = Duration::from_secs(10);

/// How often the stand-ins say something new.
const CHANGE: Duration = Duration::from_millis(200);

/// How often somebody looks; the node goes on measuring often for a few seconds after that.
const LOOK: Duration = Duration::from_secs(3);

/// What the threads of one process had used at a time.
struct Sample {
    at: Instant,
    /// On a CPU, ns.
    cpu: u64,
    /// Times that the sampler went to sleep.
    sleeps: u64,
    /// Written by the stream.
    bytes: u64,
}

/// Measures for so many seconds at ten readings a second, and a fifth of that at one.
pub(super) fn measure(bins: &Path, seconds: u64) -> Result<Vec<Row>> {
    let gpus = GPUS.to_string();
    let args = [
        "--nodes", "1", "--gpus", &gpus, "--cpus", "128", "--memory", "1T",
    ];
    let cluster = DevCluster::up(bins, &args)?;
    start_jobs(&cluster)?;
    let (agent, _) = cluster
        .processes("spurd --config")
        .into_iter()
        .find(|(_, line)| !line.contains("supervise"))
        .context("no agent runs for the cluster")?;
    let standins = standins(cluster.dir())?;
    ensure!(!standins.is_empty(), "the stand-ins have no files");
    // First names and first values are sent once.
    std::thread::sleep(SETTLE);
    let usual = watch(
        agent,
        &standins,
        Duration::from_secs(seconds.div_ceil(5)),
        None,
    )?;
    look(&cluster)?;
    // The word comes to the node between two readings.
    std::thread::sleep(Duration::from_secs(2));
    let often = watch(
        agent,
        &standins,
        Duration::from_secs(seconds),
        Some(&cluster),
    )?;
    let memory = resident_mib(agent)?;
    cluster.down()?;
    let mut rows = rows("1 Hz", &usual, None);
    rows.extend(rows_of_often(&often, memory));
    Ok(rows)
}

/// The figures of a span, per second.
struct Span {
    cpu: u64,
    readings: u64,
    bytes: u64,
}

fn rows(rate: &str, span: &Span, limit: Option<u64>) -> Vec<Row> {
    let case = format!("{GPUS} GPUs, {JOBS} jobs, {rate}");
    vec![
        Row::at_most(
            "here",
            &case,
            "meter cpu, 1/1000 % of a core",
            span.cpu,
            limit,
        ),
        Row::at_most("here", &case, "stream bytes/s", span.bytes, None),
    ]
}

fn rows_of_often(span: &Span, memory: u64) -> Vec<Row> {
    let mut all = rows("10 Hz", span, Some(CPU_LIMIT));
    let case = format!("{GPUS} GPUs, {JOBS} jobs, 10 Hz");
    all.push(Row::at_least(
        "here",
        &case,
        "readings in 100 s",
        span.readings,
        READINGS,
    ));
    all.push(Row::at_most(
        "here",
        &case,
        "agent's memory, MiB",
        memory,
        Some(MEMORY_LIMIT),
    ));
    all
}

fn start_jobs(cluster: &DevCluster) -> Result<()> {
    let script = format!(
        "i=0; while [ $i -lt {JOBS} ]; do if [ $i -lt {GPUS} ]; then o=--gres=gpu:1; else o=-J-; fi; \
         sbatch -o /dev/null -n1 --mem=100 $o --wrap 'exec sleep 100000' > /dev/null || exit 1; i=$((i+1)); done"
    );
    sh::output(&mut cluster.command(&["sh", "-c", &script]))?;
    let end = Instant::now() + LIMIT;
    loop {
        let text = sh::output(&mut cluster.command(&["squeue", "-h", "-t", "R", "-o", "%i"]))?;
        let running = text.lines().count();
        if running == usize::try_from(JOBS)? {
            return Ok(());
        }
        ensure!(Instant::now() < end, "only {running} of {JOBS} jobs run");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Somebody looks at the first job: for some seconds its node measures more often.
fn look(cluster: &DevCluster) -> Result<()> {
    let mut command = cluster.direct(&["spur", "usage", "--watch", "1"])?;
    let status = command.stderr(Stdio::inherit()).status();
    let good = status.context("starting spur usage")?.success();
    ensure!(good, "spur usage --watch does not answer");
    Ok(())
}

/// The files that say how busy the stand-ins are.
fn standins(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?
        {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|ext| ext == "busy") {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// What the agent's meter uses while the stand-ins change, and somebody looks.
fn watch(
    agent: u32,
    standins: &[PathBuf],
    span: Duration,
    viewed: Option<&DevCluster>,
) -> Result<Span> {
    let first = sample(agent)?;
    let (mut step, mut looked) = (0u64, Instant::now());
    while first.at.elapsed() < span {
        if let Some(cluster) = viewed.filter(|_| looked.elapsed() > LOOK) {
            look(cluster)?;
            looked = Instant::now();
        }
        step += 1;
        for (number, file) in (0u64..).zip(standins) {
            fs::write(file, ((step * 37 + number * 101) % 1001).to_string())
                .with_context(|| format!("writing {}", file.display()))?;
        }
        std::thread::sleep(CHANGE);
    }
    let last = sample(agent)?;
    let millis = u64::try_from(last.at.duration_since(first.at).as_millis())?.max(1);
    Ok(Span {
        // ns in a ms, as thousandths of a percent: 1,000,000 ns would be 100,000.
        cpu: (last.cpu - first.cpu) / millis / 10,
        readings: (last.sleeps - first.sleeps) * 100_000 / millis,
        bytes: (last.bytes - first.bytes) * 1000 / millis,
    })
}

fn sample(agent: u32) -> Result<Sample> {
    let mut sample = Sample {
        at: Instant::now(),
        cpu: 0,
        sleeps: 0,
        bytes: 0,
    };
    let tasks = format!("/proc/{agent}/task");
    for entry in fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))? {
        let dir = entry?.path();
        let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
        let name = read("comm");
        if !name.starts_with("meter") {
            continue;
        }
        let cpu: Option<u64> = read("schedstat")
            .split(' ')
            .next()
            .and_then(|w| w.parse().ok());
        sample.cpu += cpu.context("the kernel keeps no times of threads")?;
        if name.trim() == "meter" {
            sample.sleeps += number(&read("status"), "voluntary_ctxt_switches:");
        }
        if name.trim() == "meter-stream" {
            sample.bytes += number(&read("io"), "wchar:");
        }
    }
    ensure!(sample.cpu > 0, "the agent has no meter's threads");
    Ok(sample)
}

fn number(text: &str, key: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(key));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn resident_mib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the agent is gone")?;
    Ok(number(&status, "VmRSS:") / 1024)
}

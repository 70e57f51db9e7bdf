//! How fast waiting jobs are started: ten thousand in a partition that is down, then it is set up.
//!
//! For spur the clock runs until each job was placed, written down, sent to its agent, run there for no time at all, reported back and
//! written down again. Slurm's nodes are of the kind that is powered up first, so the clock stops when the last job has its nodes: nothing
//! is launched, which counts in its favour.

use super::{Report, slurm};
use crate::dev::DevCluster;
use crate::sh;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// What the jobs ask for, in turn: as many GPUs as the nodes have, if there are ten jobs for a node.
const MIX: [&str; 4] = [
    "-n1 --gpus-per-node=1",
    "-n1 --gpus-per-node=1 -c2",
    "-n1 -c4",
    "-n1 --gpus-per-node=1 -c4",
];

/// Commands that submit at once.
const CLIENTS: u32 = 8;

/// How long spur may take.
const LIMIT: Duration = Duration::from_secs(120);

/// How long Slurm may take; its rate is then that of the jobs which it has started.
const SLURM_SECS: u32 = 120;

/// How often counters are read.
const LOOK: Duration = Duration::from_millis(20);

/// Times the real Slurm's.
const TIMES_MIN: f64 = 10.0;

/// What Slurm's documents say for high throughput.
pub(super) const TUNED: &str = "batch_sched_delay=0,default_queue_depth=20000,sched_min_interval=0,max_rpc_cnt=0,bf_max_job_test=20000,bf_interval=1";

/// Both of Slurm's settings: as it comes, and tuned.
const SETTINGS: [(&str, &str); 2] = [("as it comes", ""), ("tuned", TUNED)];

pub(super) fn measure(
    bins: &Path,
    (nodes, jobs): (u32, u32),
    folder: Option<&Path>,
    report: &mut Report,
) -> Result<()> {
    report.line(&format!("starts: {nodes} nodes, {jobs} waiting jobs"));
    let ours = spur(bins, nodes, jobs, report)?;
    let Some(folder) = folder else {
        return Ok(());
    };
    let script = folder.join("chroot.sh");
    slurm::up(&script, report)?;
    let mut best: Result<f64> = Ok(0.0);
    for (name, settings) in SETTINGS {
        best = best.and_then(|best| {
            let rate = theirs(&script, (nodes, jobs), (name, settings), report)?;
            Ok(best.max(rate))
        });
    }
    // Down also when a part failed: mounts must not stay.
    slurm::down(&script, report)?;
    let best = best?;
    let times = ours / best;
    let word = if times >= TIMES_MIN {
        "holds"
    } else {
        "BROKEN"
    };
    report.line(&format!(
        "  {times:.1} times the faster of Slurm's, promised at least {TIMES_MIN}: {word}"
    ));
    Ok(())
}

fn lines(jobs: u32) -> Result<String> {
    let mut text = String::new();
    for options in MIX.iter().cycle().take(usize::try_from(jobs)?) {
        writeln!(text, "{options}")?;
    }
    Ok(text)
}

/// Starts per second.
fn spur(bins: &Path, nodes: u32, jobs: u32, report: &mut Report) -> Result<f64> {
    let count = nodes.to_string();
    let args = [
        "--hollow",
        "--job-seconds",
        "0",
        "--nodes",
        &count,
        "--gpus",
        "8",
        "--cpus",
        "64",
        "--memory",
        "1T",
    ];
    let cluster = DevCluster::up(bins, &args)?;
    let set = |state: &str| {
        let mut command = cluster.as_root(&["scontrol", "update", "PartitionName=gpu", state]);
        sh::output(&mut command).map(drop)
    };
    set("State=DOWN")?;
    let home = cluster.home();
    std::fs::write(home.join("options"), lines(jobs)?).context("writing the jobs' options")?;
    std::fs::write(home.join("job.sh"), "#!/bin/sh\ntrue\n").context("writing a script")?;
    let submit = format!(
        r#"xargs -a options -P{CLIENTS} -L1 sh -c 'exec sbatch -t 60 -o /dev/null "$@" job.sh' sbatch > /dev/null"#
    );
    let begun = Instant::now();
    sh::output(&mut cluster.command(&["sh", "-c", &submit]))?;
    report.line(&format!(
        "  spur: submitted by {CLIENTS} clients: {:.0} jobs/s",
        f64::from(jobs) / begun.elapsed().as_secs_f64()
    ));
    let (placed, ended) = drain(&cluster, jobs, &set)?;
    let rate = |span: Duration| f64::from(jobs) / span.as_secs_f64();
    report.line(&format!(
        "  spur: placed and durable: {:.0} jobs/s ({:.2} s)",
        rate(placed),
        placed.as_secs_f64()
    ));
    report.line(&format!(
        "  spur: started, run, reported by the agent and durable: {:.0} jobs/s ({:.2} s)",
        rate(ended),
        ended.as_secs_f64()
    ));
    for line in sh::output(&mut cluster.command(&["spur", "stats"]))?.lines() {
        report.line(&format!("    {line}"));
    }
    cluster.down()?;
    Ok(rate(ended))
}

/// Sets the partition up, and waits until every job was placed, and until every job was reported over.
fn drain(
    cluster: &DevCluster,
    jobs: u32,
    set: &impl Fn(&str) -> Result<()>,
) -> Result<(Duration, Duration)> {
    let before = counters(cluster)?;
    ensure!(
        before.waiting >= jobs.into(),
        "only {} jobs wait",
        before.waiting
    );
    let begun = Instant::now();
    set("State=UP")?;
    let mut placed = None;
    loop {
        let now = counters(cluster)?;
        if now.waiting == 0 {
            let placed = *placed.get_or_insert_with(|| begun.elapsed());
            if now.running == 0 {
                return Ok((placed, begun.elapsed()));
            }
        }
        if begun.elapsed() > LIMIT {
            bail!(
                "after {LIMIT:?} {} jobs wait and {} run",
                now.waiting,
                now.running
            );
        }
        std::thread::sleep(LOOK);
    }
}

struct Counters {
    waiting: u64,
    running: u64,
}

fn counters(cluster: &DevCluster) -> Result<Counters> {
    let text = sh::output(&mut cluster.command(&["spur", "stats"]))?;
    let value = |name: &str| -> Result<u64> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let value = line.with_context(|| format!("spur stats says nothing of {name}"))?;
        Ok(value.parse()?)
    };
    Ok(Counters {
        waiting: value("jobs_pending")?,
        running: value("jobs_running")?,
    })
}

/// What runs inside: submits to a partition that is down, sets it up, and counts what still waits.
const INSIDE: &str = r#"
cd /opt/bench && . ./lib.sh || exit 1
WIPE=1 ./teardown.sh >/dev/null 2>&1
NREAL=1 timeout 120 ./setup.sh >/dev/null || exit 1
cd "$BASE/work" && printf '#!/bin/sh\ntrue\n' > starts.sh && chmod 755 starts.sh
echo "$MIX" | awk -v jobs="$JOBS" '{ mix[NR - 1] = $0 } END { for (n = 0; n < jobs; n++) print mix[n % NR] }' > starts.lines
scontrol update partitionname=scale state=down || exit 1
begun=$(date +%s.%N)
setpriv --reuid "$TUSER" --clear-groups env HOME="$BASE/home" xargs -a starts.lines -P8 -L1 sh -c 'exec sbatch -p scale -t 60 -o /dev/null "$@" starts.sh > /dev/null' x
ended=$(date +%s.%N)
left() { squeue -h -r -t PD -o %i | wc -l; }
all=$(left)
printf 'submitted\t%s\n' "$(echo "$all / ($ended - $begun)" | bc -l)"
begun=$(date +%s.%N)
scontrol update partitionname=scale state=up
while n=$(left) && [ "$n" -gt 0 ] && [ "$(echo "$(date +%s.%N) - $begun < $LIMIT" | bc -l)" = 1 ]; do sleep 0.2; done
ended=$(date +%s.%N)
printf 'started\t%s\t%s\t%s\n' "$(echo "($all - $n) / ($ended - $begun)" | bc -l)" "$((all - n))" "$(echo "$ended - $begun" | bc -l)"
ALL=1 WIPE=1 ./teardown.sh >/dev/null 2>&1; cd /opt/bench; ALL=1 WIPE=1 ./teardown.sh >/dev/null 2>&1
true
"#;

/// Slurm's starts per second.
fn theirs(
    script: &Path,
    (nodes, jobs): (u32, u32),
    (name, settings): (&str, &str),
    report: &mut Report,
) -> Result<f64> {
    let vars = [
        format!("NCLOUD={nodes}"),
        format!("LIMIT={SLURM_SECS}"),
        format!("SCHEDPARAMS={settings}"),
        format!("JOBS={jobs}"),
        format!("MIX={}", MIX.join("\n")),
    ];
    let mut args = vec!["run", "env"];
    args.extend(vars.iter().map(String::as_str));
    args.extend(["bash", "-c", INSIDE]);
    let said = slurm::figures(script, &args)?;
    let figure = |what: &str| -> Result<Vec<f64>> {
        let line = said
            .iter()
            .find_map(|line| line.strip_prefix(what)?.strip_prefix('\t'));
        let line = line.with_context(|| format!("Slurm ({name}) did not say what it {what}"))?;
        Ok(line.split('\t').map(str::parse).collect::<Result<_, _>>()?)
    };
    let (submitted, started) = (figure("submitted")?, figure("started")?);
    let [rate, count, secs] = started[..] else {
        bail!("Slurm ({name}) said {started:?}");
    };
    report.line(&format!(
        "  Slurm {name}: submitted {:.0} jobs/s; {count:.0} jobs had their nodes after {secs:.1} s: {rate:.1} jobs/s",
        submitted.first().copied().unwrap_or_default()
    ));
    Ok(rate)
}

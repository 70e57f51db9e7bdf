//! The commands with ten thousand jobs in the queue, beside the real Slurm's in the same run; a large array; and cancelling it all.
//!
//! Jobs wait in a partition that is down, here and there, so that nothing but the views works while they are measured.

use super::sample::{Sample, time};
use super::{Report, slurm};
use crate::dev::DevCluster;
use crate::sh;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// What the jobs ask for, in turn.
const MIX: [&str; 4] = [
    "-n1 --gpus-per-node=1 -t 60",
    "-n1 --gpus-per-node=2 -c2 -t 120",
    "-n4 -c4 -t 30",
    "-N2 --gpus-per-node=8 -t 240",
];

/// Commands that submit at once.
const CLIENTS: u32 = 8;

/// Times that a view is taken.
const ROUNDS: u32 = 10;

/// A view, and which part of Slurm's time it may take at most.
const VIEWS: [(&str, &[&str], f64); 3] = [
    ("squeue", &["squeue"], 10.0),
    ("squeue --json", &["squeue", "--json"], 50.0),
    ("scontrol show job", &["scontrol", "show", "job"], 5.0),
];

/// Tasks of the array that is submitted in one request.
const TASKS: u32 = 100_000;

/// How long submitting the array may take, ms.
const ARRAY_MS: f64 = 100.0;

/// How long cancelling all jobs of a user may take, ms.
const CANCEL_MS: f64 = 2000.0;

pub(super) fn measure(
    bins: &Path,
    jobs: u32,
    folder: Option<&Path>,
    report: &mut Report,
) -> Result<()> {
    report.line(&format!("surface: {jobs} jobs in the queue"));
    let theirs = match folder {
        Some(folder) => Some(slurm_views(folder, jobs, report)?),
        None => None,
    };
    let cluster = DevCluster::up(
        bins,
        &[
            "--hollow", "--nodes", "16", "--gpus", "8", "--cpus", "64", "--memory", "1T",
        ],
    )?;
    let state = |state: &str| {
        let mut command = cluster.as_root(&["scontrol", "update", "PartitionName=gpu", state]);
        sh::output(&mut command).map(drop)
    };
    allow_arrays(&cluster)?;
    state("State=DOWN")?;
    fill(&cluster, jobs)?;
    for (name, args, times) in VIEWS {
        let ours = time(&mut cluster.direct(args)?, ROUNDS)?;
        report.line(&format!("  {name}: {}", ours.text()));
        let Some(theirs) = &theirs else { continue };
        let found = theirs.iter().find(|(view, _)| view == name);
        let (_, slurm) = found.with_context(|| format!("Slurm was not asked for {name}"))?;
        report.line(&format!("  {name}, Slurm: {}", slurm.text()));
        let share = ours.median() / slurm.median();
        let what = format!("{name}: part of Slurm's time, in percent (1/{times})");
        report.promise(&what, share * 100.0, 100.0 / times, "%");
    }
    cancel(&cluster, report)?;
    array(&cluster, report)?;
    cluster.down()
}

/// Lets arrays be as large as that of the measurement: the default is Slurm's, a thousand.
fn allow_arrays(cluster: &DevCluster) -> Result<()> {
    let path = cluster.dir().join("spur.toml");
    let text = std::fs::read_to_string(&path).context("reading the configuration")?;
    let larger = format!("max_array_size = {}\n{text}", TASKS + 1);
    std::fs::write(&path, larger).context("changing the configuration")?;
    sh::output(&mut cluster.as_root(&["scontrol", "reconfigure"])).map(drop)
}

/// Submits separate jobs, many at once.
fn fill(cluster: &DevCluster, jobs: u32) -> Result<()> {
    let home = cluster.home();
    std::fs::write(home.join("options"), lines(jobs)?).context("writing the jobs' options")?;
    std::fs::write(home.join("job.sh"), "#!/bin/sh\nsleep 60\n").context("writing a script")?;
    let submit = format!(
        r#"xargs -a options -P{CLIENTS} -L1 sh -c 'exec sbatch -o /dev/null "$@" job.sh' sbatch > /dev/null"#
    );
    sh::output(&mut cluster.command(&["sh", "-c", &submit]))?;
    let waiting = count(cluster)?;
    ensure!(
        waiting >= jobs as usize,
        "only {waiting} of {jobs} jobs wait"
    );
    Ok(())
}

fn lines(jobs: u32) -> Result<String> {
    let mut text = String::new();
    for options in MIX.iter().cycle().take(usize::try_from(jobs)?) {
        writeln!(text, "{options}")?;
    }
    Ok(text)
}

fn count(cluster: &DevCluster) -> Result<usize> {
    let text = sh::output(&mut cluster.command(&["squeue", "-h", "-o", "%i"]))?;
    Ok(text.lines().count())
}

/// `scancel -u` of everything, until it returns; then nothing may be left.
fn cancel(cluster: &DevCluster, report: &mut Report) -> Result<()> {
    let all = count(cluster)?;
    let uid = cluster.uid().to_string();
    let elapsed = once(&mut cluster.direct(&["scancel", "-u", &uid])?)?;
    let left = count(cluster)?;
    ensure!(left == 0, "scancel -u left {left} of {all} jobs");
    report.promise(
        &format!("scancel -u of {all} jobs"),
        elapsed,
        CANCEL_MS,
        "ms",
    );
    Ok(())
}

/// One array of many tasks, in one request.
fn array(cluster: &DevCluster, report: &mut Report) -> Result<()> {
    let range = format!("--array=0-{}", TASKS - 1);
    let args = ["sbatch", &range, "--wrap", "true", "-o", "/dev/null"];
    let mut ms = Vec::new();
    for _ in 0..ROUNDS {
        ms.push(once(&mut cluster.direct(&args)?)?);
        sh::output(&mut cluster.command(&["scancel", "-u", &cluster.uid().to_string()]))?;
    }
    let sample = Sample::of(ms).context("nothing was measured")?;
    let what = format!("sbatch of an array of {TASKS} tasks");
    report.promise(&what, sample.median(), ARRAY_MS, "ms");
    Ok(())
}

fn once(command: &mut Command) -> Result<f64> {
    let started = Instant::now();
    let status = command.status()?;
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    if !status.success() {
        bail!("{:?} ended with {status}", command.get_program());
    }
    Ok(elapsed)
}

/// What runs inside: fills the queue, and takes each view as often as ours; microseconds by bash's own clock, without a fork.
const INSIDE: &str = r#"
cd /opt/bench && . ./lib.sh || exit 1
WIPE=1 ./teardown.sh >/dev/null 2>&1
NREAL=1 timeout 120 ./setup.sh >/dev/null || exit 1
cd "$BASE/work" && printf '#!/bin/sh\nsleep 60\n' > surface.sh && chmod 755 surface.sh
echo "$MIX" | awk -v jobs="$JOBS" '{ mix[NR - 1] = $0 } END { for (n = 0; n < jobs; n++) print mix[n % NR] }' > surface.lines
scontrol update partitionname=scale state=down || exit 1
setpriv --reuid "$TUSER" --clear-groups env HOME="$BASE/home" xargs -a surface.lines -P8 -L1 sh -c 'exec sbatch -p scale -o /dev/null "$@" surface.sh > /dev/null' x
view() {
  name=$*; "$@" > /dev/null
  for n in $(seq "$ROUNDS"); do
    begun=${EPOCHREALTIME/./}; "$@" > /dev/null; ended=${EPOCHREALTIME/./}
    printf 'view\t%s\t%s\n' "$name" "$((ended - begun))"
  done
}
printf 'jobs\t%s\n' "$(squeue -h -o %i | wc -l)"
view squeue
view squeue --json
view scontrol show job
ALL=1 WIPE=1 ./teardown.sh >/dev/null 2>&1; cd /opt/bench; ALL=1 WIPE=1 ./teardown.sh >/dev/null 2>&1
true
"#;

/// Slurm's times for every view.
fn slurm_views(folder: &Path, jobs: u32, report: &mut Report) -> Result<Vec<(String, Sample)>> {
    let script = folder.join("chroot.sh");
    slurm::up(&script, report)?;
    let vars = [
        "NCLOUD=16".to_owned(),
        format!("JOBS={jobs}"),
        format!("ROUNDS={ROUNDS}"),
        format!("MIX={}", MIX.join("\n")),
    ];
    let mut args = vec!["run", "env"];
    args.extend(vars.iter().map(String::as_str));
    args.extend(["bash", "-c", INSIDE]);
    let said = slurm::figures(&script, &args);
    // Down also when a part failed: mounts must not stay.
    slurm::down(&script, report)?;
    let said = said?;
    let queue = said.iter().find_map(|line| line.strip_prefix("jobs\t"));
    let queue: u32 = queue
        .context("Slurm did not say how many jobs wait")?
        .trim()
        .parse()?;
    ensure!(queue >= jobs, "only {queue} of {jobs} jobs wait in Slurm");
    let times = |name: &str| {
        let start = format!("view\t{name}\t");
        let found = said
            .iter()
            .filter_map(|line| line.strip_prefix(&start)?.trim().parse().ok());
        let ms: Vec<f64> = found.map(|us: f64| us / 1e3).collect();
        let sample = Sample::of(ms).with_context(|| format!("Slurm was not measured: {name}"))?;
        Ok((name.to_owned(), sample))
    };
    VIEWS.iter().map(|(name, ..)| times(name)).collect()
}

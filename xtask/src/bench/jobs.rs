//! What running jobs takes, beside the real Slurm in the same run: one `srun`, a thousand batch jobs on one node, a step over four
//! nodes, and a gigabyte through a step's output.
//!
//! Both sides are up at once and are measured in turns, by the same shell functions as an ordinary user, so that neither the machine's
//! load nor the stopwatch is on one side alone.

use super::sample::Sample;
use super::{Report, slurm, starts};
use crate::dev::DevCluster;
use crate::sh;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// How often each side has its turn.
const TURNS: u32 = 3;
/// Commands of one turn that are timed.
const ROUNDS: u32 = 20;
/// Wide steps of one turn.
const WIDE_ROUNDS: u32 = 5;
/// Batch jobs of one turn.
const JOBS: u32 = 1000;

/// `srun -n1 true`, from its start to its end, ms.
const SRUN_MS_MAX: f64 = 12.0;
/// The same, as a part of Slurm's.
const SRUN_PERCENT_MAX: f64 = 20.0;
/// Batch jobs, times Slurm's rate.
const TIMES_MIN: f64 = 10.0;

/// What goes through the output of a step.
const GIGABYTE: f64 = (1_u64 << 30) as f64;

/// What both shells are told first. Microseconds are read from bash's own clock, without a fork.
const FUNCTIONS: &str = r#"
timed() { # ROUNDS COMMAND: one line for each, and two that do not count
  rounds=$1; shift
  for n in $(seq $((rounds + 2))); do
    begun=${EPOCHREALTIME/./}; "$@" > /dev/null < /dev/null || exit 1; ended=${EPOCHREALTIME/./}
    [ "$n" -le 2 ] || printf 'us\t%s\n' $((ended - begun))
  done
}
batch() { # JOBS NODE: until none waits or runs
  printf '#!/bin/sh\ntrue\n' > true.sh
  begun=${EPOCHREALTIME/./}
  seq "$1" | xargs -P8 -I% sbatch -n1 -o /dev/null true.sh > /dev/null || exit 1
  printf 'submitted\t%s\n' $((${EPOCHREALTIME/./} - begun))
  while [ -n "$(squeue -h -t PD,CF,R -o %i | head -n 1)" ]; do sleep 0.05; done
  printf 'us\t%s\n' $((${EPOCHREALTIME/./} - begun))
}
BYTES='for part in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat block; done'
through() { # COMMAND: whoever passes on what it prints
  [ -f block ] || head -c 67108864 /dev/urandom > block
  begun=${EPOCHREALTIME/./}; "$@" < /dev/null | cat > /dev/null || exit 1; ended=${EPOCHREALTIME/./}
  printf 'us\t%s\n' $((ended - begun))
}
whole() { # COMMAND: whether it prints the same bytes
  "$@" < /dev/null | cmp - <(sh -c "$BYTES") && printf 'us\t0\n'
}
"#;

/// One of the two that are measured.
enum Side<'a> {
    Spur(&'a DevCluster),
    Slurm(&'a Path),
}

impl Side<'_> {
    fn name(&self) -> &'static str {
        match self {
            Side::Spur(_) => "spur",
            Side::Slurm(_) => "Slurm",
        }
    }

    /// Runs a line of shell with [`FUNCTIONS`], as the user in a folder of its own: the numbers of one kind that it says.
    fn ask(&self, line: &str) -> Result<Vec<f64>> {
        let script = format!("set -o pipefail\n{FUNCTIONS}\n{line}");
        let said: Vec<String> = match self {
            Side::Spur(cluster) => sh::output(&mut cluster.command(&["bash", "-c", &script]))?
                .lines()
                .map(str::to_owned)
                .collect(),
            Side::Slurm(chroot) => {
                let script = format!("SCRIPT={script}");
                slurm::figures(chroot, &["run", "env", &script, "bash", "-c", AS_USER])?
            }
        };
        let us = said.iter().filter_map(|line| line.strip_prefix("us\t"));
        let us: Vec<f64> = us.map(str::parse).collect::<Result<_, _>>()?;
        ensure!(!us.is_empty(), "{} said nothing of {line}", self.name());
        Ok(us)
    }
}

/// Slurm's side of [`Side::ask`].
const AS_USER: &str = r#"
. /opt/bench/lib.sh && cd "$BASE/work" || exit 1
exec setpriv --reuid "$TUSER" --clear-groups env HOME="$BASE/home" bash -c "$SCRIPT"
"#;

/// Starts Slurm on so many nodes of this host, tuned.
const UP: &str = r#"
cd /opt/bench && ALL=1 WIPE=1 ./teardown.sh > /dev/null 2>&1
timeout 120 ./setup.sh > /dev/null
"#;

/// Ends it.
const DOWN: &str = "cd /opt/bench && ALL=1 WIPE=1 ./teardown.sh > /dev/null 2>&1";

/// Milliseconds of both sides; Slurm's only if it is there.
struct Pair {
    ours: Sample,
    theirs: Option<Sample>,
}

pub(super) fn measure(bins: &Path, folder: Option<&Path>, report: &mut Report) -> Result<()> {
    let chroot = folder.map(|folder| folder.join("chroot.sh"));
    if let Some(chroot) = &chroot {
        slurm::up(chroot, report)?;
    }
    let one = with_nodes(bins, chroot.as_ref(), 1, report, on_one_node);
    let result = one.and_then(|()| with_nodes(bins, chroot.as_ref(), 4, report, on_four_nodes));
    if let Some(chroot) = &chroot {
        // Down also when a part failed: mounts must not stay.
        slurm::down(chroot, report)?;
    }
    result
}

/// Both with so many nodes, while they are measured.
fn with_nodes(
    bins: &Path,
    chroot: Option<&PathBuf>,
    nodes: u32,
    report: &mut Report,
    part: impl Fn(&[Side<'_>], &mut Report) -> Result<()>,
) -> Result<()> {
    report.line(&format!("jobs: {nodes} nodes of 64 CPUs, idle"));
    let count = nodes.to_string();
    let args = [
        "--nodes", &count, "--gpus", "8", "--cpus", "64", "--memory", "256G",
    ];
    let cluster = DevCluster::up(bins, &args)?;
    let mut sides = vec![Side::Spur(&cluster)];
    let Some(chroot) = chroot else {
        part(&sides, report)?;
        return cluster.down();
    };
    let settings = format!("SCHEDPARAMS={}", starts::TUNED);
    let real = format!("NREAL={nodes}");
    let up = ["run", "env", &real, &settings, "bash", "-c", UP];
    sides.push(Side::Slurm(chroot));
    let result = slurm::figures(chroot, &up).and_then(|_| part(&sides, report));
    slurm::figures(chroot, &["run", "bash", "-c", DOWN])?;
    cluster.down()?;
    result
}

fn on_one_node(sides: &[Side<'_>], report: &mut Report) -> Result<()> {
    let srun = in_turns(sides, TURNS, &format!("timed {ROUNDS} srun -n1 true"))?;
    tell(report, "srun -n1 true", &srun);
    report.promise("srun -n1 true", srun.ours.median(), SRUN_MS_MAX, "ms");
    if let Some(theirs) = &srun.theirs {
        let percent = srun.ours.median() / theirs.median() * 100.0;
        report.promise("srun -n1 true, of Slurm's", percent, SRUN_PERCENT_MAX, "%");
    }
    let batch = in_turns(sides, TURNS, &format!("batch {JOBS}"))?;
    let what = format!("{JOBS} batch jobs, from the first submission to the last end");
    tell(report, &what, &batch);
    let rate = |sample: &Sample| f64::from(JOBS) / sample.median() * 1e3;
    report.line(&format!("  spur: {:.1} jobs/s", rate(&batch.ours)));
    if let Some(theirs) = &batch.theirs {
        let times = theirs.median() / batch.ours.median();
        let word = if times >= TIMES_MIN {
            "holds"
        } else {
            "BROKEN"
        };
        report.line(&format!(
            "  Slurm, tuned: {:.1} jobs/s: {times:.1} times its rate, promised at least {TIMES_MIN}: {word}",
            rate(theirs)
        ));
    }
    Ok(())
}

fn on_four_nodes(sides: &[Side<'_>], report: &mut Report) -> Result<()> {
    let line = format!("timed {WIDE_ROUNDS} srun -N4 -n64 true");
    let wide = in_turns(sides, TURNS, &line)?;
    tell(report, "srun -N4 -n64 true", &wide);
    for side in sides {
        side.ask(r#"[ -f block ] || head -c 67108864 /dev/urandom > block; whole srun -n1 sh -c "$BYTES""#)
            .with_context(|| format!("a gigabyte through {} is not the same", side.name()))?;
        report.line(&format!(
            "  {}: a gigabyte through srun, byte for byte",
            side.name()
        ));
    }
    // One pipe more, by the side that is always there.
    let floor = in_turns(
        &sides[..1],
        TURNS,
        r#"floor() { sh -c "$BYTES" | cat; }; through floor"#,
    )?;
    let through = in_turns(sides, TURNS, r#"through srun -n1 sh -c "$BYTES""#)?;
    let speed = |sample: &Sample| GIGABYTE / sample.median() / 1e3;
    let floor = speed(&floor.ours);
    report.line(&format!("  a gigabyte through `cat`: {floor:.0} MB/s"));
    let ours = speed(&through.ours);
    report.line(&format!(
        "  a gigabyte through srun: {ours:.0} MB/s, {:.0} % of `cat`",
        ours / floor * 100.0
    ));
    if let Some(theirs) = &through.theirs {
        let theirs = speed(theirs);
        report.line(&format!(
            "  a gigabyte through Slurm's srun: {theirs:.0} MB/s; spur: {:.1} times as fast",
            ours / theirs
        ));
    }
    Ok(())
}

fn tell(report: &mut Report, what: &str, pair: &Pair) {
    report.line(&format!("  {what}: {}", pair.ours.text()));
    if let Some(theirs) = &pair.theirs {
        let percent = pair.ours.median() / theirs.median() * 100.0;
        report.line(&format!(
            "  {what}, Slurm: {}; spur takes {percent:.1} %",
            theirs.text()
        ));
    }
}

/// The same of each side, one after the other, so often.
fn in_turns(sides: &[Side<'_>], turns: u32, line: &str) -> Result<Pair> {
    let mut ms = vec![Vec::new(); sides.len()];
    for _ in 0..turns {
        for (side, ms) in sides.iter().zip(&mut ms) {
            ms.extend(side.ask(line)?.into_iter().map(|us| us / 1e3));
        }
    }
    let mut samples = ms.into_iter().map(Sample::of);
    Ok(Pair {
        ours: samples.next().flatten().context("nothing was measured")?,
        theirs: samples.next().flatten(),
    })
}

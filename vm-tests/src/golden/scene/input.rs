//! What is refused, and what is taken though it makes no sense.

use super::Scene;
use super::Step::{self, Do, Next, Play, Until};

pub(super) const SCENE: Scene = Scene {
    name: "input",
    first: 13,
    needs_all: false,
    leaves: false,
    steps: STEPS,
};

const STEPS: &[Step] = &[
    Play("sbatch-nofile"),
    Play("sbatch-nosheb"),
    Play("sbatch-crlf"),
    Play("sbatch-empty"),
    Play("sbatch-stdin"),
    Play("sbatch-badopt"),
    Play("sbatch-badopt-directive"),
    Play("sbatch-badpart"),
    Play("sbatch-badtime"),
    Play("sbatch-overtime"),
    Play("sbatch-toomanynodes"),
    Play("sbatch-toomanycpus"),
    Play("sbatch-toomuchmem"),
    Play("sbatch-badmem"),
    Play("sbatch-toomanygpus"),
    Play("sbatch-badgres"),
    Play("sbatch-badgpu-type"),
    Play("sbatch-badgpus-syntax"),
    Next(20),
    Play("sbatch-badaccount"),
    Play("sbatch-badqos"),
    Play("sbatch-baddep"),
    Play("sbatch-baddep2"),
    Play("sbatch-badarray"),
    Play("sbatch-bigarray"),
    Play("sbatch-badnode"),
    Play("sbatch-badconstraint"),
    Play("sbatch-badreservation"),
    Play("sbatch-badbegin"),
    Next(25),
    Play("sbatch-testonly"),
    Next(26),
    Play("sbatch-badchdir"),
    Do("scancel -u slurmtest"),
    Until("squeue -h -o %A | wc -l", "0"),
];

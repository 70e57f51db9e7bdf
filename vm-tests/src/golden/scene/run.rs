//! `srun` from outside any job.

use super::Scene;
use super::Step::{self, Next, Play, PlayOr};

pub(super) const SCENE: Scene = Scene {
    name: "run",
    first: 27,
    needs_all: false,
    leaves: false,
    steps: STEPS,
};

const STEPS: &[Step] = &[
    Play("srun-badpart"),
    Play("srun-toomanynodes"),
    Play("srun-toomanygpus"),
    Play("srun-badgres"),
    Play("srun-nocmd"),
    Next(29),
    Play("srun-notfound"),
    Play("srun-exit3"),
    Play("srun-exit3-n4"),
    Play("srun-sigkill"),
    Play("srun-sigsegv"),
    Play("srun-badopt"),
    Play("srun-badtime"),
    Play("srun-badn"),
    Play("srun-badn2"),
    Play("srun-label"),
    Play("srun-immediate"),
    Play("srun-timelimit-note"),
    Play("srun-jobid-bad"),
    Next(36),
    Play("srun-v"),
    PlayOr(
        "srun-multiprog",
        "printf '0 echo a\\n1-2 echo b %%t %%o\\n' > mp.conf; srun -n3 --multi-prog -l mp.conf",
    ),
];

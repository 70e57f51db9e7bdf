//! What a job finds in its environment.

use super::Scene;
use super::Step::{self, Next, Play, PlayOr, Root};

pub(super) const SCENE: Scene = Scene {
    name: "env",
    first: 38,
    needs_all: false,
    leaves: false,
    steps: STEPS,
};

const STEPS: &[Step] = &[
    Play("env-srun"),
    Play("env-srun-gres2"),
    PlayOr(
        "env-srun-N2-n4-gpus",
        "srun -N2 -n4 --gpus-per-node=4 -l true",
    ),
    Next(41),
    Play("env-srun-gpus-per-task"),
    Play("env-sbatch"),
    Play("env-sbatch-gres2"),
    Play("env-sbatch-gpus3-typed"),
    Play("env-sbatch-N2-multi"),
    Play("env-sbatch-mem-per-cpu"),
    Play("env-sbatch-nogpu-gpubind"),
    Play("env-step-in-batch"),
    Play("env-sbatch-export-none"),
    Play("env-sbatch-array"),
    Next(55),
    // A heterogeneous job waited at that time, and Slurm's backfill kept all away from these nodes.
    Root("scontrol update nodename=n[0001-0002] state=drain reason=kept"),
    Play("env-array-out"),
    Root("scontrol update nodename=n[0001-0002] state=resume"),
    Next(58),
    PlayOr("env-salloc", "salloc -n2 --gres=gpu:1 true"),
    Next(59),
    Play("output-default-name"),
];

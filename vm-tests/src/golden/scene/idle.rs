//! Nothing runs and nothing waits.

use super::Scene;
use super::Step::{self, Play};

pub(super) const SCENE: Scene = Scene {
    name: "idle",
    first: 1,
    needs_all: false,
    leaves: false,
    steps: STEPS,
};

const STEPS: &[Step] = &[
    Play("version-sbatch"),
    Play("version-srun"),
    Play("version-squeue"),
    Play("version-sinfo"),
    Play("version-scancel"),
    Play("version-scontrol"),
    Play("version-sacct"),
    Play("version-salloc"),
    Play("squeue-empty"),
    Play("sinfo-idle"),
    Play("sinfo-N-l"),
    Play("sinfo-l"),
    Play("sinfo-R"),
    Play("sinfo-s"),
    Play("sinfo-N-o-gres"),
    Play("sinfo-O-gres"),
    Play("scontrol-show-partition"),
    Play("scontrol-show-node"),
    Play("scontrol-show-node-oneliner"),
    Play("scontrol-show-config"),
    Play("scontrol-ping"),
    Play("scontrol-show-job-none"),
    Play("scontrol-show-jobs-empty"),
    Play("scontrol-show-hostnames"),
    Play("scontrol-show-hostlist"),
];

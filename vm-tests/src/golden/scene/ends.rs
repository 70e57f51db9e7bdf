//! How jobs end; and, while one still runs into its limit, nodes and partitions that are taken out of service, and reservations.

use super::Scene;
use super::Step::{self, Begin, Next, Pause, Play, PlayOr, Root};

pub(super) const SCENE: Scene = Scene {
    name: "ends",
    first: 62,
    needs_all: false,
    leaves: true,
    steps: STEPS,
};

const STEPS: &[Step] = &[
    Play("fail-exit3"),
    Play("fail-sig9"),
    Next(64),
    Begin("step-cancel-msg"),
    Pause(500),
    Next(65),
    Begin("timelimit-1min"),
    Pause(1000),
    PlayOr(
        "srun-cancelled",
        "(sleep 3; scancel -n srk) & srun -J srk sleep 60",
    ),
    Play("scontrol-drain"),
    Play("sinfo-drained"),
    Play("sinfo-R-drained"),
    Play("sinfo-N-l-drained"),
    Play("scontrol-show-node-drained"),
    Play("scontrol-down"),
    Play("sinfo-down"),
    Play("scontrol-resume"),
    Next(67),
    Play("scontrol-part-down"),
    Play("sbatch-partdown"),
    Pause(1000),
    Play("squeue-partdown"),
    Play("scontrol-part-up"),
    Play("scontrol-create-resv"),
    Play("scontrol-show-resv"),
    Play("scontrol-delete-resv"),
    Root("scontrol update partitionname=gpu state=up"),
];

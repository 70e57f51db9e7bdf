//! The accounting record of all that was before, and what is asked at the end.

use super::Scene;
use super::Step::{self, Next, Pause, Play};

pub(super) const SCENE: Scene = Scene {
    name: "records",
    first: 68,
    needs_all: true,
    steps: STEPS,
};

const STEPS: &[Step] = &[
    Pause(2000),
    Play("sacct"),
    Play("sacct-l1"),
    Play("sacct-X-parsable"),
    Play("sacct-json"),
    Play("sacct-helpformat"),
    Play("sstat-none"),
    Play("sshare"),
    Play("sprio"),
    Play("sreport"),
    Play("sacctmgr-show-assoc"),
    Play("sdiag"),
    Play("sdiag-json"),
    Play("sdiag-yaml"),
    Play("sacct-yaml"),
    Play("scontrol-show-node-json-idle"),
    Play("sshare-json"),
    Play("sprio-json"),
    Play("sacctmgr-assoc-json"),
    Play("sacct-l-P"),
    Play("sacct-o-all"),
    Play("sacctmgr-ping"),
    Play("scontrol-power"),
    Play("scancel-ctld"),
    Play("scancel-me"),
    Play("sbatch-W-time"),
    Play("sbatch-overtime-part"),
    Play("scontrol-show-topology"),
    Play("scontrol-show-licenses"),
    Next(79),
    Play("env-sbatch-het"),
    Play("sinfo-helpFormat"),
    Play("squeue-O-widths"),
    Play("cuda-two-jobs-no-fence"),
    Play("sbatch-parsable-yaml-none"),
    Play("scontrol-show-job-json-bad"),
    Play("srun-x11-none"),
];

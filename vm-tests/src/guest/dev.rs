//! A development cluster, and what it leaves.

use super::Outcome;
use crate::cluster::Cluster;
use crate::user::User;

const ALICE: User = User::Id(1000);

pub(super) fn leaves_nothing() -> Outcome {
    let cluster = Cluster::up(2, 4);
    let script = "echo $SLURM_JOB_ID $SLURM_JOB_NUM_NODES";
    cluster
        .run(ALICE, &["srun", "-N2", "--gres=gpu:4", "sh", "-c", script])
        .good();
    cluster.down();
    Outcome::Held
}

pub(super) fn leaves_nothing_after_kill() -> Outcome {
    let cluster = Cluster::up(1, 2);
    let job = cluster.sbatch(ALICE, &["--gres=gpu:1"], "sleep 1000");
    cluster.await_state(&job, &["RUNNING"]);
    cluster.kill_everything();
    cluster.down();
    Outcome::Held
}

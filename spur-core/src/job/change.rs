//! What `scontrol` does to jobs.

mod apply;

use crate::resources::{GpuCount, MemoryRequest};
use crate::time::{Millis, TimeLimit};
use serde::{Deserialize, Serialize};

/// Something to do to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobAct {
    /// Hold: by an operator it is an operator's hold, unless the job is the operator's own.
    Hold,
    /// Hold so that the owner may release it (`uhold`).
    HoldByUser,
    /// Release.
    Release,
    /// End it if it runs, and put it back into the queue.
    Requeue,
    /// The same, and hold it there.
    RequeueHold,
    /// Stop its processes; it keeps what it holds.
    Suspend,
    /// Let them run on.
    Resume,
    /// Before all other waiting jobs of its owner in the partition (operators).
    Top,
}

/// New values of what can be changed; `None` leaves a thing alone. What decides where a job may run can be changed only while it
/// waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobChange {
    /// Limit. Longer ones are for operators, once the job runs.
    pub time_limit: Option<TimeLimit>,
    /// Name.
    pub name: Option<String>,
    /// Comment.
    pub comment: Option<String>,
    /// Partition.
    pub partition: Option<String>,
    /// Priority; 0 holds. Other values are for operators, apart from lower ones.
    pub priority: Option<u32>,
    /// Niceness; below 0 for operators.
    pub nice: Option<i32>,
    /// Account.
    pub account: Option<String>,
    /// QOS.
    pub qos: Option<String>,
    /// What it waits for; empty: nothing.
    pub dependency: Option<String>,
    /// Most tasks of its array that run at once; 0: no limit.
    pub throttle: Option<u32>,
    /// Not before.
    pub begin: Option<Millis>,
    /// Least number of nodes.
    pub nodes_min: Option<u32>,
    /// Greatest number of nodes.
    pub nodes_max: Option<u32>,
    /// Tasks.
    pub tasks: Option<u32>,
    /// Tasks on a node.
    pub tasks_per_node: Option<u32>,
    /// CPUs of a task.
    pub cpus_per_task: Option<u32>,
    /// Least number of CPUs on a node.
    pub mincpus: Option<u32>,
    /// Memory.
    pub memory: Option<MemoryRequest>,
    /// GPUs on every node; a count of 0: none.
    pub gpus_per_node: Option<GpuCount>,
    /// Nodes that it must get, as a hostlist; empty: any.
    pub nodelist: Option<String>,
    /// Nodes that it must not get, as a hostlist.
    pub exclude: Option<String>,
    /// Features.
    pub constraint: Option<String>,
    /// Whole nodes.
    pub exclusive: Option<bool>,
    /// Nodes that follow one another.
    pub contiguous: Option<bool>,
    /// May be started again after a node failure.
    pub requeue: Option<bool>,
    /// Working directory.
    pub work_dir: Option<String>,
    /// Files.
    pub stdin: Option<String>,
    /// Files.
    pub stdout: Option<String>,
    /// Files.
    pub stderr: Option<String>,
    /// Features to have if possible.
    pub prefer: Option<String>,
    /// Reservation; empty: none.
    pub reservation: Option<String>,
    /// Licenses.
    pub licenses: Option<String>,
    /// `WCKey`.
    pub wckey: Option<String>,
    /// Comment of an operator.
    pub admin_comment: Option<String>,
    /// `Extra`.
    pub extra: Option<String>,
    /// Label of a compartment.
    pub mcs_label: Option<String>,
    /// When to write mail.
    pub mail_type: Option<String>,
    /// To whom.
    pub mail_user: Option<String>,
    /// Deadline.
    pub deadline: Option<Millis>,
    /// Least limit.
    pub time_min: Option<TimeLimit>,
    /// MiB of local disk on every node.
    pub tmp_mib: Option<u64>,
}

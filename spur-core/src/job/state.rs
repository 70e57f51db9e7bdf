//! Job states, reasons and exit statuses.
//!
//! ```text
//!  Pending --placed--> Running --last step ended--> Completed | Failed
//!     |  ^                |-- cancel --> Cancelled
//!     |  +--- requeue ----|-- limit ---> Timeout
//!     +-- cancel ---------|-- node lost-> NodeFail
//! ```
//! A terminal job whose `uncleaned` set is not empty is shown as COMPLETING and still holds its devices.

use serde::{Deserialize, Serialize};

/// Base state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobState {
    /// Waits for resources, a time, or a release.
    Pending,
    /// Holds an allocation.
    Running,
    /// Ended with status 0.
    Completed,
    /// Ended with another status.
    Failed,
    /// Cancelled by its owner or an operator.
    Cancelled,
    /// Reached its time limit.
    Timeout,
    /// A node was lost.
    NodeFail,
    /// The kernel's out-of-memory killer ended it.
    OutOfMemory,
}

/// Why a job waits or ended; displays as Slurm's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    /// `None`
    None,
    /// `Priority`
    Priority,
    /// `Resources`
    Resources,
    /// `BeginTime`
    BeginTime,
    /// `JobHeldUser`
    JobHeldUser,
    /// `JobHeldAdmin`
    JobHeldAdmin,
    /// `PartitionDown`
    PartitionDown,
    /// `PartitionInactive`
    PartitionInactive,
    /// `PartitionNodeLimit`: asks for more nodes than the partition has.
    PartitionNodeLimit,
    /// `PartitionTimeLimit`
    PartitionTimeLimit,
    /// `ReqNodeNotAvail`
    ReqNodeNotAvail,
    /// `BadConstraints`
    BadConstraints,
    /// `launch failed requeued held`: the node could not start it (fence not proven, for one); text in `reason_text`.
    LaunchFailedHeld,
    /// `NonZeroExitCode`
    NonZeroExitCode,
    /// `TimeLimit`
    TimeLimit,
    /// `NodeDown`
    NodeDown,
    /// `RaisedSignal`
    RaisedSignal,
    /// `OutOfMemory`
    OutOfMemory,
    /// `JobLaunchFailure`
    JobLaunchFailure,
    /// `Cleaning`
    Cleaning,
}

/// How a process ended, as `wait(2)` tells it: at most one of the two is non-zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExitStatus {
    /// Exit code, 0..=255.
    pub code: u8,
    /// Signal number, 0 if it exited.
    pub signal: u8,
}

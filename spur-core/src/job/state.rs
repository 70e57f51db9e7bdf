//! Job states, reasons and exit statuses.
//!
//! ```text
//!  Pending --placed--> Running --last step ended--> Completed | Failed
//!     |  ^                |-- cancel --> Cancelled
//!     |  +--- requeue ----|-- limit ---> Timeout
//!     +-- cancel ---------|-- node lost-> NodeFail
//!     +-- too late for its deadline --> Deadline
//! ```
//! A terminal job whose `uncleaned` set is not empty is shown as COMPLETING and still holds its devices.

use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Runs, with its processes stopped. Only views say so: for the cluster the job is running.
    Suspended,
    /// It could no longer end by its `--deadline`.
    Deadline,
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
    /// `PartitionConfig`: asks for more than the partition can ever give.
    PartitionConfig,
    /// `MaxMemPerLimit`: asks for more memory than the partition gives a job.
    MaxMemPerLimit,
    /// `Dependency`: waits for other jobs.
    Dependency,
    /// `DependencyNeverSatisfied`: waits for what can never come.
    DependencyNeverSatisfied,
    /// `JobArrayTaskLimit`: as many tasks of its array run as may.
    JobArrayTaskLimit,
    /// `Reservation`: its reservation has not begun.
    Reservation,
    /// `ReservationDeleted`: its reservation is no more.
    ReservationDeleted,
    /// `DeadLine`: it could no longer end in time.
    DeadLine,
    /// `Licenses`: too few licenses are free.
    Licenses,
    /// `Prolog`: it holds its allocation, and the controller's prolog for it still runs.
    Prolog,
}

/// How a process ended, as `wait(2)` tells it: at most one of the two is non-zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExitStatus {
    /// Exit code, 0..=255.
    pub code: u8,
    /// Signal number, 0 if it exited.
    pub signal: u8,
}

/// What happens to a job, as far as its state is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It was given an allocation.
    Placed,
    /// Its last step ended, or its client gave the allocation back, with status 0.
    Succeeded,
    /// The same with another status.
    Failed,
    /// The kernel's out-of-memory killer ended it.
    OutOfMemory,
    /// Its owner or an operator wants it gone.
    Cancelled,
    /// It reached its limit.
    TimedOut,
    /// A node of its allocation was lost.
    NodeLost,
    /// A node could not start it and it is not to be tried again.
    LaunchFailed,
    /// It goes back to the queue.
    Requeued,
    /// It can no longer end by its deadline.
    TooLate,
}

/// The only reader of a job's next state. `None`: the cause means nothing in this state.
pub fn next(state: JobState, cause: Cause) -> Option<JobState> {
    match state {
        JobState::Pending => match cause {
            Cause::Placed => Some(JobState::Running),
            Cause::Cancelled | Cause::Succeeded | Cause::Failed => Some(JobState::Cancelled),
            Cause::TooLate => Some(JobState::Deadline),
            Cause::OutOfMemory
            | Cause::TimedOut
            | Cause::NodeLost
            | Cause::LaunchFailed
            | Cause::Requeued => None,
        },
        JobState::Running | JobState::Suspended => match cause {
            Cause::Placed | Cause::TooLate => None,
            Cause::Succeeded => Some(JobState::Completed),
            Cause::Failed | Cause::LaunchFailed => Some(JobState::Failed),
            Cause::OutOfMemory => Some(JobState::OutOfMemory),
            Cause::Cancelled => Some(JobState::Cancelled),
            Cause::TimedOut => Some(JobState::Timeout),
            Cause::NodeLost => Some(JobState::NodeFail),
            Cause::Requeued => Some(JobState::Pending),
        },
        JobState::Completed
        | JobState::Failed
        | JobState::Cancelled
        | JobState::Timeout
        | JobState::NodeFail
        | JobState::OutOfMemory
        | JobState::Deadline => match cause {
            Cause::Requeued => Some(JobState::Pending),
            Cause::Placed
            | Cause::TooLate
            | Cause::Succeeded
            | Cause::Failed
            | Cause::OutOfMemory
            | Cause::Cancelled
            | Cause::TimedOut
            | Cause::NodeLost
            | Cause::LaunchFailed => None,
        },
    }
}

impl JobState {
    /// Every state, in declaration order.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Timeout,
        Self::NodeFail,
        Self::OutOfMemory,
        Self::Suspended,
        Self::Deadline,
    ];

    /// Whether the job has ended.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Suspended => false,
            Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::Timeout
            | Self::NodeFail
            | Self::OutOfMemory
            | Self::Deadline => true,
        }
    }
}

impl fmt::Display for JobState {
    /// Slurm's long word.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(crate::slurm::codes::job_state(*self, false))
    }
}

impl Reason {
    /// A sentence for people, for reasons that need no detail of the job.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Priority => "jobs of higher priority wait for the same resources",
            Self::Resources => "what it asks for is not free at once",
            Self::BeginTime => "its begin time has not come",
            Self::JobHeldUser => "held by its owner",
            Self::JobHeldAdmin => "held by an operator",
            Self::PartitionDown => "its partition starts no jobs",
            Self::PartitionInactive => "its partition is inactive",
            Self::PartitionNodeLimit => "it asks for more nodes than its partition has",
            Self::PartitionTimeLimit => "its time limit is above its partition's",
            Self::ReqNodeNotAvail => "a node that it asks for takes no jobs now",
            Self::BadConstraints => "no node meets its constraints",
            Self::LaunchFailedHeld => "a node could not start it; held until released",
            Self::NonZeroExitCode => "it ended with a non-zero exit code",
            Self::TimeLimit => "it reached its time limit",
            Self::NodeDown => "a node of its allocation was lost",
            Self::RaisedSignal => "a signal ended it",
            Self::OutOfMemory => "the kernel's out-of-memory killer ended it",
            Self::JobLaunchFailure => "a node could not start it",
            Self::Cleaning => "its last run is not cleaned up everywhere",
            Self::PartitionConfig => "it asks for more than its partition can give",
            Self::MaxMemPerLimit => "it asks for more memory than its partition gives a job",
            Self::Dependency => "it waits for other jobs",
            Self::DependencyNeverSatisfied => "what it waits for can never come",
            Self::JobArrayTaskLimit => "as many tasks of its array run as may at once",
            Self::Reservation => "its reservation has not begun",
            Self::ReservationDeleted => "its reservation is no more",
            Self::DeadLine => "it can no longer end by its deadline",
            Self::Licenses => "too few of the licenses that it asks for are free",
            Self::Prolog => "the controller's prolog for it still runs",
        }
    }
}

impl ExitStatus {
    /// As a shell shows it: the code, or 128 plus the signal.
    pub fn shell(self) -> u16 {
        if self.signal == 0 {
            u16::from(self.code)
        } else {
            128 + u16::from(self.signal)
        }
    }

    /// As `wait(2)` writes it, core dumps apart.
    #[must_use]
    pub fn raw(self) -> u16 {
        u16::from(self.code) << 8 | u16::from(self.signal)
    }

    /// The one of the two that a shell shows with the higher number.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if (other.shell(), other.signal) > (self.shell(), self.signal) {
            other
        } else {
            self
        }
    }

    /// Exited with 0.
    pub fn is_success(self) -> bool {
        self == Self::default()
    }

    /// What this status means to a job that ended with it.
    pub fn cause(self, oom: bool) -> Cause {
        match (oom, self.is_success()) {
            (true, false) => Cause::OutOfMemory,
            (false, false) => Cause::Failed,
            (_, true) => Cause::Succeeded,
        }
    }
}

impl fmt::Display for ExitStatus {
    /// `CODE:SIGNAL`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.code, self.signal)
    }
}

#[cfg(test)]
mod tests;

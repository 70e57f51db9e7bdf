//! Why a request is not met.

use serde::{Deserialize, Serialize};

/// Why not. The kind decides the command's message and exit code; the text names the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What kind.
    pub kind: RefusalKind,
    /// More for people; may be empty.
    pub text: String,
}

/// Kinds of refusals; each has Slurm's message (`slurm_strerror`) where Slurm knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RefusalKind {
    /// `Invalid job id specified`
    InvalidJobId,
    /// `Access/permission denied`
    AccessDenied,
    /// `Invalid partition name specified`
    InvalidPartition,
    /// `Invalid node name specified`
    InvalidNode,
    /// `Requested node configuration is not available`
    NodeConfigUnavailable,
    /// `Requested time limit is invalid (missing or exceeds some limit)`
    InvalidTimeLimit,
    /// `Required partition not available (inactive or drain)`
    PartitionUnavailable,
    /// `Invalid feature specification`
    InvalidFeature,
    /// `Node count specification invalid`
    InvalidNodeCount,
    /// `Requested nodes are busy`
    NodesBusy,
    /// `Job/step already completing or completed`
    AlreadyDone,
    /// `Job is pending execution`
    JobPending,
    /// `Job is no longer pending execution`
    JobNotPending,
    /// `Job has already finished`
    JobFinished,
    /// `Unable to allocate resources: ...`: the job ended while it waited.
    JobEnded,
    /// `Immediate execution impossible, insufficient resources available`
    CannotStartImmediately,
    /// The request makes no sense; the text says what.
    Invalid,
    /// The controller cannot make it durable (`Slurm` has no word): disk full or failing.
    NotDurable,
    /// The controller is overloaded: try again.
    Busy,
    /// A field cannot be changed in this state (`Job update not available right now` and the like).
    UpdateUnavailable,
    /// `Invalid generic resource (gres) specification`
    InvalidGres,
    /// `Invalid preferred feature specification`
    InvalidPrefer,
    /// `Requested topology configuration is not available`
    TopologyUnavailable,
    /// `Invalid job array specification`
    InvalidArray,
    /// `Job dependency problem`
    InvalidDependency,
    /// `Circular job dependency`
    CircularDependency,
    /// `Job is not running`
    JobNotRunning,
    /// `Job is suspended`
    JobSuspended,
    /// `Operation not permitted on individual component of heterogeneous job`
    NotWholeHetJob,
    /// `Only batch jobs are accepted or processed`
    BatchOnly,
    /// `Requested reservation is invalid`
    InvalidReservation,
    /// `Invalid license specification`
    InvalidLicense,
    /// `Access denied to requested reservation`
    ReservationAccess,
    /// `Requested reservation is in use`
    ReservationBusy,
    /// `Requested reservation not usable now`
    ReservationUnusable,
    /// `Requested reservation overlaps with another reservation`
    ReservationOverlap,
    /// `Reservation request lacks users, groups or accounts`
    ReservationEmpty,
    /// `Duplicate reservation name`
    ReservationDuplicate,
    /// `Invalid time specified`
    InvalidTime,
    /// `User's group not permitted to use this partition`
    GroupNotPermitted,
    /// `Invalid account or account/partition combination specified`
    InvalidAccount,
    /// `Invalid qos specification`
    InvalidQos,
    /// `Partition is in use`
    PartitionBusy,
    /// `Invalid time-min specification (exceeds job's time or other limits)`
    InvalidTimeMin,
    /// `Cannot modify scrontab jobs through scontrol`
    CronJob,
    /// `Memory required by task is not available`
    TaskMemory,
}

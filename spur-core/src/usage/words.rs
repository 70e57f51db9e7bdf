//! The words of the meter's stream, which is not the stream of orders: usage never delays an order.

use super::metric::SeriesKey;
use super::summary::{JobUsage, StepUsage};
use crate::id::{JobId, NodeName};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// Readings of many series at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Rises by one from batch to batch of an epoch and lane; a controller leaves out what it took already.
    pub sequence: u64,
    /// From the node's spool: the controller was away when it was made. Live and late batches are two lanes, each with its own
    /// sequence and its own decoder.
    pub late: bool,
    /// The node's wall clock at the end. For people; rates come from `uptime`.
    pub at: Millis,
    /// The node's milliseconds since boot at the end (`CLOCK_BOOTTIME`).
    pub uptime: u64,
    /// How many milliseconds it covers.
    pub span: u32,
    /// The decoder starts anew: every name and every absolute value is in here.
    pub keyframe: bool,
    /// Numbers that are given to series from here on.
    pub names: Vec<SeriesName>,
    /// Series that end with this batch; their numbers may be given to others later.
    pub ended: Vec<u32>,
    /// The values, see [`super::codec`].
    pub body: Vec<u8>,
}

/// A series' number within a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesName {
    /// Number.
    pub number: u32,
    /// Series.
    pub key: SeriesKey,
}

/// What must not be lost: kept on the node's disk until the controller has it on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UsageRecord {
    /// A step ended on this node.
    Step(StepUsage),
    /// A job ended on this node.
    Job(JobUsage),
    /// Something happened.
    Event(UsageEvent),
}

/// Something that happened to a device or a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageEvent {
    /// When, by the node's wall clock.
    pub at: Millis,
    /// The job that it concerns.
    pub job: Option<JobId>,
    /// The GPU that it concerns.
    pub gpu: Option<u32>,
    /// What.
    pub what: UsageEventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UsageEventKind {
    /// The driver reported an error of this code (XID for NVIDIA).
    DeviceError {
        /// Code.
        code: u32,
        /// In the driver's words, shortened.
        text: String,
    },
    /// A source of the device does not answer any more, or answers again.
    DeviceStale {
        /// No answer.
        stale: bool,
        /// What was tried.
        why: String,
    },
    /// The job has not used this GPU for so long that it counts as idle.
    Idle(super::idle::Idle),
    /// It uses it again.
    Busy,
    /// Nothing was measured for so long.
    Gap {
        /// Milliseconds.
        millis: u64,
        /// Why, in words.
        why: String,
    },
    /// A process of the job was ended by the out-of-memory killer.
    OomKill {
        /// Process.
        pid: u32,
    },
}

/// Node to controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromMeter {
    /// First message.
    Hello {
        /// The shared secret from the token file.
        token: String,
        /// The node.
        node: NodeName,
        /// Boot of the kernel.
        boot_id: String,
        /// When this life of the meter began: with `boot_id`, the epoch that sequences and counters belong to.
        epoch: Millis,
    },
    /// Readings.
    Batch(Batch),
    /// A record. Numbers rise by one over all epochs of a node's spool.
    Record {
        /// Number.
        number: u64,
        /// Which spool it is from: a node that lost its disk begins a new one at 1.
        spool: String,
        /// The record.
        record: UsageRecord,
    },
}

/// Controller to node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMeter {
    /// What was taken, and how much more may come.
    Ack {
        /// Highest live batch that was taken in this epoch.
        live: u64,
        /// Highest late batch that was taken in this epoch.
        late: u64,
        /// This record and all before it are durable.
        record: u64,
        /// So many more batches may be sent.
        credit: u32,
    },
    /// Somebody looks: readings at this interval until the time to live is over.
    Watch {
        /// Milliseconds between readings.
        interval: u32,
        /// Milliseconds until the usual rate is enough again.
        time_to_live: u32,
    },
}

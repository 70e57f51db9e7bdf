//! When waiting jobs will probably start. A pass reserves devices for some jobs and touches few others, so what it leaves behind is a
//! summary from which any waiting job's start can be told when somebody asks.
//!
//! A reservation says when a job starts at the latest, as long as nothing fails and nothing more important comes. For other jobs
//! there is an estimate: the jobs before it take what running jobs leave, in order; once that is used up, the work ahead flows
//! through the partition at full speed. Both go by expected run times.

use crate::id::{JobId, NodeId};
use crate::job::spec::JobSpec;
use crate::resources::NodeShare;
use crate::time::Millis;
use std::collections::BTreeMap;

/// Devices that are kept for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// From when.
    pub start: Millis,
    /// Which, in node order.
    pub shares: Vec<NodeShare>,
}

/// What an expected start goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Devices are reserved.
    Reserved,
    /// The work ahead, and how fast it goes.
    Estimated,
    /// Nothing that is known lets it start.
    Never,
}

/// When a job will probably start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// When, if that can be told.
    pub start: Option<Millis>,
    /// What that goes by.
    pub basis: Basis,
    /// Where, if devices are reserved.
    pub nodes: Vec<NodeId>,
}

/// A waiting job, as far as its place in the queue goes.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its number.
    pub job: JobId,
    /// What it asks for.
    pub spec: &'a JobSpec,
    /// Its priority.
    pub priority: u32,
    /// Not before.
    pub eligible: Millis,
    /// When it is due ([`crate::api::JobView::due`]).
    pub due: Millis,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// When the pass was.
    pub at: Millis,
    /// Jobs that have a reservation.
    pub reserved: BTreeMap<JobId, Reserved>,
    /// By partition.
    pub(crate) pools: BTreeMap<String, Pool>,
}

/// GPUs and CPUs, or seconds of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) gpus: u64,
    pub(crate) cpus: u64,
}

impl Amount {
    /// The one that matters to a job: GPUs if it asks for any.
    fn of(self, gpus: bool) -> u64 {
        if gpus { self.gpus } else { self.cpus }
    }
}

/// A partition's future, summed up: positions are sums over all before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) capacity: Amount,
    /// What is free, then what running jobs will have left by a time.
    pub(crate) left: Vec<(Millis, Amount)>,
    /// Seconds that running jobs still need.
    pub(crate) running: Amount,
    /// Up to a place in the queue: what the jobs before it ask for, and for how many seconds.
    pub(crate) queue: Vec<(Place, Amount, Amount)>,
}

/// A place in the queue, coarse enough that there are few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    tier: u32,
    priority: u32,
    nice: i32,
    due: u64,
    job: u32,
}

impl Outlook {
    /// When a waiting job will probably start.
    pub fn expected(&self, asked: &Asked<'_>) -> Expected {
        if let Some(reserved) = self.reserved.get(&asked.job) {
            return Expected {
                start: Some(reserved.start.max(asked.eligible)),
                basis: Basis::Reserved,
                nodes: reserved.shares.iter().map(|share| share.node).collect(),
            };
        }
        Expected {
            start: None,
            basis: Basis::Never,
            nodes: Vec::new(),
        }
    }
}

//! What queries read: an immutable view that the writer replaces after each turn. Readers never wait for the writer, and the
//! writer waits for them no longer than it takes to copy a pointer.
//!
//! Rows are shared between views; a turn makes anew only the rows that it touched, and the lists that point at them.

pub mod rows;

use rows::Rows;
use spur_core::api::{JobLines, JobView, NodeView, Stats};
use spur_core::id::{JobId, NodeId, NodeName, Uid};
use spur_core::job::het::HetPart;
use spur_core::job::licenses::Licenses;
use spur_core::manage::accounts::Accounts;
use spur_core::manage::reservation::Reservation;
use spur_core::partition::Partition;
use spur_core::plan::outlook::Outlook;
use spur_core::time::Millis;
use spur_core::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

/// What an agent's heartbeat said last; not logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Load average of the last minute times 100.
    pub load_x100: u32,
    /// Free memory in MiB.
    pub free_mib: u64,
    /// When.
    pub at: Millis,
}

/// The cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Cluster name.
    pub cluster: String,
    /// Jobs by number; kept with them are the lines of those that are listed unless others are asked for.
    pub jobs: Rows<JobView, JobLines>,
    /// Records of arrays, by the array's number.
    pub arrays: Rows<Vec<JobId>>,
    /// Nodes by number.
    pub nodes: Rows<NodeView>,
    /// Partitions in configured order.
    pub partitions: Arc<Vec<Partition>>,
    /// When waiting jobs will probably start, as the last planning pass saw it.
    pub outlook: Arc<Outlook>,
    /// Which nodes are near one another.
    pub topology: Arc<Topology>,
    /// Reservations in order of name.
    pub reservations: Arc<Vec<Reservation>>,
    /// How many licenses there are.
    pub licenses: Arc<Licenses>,
    /// What users had `scrontab` keep, as written.
    pub crontabs: Arc<BTreeMap<Uid, Arc<str>>>,
    /// Accounts, users and qualities of service.
    pub accounts: Arc<Accounts>,
    /// Counters.
    pub stats: Stats,
}

impl View {
    /// A job's row.
    pub fn job(&self, job: JobId) -> Option<&Arc<JobView>> {
        self.jobs.get(job.0)
    }

    /// The rows that a number means: a job's, or all of an array's, or those of all components that the job leads.
    pub fn records(&self, job: JobId) -> impl Iterator<Item = &Arc<JobView>> {
        let members = self.arrays.get(job.0);
        let alone = members.is_none().then_some(job);
        let all = members.into_iter().flat_map(|all| all.iter().copied());
        let part = self.job(job).and_then(|row| row.het);
        let part = part.filter(|part| part.leads());
        let others = part.into_iter().flat_map(HetPart::all);
        let others = others.filter(move |other| *other != job);
        all.chain(alone)
            .chain(others)
            .filter_map(|job| self.job(job))
    }

    /// The row of the node with this name.
    pub fn node_named(&self, name: &NodeName) -> Option<&NodeView> {
        let mut rows = self.nodes.iter();
        rows.find(|row| row.node.name == *name).map(|row| &**row)
    }

    /// Nodes on which devices are reserved for waiting jobs, apart from one.
    pub fn planned(&self, apart_from: Option<JobId>) -> BTreeSet<NodeId> {
        let all = self.outlook.reserved.iter();
        let others = all.filter(|(job, _)| Some(**job) != apart_from);
        let shares = others.flat_map(|(_, reserved)| &reserved.shares);
        shares.map(|share| share.node).collect()
    }

    /// A node's row.
    pub fn node(&self, node: NodeId) -> Option<&Arc<NodeView>> {
        self.nodes.get(node.0)
    }
}

/// The readers' end.
#[derive(Debug, Default)]
pub struct Readers {
    current: RwLock<Arc<View>>,
}

impl Readers {
    /// The newest view.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The writer's end.
#[derive(Debug)]
pub struct Publisher {
    /// The view as it will be published next.
    pub draft: View,
    readers: Arc<Readers>,
}

impl Publisher {
    /// Both ends.
    pub fn new() -> (Self, Arc<Readers>) {
        let readers = Arc::new(Readers::default());
        (
            Self {
                draft: View::default(),
                readers: Arc::clone(&readers),
            },
            readers,
        )
    }

    /// Makes the draft what readers see. Cheap: the lists share their parts.
    pub fn publish(&self) {
        let next = Arc::new(self.draft.clone());
        let old = {
            let mut current = self
                .readers
                .current
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, next)
        };
        // Outside the lock: this may free what nobody reads any more.
        drop(old);
    }
}

//! What can be derived from jobs and nodes, kept up to date so that nobody has to look at all of them: who waits, who runs,
//! and what time alone makes due.

mod fleet;
mod flow;
mod ties;
mod waiting;

pub(crate) use fleet::{Fleet, MOST_PARTITIONS, Row};
pub(crate) use flow::Flow;
pub(crate) use waiting::{Bucket, BucketKey, Queue, Said};

use super::Cluster;
use crate::effect::Effects;
use crate::id::{JobId, NodeId};
use crate::job::Job;
use crate::job::licenses::Licenses;
use crate::job::state::JobState;
use crate::node::Node;
use crate::partition::Partition;
use crate::plan::class::switch_wait;
use crate::plan::shape::Shape;
use crate::plan::topology::Fabric;
use crate::time::Millis;
use crate::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};

/// What becomes due at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A running job reaches its limit.
    Limit(JobId),
    /// A running job is to get its `--signal`.
    Warning(JobId),
    /// A silent node is lost.
    Lost(NodeId),
    /// An ended job is forgotten.
    Purge(JobId),
    /// A waiting job may start: worth a planning pass, nothing to log.
    Begin(JobId),
    /// A node has rested long enough.
    Rested(NodeId),
    /// A waiting job can no longer end by its deadline.
    TooLate(JobId),
    /// A job of a crontab that is over waits for its next time.
    CronAgain(JobId),
    /// A running job has used this share of its limit, of which its owner wants to hear.
    Nears(JobId, u8),
}

/// Seconds after its end for which a job of a crontab is seen to have ended.
const CRON_PAUSE: u64 = 1;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) queue: Queue,
    /// With what they will leave when.
    running: BTreeMap<JobId, Option<flow::Load>>,
    /// Who waits for whom, and who belongs to which array.
    pub(super) ties: ties::Ties,
    flows: flow::Flows,
    pub(super) fleet: Fleet,
    pub(super) fabric: Fabric,
    /// Every entry of `jobs` and `nodes`, by time; begin times are apart, because they stay when they have passed.
    pub(super) due: BTreeSet<(Millis, Due)>,
    pub(super) begins: BTreeSet<(Millis, JobId)>,
    jobs: BTreeMap<JobId, (Millis, Due)>,
    /// When waiting jobs that want few switches take any number: worth a planning pass, and among `begins`.
    patient: BTreeMap<JobId, Millis>,
    /// Licenses of jobs that run, and the sum.
    licensed: BTreeMap<JobId, Licenses>,
    licenses: Licenses,
    /// What else becomes due of jobs, also in `due`.
    beside: BTreeMap<JobId, (Millis, Due)>,
    nodes: BTreeMap<NodeId, Vec<(Millis, Due)>>,
}

impl Index {
    fn forget_job(&mut self, id: JobId) {
        self.queue.leave(id, &mut self.flows);
        self.ties.leave(id);
        if let Some(Some(load)) = self.running.remove(&id) {
            self.flows.subtract(&load);
        }
        if let Some(own) = self.licensed.remove(&id) {
            self.licenses.subtract(&own);
        }
        if let Some(entry) = self.jobs.remove(&id) {
            self.due.remove(&entry);
            self.begins.remove(&(entry.0, id));
        }
        if let Some(at) = self.patient.remove(&id) {
            self.begins.remove(&(at, id));
        }
        if let Some(entry) = self.beside.remove(&id) {
            self.due.remove(&entry);
        }
    }

    fn set_job(&mut self, job: &Job, min_job_age: u64, partitions: &[Partition]) {
        self.ties.enter(job);
        match job.state {
            JobState::Pending => {
                self.queue.enter(job, partitions, &mut self.flows);
                if let Some(switches) = &job.spec.switches {
                    let at = job.eligible.plus_secs(switch_wait(switches));
                    self.patient.insert(job.id, at);
                    self.begins.insert((at, job.id));
                }
            }
            JobState::Running | JobState::Suspended => {
                let load = flow::load(job, None, partitions);
                load.iter().for_each(|load| self.flows.add(load));
                self.running.insert(job.id, load);
                let own = job.spec.licenses();
                if !own.is_empty() {
                    self.licenses.add(&own);
                    self.licensed.insert(job.id, own);
                }
            }
            JobState::Completed
            | JobState::Failed
            | JobState::Cancelled
            | JobState::Timeout
            | JobState::NodeFail
            | JobState::OutOfMemory
            | JobState::Deadline => {}
        }
        let nears = job.share_due();
        let nears = nears.map(|(at, percent)| (at, Due::Nears(job.id, percent)));
        let too_late = job.too_late_from().map(|at| (at, Due::TooLate(job.id)));
        if let Some(entry) = nears.or(too_late) {
            self.beside.insert(job.id, entry);
            self.due.insert(entry);
        }
        let Some((at, due)) = job_due(job, min_job_age) else {
            return;
        };
        self.jobs.insert(job.id, (at, due));
        match due {
            Due::Begin(id) => drop(self.begins.insert((at, id))),
            Due::Limit(_)
            | Due::Warning(_)
            | Due::Lost(_)
            | Due::Purge(_)
            | Due::Rested(_)
            | Due::TooLate(_)
            | Due::Nears(..)
            | Due::CronAgain(_) => drop(self.due.insert((at, due))),
        }
    }

    fn forget_node(&mut self, id: NodeId) {
        for entry in self.nodes.remove(&id).unwrap_or_default() {
            self.due.remove(&entry);
        }
    }

    fn set_node(&mut self, node: &Node, node_timeout: u64) {
        self.fabric.see(node.id, &node.name);
        let silent = !node.connected && !node.lost;
        let lost = silent.then(|| (node.last_seen.plus_secs(node_timeout), Due::Lost(node.id)));
        let until = node.trouble.as_ref().and_then(|trouble| trouble.until);
        let rested = until.map(|until| (until, Due::Rested(node.id)));
        let entries: Vec<_> = lost.into_iter().chain(rested).collect();
        if !entries.is_empty() {
            self.due.extend(&entries);
            self.nodes.insert(node.id, entries);
        }
    }
}

/// What time alone will do to the job next.
fn job_due(job: &Job, min_job_age: u64) -> Option<(Millis, Due)> {
    match job.state {
        JobState::Pending => {
            (job.eligible > job.submitted).then_some((job.eligible, Due::Begin(job.id)))
        }
        JobState::Running | JobState::Suspended => match job.warning_due() {
            Some(at) => Some((at, Due::Warning(job.id))),
            None => Some((job.limit_end()?, Due::Limit(job.id))),
        },
        JobState::Completed
        | JobState::Failed
        | JobState::Cancelled
        | JobState::Timeout
        | JobState::NodeFail
        | JobState::OutOfMemory
        | JobState::Deadline => {
            // Also if something of it is left somewhere, as on a node that is lost: it starts nowhere before that may be.
            if job.cron().is_some() {
                return Some((job.ended?.plus_secs(CRON_PAUSE), Due::CronAgain(job.id)));
            }
            let clean = job.leftovers.is_empty();
            clean.then_some((job.ended?.plus_secs(min_job_age), Due::Purge(job.id)))
        }
    }
}

impl Cluster {
    /// Brings the index up to date for what an event touched.
    pub(super) fn reindex(&mut self, fx: &Effects) {
        self.reindex_jobs(&fx.touched_jobs);
        for id in &fx.touched_nodes {
            self.index.forget_node(*id);
            if let Some(node) = self.nodes.get(id) {
                self.index.set_node(node, self.node_timeout);
                let weight = self.weight(node);
                self.index.fleet.set((node, weight), &self.jobs);
            }
        }
    }

    pub(super) fn reindex_jobs(&mut self, jobs: &BTreeSet<JobId>) {
        for id in jobs {
            let due = self.index.jobs.get(id).copied();
            self.index.forget_job(*id);
            if let Some(job) = self.jobs.get(id) {
                self.index.set_job(job, self.min_job_age, &self.partitions);
                if due != self.index.jobs.get(id).copied() {
                    self.reindex_shares(*id);
                }
            }
        }
    }

    /// The job's end may have moved: that shows on its nodes.
    fn reindex_shares(&mut self, id: JobId) {
        let held = self.jobs.get(&id).map(|job| job.allocation.iter());
        for share in held.into_iter().flatten() {
            if let Some(node) = self.nodes.get(&share.node) {
                let weight = self.weight(node);
                self.index.fleet.set((node, weight), &self.jobs);
            }
        }
    }

    /// Another topology is configured.
    /// Has nodes hang together in another way, for a question about what would be; what is configured comes by events.
    pub fn rewire(&mut self, topology: Topology) {
        self.topology = topology;
        self.reindex_fabric();
    }

    pub(super) fn reindex_fabric(&mut self) {
        self.index.fabric = Fabric::of(&self.topology);
        for node in self.nodes.values() {
            self.index.fabric.see(node.id, &node.name);
        }
    }

    /// Builds the index from nothing.
    pub(crate) fn reindex_all(&mut self) {
        self.index = self.fresh_index();
    }

    fn fresh_index(&self) -> Index {
        let mut index = Index {
            fabric: Fabric::of(&self.topology),
            ..Index::default()
        };
        index.fleet.configure(&self.partitions);
        for job in self.jobs.values() {
            index.set_job(job, self.min_job_age, &self.partitions);
        }
        for node in self.nodes.values() {
            index.set_node(node, self.node_timeout);
            index.fleet.set((node, self.weight(node)), &self.jobs);
        }
        index
    }

    /// Whether the index is what it would be if it were built from nothing.
    pub(crate) fn index_is_true(&self) -> bool {
        self.fresh_index() == self.index
    }

    /// Waiting jobs as the planner first sees them.
    pub(crate) fn queue(&self) -> &Queue {
        &self.index.queue
    }

    /// Nodes as the planner sees them.
    pub(crate) fn fleet(&self) -> &Fleet {
        &self.index.fleet
    }

    /// What waits and what will be left in a partition, by its position.
    pub(crate) fn flow(&self, partition: usize) -> Option<&Flow> {
        self.index.flows.get(partition)
    }

    /// How nodes hang together.
    pub(crate) fn fabric(&self) -> &Fabric {
        &self.index.fabric
    }

    /// Licenses that jobs hold.
    #[must_use]
    pub fn licenses_used(&self) -> &Licenses {
        &self.index.licenses
    }

    /// Licenses that no job holds.
    #[must_use]
    pub fn licenses_free(&self) -> Licenses {
        let mut free = self.licenses.clone();
        free.subtract(self.licenses_used());
        free
    }

    /// The shape of a node.
    pub(crate) fn shape(&self, node: NodeId) -> Option<&Shape> {
        self.index.fleet.shape(node)
    }

    /// Jobs that wait, in order of number (held ones too).
    pub fn pending(&self) -> impl Iterator<Item = &Job> {
        let ids = self.index.queue.jobs();
        ids.filter_map(|id| self.jobs.get(&id))
    }

    /// Jobs that run, in order of number.
    pub fn running(&self) -> impl Iterator<Item = &Job> {
        let ids = self.index.running.keys();
        ids.filter_map(|id| self.jobs.get(id))
    }

    /// Records of an array, in order of number.
    pub fn members(&self, array: JobId) -> impl Iterator<Item = JobId> {
        let family = self.index.ties.family(array);
        family
            .into_iter()
            .flat_map(|family| family.members.iter().copied())
    }

    /// How many tasks of an array run.
    pub(crate) fn running_tasks(&self, array: JobId) -> u32 {
        self.index
            .ties
            .family(array)
            .map_or(0, |family| family.running)
    }

    /// How many jobs wait and how many run.
    pub fn counts(&self) -> (usize, usize) {
        (self.index.queue.len(), self.index.running.len())
    }
}

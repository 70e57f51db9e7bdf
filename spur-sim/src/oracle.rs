//! What was promised, and whether it is kept.

use spur_core::check::check;
use spur_core::cluster::Cluster;
use spur_core::event::Event;
use spur_core::id::{Generation, JobId, StepKind};
use spur_core::resources::NodeShare;
use std::collections::{BTreeMap, BTreeSet};

/// See the module. The first broken promise is kept in `broken`.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) broken: Option<String>,
    /// Numbers that clients were told.
    pub(crate) acknowledged: BTreeSet<JobId>,
    /// Jobs that were forgotten after their end.
    purged: BTreeSet<JobId>,
    /// Next job number and generation, and each job's generation, when the last batch was durable.
    counters: (JobId, Generation),
    generations: BTreeMap<JobId, Generation>,
    /// Placements that are durable.
    placed: BTreeSet<(JobId, Generation)>,
    /// Placements that machines carried out.
    pub(crate) carried_out: BTreeSet<(JobId, Generation)>,
    /// Launches that failed.
    pub(crate) launches_failed: u64,
    /// Steps that machines started.
    started: BTreeSet<(usize, JobId, Generation, StepKind)>,
}

impl Oracle {
    pub(crate) fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// A batch of events was applied and is durable.
    pub(crate) fn batch(&mut self, cluster: &Cluster) {
        if let Err(violation) = check(cluster) {
            self.breaks(violation.to_string());
        }
        let (next_job, generation) = (cluster.next_job, cluster.generation);
        if next_job < self.counters.0 || generation < self.counters.1 {
            self.breaks(format!(
                "numbers fell: {:?} to {:?}",
                self.counters,
                (next_job, generation)
            ));
        }
        self.counters = (next_job, generation);
        let sank = cluster.jobs.values().find(|job| {
            self.generations
                .insert(job.id, job.generation)
                .is_some_and(|last| last > job.generation)
        });
        if let Some(job) = sank.map(|job| job.id) {
            self.breaks(format!("the generation of job {job} fell"));
        }
    }

    /// An event became durable; `after` is the cluster with it.
    pub(crate) fn durable(&mut self, event: &Event) {
        match event {
            Event::Placed {
                job, generation, ..
            } => {
                self.placed.insert((*job, *generation));
            }
            Event::HetPlaced { parts, generation } => {
                let own = |more: u64| Generation(generation.0.saturating_add(more));
                let placed = parts.iter().zip(0..);
                self.placed
                    .extend(placed.map(|((job, _), more)| (*job, own(more))));
            }
            Event::Purged { jobs } => self.purged.extend(jobs),
            Event::LaunchFailed { .. } => self.launches_failed += 1,
            Event::Configured { .. }
            | Event::NodeConnected(_)
            | Event::NodeDisconnected { .. }
            | Event::NodeLost { .. }
            | Event::NodeUpdated { .. }
            | Event::PartitionUpdated { .. }
            | Event::Submitted { .. }
            | Event::HetSubmitted { .. }
            | Event::Explained { .. }
            | Event::StepGranted { .. }
            | Event::StepEnded { .. }
            | Event::Cleaned { .. }
            | Event::Cancelled { .. }
            | Event::Finished { .. }
            | Event::TimedOut { .. }
            | Event::Held { .. }
            | Event::Released { .. }
            | Event::Requeued { .. }
            | Event::JobUpdated { .. }
            | Event::Denials { .. }
            | Event::FenceChanged { .. }
            | Event::GpuIdle { .. }
            | Event::Utilization { .. }
            | Event::NodeRested { .. }
            | Event::TaskSplit { .. }
            | Event::ArraySplit { .. }
            | Event::JobChanged { .. }
            | Event::Suspended { .. }
            | Event::Resumed { .. }
            | Event::Warned { .. }
            | Event::LimitNears { .. }
            | Event::CrontabSet { .. }
            | Event::CronAgain { .. }
            | Event::ProgramFailed { .. }
            | Event::HooksConfigured { .. }
            | Event::HookEnded { .. }
            | Event::DeadlineMissed { .. }
            | Event::Managed(_)
            | Event::Mesh(_) => {}
        }
    }

    /// A client was told that its job has this number.
    pub(crate) fn acknowledge(&mut self, job: JobId) {
        if !self.acknowledged.insert(job) {
            self.breaks(format!("the number {job} was given out twice"));
        }
    }

    /// The controller came back with this state.
    pub(crate) fn recovered(&mut self, cluster: &Cluster) {
        let known = |job: &&JobId| cluster.jobs.contains_key(job) || self.purged.contains(job);
        let lost = self.acknowledged.iter().find(|job| !known(job)).copied();
        if let Some(job) = lost {
            self.breaks(format!("job {job} was acknowledged and is lost"));
        }
        if let Some(job) = self
            .acknowledged
            .iter()
            .find(|job| **job >= cluster.next_job)
            .copied()
        {
            self.breaks(format!("the number {job} will be given out again"));
        }
    }

    /// A placement became durable; these jobs hold something on one of its machines.
    pub(crate) fn granted(
        &mut self,
        job: JobId,
        share: &NodeShare,
        holders: &BTreeMap<JobId, NodeShare>,
    ) {
        let holds = |held: &NodeShare| held.gpus.intersects(&share.gpus);
        if let Some((holder, _)) = holders.iter().find(|(_, held)| holds(held)) {
            let node = share.node;
            self.breaks(format!(
                "job {job} was granted a GPU of node {node} that job {holder} still holds"
            ));
        }
    }

    /// A machine sets a job up beside what is there.
    pub(crate) fn prepared(
        &mut self,
        at: usize,
        (job, generation): (JobId, Generation),
        share: &NodeShare,
        others: &BTreeMap<JobId, NodeShare>,
    ) {
        for (other, held) in others {
            if held.gpus.intersects(&share.gpus) || held.cpus.intersects(&share.cpus) {
                self.breaks(format!(
                    "machine {at}: jobs {other} and {job} hold the same device"
                ));
            }
        }
        if !self.placed.contains(&(job, generation)) {
            self.breaks(format!(
                "machine {at}: job {job} runs without a durable placement"
            ));
        }
        self.carried_out.insert((job, generation));
    }

    /// A machine starts its part of a step.
    pub(crate) fn launched(
        &mut self,
        at: usize,
        (job, generation): (JobId, Generation),
        step: StepKind,
    ) {
        if !self.started.insert((at, job, generation, step)) {
            self.breaks(format!(
                "machine {at}: step {job}.{step} runs twice in one placement"
            ));
        }
    }

    /// Everything must be over.
    pub(crate) fn drained(&mut self, cluster: &Cluster, held: usize) {
        let open = cluster
            .jobs
            .values()
            .find(|job| !job.state.is_terminal() || !job.leftovers.is_empty());
        if let Some(job) = open {
            let (id, state, reason) = (job.id, job.state, job.reason);
            let (text, unclean) = (&job.reason_text, &job.uncleaned);
            self.breaks(format!(
                "job {id} does not end: {state} ({reason} {text}), unclean on {unclean:?}"
            ));
        }
        if held > 0 {
            self.breaks(format!("machines still hold {held} jobs"));
        }
    }
}

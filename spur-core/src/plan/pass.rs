//! One pass: what is free, which asks failed already, who waits first in each partition.

use super::ask::{Ask, GpuAsk};
use super::devices;
use super::fit;
use super::rooms::{Bits, Choice, Rooms};
use crate::cluster::Cluster;
use crate::id::{NodeId, NodeName};
use crate::job::Job;
use crate::job::spec::JobSpec;
use crate::job::state::Reason;
use crate::partition::{Partition, PartitionState};
use crate::resources::NodeShare;
use crate::time::{Millis, TimeLimit};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) reason: Reason,
    pub(super) text: Cow<'static, str>,
}

/// Everything that decides whether a job fits: what free room only shrinks during a pass, so one failure is enough for all.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Class<'a> {
    partition: usize,
    ask: Ask<'a>,
    nodelist: &'a [String],
    exclude: &'a [String],
    shunned: Cow<'a, BTreeSet<NodeId>>,
}

pub(super) struct Pass<'a> {
    cluster: &'a Cluster,
    at: Millis,
    rooms: Rooms<'a>,
    /// Slots of each partition that was looked at.
    members: BTreeMap<usize, Bits>,
    failed: BTreeSet<Class<'a>>,
    /// Partitions in which a job waits for resources.
    waited_for: BTreeSet<usize>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(cluster: &'a Cluster, at: Millis) -> Self {
        Self {
            cluster,
            at,
            rooms: Rooms::now(cluster),
            members: BTreeMap::new(),
            failed: BTreeSet::new(),
            waited_for: BTreeSet::new(),
        }
    }

    /// A job's shares, taken out of what is free; or why it waits.
    pub(super) fn consider(
        &mut self,
        job: &'a Job,
        position: Option<usize>,
    ) -> Result<Vec<NodeShare>, Wait> {
        let found = position.and_then(|at| Some((at, self.cluster.partitions.get(at)?)));
        let Some((position, partition)) = found else {
            let text = format!("partition {} is not configured", job.spec.partition);
            return Err(Wait {
                reason: Reason::PartitionInactive,
                text: text.into(),
            });
        };
        barred(job, partition, self.at)?;
        let required = self.required(&job.spec)?;
        let class = Class {
            partition: position,
            ask: Ask::of(&job.spec),
            nodelist: &job.spec.nodelist,
            exclude: &job.spec.exclude,
            shunned: shunned(job),
        };
        if self.failed.contains(&class) {
            return Err(self.wait(position, &class.ask));
        }
        match self.place(&class, partition, &required) {
            Some(shares) => Ok(shares),
            None => {
                let wait = self.wait(position, &class.ask);
                self.failed.insert(class);
                Err(wait)
            }
        }
    }

    fn place(
        &mut self,
        class: &Class<'_>,
        partition: &Partition,
        required: &[usize],
    ) -> Option<Vec<NodeShare>> {
        if !self.members.contains_key(&class.partition) {
            let members = self.rooms.of_partition(self.cluster, partition);
            self.members.insert(class.partition, members);
        }
        let members = self.members.get(&class.partition)?;
        let allowed = self.allowed(members, class);
        if !required.iter().all(|at| allowed.contains(*at)) {
            return None;
        }
        let choice = Choice {
            rooms: &self.rooms,
            allowed: &allowed,
            required,
        };
        let parts = fit::pick(&choice, &class.ask)?;
        let shares: Vec<NodeShare> = parts
            .iter()
            .filter_map(|part| Some((self.rooms.slots.get(part.slot)?, part.need)))
            .map(|(slot, need)| devices::share(slot, &class.ask, need))
            .collect();
        self.rooms.take(&parts, &shares);
        Some(shares)
    }

    /// The partition's slots without those that the job does not want or must not get.
    fn allowed<'m>(&self, members: &'m Bits, class: &Class<'_>) -> Cow<'m, Bits> {
        let mut allowed = Cow::Borrowed(members);
        let named = class.exclude.iter().filter_map(|name| self.node(name));
        for id in named.chain(class.shunned.iter().copied()) {
            if let Some(at) = self.rooms.position(id) {
                allowed.to_mut().clear(at);
            }
        }
        allowed
    }

    fn node(&self, name: &str) -> Option<NodeId> {
        self.cluster
            .node_ids
            .get(&NodeName::new(name).ok()?)
            .copied()
    }

    /// Positions of the nodes of `-w`.
    fn required(&self, spec: &JobSpec) -> Result<Vec<usize>, Wait> {
        let mut positions = BTreeSet::new();
        for name in &spec.nodelist {
            match self.node(name).and_then(|id| self.rooms.position(id)) {
                Some(at) => drop(positions.insert(at)),
                None => {
                    let text = format!("node {name} takes no jobs now");
                    return Err(Wait {
                        reason: Reason::ReqNodeNotAvail,
                        text: text.into(),
                    });
                }
            }
        }
        Ok(positions.into_iter().collect())
    }

    /// The first job of a partition that finds no room waits for resources, later ones wait behind it, as Slurm says it.
    fn wait(&mut self, position: usize, ask: &Ask<'_>) -> Wait {
        if !self.waited_for.insert(position) {
            return Wait {
                reason: Reason::Priority,
                text: Cow::Borrowed(""),
            };
        }
        let ready = self.members.get(&position).map_or(0, Bits::len);
        Wait {
            reason: Reason::Resources,
            text: describe(ask, ready).into(),
        }
    }
}

/// What keeps a job from being considered at all.
fn barred(job: &Job, partition: &Partition, at: Millis) -> Result<(), Wait> {
    let wait = |reason| {
        Err(Wait {
            reason,
            text: Cow::Borrowed(""),
        })
    };
    if job.eligible > at {
        return wait(Reason::BeginTime);
    }
    match partition.state {
        PartitionState::Up | PartitionState::Drain => {}
        PartitionState::Down => return wait(Reason::PartitionDown),
        PartitionState::Inactive => return wait(Reason::PartitionInactive),
    }
    if job.spec.time_limit.unwrap_or(TimeLimit::Unlimited) > partition.max_time {
        return wait(Reason::PartitionTimeLimit);
    }
    Ok(())
}

/// Nodes where the job failed to start, or where its last run is not cleaned up.
fn shunned(job: &Job) -> Cow<'_, BTreeSet<NodeId>> {
    let mut shunned = Cow::Borrowed(&job.avoid);
    if !job.uncleaned.is_empty() {
        shunned.to_mut().extend(&job.uncleaned);
    }
    shunned
}

/// What the job waits for, in words that change only when its partition's nodes do.
fn describe(ask: &Ask<'_>, ready: usize) -> String {
    let gpus = |count: u32| match (ask.model, count) {
        ("", 1) => "1 GPU".to_owned(),
        ("", count) => format!("{count} GPUs"),
        (model, count) => format!("{count} {model}"),
    };
    let what = match ask.gpus {
        GpuAsk::No => {
            let cpus = u64::from(ask.tasks_on(ask.nodes_min)) * u64::from(ask.cpus_per_task);
            format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" })
        }
        GpuAsk::PerNode(count) => format!("{} a node", gpus(count)),
        GpuAsk::PerTask(count) => format!("{} a task", gpus(count)),
        GpuAsk::Total(count) => format!("{} in all", gpus(count)),
    };
    let nodes = match (ask.exclusive, ask.nodes_min) {
        (true, 1) => "a whole node".to_owned(),
        (true, nodes) => format!("{nodes} whole nodes"),
        (false, 1) => "one node".to_owned(),
        (false, nodes) => format!("{nodes} nodes"),
    };
    format!("waits for {what} on {nodes}; {ready} of its partition's nodes take jobs now")
}

//! One pass: what is free, which classes failed already, who waits first in each partition.

use super::ask::{Ask, GpuAsk};
use super::class::{Class, ClassId};
use super::fit;
use super::rooms::{Bits, Choice, Rooms};
use crate::cluster::{Cluster, Waiting};
use crate::id::{NodeId, NodeName};
use crate::job::state::Reason;
use crate::partition::{Partition, PartitionState};
use crate::resources::NodeShare;
use crate::time::Millis;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) reason: Reason,
    pub(super) text: Cow<'static, str>,
}

impl Wait {
    fn bare(reason: Reason) -> Self {
        Self {
            reason,
            text: Cow::Borrowed(""),
        }
    }
}

/// What is known of a class in this pass.
#[derive(Clone, Debug, Default)]
struct Verdict {
    /// Position of its partition, if that is configured.
    partition: Option<usize>,
    /// What is free only shrinks during a pass, so one failure is enough for all of the class.
    failed: bool,
}

pub(super) struct Pass<'a> {
    cluster: &'a Cluster,
    at: Millis,
    rooms: Rooms<'a>,
    /// By class.
    verdicts: Vec<Verdict>,
    /// Slots of each partition that was looked at.
    members: BTreeMap<usize, Bits>,
    /// Partitions in which a job waits for resources.
    waited_for: BTreeSet<usize>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(cluster: &'a Cluster, at: Millis) -> Self {
        let names = cluster.partitions.iter().zip(0..);
        let positions: BTreeMap<&str, usize> = names
            .map(|(partition, at)| (partition.name.as_str(), at))
            .collect();
        let classes = &cluster.queue().classes;
        let verdict = |class: Option<&Class>| Verdict {
            partition: class.and_then(|class| positions.get(class.partition.as_str()).copied()),
            failed: false,
        };
        Self {
            cluster,
            at,
            rooms: Rooms::now(cluster),
            verdicts: (0..classes.table_len())
                .map(|at| verdict(classes.at(at)))
                .collect(),
            members: BTreeMap::new(),
            waited_for: BTreeSet::new(),
        }
    }

    /// The tier of a class's partition.
    pub(super) fn tier(&self, class: ClassId) -> u32 {
        let partition = self
            .verdicts
            .get(class.position())
            .and_then(|verdict| verdict.partition);
        let partition = partition.and_then(|at| self.cluster.partitions.get(at));
        partition.map_or(0, |partition| partition.priority_tier)
    }

    /// A job's shares, taken out of what is free; or why it waits.
    pub(super) fn consider(&mut self, job: &Waiting) -> Result<Vec<NodeShare>, Wait> {
        let cluster = self.cluster;
        let class = cluster.queue().classes.get(job.class);
        let verdict = self.verdicts.get(job.class.position()).cloned();
        let (Some(class), Some(verdict)) = (class, verdict) else {
            return Err(Wait::bare(Reason::None));
        };
        let position = verdict.partition;
        let Some((at, partition)) = position.and_then(|at| Some((at, cluster.partitions.get(at)?)))
        else {
            let text = format!("partition {} is not configured", class.partition);
            return Err(Wait {
                reason: Reason::PartitionInactive,
                text: text.into(),
            });
        };
        barred(job, partition, self.at)?;
        if !verdict.failed {
            let required = self.required(class)?;
            if let Some(shares) = self.place(class, (at, partition), &required) {
                return Ok(shares);
            }
            if let Some(verdict) = self.verdicts.get_mut(job.class.position()) {
                verdict.failed = true;
            }
        }
        Err(self.wait(at, class))
    }

    fn place(
        &mut self,
        class: &Class,
        (position, partition): (usize, &Partition),
        required: &[usize],
    ) -> Option<Vec<NodeShare>> {
        let (rooms, cluster) = (&self.rooms, self.cluster);
        let members = self.members.entry(position);
        let members = members.or_insert_with(|| rooms.of_partition(cluster, partition));
        let allowed = allowed(cluster, rooms, members, class);
        if !required.iter().all(|at| allowed.contains(*at)) {
            return None;
        }
        let ask = class.ask();
        let parts = fit::pick(
            &Choice {
                rooms,
                allowed: &allowed,
                required,
            },
            &ask,
        )?;
        let shares = rooms.shares(&parts, &ask);
        self.rooms.take(&parts, &shares);
        Some(shares)
    }

    /// Positions of the nodes of `-w`.
    fn required(&self, class: &Class) -> Result<Vec<usize>, Wait> {
        let mut positions = BTreeSet::new();
        for name in &class.nodelist {
            match node(self.cluster, name).and_then(|id| self.rooms.position(id)) {
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
    fn wait(&mut self, position: usize, class: &Class) -> Wait {
        if !self.waited_for.insert(position) {
            return Wait::bare(Reason::Priority);
        }
        let ready = self.members.get(&position).map_or(0, Bits::len);
        Wait {
            reason: Reason::Resources,
            text: describe(&class.ask(), ready).into(),
        }
    }
}

/// The partition's slots without those that the job does not want or must not get.
fn allowed<'m>(
    cluster: &Cluster,
    rooms: &Rooms<'_>,
    members: &'m Bits,
    class: &Class,
) -> Cow<'m, Bits> {
    let mut allowed = Cow::Borrowed(members);
    let named = class.exclude.iter().filter_map(|name| node(cluster, name));
    for id in named.chain(class.shunned.iter().copied()) {
        if let Some(at) = rooms.position(id) {
            allowed.to_mut().clear(at);
        }
    }
    allowed
}

fn node(cluster: &Cluster, name: &str) -> Option<NodeId> {
    cluster.node_ids.get(&NodeName::new(name).ok()?).copied()
}

/// What keeps a job from being considered at all.
fn barred(job: &Waiting, partition: &Partition, at: Millis) -> Result<(), Wait> {
    if job.eligible > at {
        return Err(Wait::bare(Reason::BeginTime));
    }
    match partition.state {
        PartitionState::Up | PartitionState::Drain => {}
        PartitionState::Down => return Err(Wait::bare(Reason::PartitionDown)),
        PartitionState::Inactive => return Err(Wait::bare(Reason::PartitionInactive)),
    }
    if job.time_limit > partition.max_time {
        return Err(Wait::bare(Reason::PartitionTimeLimit));
    }
    Ok(())
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

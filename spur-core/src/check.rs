//! The rules that must never break, stated over a [`Cluster`]. Tests, the simulation and debug builds run this.

use crate::cluster::Cluster;
use crate::id::{Generation, JobId, NodeId};
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::{GpuRecent, Node};
use crate::resources::{IdSet, NodeShare};
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// A broken rule: a defect in spur, never a user's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two holders of one device, or of memory that is not there.
    #[error("node {node}: {what} granted twice or not there (job {job})")]
    GrantedTwice {
        /// Where.
        node: NodeId,
        /// What: CPUs, GPUs or memory.
        what: &'static str,
        /// The second holder.
        job: JobId,
    },
    /// What a node counts as used is not what jobs hold.
    #[error("node {node}: the {what} counted as used are not those that jobs hold")]
    WrongSum {
        /// Where.
        node: NodeId,
        /// What: CPUs, GPUs, memory or jobs.
        what: &'static str,
    },
    /// A job is in a condition that its state forbids.
    #[error("job {job} ({state}): {what}")]
    BadJob {
        /// Which job.
        job: JobId,
        /// Its state.
        state: JobState,
        /// What is wrong.
        what: &'static str,
    },
    /// The cluster as a whole is wrong.
    #[error("{0}")]
    BadCluster(&'static str),
}

/// Checks every rule; the first that is broken is the error.
pub fn check(cluster: &Cluster) -> Result<(), Violation> {
    ids(cluster)?;
    let mut held: BTreeMap<NodeId, Held> = BTreeMap::new();
    for job in cluster.jobs.values() {
        job_is_sound(cluster, job)?;
        let leftovers = job.leftovers.values().map(|leftover| &leftover.share);
        for share in job.allocation.iter().chain(leftovers) {
            held.entry(share.node).or_default().add(job.id, share)?;
        }
    }
    for node in cluster.nodes.values() {
        held.remove(&node.id).unwrap_or_default().is_what(node)?;
    }
    if !held.is_empty() {
        return Err(Violation::BadCluster(
            "a job holds something on a node that is not there",
        ));
    }
    cluster.mesh.is_sound().map_err(Violation::BadCluster)?;
    if cluster.index_is_true() {
        Ok(())
    } else {
        Err(Violation::BadCluster(
            "the index of waiting and due jobs is wrong",
        ))
    }
}

/// Checks what no event may take back: numbers and generations never fall.
pub fn check_step(before: &Cluster, after: &Cluster) -> Result<(), Violation> {
    if after.next_job < before.next_job {
        return Err(Violation::BadCluster("the next job number fell"));
    }
    if after.generation < before.generation {
        return Err(Violation::BadCluster("the generation fell"));
    }
    if before.nodes.keys().any(|id| !after.nodes.contains_key(id)) {
        return Err(Violation::BadCluster("a node was forgotten"));
    }
    let mesh = after.mesh.follows(&before.mesh);
    mesh.map_err(Violation::BadCluster)?;
    let sank = before.jobs.values().find(|job| {
        after
            .jobs
            .get(&job.id)
            .is_some_and(|later| later.generation < job.generation)
    });
    sank.map_or(Ok(()), |job| Err(bad(job, "its generation fell")))
}

fn ids(cluster: &Cluster) -> Result<(), Violation> {
    let named = cluster
        .nodes
        .values()
        .all(|node| cluster.node_ids.get(&node.name) == Some(&node.id));
    if !named || cluster.nodes.len() != cluster.node_ids.len() {
        return Err(Violation::BadCluster(
            "names and numbers of nodes do not match",
        ));
    }
    if cluster
        .jobs
        .keys()
        .next_back()
        .is_some_and(|last| *last >= cluster.next_job)
    {
        return Err(Violation::BadCluster(
            "a job's number is not below the next one",
        ));
    }
    let newest = cluster
        .jobs
        .values()
        .map(|job| job.generation)
        .max()
        .unwrap_or_default();
    if newest > cluster.generation {
        return Err(Violation::BadCluster(
            "a job's generation was never given out",
        ));
    }
    Ok(())
}

fn bad(job: &Job, what: &'static str) -> Violation {
    Violation::BadJob {
        job: job.id,
        state: job.state,
        what,
    }
}

fn job_is_sound(cluster: &Cluster, job: &Job) -> Result<(), Violation> {
    let holds = !job.allocation.is_empty();
    if holds != (job.state == JobState::Running) {
        return Err(bad(job, "a job holds an allocation exactly while it runs"));
    }
    let keys: BTreeSet<NodeId> = job.leftovers.keys().copied().collect();
    if keys != job.uncleaned
        || job
            .leftovers
            .iter()
            .any(|(node, left)| *node != left.share.node)
    {
        return Err(bad(job, "its leftovers and unclean nodes differ"));
    }
    if job
        .allocation
        .iter()
        .any(|share| job.leftovers.contains_key(&share.node))
    {
        return Err(bad(job, "it runs where it is not clean"));
    }
    if job.state.is_terminal() != (job.ended.is_some() && job.state != JobState::Running) {
        return Err(bad(job, "its end time does not match its state"));
    }
    if holds && job.generation == Generation::default() {
        return Err(bad(job, "it runs without a generation"));
    }
    if job
        .leftovers
        .values()
        .any(|left| left.generation > job.generation)
    {
        return Err(bad(job, "a leftover is newer than the job"));
    }
    let idle = |(node, gpus): (&NodeId, &BTreeMap<u32, _>)| {
        let share = job.allocation.iter().find(|share| share.node == *node);
        !gpus.is_empty()
            && share.is_some_and(|share| gpus.keys().all(|gpu| share.gpus.contains(*gpu)))
    };
    if !job.idle.iter().all(idle) {
        return Err(bad(job, "a GPU that it does not hold counts as idle"));
    }
    if job.cancelled_by.is_some() && job.state != JobState::Cancelled {
        return Err(bad(job, "somebody cancelled it and it is not cancelled"));
    }
    if job.suspended.is_some() && job.state != JobState::Running {
        return Err(bad(job, "it is suspended and does not run"));
    }
    array_is_sound(cluster, job)?;
    het_is_sound(cluster, job)?;
    if job.state == JobState::Pending && !job.steps.is_empty() {
        return Err(bad(job, "it waits and has steps"));
    }
    steps_are_sound(cluster, job)
}

/// What a record of an array stands for.
fn array_is_sound(cluster: &Cluster, job: &Job) -> Result<(), Violation> {
    let Some(part) = &job.array else {
        return Ok(());
    };
    if part.view.task.is_some() != part.view.tasks.is_empty() {
        return Err(bad(
            job,
            "it stands for one task and for several, or for none",
        ));
    }
    if job.state == JobState::Running && part.view.task.is_none() {
        return Err(bad(job, "several tasks run as one"));
    }
    let Some(array) = cluster.arrays.get(&part.view.job) else {
        return Err(bad(job, "its array is not known"));
    };
    let ended = job.state.is_terminal() && job.leftovers.is_empty();
    let all = part.view.all();
    let noted = if ended {
        all.is_subset(&array.ended)
    } else {
        !all.intersects(&array.ended)
    };
    if !noted {
        return Err(bad(job, "its array does not know what became of it"));
    }
    let twice = |other: JobId| {
        let other = cluster.jobs.get(&other).and_then(|job| job.array.as_ref());
        other.is_some_and(|other| other.view.has_any(&all))
    };
    let mut others = cluster.members(part.view.job).filter(|id| *id != job.id);
    if others.any(twice) {
        return Err(bad(job, "another record stands for the same task"));
    }
    if cluster.follows_truly(job) {
        Ok(())
    } else {
        Err(bad(job, "whether its array is full is not as it says"))
    }
}

/// Components of a heterogeneous job wait together, and none outlives the leader.
fn het_is_sound(cluster: &Cluster, job: &Job) -> Result<(), Violation> {
    let Some(part) = job.het else {
        return Ok(());
    };
    if job.id.0 != part.leader.0.saturating_add(part.offset) || part.offset >= part.size {
        return Err(bad(job, "its number is not that of its component"));
    }
    if job.array.is_some() {
        return Err(bad(job, "it is a component and of an array"));
    }
    let others = cluster.together(job.id);
    let mut others = others.iter().filter_map(|id| cluster.jobs.get(id));
    let waits = job.state == JobState::Pending;
    if others.any(|other| (other.state == JobState::Pending) != waits) {
        return Err(bad(job, "not all of its components wait"));
    }
    let leader = cluster.jobs.get(&part.leader);
    let over = leader.is_none_or(|leader| leader.state.is_terminal());
    if over && !job.state.is_terminal() {
        return Err(bad(job, "it has outlived its leader"));
    }
    if job.state == JobState::Running {
        let began = leader.filter(|leader| leader.state == JobState::Running);
        if began.is_some_and(|leader| leader.started != job.started) {
            return Err(bad(job, "it did not start with its leader"));
        }
    }
    Ok(())
}

fn steps_are_sound(cluster: &Cluster, job: &Job) -> Result<(), Violation> {
    let whole = if job.allocation.is_empty() {
        &job.last_nodes
    } else {
        &job.allocation
    };
    for part in job.steps.values().flat_map(|step| &step.shares) {
        let share = whole.iter().find(|share| share.node == part.share.node);
        // With `--no-kill` a job has steps from before it lost a node.
        let inside = share.map_or(job.spec.extras().no_kill, |share| {
            part.share.gpus.is_subset(&share.gpus) && part.share.cpus.is_subset(&share.cpus)
        });
        if !inside || !cluster.nodes.contains_key(&part.share.node) {
            return Err(bad(job, "a step exceeds the allocation"));
        }
    }
    let late = job
        .steps
        .values()
        .any(|step| step.reported.len() > step.shares.len());
    if late {
        Err(bad(job, "more nodes reported than a step has"))
    } else {
        Ok(())
    }
}

/// What jobs hold on one node.
#[derive(Default)]
struct Held {
    cpus: IdSet,
    gpus: IdSet,
    memory: u64,
    jobs: BTreeSet<JobId>,
}

impl Held {
    fn add(&mut self, job: JobId, share: &NodeShare) -> Result<(), Violation> {
        let twice = |what| Violation::GrantedTwice {
            node: share.node,
            what,
            job,
        };
        if self.gpus.intersects(&share.gpus) {
            return Err(twice("GPUs"));
        }
        if self.cpus.intersects(&share.cpus) {
            return Err(twice("CPUs"));
        }
        self.gpus.union_with(&share.gpus);
        self.cpus.union_with(&share.cpus);
        self.memory = self.memory.saturating_add(share.memory_mib);
        self.jobs.insert(job);
        Ok(())
    }

    /// Whether this is what the node counts, and whether the node has it.
    fn is_what(&self, node: &Node) -> Result<(), Violation> {
        let wrong = |what| {
            Err(Violation::WrongSum {
                node: node.id,
                what,
            })
        };
        if self.gpus != node.gpus_used {
            return wrong("GPUs");
        }
        if self.cpus != node.cpus_used {
            return wrong("CPUs");
        }
        if self.memory != node.memory_used {
            return wrong("MiB of memory");
        }
        if self.jobs != node.jobs {
            return wrong("jobs");
        }
        let count = node.inventory.gpus.len();
        let told = |recent: &GpuRecent| (recent.gpu as usize) < count && recent.permille <= 1000;
        let sorted = node
            .utilization
            .windows(2)
            .all(|two| two[0].gpu < two[1].gpu);
        if !sorted || !node.utilization.iter().all(told) {
            return wrong("use of GPUs");
        }
        let job = self.jobs.first().copied().unwrap_or_default();
        let absent = |what| {
            Err(Violation::GrantedTwice {
                node: node.id,
                what,
                job,
            })
        };
        let gpus = node.inventory.gpus.len();
        if self.gpus.iter().any(|index| index as usize >= gpus) {
            return absent("GPUs");
        }
        if self.cpus.iter().any(|cpu| cpu >= node.inventory.cpus) {
            return absent("CPUs");
        }
        if self.memory > node.inventory.memory_mib {
            absent("memory")
        } else {
            Ok(())
        }
    }
}

//! Questions about the future of a cluster as it stands: when would this start, and when with ten nodes more?
//!
//! The cluster is played forward twice, without jobs that nobody has submitted yet: once with run times as predicted, once
//! with every job running to its limit. The first is what will probably be, the second what is promised if nothing breaks.

use super::drive::Drive;
use super::log::Log;
use super::setup::hello;
use spur_core::api::Refusal;
use spur_core::cluster::Cluster;
use spur_core::event::{Event, NodeHello};
use spur_core::id::{JobId, NodeId, NodeName};
use spur_core::job::Job;
use spur_core::job::admit::admit;
use spur_core::job::spec::JobSpec;
use spur_core::job::state::JobState;
use spur_core::node::Node;
use spur_core::plan::predict::{limit_secs, run_secs};
use spur_core::resources::Inventory;
use spur_core::time::Millis;
use spur_core::topology::{Switch, Topology, TopologyPlugin};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most nodes that a question may add.
pub const MOST_ADDED: u32 = 100_000;

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A job that waits.
    Job(JobId),
    /// A request that nobody has made, as if it were made now.
    Request(Box<JobSpec>),
    /// All jobs that wait.
    All,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// About what.
    pub wanted: Wanted,
    /// Nodes that are added first, each like most of those that are there.
    pub add_nodes: u32,
    /// How far to look.
    pub until: Millis,
}

/// When a job starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The moment; `None`: not as far as was looked.
    pub at: Option<Millis>,
    /// Nodes by name.
    pub nodes: Vec<String>,
}

/// The answer for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which job; a request gets the next number.
    pub job: JobId,
    /// If jobs run for as long as predicted.
    pub expected: Start,
    /// If every job runs to its limit.
    pub at_worst: Start,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// No such job.
    #[error("job {0} is not known")]
    NoJob(JobId),
    /// It waits no more.
    #[error("job {0} does not wait: it is {1}")]
    NotWaiting(JobId, JobState),
    /// Such a request would be refused.
    #[error("such a job would be refused ({:?}) {}", .0.kind, .0.text)]
    Refused(Refusal),
    /// No number is left for it.
    #[error("no job number is left")]
    NoNumber,
    /// Too many nodes.
    #[error("{0} nodes are too many to add: {MOST_ADDED} are the most")]
    TooMany(u32),
    /// No node to take after.
    #[error("no node is known that added ones could be like")]
    NoModel,
}

/// How long jobs run in one telling of the future.
#[derive(Clone, Copy)]
enum Run {
    Predicted,
    ToTheLimit,
}

impl Run {
    fn secs(self, job: &Job, at: Millis) -> Option<u64> {
        match self {
            Self::Predicted => run_secs(job, at),
            Self::ToTheLimit => limit_secs(&job.spec),
        }
    }
}

/// Answers a question about `cluster` as it stands at `now`; nothing is changed.
pub fn ask(cluster: &Cluster, now: Millis, question: &Question) -> Result<Vec<Answer>, NoAnswer> {
    let mut cluster = cluster.clone();
    let more = added(&mut cluster, question.add_nodes)?;
    let expected = told(&cluster, now, (question, &more), Run::Predicted)?;
    let at_worst = told(&cluster, now, (question, &more), Run::ToTheLimit)?;
    let answer = |(job, expected): (JobId, Start)| Answer {
        job,
        expected,
        at_worst: at_worst.get(&job).cloned().unwrap_or_default(),
    };
    Ok(expected.into_iter().map(answer).collect())
}

/// Nodes to add, and their names in the partitions that the node they are like belongs to.
fn added(cluster: &mut Cluster, count: u32) -> Result<Vec<NodeHello>, NoAnswer> {
    if count > MOST_ADDED {
        return Err(NoAnswer::TooMany(count));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut kinds: BTreeMap<(u32, u64, Vec<&str>), Vec<&Node>> = BTreeMap::new();
    for node in cluster.nodes.values() {
        let inventory = &node.inventory;
        let models = inventory
            .gpus
            .iter()
            .map(|gpu| gpu.model.as_str())
            .collect();
        let kind = (inventory.cpus, inventory.memory_mib, models);
        kinds.entry(kind).or_default().push(node);
    }
    let most = kinds
        .into_values()
        .max_by_key(|nodes| (nodes.len(), std::cmp::Reverse(first(nodes))));
    let like = most
        .and_then(|nodes| nodes.first().copied())
        .ok_or(NoAnswer::NoModel)?;
    let (inventory, name): (Inventory, _) = (like.inventory.clone(), like.name.clone());
    let free = (1u32..).map(|n| format!("added-{n}"));
    let taken = |name: &String| cluster.node_ids.keys().any(|known| known.as_str() == name);
    let names = free.filter(|name| !taken(name)).take(count as usize);
    let hellos: Vec<NodeHello> = names
        .filter_map(|name| hello(&name, &inventory, 1))
        .collect();
    for partition in &mut cluster.partitions {
        if let Some(nodes) = partition
            .nodes
            .as_mut()
            .filter(|nodes| nodes.contains(&name))
        {
            nodes.extend(hellos.iter().map(|hello| hello.name.clone()));
        }
    }
    let names: Vec<NodeName> = hellos.iter().map(|hello| hello.name.clone()).collect();
    cluster.rewire(wired(&cluster.topology, &name, &names));
    Ok(hellos)
}

/// The network with these nodes on it: on switches or blocks of their own, as large as that of the node that they are like, and
/// beside it.
fn wired(topology: &Topology, like: &NodeName, added: &[NodeName]) -> Topology {
    let mut wired = topology.clone();
    let mut all = topology.switches.iter();
    let Some(leaf) = all.find(|switch| switch.nodes.contains(like)) else {
        return wired;
    };
    let taken = |name: &String| topology.switches.iter().any(|switch| switch.name == *name);
    let names = (1u32..).map(|n| format!("added-switch-{n}"));
    let mut names = names.filter(|name| !taken(name));
    let parts = added.chunks(leaf.nodes.len().max(1));
    let fresh = parts.zip(names.by_ref()).map(|(nodes, name)| Switch {
        name,
        nodes: nodes.to_vec(),
        switches: Vec::new(),
    });
    let fresh: Vec<Switch> = fresh.collect();
    let beside: Vec<String> = fresh.iter().map(|switch| switch.name.clone()).collect();
    wired.switches.extend(fresh);
    if topology.plugin != TopologyPlugin::Tree {
        return wired;
    }
    let above = |switch: &&mut Switch| switch.switches.contains(&leaf.name);
    match (wired.switches.iter_mut().find(above), names.next()) {
        (Some(above), _) => above.switches.extend(beside),
        (None, Some(name)) => wired.switches.push(Switch {
            name,
            nodes: Vec::new(),
            switches: std::iter::once(leaf.name.clone()).chain(beside).collect(),
        }),
        (None, None) => {}
    }
    wired
}

fn first(nodes: &[&Node]) -> Option<NodeId> {
    nodes.first().map(|node| node.id)
}

/// Plays the cluster forward until what is asked about has started.
fn told(
    cluster: &Cluster,
    now: Millis,
    (question, more): (&Question, &[NodeHello]),
    run: Run,
) -> Result<BTreeMap<JobId, Start>, NoAnswer> {
    let mut drive = Drive::new(cluster.clone(), now, Log::new(now, None));
    take_over(&mut drive, run);
    more.iter().for_each(|hello| drive.connect(hello.clone()));
    let jobs = wanted(&mut drive, question, run)?;
    let until = question.until;
    let waits = |drive: &Drive<'_>, job: &JobId| {
        let job = drive.cluster.jobs.get(job);
        job.is_some_and(|job| job.state == JobState::Pending)
    };
    let mut starts: BTreeMap<JobId, Start> = BTreeMap::new();
    let mut left = jobs.clone();
    drive.run(&mut std::iter::empty(), |drive| {
        left.retain(|job| {
            let still = waits(drive, job);
            if !still {
                starts.insert(*job, start(drive, *job));
            }
            still
        });
        left.is_empty() || drive.now > until
    });
    let in_time = |start: Start| start.at.filter(|at| *at <= until).map(|_| start.clone());
    let found = jobs.into_iter().map(|job| {
        let start = starts.remove(&job).and_then(in_time);
        (job, start.unwrap_or_default())
    });
    Ok(found.collect())
}

fn start(drive: &Drive<'_>, job: JobId) -> Start {
    let Some(job) = drive.cluster.jobs.get(&job) else {
        return Start::default();
    };
    let name = |node: NodeId| {
        drive
            .cluster
            .nodes
            .get(&node)
            .map(|node| node.name.to_string())
    };
    Start {
        at: job.started,
        nodes: job
            .allocation
            .iter()
            .filter_map(|share| name(share.node))
            .collect(),
    }
}

/// Makes machines of the nodes, and has running jobs end as they will.
fn take_over(drive: &mut Drive<'_>, run: Run) {
    let now = drive.now;
    let nodes: Vec<Node> = drive
        .cluster
        .nodes
        .values()
        .filter(|node| node.connected)
        .cloned()
        .collect();
    for node in nodes {
        let name = node.name.to_string();
        if let Some(hello) = hello(&name, &node.inventory, 1) {
            drive.adopt(node.id, &name, hello);
        }
    }
    let jobs: Vec<Job> = drive.cluster.jobs.values().cloned().collect();
    for job in jobs {
        for (node, leftover) in &job.leftovers {
            drive.clean_at(job.id, *node, leftover.generation, now);
        }
        let Some(secs) = run.secs(&job, now) else {
            continue;
        };
        match (job.state, job.started) {
            (JobState::Pending, _) => drive.will_run(job.id, secs),
            (JobState::Running, Some(started)) => {
                drive.ends_at(job.id, job.generation, started.plus_secs(secs).max(now));
            }
            _ => {}
        }
    }
}

/// The jobs asked about; a request is submitted first.
fn wanted(drive: &mut Drive<'_>, question: &Question, run: Run) -> Result<Vec<JobId>, NoAnswer> {
    match &question.wanted {
        Wanted::All => Ok(drive.cluster.pending().map(|job| job.id).collect()),
        Wanted::Job(id) => {
            let job = drive.cluster.jobs.get(id).ok_or(NoAnswer::NoJob(*id))?;
            if job.state == JobState::Pending {
                Ok(vec![*id])
            } else {
                Err(NoAnswer::NotWaiting(*id, job.state))
            }
        }
        Wanted::Request(spec) => {
            let mut spec = (**spec).clone();
            let admitted =
                admit(&drive.cluster, &mut spec, drive.now).map_err(NoAnswer::Refused)?;
            let priority = admitted.priority;
            let job = drive.cluster.next_job_id().ok_or(NoAnswer::NoNumber)?;
            drive.decide(Event::Submitted {
                job,
                spec: Arc::new(spec),
                priority,
            });
            let now = drive.now;
            if let Some(secs) = drive
                .cluster
                .jobs
                .get(&job)
                .and_then(|job| run.secs(job, now))
            {
                drive.will_run(job, secs);
            }
            Ok(vec![job])
        }
    }
}

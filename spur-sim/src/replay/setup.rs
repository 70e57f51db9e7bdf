//! The cluster that a trace is replayed on, and how its jobs are asked for there.

use super::trace::{Trace, TraceJob};
use crate::rng::Rng;
use crate::workload::{open_partition, plain};
use spur_core::event::{Event, NodeHello};
use spur_core::id::{NodeName, Uid};
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::node::FenceState;
use spur_core::resources::{Gpu, GpuCount, GpuVendor, Inventory, MemoryRequest};
use spur_core::time::{Millis, TimeLimit};
use spur_core::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};

/// What limits jobs ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limits {
    /// As the trace says; where it does not, as [`Limits::Rounded`].
    #[default]
    Recorded,
    /// The run time, rounded up to 5 or 15 minutes, 1, 4 or 12 hours, 1, 2, 7, 14, 30 or 100 days.
    Rounded,
    /// The run time itself: users who know the future.
    Exact,
    /// 100 days (or the run time, if longer): users who ask for the most they can get.
    Longest,
    /// The run time times a factor from 1 to 100, drawn by the seed (evenly in its logarithm), and rounded as above.
    Random,
}

/// A cluster of equal nodes, and how to load it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Nodes; at least 1.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
    /// CPUs of each; 0: as many as the jobs of the trace can use on a node.
    pub cpus_per_node: u32,
    /// Memory of each, MiB; 0: as much as the jobs of the trace can use on a node.
    pub memory_per_node: u64,
    /// Offered load in thousandths: submissions are moved closer together or further apart to give it. `None`: as recorded.
    pub load_permille: Option<u64>,
    /// See there.
    pub limits: Limits,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

impl Setup {
    /// Nodes with so many GPUs; all else as recorded.
    pub fn new(nodes: u32, gpus_per_node: u32) -> Self {
        Self {
            nodes,
            gpus_per_node,
            cpus_per_node: 0,
            memory_per_node: 0,
            load_permille: None,
            limits: Limits::Recorded,
            seed: 1,
        }
    }

    /// GPUs in all.
    pub fn gpus(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus_per_node)
    }
}

const LONGEST: u64 = 100 * 86_400;
const STEPS: [u64; 11] = [
    300,
    900,
    3_600,
    4 * 3_600,
    12 * 3_600,
    86_400,
    2 * 86_400,
    7 * 86_400,
    14 * 86_400,
    30 * 86_400,
    LONGEST,
];

fn rounded(secs: u64) -> u64 {
    STEPS.into_iter().find(|step| secs <= *step).unwrap_or(secs)
}

/// The trace's offered load in thousandths: GPU-seconds of its jobs over what all GPUs give between its first and its last
/// submission. `None` if that span or the number of GPUs is zero.
pub(super) fn offered_permille(trace: &Trace, gpus: u64) -> Option<u64> {
    let capacity = u128::from(span_secs(trace)) * u128::from(gpus);
    let load = (work(trace) * 1000).checked_div(capacity)?;
    u64::try_from(load).ok()
}

/// Seconds from the first submission to the last.
pub(super) fn span_secs(trace: &Trace) -> u64 {
    let (first, last) = (trace.jobs.first(), trace.jobs.last());
    first.zip(last).map_or(0, |(first, last)| {
        last.submitted.secs_since(first.submitted)
    })
}

fn work(trace: &Trace) -> u128 {
    let jobs = trace.jobs.iter();
    jobs.map(|job| u128::from(job.gpus) * u128::from(job.run_secs))
        .sum()
}

/// Moves submissions so that the offered load is as wanted: every distance from the first grows or shrinks in proportion.
pub(super) fn scale(trace: &mut Trace, setup: &Setup) {
    let span = u128::from(span_secs(trace));
    let capacity = span * u128::from(setup.gpus());
    let (Some(first), Some(wanted)) = (trace.jobs.first(), setup.load_permille) else {
        return;
    };
    let (first, work) = (first.submitted, work(trace) * 1000);
    let divisor = capacity * u128::from(wanted);
    for job in &mut trace.jobs {
        let offset = u128::from(job.submitted.0 - first.0);
        let moved = (offset * work).checked_div(divisor).unwrap_or(offset);
        job.submitted = Millis(
            first
                .0
                .saturating_add(u64::try_from(moved).unwrap_or(u64::MAX)),
        );
    }
}

/// Gives every job the limit that the setup says.
pub(super) fn set_limits(trace: &mut Trace, setup: &Setup) {
    let mut rng = Rng::new(setup.seed);
    for job in &mut trace.jobs {
        let secs = job.run_secs;
        let limit = match (setup.limits, job.limit) {
            (Limits::Recorded, Some(recorded)) => recorded,
            (Limits::Recorded | Limits::Rounded, _) => TimeLimit::Secs(rounded(secs)),
            (Limits::Exact, _) => TimeLimit::Secs(secs),
            (Limits::Longest, _) => TimeLimit::Secs(secs.max(LONGEST)),
            (Limits::Random, _) => TimeLimit::Secs(rounded(overestimated(secs, &mut rng))),
        };
        job.limit = Some(limit);
    }
}

/// Times a factor from 1 to 100: two draws from 1 to 10 hundredths make the logarithm even enough, in whole numbers.
fn overestimated(secs: u64, rng: &mut Rng) -> u64 {
    /// Ten to the power of n/10, in hundredths.
    const TENTHS: [u64; 11] = [100, 126, 158, 200, 251, 316, 398, 501, 631, 794, 1000];
    let mut draw = || {
        let at = usize::try_from(rng.between(0, 10)).unwrap_or(0);
        TENTHS.get(at).copied().unwrap_or(100)
    };
    let factor = draw() * draw();
    secs.saturating_mul(factor) / 10_000
}

/// The events that make the cluster: configuration, then every node.
pub(super) fn events(setup: &Setup, trace: &Trace) -> Vec<Event> {
    let partitions: BTreeSet<&str> = trace.jobs.iter().map(partition_of).collect();
    let configured = Event::Configured {
        max_array_size: 0,
        licenses: spur_core::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "replay".to_owned(),
        partitions: partitions
            .into_iter()
            .map(|name| open_partition(name, 1))
            .collect(),
        min_job_age: 0,
        node_timeout: 300,
        node_config: BTreeMap::new(),
        topology: Topology::default(),
    };
    let inventory = inventory(setup, trace);
    let nodes = (1..=setup.nodes)
        .filter_map(|number| hello(&format!("n{number}"), &inventory, 1))
        .map(Event::NodeConnected);
    [configured].into_iter().chain(nodes).collect()
}

fn partition_of(job: &TraceJob) -> &str {
    if job.partition.is_empty() {
        "all"
    } else {
        &job.partition
    }
}

fn inventory(setup: &Setup, trace: &Trace) -> Inventory {
    let jobs = || {
        trace
            .jobs
            .iter()
            .map(|job| (job, u64::from(nodes_of(job, setup))))
    };
    // As many as any mix of jobs can use that the GPUs let on one node: CPUs and memory then never decide.
    let parts = u64::from(setup.gpus_per_node.max(1));
    let cpus = jobs()
        .map(|(job, nodes)| u64::from(job.cpus).div_ceil(nodes))
        .max();
    let memory = jobs()
        .map(|(job, nodes)| job.memory_mib.div_ceil(nodes))
        .max();
    let plenty = |most: Option<u64>| most.unwrap_or(0).max(1).saturating_mul(parts);
    let cpus = match setup.cpus_per_node {
        0 => u32::try_from(plenty(cpus))
            .unwrap_or(u32::MAX)
            .clamp(1, 4096),
        cpus => cpus,
    };
    Inventory {
        cpus,
        sockets: 1,
        cores_per_socket: cpus,
        threads_per_core: 1,
        memory_mib: match setup.memory_per_node {
            0 => plenty(memory),
            mib => mib,
        },
        gpus: (0..setup.gpus_per_node).map(gpu).collect(),
        simulated: true,
        ..Inventory::default()
    }
}

fn gpu(index: u32) -> Gpu {
    Gpu {
        index,
        vendor: GpuVendor::Simulated,
        model: "gpu".to_owned(),
        uuid: format!("GPU-{index}"),
        pci: String::new(),
        numa: None,
        memory_mib: 0,
        files: Vec::new(),
        links: Vec::new(),
        rail: None,
        parent: None,
    }
}

/// What a node's agent says when it connects; `boot` tells boots apart.
pub(super) fn hello(name: &str, inventory: &Inventory, boot: u32) -> Option<NodeHello> {
    Some(NodeHello {
        name: NodeName::new(name).ok()?,
        inventory: inventory.clone(),
        boot_id: format!("boot-{boot}"),
        boot_time: Millis(0),
        agent_start: Millis(0),
        fence: FenceState::Guarded,
        fence_note: String::new(),
        version: "replay".to_owned(),
        os: String::new(),
        hostname: name.to_owned(),
        address: String::new(),
        jobs: Vec::new(),
        fence_suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        keeps_gpus: Some(true),
        stuck: Vec::new(),
    })
}

fn nodes_of(job: &TraceJob, setup: &Setup) -> u32 {
    match job.nodes {
        0 => job.gpus.div_ceil(setup.gpus_per_node.max(1)).max(1),
        nodes => nodes,
    }
}

/// The job as a request on this cluster. Models of GPUs are not told apart.
pub(super) fn spec(job: &TraceJob, setup: &Setup, user: u32) -> JobSpec {
    let nodes = nodes_of(job, setup);
    let gpus = |count: u32| {
        Some(GpuCount {
            model: String::new(),
            count,
        })
    };
    let even = job.gpus.is_multiple_of(nodes);
    let mut spec = JobSpec {
        name: job.name.clone(),
        partition: partition_of(job).to_owned(),
        nodes_min: nodes,
        nodes_max: nodes,
        nodes_set: true,
        cpus_per_task: job.cpus.div_ceil(nodes).max(1),
        memory: MemoryRequest::PerNode(job.memory_mib.div_ceil(u64::from(nodes)).max(1)),
        gpus_per_node: (job.gpus > 0 && even)
            .then(|| gpus(job.gpus / nodes))
            .flatten(),
        gpus_total: (!even).then(|| gpus(job.gpus)).flatten(),
        time_limit: job.limit,
        requeue: true,
        ..plain(JobKind::Batch)
    };
    spec.owner.uid = Uid(1000 + user);
    spec.owner.user.clone_from(&job.user);
    spec
}

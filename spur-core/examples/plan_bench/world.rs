//! The clusters that are measured: nodes of 8 GPUs on two sockets, jobs in the sizes of the Philly trace.

use spur_core::cluster::Cluster;
use spur_core::event::{Event, NodeHello};
use spur_core::id::{Gid, NodeName, Uid};
use spur_core::job::admit::admit;
use spur_core::job::spec::{JobKind, JobSpec, Owner};
use spur_core::node::FenceState;
use spur_core::partition::{Partition, PartitionState};
use spur_core::plan::{Budget, plan};
use spur_core::resources::{Gpu, GpuCount, GpuLink, GpuVendor, Inventory, MemoryRequest};
use spur_core::time::{Millis, TimeLimit};
use std::sync::Arc;
use std::time::Duration;

/// Numbers from a seed.
#[derive(Clone)]
pub(crate) struct Dice(u64);

/// GPUs and how many jobs of 82,247 ask for as many.
const SIZES: [(u32, u64); 8] = [
    (1, 76_627),
    (2, 1_818),
    (4, 1_870),
    (8, 1_643),
    (16, 199),
    (32, 67),
    (64, 6),
    (128, 3),
];

/// Limits in seconds.
const LIMITS: [u64; 10] = [
    300, 900, 3_600, 14_400, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000,
];

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % bound
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).unwrap_or(0)]
    }

    /// A job: GPUs as in the trace; CPUs, memory, limit, user by chance.
    pub(crate) fn philly(&mut self) -> JobSpec {
        let total: u64 = SIZES.iter().map(|(_, weight)| weight).sum();
        let mut left = self.below(total);
        let mut size = 1;
        for (gpus, weight) in SIZES {
            size = gpus;
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => break,
            }
        }
        let limit = self.pick(&LIMITS);
        let (cpus, memory) = (
            self.pick(&[2, 4, 8, 12]),
            self.pick(&[32_000, 64_000, 110_000]),
        );
        let here = size.min(8);
        let mut spec = gpus(here, cpus * here, memory * u64::from(here), limit);
        if size > 8 {
            spec.nodes_min = size / 8;
            spec.nodes_max = size / 8;
            spec.nodes_set = true;
        }
        let user = u32::try_from(self.below(500)).unwrap_or(0);
        spec.owner.uid = Uid(1_000 + user);
        spec.owner.user = format!("user{user}");
        spec
    }
}

/// A cluster with a clock.
#[derive(Clone)]
pub(crate) struct World {
    pub cluster: Cluster,
    pub now: Millis,
    pub dice: Dice,
}

impl World {
    /// Nodes of which so many percent of the GPUs are held by jobs that began over the last hours.
    pub(crate) fn busy(nodes: u32, percent: u64) -> Self {
        let mut world = Self {
            cluster: cluster(nodes),
            now: Millis(1_700_000_000_000),
            dice: Dice(1),
        };
        let gpus = u64::from(nodes) * 8;
        let most = Budget {
            jobs: u32::MAX,
            placements: u32::MAX,
            reservations: 0,
            depth: Some(0),
            reasons: 0,
        };
        // Until nothing more fits; then at random down to the share that is wanted.
        for _ in 0..if percent == 0 { 0 } else { 40 } {
            world.now = world.now.plus_secs(600);
            world.submit(nodes / 4, Dice::philly);
            let found = plan(&world.cluster, world.now, most);
            for event in world.cluster.plan_events(found) {
                world.cluster.apply(world.now, &event);
            }
            if percent == 100 && world.held() == gpus {
                break;
            }
        }
        let waiting: Vec<_> = world.cluster.pending().map(|job| job.id).collect();
        let mut running: Vec<_> = world.cluster.running().map(|job| job.id).collect();
        for job in waiting {
            world.end(job);
        }
        let mut at = 0;
        while world.held() * 100 > gpus * percent {
            for _ in 0..(nodes / 100).max(1) {
                let left = (running.len() - at) as u64;
                let other = at + usize::try_from(world.dice.below(left)).unwrap_or(0);
                running.swap(at, other);
                world.end(running[at]);
                at += 1;
            }
        }
        world
    }

    fn held(&self) -> u64 {
        let nodes = self.cluster.nodes.values();
        nodes.map(|node| u64::from(node.gpus_used.len())).sum()
    }

    fn end(&mut self, job: spur_core::id::JobId) {
        let held = self.cluster.jobs[&job].allocation.clone();
        let generation = self.cluster.jobs[&job].generation;
        let cancelled = Event::Cancelled { job, by: Uid(0) };
        self.cluster.apply(self.now, &cancelled);
        for share in held {
            let node = share.node;
            let cleaned = Event::Cleaned {
                job,
                node,
                generation,
            };
            self.cluster.apply(self.now, &cleaned);
        }
        self.cluster
            .apply(self.now, &Event::Purged { jobs: vec![job] });
    }

    /// Submits so many that are equal: more than admission would let wait beside what runs.
    pub(crate) fn submit_equal(&mut self, count: u32, mut spec: JobSpec) {
        let admitted = admit(&self.cluster, &mut spec, self.now).expect("it is possible");
        let spec = Arc::new(spec);
        for _ in 0..count {
            let event = Event::Submitted {
                job: self.cluster.next_job_id().expect("numbers suffice"),
                spec: Arc::clone(&spec),
                priority: admitted.priority,
            };
            self.cluster.apply(self.now, &event);
        }
    }

    /// Submits so many; what applying that took.
    pub(crate) fn submit(&mut self, count: u32, spec: impl Fn(&mut Dice) -> JobSpec) -> Duration {
        let mut spent = Duration::ZERO;
        for _ in 0..count {
            let mut spec = spec(&mut self.dice);
            let admitted = admit(&self.cluster, &mut spec, self.now).expect("it is possible");
            let job = self.cluster.next_job_id().expect("numbers suffice");
            let event = Event::Submitted {
                job,
                spec: Arc::new(spec),
                priority: admitted.priority,
            };
            spent += super::timed(|| self.cluster.apply(self.now, &event)).0;
        }
        spent
    }
}

fn cluster(nodes: u32) -> Cluster {
    let mut cluster = Cluster::default();
    let partition = Partition {
        name: "gpu".to_owned(),
        default: true,
        nodes: None,
        max_time: TimeLimit::Unlimited,
        default_time: None,
        default_mem_per_cpu: 1024,
        state: PartitionState::Up,
        priority_tier: 1,
        ..Partition::default()
    };
    let configured = Event::Configured {
        max_array_size: 0,
        licenses: spur_core::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "bench".to_owned(),
        partitions: vec![partition],
        min_job_age: 300,
        node_timeout: 300,
        node_config: std::collections::BTreeMap::new(),
        topology: spur_core::topology::Topology::default(),
    };
    cluster.apply(Millis(1), &configured);
    for n in 1..=nodes {
        cluster.apply(Millis(1), &Event::NodeConnected(hello(n)));
    }
    cluster
}

fn hello(n: u32) -> NodeHello {
    NodeHello {
        name: NodeName::new(format!("n{n}")).expect("a legal name"),
        inventory: Inventory {
            cpus: 128,
            sockets: 2,
            cores_per_socket: 64,
            threads_per_core: 1,
            memory_mib: 1_000_000,
            gpus: (0..8).map(gpu).collect(),
            simulated: true,
            cpus_by_numa: Vec::new(),
            features: Vec::new(),
        },
        boot_id: "1".to_owned(),
        boot_time: Millis(1),
        agent_start: Millis(1),
        fence: FenceState::Guarded,
        fence_note: String::new(),
        version: String::new(),
        os: String::new(),
        hostname: String::new(),
        address: String::new(),
        jobs: Vec::new(),
        fence_suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        keeps_gpus: None,
        stuck: Vec::new(),
    }
}

fn gpu(index: u32) -> Gpu {
    let others = (0..8).filter(|other| *other != index);
    Gpu {
        index,
        vendor: GpuVendor::Simulated,
        model: "h200".to_owned(),
        uuid: String::new(),
        pci: String::new(),
        numa: Some(index / 4),
        memory_mib: 144_384,
        files: Vec::new(),
        links: others.map(|other| (other, GpuLink::NvLink)).collect(),
        rail: None,
        parent: None,
    }
}

/// So many GPUs on every node.
pub(crate) fn gpus(count: u32, cpus: u32, memory: u64, limit: u64) -> JobSpec {
    JobSpec {
        kind: JobKind::Batch,
        owner: Owner {
            uid: Uid(1000),
            gid: Gid(1000),
            groups: Vec::new(),
            user: "alice".to_owned(),
            group: "alice".to_owned(),
            home: "/".to_owned(),
            shell: "/bin/sh".to_owned(),
        },
        name: "job".to_owned(),
        cpus_per_task: cpus,
        cpus_per_task_set: true,
        memory: MemoryRequest::PerNode(memory),
        gpus_per_node: Some(GpuCount {
            model: String::new(),
            count,
        }),
        time_limit: Some(TimeLimit::Secs(limit)),
        requeue: true,
        ..JobSpec::default()
    }
}

//! Small clusters and requests for tests.

use crate::cluster::Cluster;
use crate::effect::Effects;
use crate::event::{Event, NodeHello};
use crate::id::{Generation, Gid, JobId, NodeId, NodeName, StepKind, Uid};
use crate::job::Job;
use crate::job::admit::admit;
use crate::job::spec::{JobKind, JobSpec, Owner};
use crate::job::state::ExitStatus;
use crate::node::FenceState;
use crate::partition::{Partition, PartitionState};
use crate::plan::{Budget, Plan, plan};
use crate::resources::{Gpu, GpuCount, GpuVendor, Inventory};
use crate::time::{Millis, TimeLimit};
use std::sync::Arc;

pub(crate) fn gpu(index: u32) -> Gpu {
    Gpu {
        index,
        vendor: GpuVendor::Simulated,
        model: "h200".to_owned(),
        uuid: format!("GPU-{index}"),
        pci: String::new(),
        numa: None,
        memory_mib: 1000,
        files: Vec::new(),
        links: Vec::new(),
        rail: None,
        parent: None,
    }
}

pub(crate) fn inventory(cpus: u32, memory_mib: u64, gpus: u32) -> Inventory {
    Inventory {
        cpus,
        sockets: 1,
        cores_per_socket: cpus,
        threads_per_core: 1,
        memory_mib,
        gpus: (0..gpus).map(gpu).collect(),
        simulated: true,
        cpus_by_numa: Vec::new(),
        features: Vec::new(),
    }
}

pub(crate) fn hello(name: &str, inventory: Inventory) -> NodeHello {
    NodeHello {
        name: NodeName::new(name).unwrap(),
        inventory,
        boot_id: "boot-1".to_owned(),
        boot_time: Millis(0),
        agent_start: Millis(0),
        fence: FenceState::Guarded,
        fence_note: String::new(),
        version: "0".to_owned(),
        os: "Linux".to_owned(),
        hostname: name.to_owned(),
        address: format!("unix:/run/{name}"),
        jobs: Vec::new(),
        fence_suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        keeps_gpus: None,
        stuck: Vec::new(),
    }
}

pub(crate) fn partition(name: &str) -> Partition {
    Partition {
        name: name.to_owned(),
        default: name == "gpu",
        nodes: None,
        max_time: TimeLimit::Secs(86_400),
        default_time: Some(TimeLimit::Secs(3_600)),
        default_mem_per_cpu: 1024,
        state: PartitionState::Up,
        priority_tier: 1,
        ..Partition::default()
    }
}

/// A request that leaves everything open.
pub(crate) fn spec(kind: JobKind) -> JobSpec {
    JobSpec {
        kind,
        owner: Owner {
            uid: Uid(1000),
            gid: Gid(1000),
            groups: vec![Gid(1000)],
            user: "alice".to_owned(),
            group: "alice".to_owned(),
            home: "/home/alice".to_owned(),
            shell: "/bin/sh".to_owned(),
        },
        name: "job".to_owned(),
        submit_host: "login".to_owned(),
        submit_sid: 1,
        ..JobSpec::default()
    }
}

pub(crate) fn batch() -> JobSpec {
    spec(JobKind::Batch)
}

pub(crate) fn gpus(count: u32) -> Option<GpuCount> {
    Some(GpuCount {
        model: String::new(),
        count,
    })
}

/// A batch job with so many GPUs on each of so many nodes.
pub(crate) fn gang(nodes: u32, per_node: u32) -> JobSpec {
    JobSpec {
        nodes_min: nodes,
        nodes_max: nodes,
        nodes_set: true,
        gpus_per_node: gpus(per_node),
        ..batch()
    }
}

pub(crate) const OK: ExitStatus = ExitStatus { code: 0, signal: 0 };

/// A cluster with a clock that moves on by a second with each event.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) now: Millis,
}

impl World {
    /// Nodes `n1`…, each with 8 CPUs, 16 GiB and `gpus` GPUs; one partition `gpu`.
    pub(crate) fn new(nodes: u32, gpus: u32) -> Self {
        Self::of(nodes, &inventory(8, 16_384, gpus))
    }

    pub(crate) fn of(nodes: u32, inventory: &Inventory) -> Self {
        let mut world = Self {
            cluster: Cluster::default(),
            now: Millis(1_000_000),
        };
        world.does(Event::Configured {
            max_array_size: 0,
            licenses: crate::job::licenses::Licenses::default(),
            default_memory: Default::default(),
            cluster: "test".to_owned(),
            partitions: vec![partition("gpu")],
            min_job_age: 300,
            node_timeout: 60,
            node_config: Default::default(),
            topology: Default::default(),
        });
        for n in 1..=nodes {
            let hello = hello(&format!("n{n}"), inventory.clone());
            world.does(Event::NodeConnected(hello));
        }
        world
    }

    /// Applies an event, whatever comes of it.
    pub(crate) fn apply(&mut self, event: Event) -> Effects {
        self.now = self.now.plus_secs(1);
        self.cluster.apply(self.now, &event)
    }

    /// Applies an event that must make sense.
    pub(crate) fn does(&mut self, event: Event) -> Effects {
        let fx = self.apply(event.clone());
        assert_eq!(fx.ignored, None, "{event:?}");
        fx
    }

    /// Applies an event that must be ignored and change nothing.
    pub(crate) fn ignores(&mut self, event: Event) -> &'static str {
        let before = self.cluster.clone();
        let fx = self.apply(event.clone());
        assert_eq!(self.cluster, before, "{event:?}");
        fx.ignored
            .unwrap_or_else(|| panic!("not ignored: {event:?}"))
    }

    pub(crate) fn submit(&mut self, mut spec: JobSpec) -> JobId {
        let admitted = admit(&self.cluster, &mut spec, self.now).unwrap();
        let job = self.cluster.next_job_id().unwrap();
        let priority = admitted.priority;
        self.does(Event::Submitted {
            job,
            spec: Arc::new(spec),
            priority,
        });
        job
    }

    /// Submits a heterogeneous job; the answer is its leader.
    pub(crate) fn submit_het(&mut self, specs: Vec<JobSpec>) -> JobId {
        let part = |mut spec: JobSpec| {
            let admitted = admit(&self.cluster, &mut spec, self.now).unwrap();
            (Arc::new(spec), admitted.priority)
        };
        let parts = specs.into_iter().map(part).collect();
        let job = self.cluster.next_job_id().unwrap();
        self.does(Event::HetSubmitted { job, parts });
        job
    }

    /// One planning pass.
    pub(crate) fn plan_only(&self) -> Plan {
        plan(&self.cluster, self.now, Budget::default())
    }

    /// One planning pass, applied.
    pub(crate) fn plan(&mut self) -> Plan {
        let found = self.plan_only();
        for event in self.cluster.plan_events(found.clone()) {
            self.does(event);
        }
        found
    }

    /// Submits and places.
    pub(crate) fn start(&mut self, spec: JobSpec) -> JobId {
        let job = self.submit(spec);
        self.plan();
        assert!(
            !self.job(job).allocation.is_empty(),
            "job {job} did not start"
        );
        job
    }

    pub(crate) fn job(&self, job: JobId) -> &Job {
        &self.cluster.jobs[&job]
    }

    pub(crate) fn node(&self, node: u32) -> &crate::node::Node {
        &self.cluster.nodes[&NodeId(node)]
    }

    pub(crate) fn step_ended(
        &mut self,
        job: JobId,
        step: StepKind,
        node: u32,
        exit: ExitStatus,
    ) -> Effects {
        let generation = self.job(job).generation;
        self.does(Event::StepEnded {
            job,
            step,
            node: NodeId(node),
            generation,
            exit,
            oom: false,
        })
    }

    pub(crate) fn clean(&mut self, job: JobId, node: u32) -> Effects {
        let generation = self.job(job).generation;
        self.does(Event::Cleaned {
            job,
            node: NodeId(node),
            generation,
        })
    }

    /// Reports every node clean.
    pub(crate) fn clean_all(&mut self, job: JobId) {
        let generation = Generation(u64::MAX);
        for node in self.job(job).uncleaned.clone() {
            self.does(Event::Cleaned {
                job,
                node,
                generation,
            });
        }
    }

    /// Where the job runs: names and GPU sets.
    pub(crate) fn places(&self, job: JobId) -> String {
        let one = |share: &crate::resources::NodeShare| {
            let name = &self.cluster.nodes[&share.node].name;
            format!("{name}:c{}:g{}:t{}", share.cpus, share.gpus, share.tasks)
        };
        self.job(job)
            .allocation
            .iter()
            .map(one)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

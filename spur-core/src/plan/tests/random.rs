//! Random clusters and streams of jobs: what a plan may never do, whatever it meets.

mod wishes;

use crate::check::check;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::fixture::{World, batch, gpus, hello, inventory};
use crate::id::{JobId, NodeId, Uid};
use crate::job::admit::admit;
use crate::job::spec::JobSpec;
use crate::job::state::{JobState, Reason};
use crate::node::AdminState;
use crate::plan::timeline::SOMEDAY;
use crate::plan::{Budget, Plan, plan};
use crate::resources::{Inventory, MemoryRequest, NodeShare};
use crate::time::{Millis, TimeLimit};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Op {
    Submit(Box<JobSpec>),
    Pass,
    End(usize),
    Wait(u64),
    Drain { node: u32, up: bool },
    Prioritize { job: usize, priority: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Machine {
    cpus: u32,
    memory: u64,
    gpus: u32,
    sockets: u32,
}

fn machine() -> impl Strategy<Value = Machine> {
    let cpus = prop_oneof![Just(4u32), Just(8), Just(16)];
    let memory = prop_oneof![Just(4_000u64), Just(16_000)];
    (cpus, memory, 0u32..9, 1u32..3).prop_map(|(cpus, memory, gpus, sockets)| Machine {
        cpus,
        memory,
        gpus,
        sockets,
    })
}

impl Machine {
    fn inventory(self) -> Inventory {
        let mut inventory = inventory(self.cpus, self.memory, self.gpus);
        inventory.sockets = self.sockets;
        inventory.cores_per_socket = self.cpus / self.sockets;
        let half = self.gpus.div_ceil(self.sockets).max(1);
        for gpu in &mut inventory.gpus {
            gpu.numa = (self.sockets > 1).then_some(gpu.index / half);
        }
        inventory
    }
}

fn job() -> impl Strategy<Value = Box<JobSpec>> {
    let memory = prop_oneof![
        2 => Just(MemoryRequest::PerCpu(100)),
        2 => (0u64..9).prop_map(|k| MemoryRequest::PerNode(k * 1_000)),
        1 => (0u64..3).prop_map(|k| MemoryRequest::PerGpu(k * 1_000)),
    ];
    let limit = prop_oneof![Just(100u64), Just(1_000), Just(5_000), 10u64..10_000];
    let sizes = (1u32..4, 0u32..9, 1u32..5, 0u32..4);
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.7));
    (memory, limit, sizes, flags).prop_map(|(memory, limit, (nodes, count, cpus, tasks), flags)| {
        let (exclusive, per_node) = flags;
        Box::new(JobSpec {
            memory,
            nodes_min: nodes,
            nodes_max: nodes,
            nodes_set: per_node,
            tasks: tasks.max(1),
            tasks_set: tasks > 0 && !per_node,
            gpus_per_node: gpus(count).filter(|_| per_node),
            gpus_total: gpus(count).filter(|_| !per_node),
            cpus_per_task: cpus,
            exclusive,
            time_limit: Some(TimeLimit::Secs(limit)),
            ..batch()
        })
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => job().prop_map(Op::Submit),
        4 => Just(Op::Pass),
        4 => any::<usize>().prop_map(Op::End),
        2 => (1u64..3_000).prop_map(Op::Wait),
        1 => (0u32..5, any::<bool>()).prop_map(|(node, up)| Op::Drain { node, up }),
        1 => (any::<usize>(), 1u32..4).prop_map(|(job, priority)| Op::Prioritize { job, priority }),
    ]
}

struct Stream {
    world: World,
    budget: Budget,
    /// The first job that has a reservation, and its start, since nothing else but time can have changed it.
    promise: Option<(JobId, Millis)>,
}

impl Stream {
    fn of(machines: &[Machine], depth: Option<u32>) -> Self {
        let mut world = World::new(0, 0);
        for (machine, n) in machines.iter().zip(1..) {
            let hello = hello(&format!("n{n}"), machine.inventory());
            world.does(Event::NodeConnected(hello));
        }
        let budget = Budget {
            depth,
            ..Budget::default()
        };
        Self {
            world,
            budget,
            promise: None,
        }
    }

    fn plan(&self) -> Plan {
        plan(&self.world.cluster, self.world.now, self.budget)
    }

    /// Applies an event without moving the clock.
    fn apply(&mut self, event: Event) {
        let fx = self.world.cluster.apply(self.world.now, &event);
        assert_eq!(fx.ignored, None, "{event:?}");
        check(&self.world.cluster).unwrap_or_else(|broken| panic!("{broken} after {event:?}"));
    }

    fn pass(&mut self) {
        let first = self.plan();
        assert_eq!(self.plan(), first, "equal input gives equal output");
        let bytes = rmp_serde::to_vec_named(&self.world.cluster).unwrap();
        let read: Cluster = rmp_serde::from_slice(&bytes).unwrap();
        let again = plan(&read, self.world.now, self.budget);
        assert_eq!(again, first, "and so does a cluster that was read back");
        self.reservations_are_sound(&first);
        for event in self.world.cluster.plan_events(first.clone()) {
            self.apply(event);
        }
        let after = self.plan();
        assert_eq!(after.placements, [], "a pass leaves nothing to start");
        assert_eq!(after.reasons, [], "nor to say");
        for (job, before) in &first.outlook.reserved {
            let start = after.outlook.reserved.get(job).map(|now| now.start);
            assert!(
                start.is_some_and(|start| start <= before.start),
                "job {job} was pushed back from {:?} to {start:?}",
                before.start
            );
        }
        self.keep_promise(&first);
    }

    /// The first job with a reservation starts when it was said, or earlier.
    fn keep_promise(&mut self, found: &Plan) {
        let reserved = &found.outlook.reserved;
        if let Some((job, start)) = self.promise {
            let waits = self.world.job(job).state == JobState::Pending;
            let now = reserved.get(&job).map(|now| now.start);
            assert!(
                !waits || now.is_some_and(|now| now <= start),
                "job {job} was promised {start:?} and now {now:?}"
            );
        }
        let head = self.world.cluster.jobs.values();
        let mut head = head.filter(|job| job.reason == Reason::Resources);
        let head = head
            .find(|job| job.state == JobState::Pending)
            .map(|job| job.id);
        self.promise = head.and_then(|job| Some((job, reserved.get(&job)?.start)));
    }

    /// From a start on, what is kept is nobody else's, and it is all that the job needs.
    fn reservations_are_sound(&self, found: &Plan) {
        let cluster = &self.world.cluster;
        let end_of = |id: JobId, start: Millis| match cluster.jobs[&id].spec.time_limit {
            Some(TimeLimit::Secs(secs)) => start.plus_secs(secs),
            Some(TimeLimit::Unlimited) | None => SOMEDAY.max(Millis(start.0 + 1)),
        };
        let mut spans: Vec<(JobId, Millis, Millis, &NodeShare)> = Vec::new();
        for job in cluster.running() {
            let end = job.ended.unwrap_or(SOMEDAY);
            spans.extend(
                job.allocation
                    .iter()
                    .map(|share| (job.id, self.world.now, end, share)),
            );
        }
        for placed in &found.placements {
            let end = end_of(placed.job, self.world.now);
            spans.extend(
                placed
                    .shares
                    .iter()
                    .map(|share| (placed.job, self.world.now, end, share)),
            );
        }
        for (id, kept) in &found.outlook.reserved {
            let spec = &cluster.jobs[id].spec;
            assert!(kept.start >= self.world.now);
            if spec.nodes_set {
                assert_eq!(
                    kept.shares.len(),
                    spec.nodes_min as usize,
                    "gangs are whole"
                );
            }
            let end = end_of(*id, kept.start);
            spans.extend(
                kept.shares
                    .iter()
                    .map(|share| (*id, kept.start, end, share)),
            );
        }
        for (at, (a, start, end, share)) in spans.iter().enumerate() {
            for (b, other_start, other_end, other) in &spans[at + 1..] {
                let meet = start < other_end && other_start < end && share.node == other.node;
                let both = share.gpus.intersects(&other.gpus) || share.cpus.intersects(&other.cpus);
                assert!(
                    !meet || !both,
                    "jobs {a} and {b} would hold the same at once"
                );
            }
        }
        for (_, moment, _, share) in &spans {
            let at_once = spans.iter().filter(|(_, start, end, other)| {
                other.node == share.node && start <= moment && moment < end
            });
            let memory: u64 = at_once.map(|(.., share)| share.memory_mib).sum();
            let has = cluster.nodes[&share.node].inventory.memory_mib;
            assert!(memory <= has, "{memory} MiB of {has} at once");
        }
    }

    fn pick(&self, choice: usize, state: JobState) -> Option<JobId> {
        let jobs = self.world.cluster.jobs.values();
        let ids: Vec<JobId> = jobs
            .filter(|job| job.state == state)
            .map(|job| job.id)
            .collect();
        ids.get(choice % ids.len().max(1)).copied()
    }

    fn end(&mut self, job: JobId) {
        self.apply(Event::Cancelled { job, by: Uid(0) });
        self.clean(job);
    }

    fn clean(&mut self, job: JobId) {
        let generation = self.world.job(job).generation;
        for node in self.world.job(job).uncleaned.clone() {
            self.apply(Event::Cleaned {
                job,
                node,
                generation,
            });
        }
    }

    fn wait(&mut self, until: Millis) {
        self.world.now = self.world.now.max(until);
        loop {
            let due = self.world.cluster.expired(self.world.now);
            if due.is_empty() {
                break;
            }
            for event in due {
                let ended = if let Event::TimedOut { job } = &event {
                    Some(*job)
                } else {
                    None
                };
                self.apply(event);
                ended.into_iter().for_each(|job| self.clean(job));
            }
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Submit(spec) => {
                let mut spec = *spec;
                let Ok(admitted) = admit(&self.world.cluster, &mut spec, self.world.now) else {
                    return;
                };
                let job = self.world.cluster.next_job_id().unwrap();
                self.apply(Event::Submitted {
                    job,
                    spec: Arc::new(spec),
                    priority: admitted.priority,
                });
                // It may be due earlier than the one with the promise.
                self.promise = None;
            }
            Op::Pass => self.pass(),
            Op::End(choice) => {
                if let Some(job) = self.pick(choice, JobState::Running) {
                    self.end(job);
                }
            }
            Op::Wait(secs) => self.wait(self.world.now.plus_secs(secs)),
            Op::Drain { node, up } => {
                let node = NodeId(node);
                if self.world.cluster.nodes.contains_key(&node) {
                    let admin = if up {
                        AdminState::Up
                    } else {
                        AdminState::Drain
                    };
                    self.apply(Event::NodeUpdated {
                        node,
                        admin,
                        reason: String::new(),
                        by: Uid(0),
                    });
                    self.promise = None;
                }
            }
            Op::Prioritize { job, priority } => {
                if let Some(job) = self.pick(job, JobState::Pending) {
                    self.apply(Event::JobUpdated {
                        job,
                        time_limit: None,
                        name: None,
                        comment: None,
                        partition: None,
                        priority: Some(priority),
                    });
                    self.promise = None;
                }
            }
        }
    }

    /// Everything that waits starts in the end, no later than if the jobs ran one after another.
    fn drain(&mut self) {
        for node in self.world.cluster.nodes.keys().copied().collect::<Vec<_>>() {
            let admin = AdminState::Up;
            self.apply(Event::NodeUpdated {
                node,
                admin,
                reason: String::new(),
                by: Uid(0),
            });
        }
        self.promise = None;
        let secs = |job: &crate::job::Job| match job.spec.time_limit {
            Some(TimeLimit::Secs(secs)) => secs,
            Some(TimeLimit::Unlimited) | None => 0,
        };
        let alive = self
            .world
            .cluster
            .jobs
            .values()
            .filter(|job| !job.state.is_terminal());
        let bound = self.world.now.plus_secs(alive.map(secs).sum::<u64>() + 1);
        loop {
            self.pass();
            if self.world.cluster.counts().0 == 0 {
                break;
            }
            assert!(self.world.now < bound, "jobs wait for ever");
            let (next, _) = self.world.cluster.next_deadline(self.world.now).unwrap();
            self.wait(next);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_plans_are_sound(
        machines in prop::collection::vec(machine(), 1..6),
        ops in prop::collection::vec(op(), 1..60),
        depth in prop_oneof![2 => Just(None), 1 => (1u32..5).prop_map(Some), 1 => Just(Some(100))],
    ) {
        let mut stream = Stream::of(&machines, depth);
        for op in ops {
            stream.run(op);
        }
        stream.drain();
    }
}

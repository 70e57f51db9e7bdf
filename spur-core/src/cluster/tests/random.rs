//! Random histories: whatever happens, in whatever order, every rule holds, replay gives the same cluster, and what changed
//! was said to have changed.

mod op;

use crate::check::{check, check_step};
use crate::cluster::Cluster;
use crate::event::{Event, NodeHello};
use crate::fixture::{World, hello, inventory};
use crate::id::{Generation, JobId, NodeId, StepKind, Uid};
use crate::job::admit::admit;
use crate::job::het::HetPart;
use crate::job::spec::JobSpec;
use crate::job::state::{ExitStatus, Reason};
use crate::job::step::{StepSpec, grant};
use crate::plan::{Budget, plan};
use crate::time::{Millis, TimeLimit};
use op::{NODES, Op, any_op};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

struct History {
    world: World,
    log: Vec<(Millis, Event)>,
}

impl History {
    fn apply(&mut self, event: Event) {
        let before = self.world.cluster.clone();
        let fx = self.world.apply(event.clone());
        let after = &self.world.cluster;
        check(after).unwrap_or_else(|broken| panic!("{broken} after {event:?}"));
        check_step(&before, after).unwrap_or_else(|broken| panic!("{broken} after {event:?}"));
        let jobs = before.jobs.keys().chain(after.jobs.keys());
        for id in jobs.filter(|id| before.jobs.get(id) != after.jobs.get(id)) {
            assert!(
                fx.touched_jobs.contains(id),
                "job {id} changed untold by {event:?}"
            );
        }
        let nodes = after.nodes.keys();
        for id in nodes.filter(|id| before.nodes.get(id) != after.nodes.get(id)) {
            assert!(
                fx.touched_nodes.contains(id),
                "node {id} changed untold by {event:?}"
            );
        }
        if fx.ignored.is_some() {
            assert_eq!(
                before, *after,
                "an ignored event changed something: {event:?}"
            );
        }
        self.log.push((self.world.now, event));
    }

    fn job(&self, choice: usize) -> JobId {
        let jobs = &self.world.cluster.jobs;
        let at = choice % jobs.len().max(1);
        jobs.keys().nth(at).copied().unwrap_or_default()
    }

    fn generation(&self, job: JobId, stale: u64) -> Generation {
        let now = self
            .world
            .cluster
            .jobs
            .get(&job)
            .map_or(0, |job| job.generation.0);
        Generation(now.saturating_sub(stale))
    }

    fn submit(&mut self, mut spec: JobSpec) {
        if let Ok(admitted) = admit(&self.world.cluster, &mut spec, self.world.now) {
            let job = self.world.cluster.next_job_id().unwrap();
            let priority = admitted.priority;
            self.apply(Event::Submitted {
                job,
                spec: Arc::new(spec),
                priority,
            });
        }
    }

    fn submit_het(&mut self, mut specs: Vec<JobSpec>) {
        let first = specs[0].clone();
        let mut parts = Vec::new();
        for spec in &mut specs {
            (spec.kind, spec.requeue) = (first.kind, first.requeue);
            spec.array.clear();
            let Ok(admitted) = admit(&self.world.cluster, spec, self.world.now) else {
                return;
            };
            parts.push((Arc::new(spec.clone()), admitted.priority));
        }
        let job = self.world.cluster.next_job_id().unwrap();
        self.apply(Event::HetSubmitted { job, parts });
        assert!(self.world.cluster.jobs.contains_key(&job));
    }

    /// Passes until none frees a job that waited for one that it started: such a job may be ahead of others, and be why they wait.
    fn plan(&mut self) {
        loop {
            let dependent = self.dependent();
            self.pass();
            let again = plan(&self.world.cluster, self.world.now, Budget::default());
            let placed = again.placements.iter().map(|placed| placed.job);
            let mut told = placed.chain(again.reasons.iter().map(|(job, ..)| *job));
            if told.any(|job| dependent.contains(&job)) {
                continue;
            }
            assert_eq!(
                (again.placements, again.reasons),
                (vec![], vec![]),
                "a pass leaves nothing to do"
            );
            return;
        }
    }

    /// Jobs that wait for others; all components of a job wait if one does.
    fn dependent(&self) -> BTreeSet<JobId> {
        let jobs = self.world.cluster.jobs.values();
        let waiting = jobs.filter(|job| job.reason == Reason::Dependency);
        let all = waiting.flat_map(|job| {
            let parts = job.het.into_iter().flat_map(HetPart::all);
            parts.chain([job.id])
        });
        all.collect()
    }

    /// A plan must be carried out to the letter: nothing in it may be ignored.
    fn pass(&mut self) {
        let found = plan(&self.world.cluster, self.world.now, Budget::default());
        for event in self.world.cluster.plan_events(found) {
            let started: Vec<JobId> = if let Event::Placed { job, .. } = &event {
                vec![*job]
            } else if let Event::HetPlaced { parts, .. } = &event {
                parts.iter().map(|(job, _)| *job).collect()
            } else {
                Vec::new()
            };
            for job in &started {
                let job = self.world.job(*job);
                let lost = |node: &NodeId| self.world.cluster.nodes[node].lost;
                assert!(
                    job.uncleaned.iter().all(lost),
                    "the job would run twice at once"
                );
            }
            self.apply(event);
            for job in started {
                let held = &self.world.job(job).allocation;
                assert!(!held.is_empty(), "a planned placement was ignored");
            }
        }
    }

    fn step(&mut self, job: JobId, gpus: Option<u32>) {
        let Some(held) = self.world.cluster.jobs.get(&job) else {
            return;
        };
        let spec = StepSpec {
            name: "s".to_owned(),
            tasks: 0,
            nodes: 0,
            cpus_per_task: 0,
            tasks_per_node: 0,
            gpus_per_node: gpus.and_then(crate::fixture::gpus),
            gpus_per_task: None,
            nodelist: Vec::new(),
            ..StepSpec::default()
        };
        if let Ok(shares) = grant(&self.world.cluster, held, &spec) {
            let step = StepKind::Numbered(held.next_step);
            let name = spec.name;
            self.apply(Event::StepGranted {
                job,
                step,
                name,
                uid: Uid(1),
                shares,
                cpus_per_task: 0,
                with: Vec::new(),
                request_id: 0,
                sharing: Default::default(),
            });
            let granted = self.world.job(job).steps.contains_key(&step);
            assert!(granted, "a granted step was ignored");
        }
    }

    fn connect(&mut self, node: u32, reboot: bool, forget: bool, gpus: u32) {
        let id = NodeId(node);
        let known = self.world.cluster.nodes.get(&id);
        let held = known.map(|node| node.jobs.clone()).unwrap_or_default();
        let of = |job: JobId| (job, self.generation(job, 0));
        let jobs = if forget {
            Vec::new()
        } else {
            held.into_iter().map(of).collect()
        };
        let boot = known.map_or_else(|| "boot-1".to_owned(), |node| node.boot_id.clone());
        let boot_id = if reboot { format!("{boot}'") } else { boot };
        let name = format!("n{}", node + 1);
        let hello = NodeHello {
            jobs,
            boot_id,
            ..hello(&name, inventory(8, 16_384, gpus))
        };
        self.apply(Event::NodeConnected(hello));
    }

    fn end(&mut self, job: JobId, node: NodeId, exit: ExitStatus, oom: bool, stale: u64) {
        let generation = self.generation(job, stale);
        let steps: Vec<StepKind> = self
            .world
            .cluster
            .jobs
            .get(&job)
            .map(|job| job.steps.keys().copied().collect())
            .unwrap_or_default();
        for step in steps {
            self.apply(Event::StepEnded {
                job,
                step,
                node,
                generation,
                exit,
                oom,
            });
        }
    }

    fn wait(&mut self, secs: u64) {
        self.world.now = self.world.now.plus_secs(secs);
        // Each event that is applied moves the clock on, and what becomes due meanwhile is another call's business.
        let at = self.world.now;
        for event in self.world.cluster.expired(at) {
            self.apply(event);
        }
        assert_eq!(
            self.world.cluster.expired(at),
            [],
            "what is due is done at once"
        );
        let next = self.world.cluster.next_deadline(at);
        assert!(next.is_none_or(|(when, _)| when > at), "{next:?}");
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is in run_node")]
    fn run(&mut self, op: Op) {
        match op {
            Op::Submit(spec) => self.submit(*spec),
            Op::SubmitHet(specs) => self.submit_het(specs),
            Op::Plan => self.plan(),
            Op::Step { job, gpus } => self.step(self.job(job), gpus),
            Op::End {
                job,
                node,
                code,
                oom,
                stale,
            } => {
                let exit = ExitStatus { code, signal: 0 };
                self.end(self.job(job), NodeId(node), exit, oom, stale);
            }
            Op::Cancel { job } => self.apply(Event::Cancelled {
                job: self.job(job),
                by: Uid(0),
            }),
            Op::Finish { job } => {
                self.apply(Event::Finished {
                    job: self.job(job),
                    exit: ExitStatus::default(),
                });
            }
            Op::Requeue { job } => self.apply(Event::Requeued { job: self.job(job) }),
            Op::Hold { job, hold: true } => {
                self.apply(Event::Held {
                    job: self.job(job),
                    by_admin: false,
                });
            }
            Op::Hold { job, hold: false } => self.apply(Event::Released { job: self.job(job) }),
            Op::Update { job, priority } => self.apply(Event::JobUpdated {
                job: self.job(job),
                time_limit: Some(TimeLimit::Secs(50)),
                name: None,
                comment: None,
                partition: None,
                priority: Some(priority),
            }),
            Op::Change {
                job,
                throttle,
                dependency,
            } => self.change(self.job(job), throttle, dependency),
            Op::Split { job, from, many } => self.split(self.job(job), from, many),
            Op::Pause { job, on: true } => self.apply(Event::Suspended { job: self.job(job) }),
            Op::Pause { job, on: false } => self.apply(Event::Resumed { job: self.job(job) }),
            other => self.run_node(other),
        }
    }

    fn clean(&mut self, job: JobId, node: NodeId, stale: u64) {
        let generation = self.generation(job, stale);
        self.apply(Event::Cleaned {
            job,
            node,
            generation,
        });
    }

    fn fail(&mut self, job: JobId, node: NodeId, node_fault: bool) {
        let (generation, why) = (self.generation(job, 0), "x".to_owned());
        self.apply(Event::LaunchFailed {
            job,
            node,
            generation,
            why,
            node_fault,
            rests: true,
        });
    }

    fn split(&mut self, job: JobId, from: u32, many: bool) {
        let new = self.world.cluster.next_job_id().unwrap();
        self.apply(if many {
            let tasks = (from..from + 3).collect();
            Event::ArraySplit { job, tasks, new }
        } else {
            let task = from;
            Event::TaskSplit { job, task, new }
        });
    }

    fn change(&mut self, job: JobId, throttle: Option<u32>, dependency: String) {
        let Some(known) = self.world.cluster.jobs.get(&job) else {
            return;
        };
        let mut spec = JobSpec::clone(&known.spec);
        spec.dependency = dependency;
        if crate::job::admit::dependency(&self.world.cluster, job, &spec).is_ok() {
            self.apply(Event::JobChanged {
                job,
                spec: Arc::new(spec),
                priority: None,
                throttle,
            });
        }
    }

    fn run_use(&mut self, job: JobId, node: NodeId, gpu: u32, busy: Option<u16>) {
        let idle = busy.is_none().then(super::usage::idle);
        self.apply(Event::GpuIdle {
            node,
            job,
            gpu,
            idle,
        });
        let gpus = busy.map(|busy| vec![(gpu, busy), (0, 0)]);
        self.apply(Event::Utilization {
            node,
            gpus: gpus.unwrap_or_default(),
        });
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is in run")]
    fn run_node(&mut self, op: Op) {
        match op {
            Op::Clean { job, node, stale } => self.clean(self.job(job), NodeId(node), stale),
            Op::Fail {
                job,
                node,
                node_fault,
            } => self.fail(self.job(job), NodeId(node), node_fault),
            Op::Connect {
                node,
                reboot,
                forget,
                gpus,
            } => self.connect(node, reboot, forget, gpus),
            Op::Disconnect { node } => self.apply(Event::NodeDisconnected { node: NodeId(node) }),
            Op::Admin { node, admin, fence } => {
                let node = NodeId(node);
                let (reason, by) = (String::new(), Uid(0));
                self.apply(Event::NodeUpdated {
                    node,
                    admin,
                    reason,
                    by,
                });
                self.apply(Event::FenceChanged {
                    node,
                    fence,
                    note: String::new(),
                    suffices: None,
                    gpus_sick: None,
                    gpu_notes: Vec::new(),
                    stuck: Vec::new(),
                });
            }
            Op::Use {
                job,
                node,
                gpu,
                busy,
            } => {
                let job = self.job(job);
                self.run_use(job, NodeId(node), gpu, busy);
            }
            Op::Wait { secs } => self.wait(secs),
            Op::Garbage {
                job,
                node,
                generation,
            } => {
                let (job, node) = (JobId(job), NodeId(node));
                let generation = Generation(generation);
                self.apply(Event::NodeLost { node });
                self.apply(Event::Cleaned {
                    job,
                    node,
                    generation,
                });
                self.apply(Event::TimedOut { job });
                self.apply(Event::Purged { jobs: vec![job] });
                self.apply(Event::Placed {
                    job,
                    shares: Vec::new(),
                    generation,
                    backfilled: false,
                    time_limit: None,
                });
            }
            other => panic!("not of nodes: {other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_history_keeps_every_rule(ops in prop::collection::vec(any_op(), 1..80)) {
        let mut history = History { world: World::new(0, 0), log: Vec::new() };
        for node in 0..NODES {
            history.connect(node, false, false, 8);
        }
        let start = World::new(0, 0);
        for op in ops {
            history.run(op);
        }
        let mut replayed: Cluster = start.cluster;
        for (at, event) in &history.log {
            let bytes = rmp_serde::to_vec_named(event).unwrap();
            let read: Event = rmp_serde::from_slice(&bytes).unwrap();
            prop_assert_eq!(&read, event);
            replayed.apply(*at, &read);
        }
        prop_assert_eq!(&replayed, &history.world.cluster);
        let bytes = rmp_serde::to_vec_named(&replayed).unwrap();
        let read: Cluster = rmp_serde::from_slice(&bytes).unwrap();
        prop_assert_eq!(&read, &replayed);
    }
}

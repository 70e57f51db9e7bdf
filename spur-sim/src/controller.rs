//! The controller's shell, simulated: decides in memory, makes durable in batches, and only then acts and answers.

mod accounts;
mod meters;
mod sending;

use crate::machine::{Around, name};
use crate::queue::{At, Happening, Stream, Word};
use crate::workload::open_partition;
use spur_core::api::Refusal;
use spur_core::cluster::Cluster;
use spur_core::effect::Effect;
use spur_core::event::Event;
use spur_core::id::{JobId, NodeId, StepKind, Uid};
use spur_core::job::admit::admit;
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::job::state::ExitStatus;
use spur_core::job::step::{StepSpec, grant};
use spur_core::plan::{Budget, plan};
use spur_core::resources::NodeShare;
use spur_core::time::Millis;
use std::collections::BTreeMap;
use std::sync::Arc;

/// After how many events a snapshot is taken.
const SNAPSHOT_EVERY: usize = 100;

/// What waits for the disk.
#[derive(Debug)]
enum Out {
    /// A client is told its job's number.
    Acknowledge(usize, JobId),
    Welcome(At, Stream),
    Ack(At, Stream, u64),
    Effect(Effect),
}

/// See the module. `log[..durable]` survives a crash, everything else does not.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) up: bool,
    pub(crate) cluster: Cluster,
    log: Vec<(Millis, Event)>,
    durable: usize,
    /// A durable state and how much of the log is in it.
    snapshot: (Cluster, usize),
    outbox: Vec<Out>,
    streams: BTreeMap<At, (Stream, Millis)>,
    /// Counts lives, so that timers of an earlier one are void.
    life: u32,
    writing: bool,
    replan: bool,
    /// The moment for which a wake-up is scheduled.
    wake: Option<Millis>,
    /// Clients that were answered: (client, job).
    pub(crate) answered: Vec<(usize, JobId)>,
    pub(crate) ignored: u64,
    /// Placements that became durable: job and shares.
    pub(crate) granted: Vec<(JobId, Vec<NodeShare>)>,
}

impl Controller {
    pub(crate) fn new() -> Self {
        Self {
            up: false,
            cluster: Cluster::default(),
            log: Vec::new(),
            durable: 0,
            snapshot: (Cluster::default(), 0),
            outbox: Vec::new(),
            streams: BTreeMap::new(),
            life: 0,
            writing: false,
            replan: false,
            wake: None,
            answered: Vec::new(),
            ignored: 0,
            granted: Vec::new(),
        }
    }

    /// Starts with what is durable. No stream is open, so every node counts as silent from now on.
    pub(crate) fn start(&mut self, around: &mut Around<'_>) {
        self.up = true;
        self.life += 1;
        self.cluster = self.snapshot.0.clone();
        for (at, event) in self.log.iter().skip(self.snapshot.1) {
            self.cluster.apply(*at, event);
        }
        around.oracle.recovered(&self.cluster);
        if self.log.is_empty() {
            self.decide(configuration(), around);
        }
        let connected = self.cluster.nodes.values().filter(|node| node.connected);
        for node in connected.map(|node| node.id).collect::<Vec<_>>() {
            self.decide(Event::NodeDisconnected { node }, around);
        }
        self.replan = true;
        self.finish(around);
    }

    /// Dies. What was being written may or may not have reached the disk.
    pub(crate) fn crash(&mut self, around: &mut Around<'_>) {
        self.up = false;
        if self.writing && around.rng.chance(500) {
            self.made_durable(around);
        }
        self.log.truncate(self.durable);
        self.outbox.clear();
        self.streams.clear();
        self.writing = false;
        self.replan = false;
        self.wake = None;
    }

    /// Decides: applies in memory; the effects wait for the disk.
    fn decide(&mut self, event: Event, around: &Around<'_>) {
        let now = around.queue.now;
        let fx = self.cluster.apply(now, &event);
        self.ignored += u64::from(fx.ignored.is_some());
        self.replan |= fx.replan;
        self.outbox.extend(fx.effects.into_iter().map(Out::Effect));
        if fx.ignored.is_none() {
            self.log.push((now, event));
        }
    }

    /// Ends a turn: what time makes due, a pass if it is worth it, then the disk.
    pub(crate) fn finish(&mut self, around: &mut Around<'_>) {
        if !self.up {
            return;
        }
        for event in self.cluster.expired(around.queue.now) {
            self.decide(event, around);
        }
        self.meters(around);
        if std::mem::take(&mut self.replan) {
            self.pass(around);
        }
        if !self.writing && (self.log.len() > self.durable || !self.outbox.is_empty()) {
            self.writing = true;
            let millis = around.rng.between(1, 8);
            around.queue.after(millis, Happening::Durable(self.life));
        }
        self.schedule_wake(around);
    }

    fn schedule_wake(&mut self, around: &mut Around<'_>) {
        let Some((at, _)) = self.cluster.next_deadline(around.queue.now) else {
            return;
        };
        if self.wake.is_none_or(|wake| at < wake) {
            self.wake = Some(at);
            around.queue.at(at, Happening::Due(self.life));
        }
    }

    pub(crate) fn due(&mut self, life: u32, around: &mut Around<'_>) {
        if life == self.life {
            self.wake = None;
            self.replan = true;
            self.finish(around);
        }
    }

    fn pass(&mut self, around: &mut Around<'_>) {
        let found = plan(&self.cluster, around.queue.now, Budget::default());
        for event in self.cluster.plan_events(found) {
            let mut placed: Vec<JobId> = Vec::new();
            if let Event::Placed { job, .. } = &event {
                placed.push(*job);
            } else if let Event::HetPlaced { parts, .. } = &event {
                placed.extend(parts.iter().map(|(job, _)| *job));
            }
            self.decide(event, around);
            for job in placed {
                self.after_placement(job, around);
            }
        }
    }

    /// A placement that was decided must hold; an `srun` job gets its step with it.
    fn after_placement(&mut self, job: JobId, around: &mut Around<'_>) {
        let Some(placed) = self
            .cluster
            .jobs
            .get(&job)
            .filter(|job| !job.allocation.is_empty())
        else {
            around
                .oracle
                .breaks(format!("the placement of job {job} was ignored"));
            return;
        };
        match placed.spec.kind {
            JobKind::Batch => {}
            JobKind::Run => self.grant_step(job, around),
            JobKind::Alloc => {
                let millis = around.rng.between(1, around.params.longest_secs * 1_000);
                around.queue.after(millis, Happening::GiveBack(job));
            }
        }
    }

    /// Starts a step with all that the job has.
    pub(crate) fn grant_step(&mut self, job: JobId, around: &mut Around<'_>) {
        let Some(running) = self.cluster.jobs.get(&job) else {
            return;
        };
        let spec = StepSpec {
            name: "sim".to_owned(),
            tasks: 0,
            nodes: 0,
            cpus_per_task: 0,
            tasks_per_node: 0,
            gpus_per_node: None,
            gpus_per_task: None,
            nodelist: Vec::new(),
            ..StepSpec::default()
        };
        let Ok(shares) = grant(&self.cluster, running, &spec) else {
            return;
        };
        let step = StepKind::Numbered(running.next_step);
        let (name, uid) = (spec.name, running.spec.owner.uid);
        self.decide(
            Event::StepGranted {
                job,
                step,
                name,
                uid,
                shares,
                cpus_per_task: 0,
                with: Vec::new(),
                request_id: 0,
                sharing: Default::default(),
            },
            around,
        );
    }

    /// A client's request. `false`: nobody is there.
    pub(crate) fn submit(
        &mut self,
        client: usize,
        mut specs: Vec<JobSpec>,
        around: &mut Around<'_>,
    ) -> bool {
        if !self.up {
            return false;
        }
        let admitted = specs.iter_mut().map(|spec| {
            let admitted = admit(&self.cluster, spec, around.queue.now)?;
            Ok((Arc::new(spec.clone()), admitted.priority))
        });
        let admitted: Result<Vec<_>, Refusal> = admitted.collect();
        if let Ok(mut parts) = admitted
            && let Some(job) = self.cluster.next_job_id()
        {
            let event = match parts.pop() {
                Some((spec, priority)) if parts.is_empty() => Event::Submitted {
                    job,
                    spec,
                    priority,
                },
                last => {
                    parts.extend(last);
                    Event::HetSubmitted { job, parts }
                }
            };
            self.decide(event, around);
            self.outbox.push(Out::Acknowledge(client, job));
        }
        self.finish(around);
        true
    }

    /// A client's or the operator's wish, of which no answer is remembered.
    pub(crate) fn wish(&mut self, event: Event, around: &mut Around<'_>) {
        if self.up {
            self.decide(event, around);
            self.finish(around);
        }
    }

    /// An `salloc` ends; it tries again while nobody is there.
    pub(crate) fn give_back(&mut self, job: JobId, around: &mut Around<'_>) {
        if self.up {
            self.wish(
                Event::Finished {
                    job,
                    exit: ExitStatus::default(),
                },
                around,
            );
        } else {
            around.queue.after(1_000, Happening::GiveBack(job));
        }
    }

    /// A word of an agent arrives.
    pub(crate) fn hears(&mut self, at: At, stream: Stream, word: Word, around: &mut Around<'_>) {
        if !self.up {
            return;
        }
        match word {
            Word::Hello(hello) => {
                let newer = self
                    .streams
                    .get(&at)
                    .is_some_and(|(known, _)| *known > stream);
                if newer {
                    return;
                }
                self.streams.insert(at, (stream, around.queue.now));
                let effects = std::mem::take(&mut self.outbox);
                self.decide(Event::NodeConnected(*hello), around);
                let after = std::mem::replace(&mut self.outbox, effects);
                self.outbox.push(Out::Welcome(at, stream));
                self.outbox.extend(after);
            }
            Word::Report(number, report) => {
                let open = self
                    .streams
                    .get(&at)
                    .is_some_and(|(known, _)| *known == stream);
                let Some(node) = self.node(at).filter(|_| open) else {
                    return;
                };
                self.decide(report.into_event(node), around);
                self.outbox.push(Out::Ack(at, stream, number));
            }
        }
        self.finish(around);
    }

    /// A stream ended.
    pub(crate) fn closed(&mut self, at: At, stream: Stream, around: &mut Around<'_>) {
        let open = self
            .streams
            .get(&at)
            .is_some_and(|(known, _)| *known == stream);
        if let Some(node) = self.node(at).filter(|_| open && self.up) {
            self.streams.remove(&at);
            self.decide(Event::NodeDisconnected { node }, around);
            self.finish(around);
        }
    }

    fn node(&self, at: At) -> Option<NodeId> {
        self.cluster.node_ids.get(&name(at)).copied()
    }

    fn made_durable(&mut self, around: &mut Around<'_>) {
        for (_, event) in self.log.iter().skip(self.durable) {
            around.oracle.durable(event);
            if let Event::Placed { job, shares, .. } = event {
                self.granted.push((*job, shares.clone()));
            } else if let Event::HetPlaced { parts, .. } = event {
                self.granted.extend(parts.iter().cloned());
            }
        }
        self.durable = self.log.len();
        if self.durable >= self.snapshot.1 + SNAPSHOT_EVERY {
            self.snapshot = (self.cluster.clone(), self.durable);
        }
        around.oracle.batch(&self.cluster);
    }

    /// The disk has everything that was decided: act and answer.
    pub(crate) fn durable(&mut self, life: u32, around: &mut Around<'_>) {
        if life != self.life || !self.up {
            return;
        }
        self.writing = false;
        self.made_durable(around);
        for out in std::mem::take(&mut self.outbox) {
            let repeat = around.stormy && around.rng.chance(around.params.faults.repeat_permille);
            if let (true, Out::Effect(effect)) = (repeat, &out) {
                self.send_effect(effect, around);
            }
            self.release(out, around);
        }
        self.finish(around);
    }
}

fn configuration() -> Event {
    Event::Configured {
        max_array_size: 0,
        licenses: spur_core::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "sim".to_owned(),
        partitions: vec![open_partition("sim", 512)],
        min_job_age: 600,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    }
}

/// Who cancels in a simulation.
pub(crate) const CLIENT: Uid = Uid(1000);

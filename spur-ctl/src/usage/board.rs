//! The newest values of everything that nodes measure, in memory: of each device, and of each job's part of a node. What is known of
//! a job stays until the cluster forgets the job.
//!
//! Each node has a lock of its own; a query takes those of its job's nodes, one after the other.

mod lane;
mod part;
mod readings;
mod recent;
mod tail;

pub(super) use lane::Taken;
pub(super) use part::Part;
pub(super) use tail::{Entry, TailBatch, merge};

use lane::Lane;
use readings::Readings;
use recent::Recent;
use spur_core::id::{Generation, JobId, NodeName};
use spur_core::time::Millis;
use spur_core::usage::codec::BadBatch;
use spur_core::usage::metric::{Metric, Value};
use spur_core::usage::words::{Batch, ToMeter};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// Most nodes beyond those that the cluster knows: some may say what they use before they are registered.
const STRANGERS_MAX: usize = 1024;
/// Most jobs of which a node's part is kept.
const PARTS_MAX: usize = 65_536;
/// Milliseconds between readings while somebody looks.
const WATCH_INTERVAL: u32 = 100;
/// How long a look lasts, if nobody looks again.
const WATCH_FOR: Duration = Duration::from_secs(10);
/// How long the greatest lag is remembered.
const LAG_FOR: Duration = Duration::from_secs(60);

/// What the controller knows of a job's part of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    /// Generation of the placement.
    pub(super) generation: Generation,
    /// When the job started.
    pub(super) started: Millis,
    /// CPUs that it holds there.
    pub(super) cpus: u32,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Board {
    nodes: Mutex<BTreeMap<NodeName, Arc<Slot>>>,
    lag: Mutex<Lag>,
    sessions: AtomicU64,
}

/// The greatest lag of this minute and of the one before.
#[derive(Debug, Default)]
struct Lag {
    since: Option<Instant>,
    now: u64,
    before: u64,
}

/// One node.
#[derive(Debug)]
pub(super) struct Slot {
    state: Mutex<State>,
    /// Number of the stream that counts.
    pub(super) session: watch::Sender<u64>,
    /// The spool that records came from, and the highest that is durable.
    pub(super) durable: watch::Sender<(String, u64)>,
}

/// What is known of one node.
#[derive(Debug, Default)]
pub(super) struct State {
    epoch: Option<(String, Millis)>,
    live: Lane,
    late: Lane,
    devices: BTreeMap<u32, Readings>,
    parts: BTreeMap<JobId, Part>,
    recent: Recent,
    heard: Option<Instant>,
    watch: Option<(mpsc::Sender<ToMeter>, Instant)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    fn new(durable: (String, u64)) -> Self {
        Self {
            state: Mutex::default(),
            session: watch::Sender::new(0),
            durable: watch::Sender::new(durable),
        }
    }

    /// Its state.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl Board {
    /// A node's slot; made if there is room for it beside the `known` ones. `durable` says what of its records the record has.
    pub(super) fn slot(
        &self,
        node: &NodeName,
        known: usize,
        durable: impl FnOnce() -> (String, u64),
    ) -> Option<Arc<Slot>> {
        let mut nodes = locked(&self.nodes);
        if let Some(slot) = nodes.get(node) {
            return Some(Arc::clone(slot));
        }
        if nodes.len() >= known.saturating_add(STRANGERS_MAX) {
            return None;
        }
        let slot = Arc::new(Slot::new(durable()));
        nodes.insert(node.clone(), Arc::clone(&slot));
        Some(slot)
    }

    /// A node's slot, if it ever spoke.
    pub(super) fn find(&self, node: &NodeName) -> Option<Arc<Slot>> {
        locked(&self.nodes).get(node).map(Arc::clone)
    }

    /// A number for a new stream.
    pub(super) fn session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Forgets a job; the answer is what of its series is not on disk yet.
    pub(super) fn forget<'a>(
        &self,
        job: JobId,
        nodes: impl Iterator<Item = &'a NodeName>,
    ) -> Vec<TailBatch> {
        let part = |node: &NodeName| {
            let mut part = self.find(node)?.state().parts.remove(&job)?;
            part.tail(job, node)
        };
        nodes.filter_map(part).collect()
    }

    /// What of all series is due to be written; everything with `all`.
    pub(super) fn due(&self, all: bool) -> Vec<TailBatch> {
        let nodes: Vec<(NodeName, Arc<Slot>)> = locked(&self.nodes)
            .iter()
            .map(|(name, slot)| (name.clone(), Arc::clone(slot)))
            .collect();
        let mut due = Vec::new();
        for (name, slot) in nodes {
            let mut state = slot.state();
            let parts = state.parts.iter_mut();
            due.extend(
                parts
                    .filter(|(_, part)| all || part.is_due())
                    .filter_map(|(job, part)| part.tail(*job, &name)),
            );
        }
        due
    }

    /// Somebody looks at these nodes.
    pub(super) fn watch<'a>(&self, nodes: impl Iterator<Item = &'a NodeName>) {
        for slot in nodes.filter_map(|node| self.find(node)) {
            slot.state().look();
        }
    }

    /// A live batch came so many milliseconds after its end.
    fn late_by(&self, millis: u64) {
        let mut lag = locked(&self.lag);
        let old = lag.since.is_none_or(|since| since.elapsed() > LAG_FOR);
        if old {
            (lag.before, lag.now, lag.since) = (lag.now, 0, Some(Instant::now()));
        }
        lag.now = lag.now.max(millis);
    }

    /// The greatest lag of late, ms.
    pub(super) fn lag(&self) -> u64 {
        let lag = locked(&self.lag);
        lag.now.max(lag.before)
    }

    /// Takes a batch of a node in.
    pub(super) fn take(
        &self,
        slot: &Slot,
        batch: &Batch,
        holds: impl Fn(JobId) -> Option<Holder>,
    ) -> Result<Taken, BadBatch> {
        let taken = slot.state().take(batch, holds)?;
        if !batch.late && taken.fresh {
            self.late_by(crate::driver::now().0.saturating_sub(batch.at.0));
        }
        Ok(taken)
    }
}

impl State {
    /// A stream of this epoch begins; `watch` is the way to ask it for more.
    pub(super) fn begin(&mut self, epoch: (String, Millis), watch: mpsc::Sender<ToMeter>) {
        if self.epoch.as_ref() != Some(&epoch) {
            self.epoch = Some(epoch);
            self.live = Lane::default();
            self.late = Lane::default();
        }
        let looked = self.watch.take().map(|(_, until)| until);
        let now = Instant::now();
        self.watch = Some((watch, now));
        if looked.is_some_and(|until| until > now) {
            self.look();
        }
    }

    /// Highest live and late batch that was taken.
    pub(super) fn last(&self) -> (u64, u64) {
        (self.live.last(), self.late.last())
    }

    /// Somebody looks: the node measures more often for a while. One request for all who look.
    fn look(&mut self) {
        let Some((watch, until)) = &mut self.watch else {
            return;
        };
        let now = Instant::now();
        if *until > now + WATCH_FOR / 2 {
            return;
        }
        let word = ToMeter::Watch {
            interval: WATCH_INTERVAL,
            time_to_live: u32::try_from(WATCH_FOR.as_millis()).unwrap_or(u32::MAX),
        };
        if watch.try_send(word).is_ok() {
            *until = now + WATCH_FOR;
        }
    }

    /// A job's part.
    pub(super) fn part(&self, job: JobId) -> Option<&Part> {
        self.parts.get(&job)
    }

    /// Milliseconds since the node last said anything.
    pub(super) fn age(&self) -> Option<u64> {
        let heard = self.heard?.elapsed().as_millis();
        u64::try_from(heard).ok()
    }

    /// The newest level of a device.
    pub(super) fn level(&self, gpu: u32, metric: Metric) -> Option<u64> {
        match self.devices.get(&gpu)?.value(metric)? {
            Value::Level { mean, .. } => u64::try_from(mean).ok(),
            Value::Count(_) => None,
        }
    }

    fn take(
        &mut self,
        batch: &Batch,
        holds: impl Fn(JobId) -> Option<Holder>,
    ) -> Result<Taken, BadBatch> {
        let lane = if batch.late {
            &mut self.late
        } else {
            &mut self.live
        };
        let Some(sample) = lane.take(batch)? else {
            return Ok(Taken::default());
        };
        self.heard = Some(Instant::now());
        let mut refused = 0;
        let mut holders: BTreeMap<JobId, Option<Holder>> = BTreeMap::new();
        for (job, of_job) in &sample.jobs {
            let holder = *holders.entry(*job).or_insert_with(|| holds(*job));
            let room = self.parts.len() < PARTS_MAX || self.parts.contains_key(job);
            let (Some(holder), true) = (holder, room) else {
                refused += 1;
                continue;
            };
            let part = self.parts.entry(*job).or_insert_with(|| Part::new(holder));
            part.renew(holder);
            part.take(batch, of_job);
        }
        let mut recent = None;
        if !batch.late {
            for (gpu, key, value) in &sample.devices {
                self.devices.entry(*gpu).or_default().put(*key, *value);
            }
            let held: Vec<JobId> = sample.jobs.keys().copied().collect();
            recent = self.recent.take(batch.span, &sample.busy, &held);
        }
        Ok(Taken {
            fresh: true,
            refused,
            recent,
        })
    }
}

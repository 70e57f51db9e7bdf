//! What a replay is measured by: how long jobs waited, and how the GPUs were used from the first submission to the last.

use spur_core::id::{JobId, NodeId};
use spur_core::job::Job;
use spur_core::job::state::JobState;
use spur_core::node::Node;
use spur_core::plan::predict::gpus_of;
use spur_core::time::Millis;
use std::collections::BTreeMap;

/// Most points of a curve.
const POINTS: u64 = 500;

/// How a job fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    /// GPUs that it asked for.
    pub(super) gpus: u64,
    /// When it came.
    pub(super) submitted: Millis,
    /// All that it waited until its last start, in milliseconds; a time between a failed run and the next counts.
    pub(super) waited: u64,
    /// Since when it waits, if it does.
    pub(super) waiting: Option<Millis>,
    /// When it last started.
    pub(super) started: Option<Millis>,
}

/// The cluster at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Seconds after the beginning.
    pub secs: u64,
    /// GPUs that jobs hold.
    pub busy: u64,
    /// Free GPUs on nodes where others are held: no use to a job that wants whole nodes.
    pub broken: u64,
    /// GPUs of all nodes.
    pub gpus: u64,
    /// Jobs that wait.
    pub waiting: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    start: Millis,
    /// End of the time over which use is averaged, and the distance of samples in milliseconds.
    window: Option<(Millis, u64)>,
    now: Millis,
    nodes: BTreeMap<NodeId, [u64; 3]>,
    state: Sample,
    /// Busy, broken and all GPUs, times milliseconds, within the window.
    pub(super) areas: [u128; 3],
    pub(super) fates: BTreeMap<JobId, Fate>,
    pub(super) samples: Vec<Sample>,
    next_sample: Millis,
    /// When the last job ended.
    pub(super) last_end: Millis,
}

impl Measure {
    pub(super) fn new(start: Millis) -> Self {
        Self {
            start,
            window: None,
            now: start,
            nodes: BTreeMap::new(),
            state: Sample::default(),
            areas: [0; 3],
            fates: BTreeMap::new(),
            samples: Vec::new(),
            next_sample: start,
            last_end: start,
        }
    }

    /// Use counts from now to `end`.
    pub(super) fn window(&mut self, end: Millis) {
        let span = end.0.saturating_sub(self.start.0);
        self.window = Some((end, (span / POINTS).max(1)));
    }

    /// Time passes; what was measured last held until now.
    pub(super) fn moves_to(&mut self, now: Millis) {
        if let Some((end, every)) = self.window {
            let span = now.min(end).0.saturating_sub(self.now.0);
            let amounts = [self.state.busy, self.state.broken, self.state.gpus];
            for (area, amount) in self.areas.iter_mut().zip(amounts) {
                *area += u128::from(amount) * u128::from(span);
            }
            while self.next_sample <= now.min(end) {
                let secs = self.next_sample.secs_since(self.start);
                self.samples.push(Sample { secs, ..self.state });
                self.next_sample = Millis(self.next_sample.0 + every);
            }
        }
        self.now = now;
    }

    /// A node changed.
    pub(super) fn node(&mut self, node: &Node) {
        let (all, busy) = (
            node.inventory.gpus.len() as u64,
            u64::from(node.gpus_used.len()),
        );
        let broken = if busy == 0 {
            0
        } else {
            all.saturating_sub(busy)
        };
        let new = [busy, broken, all];
        let old = self.nodes.insert(node.id, new).unwrap_or_default();
        let sums = [
            &mut self.state.busy,
            &mut self.state.broken,
            &mut self.state.gpus,
        ];
        for (sum, (old, new)) in sums.into_iter().zip(old.into_iter().zip(new)) {
            *sum = (*sum + new).saturating_sub(old);
        }
    }

    /// A job changed.
    pub(super) fn job(&mut self, job: &Job, now: Millis) {
        let fate = self.fates.entry(job.id).or_insert_with(|| Fate {
            gpus: gpus_of(&job.spec),
            submitted: job.submitted,
            waited: 0,
            waiting: None,
            started: None,
        });
        if job.state.is_terminal() {
            self.last_end = self.last_end.max(now);
        }
        match (job.state, fate.waiting) {
            (JobState::Pending, None) => {
                fate.waiting = Some(if job.restarts == 0 {
                    job.submitted
                } else {
                    now
                });
                self.state.waiting += 1;
            }
            (JobState::Pending, Some(_)) | (_, None) => {}
            (state, Some(since)) => {
                fate.waiting = None;
                self.state.waiting = self.state.waiting.saturating_sub(1);
                if state == JobState::Running {
                    fate.waited += now.0.saturating_sub(since.0);
                    fate.started = Some(now);
                }
            }
        }
    }
}

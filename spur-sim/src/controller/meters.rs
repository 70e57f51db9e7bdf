//! What meters would say of the use of GPUs, true or not: it must never break anything.

use super::Controller;
use crate::machine::Around;
use spur_core::event::Event;
use spur_core::id::{JobId, NodeId};
use spur_core::usage::idle::Idle;

/// How often a turn has such a word in it, of 1,000.
const SAID: u32 = 100;
/// Numbers of GPUs that are spoken of: also some that no node has.
const GPUS: u32 = 10;

impl Controller {
    /// A verdict and a share of a random node.
    pub(super) fn meters(&mut self, around: &mut Around<'_>) {
        let last = self.cluster.nodes.keys().next_back().copied();
        let (Some(last), true) = (last, around.rng.chance(SAID)) else {
            return;
        };
        let node = NodeId(around.rng.small(0, last.0));
        let gpu = around.rng.small(0, GPUS);
        let held = self.cluster.nodes.get(&node);
        let jobs: Vec<JobId> = held
            .map(|node| node.jobs.iter().copied().collect())
            .unwrap_or_default();
        let at = around.rng.between(0, jobs.len() as u64);
        let job = usize::try_from(at)
            .ok()
            .and_then(|at| jobs.get(at).copied());
        let idle = around.rng.chance(700).then_some(Idle {
            since: around.queue.now,
            millis: 1000,
            held: 2000,
            opened: Some(true),
            open_now: None,
            busy: Some(3),
            memory: None,
        });
        let share = u16::try_from(around.rng.between(0, 1200)).unwrap_or(0);
        let verdict = Event::GpuIdle {
            node,
            job: job.unwrap_or_default(),
            gpu,
            idle,
        };
        self.decide(verdict, around);
        let gpus = vec![(gpu, share)];
        self.decide(Event::Utilization { node, gpus }, around);
    }
}

//! What the controller is told of refusals: lines, totals by kind, totals of jobs.

use super::Agent;
use crate::act;
use crate::audit::report::{Extra, Known, Number, Told, report};
use spur_core::agent::order::FromAgent;
use spur_core::denial::DenialCount;
use spur_core::id::JobId;
use spur_core::resources::{GpuVendor, IdSet};
use spur_ebpf::Counters;
use std::collections::BTreeSet;

impl Agent {
    /// Sends what the audit gathered: lines, newest last, and the totals of their jobs.
    pub(super) fn send_refusals(&mut self) {
        let (mut events, mut rows, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for taken in self.refusals.take() {
            let job = taken.job;
            let told = self.told(taken);
            self.extra.insert(job, told.extra);
            events.extend(told.lines);
            rows.push(told.rows);
            counts.extend(self.count(job, None).map(|count| (job, count)));
        }
        if !rows.is_empty() && self.link.is_some() {
            self.send(FromAgent::Denials {
                counts,
                events,
                rows,
            });
        }
    }

    fn told(&self, taken: crate::audit::Taken) -> Told {
        let none = IdSet::new();
        let shares = self.observed.shares.get(&taken.job);
        let gpus = shares.map_or(&none, |share| &share.gpus);
        let fence = self.node.fence();
        let held: BTreeSet<Number> = fence.map(|fence| fence.nodes(gpus)).unwrap_or_default();
        let vendor = |number: Number| fence.and_then(|fence| fence.vendor_of(number.0, number.1));
        let known = Known {
            node: &self.node.config.node,
            since: self.node.started,
            holds: &|number| held.contains(&number),
            path: &|(major, minor)| {
                fence
                    .map(|fence| fence.path_of(major, minor))
                    .unwrap_or_default()
            },
            is_amd_render_node: &|number| {
                number.0 == crate::discover::drm::MAJOR && vendor(number) == Some(GpuVendor::Amd)
            },
            holds_amd: self
                .node
                .machine
                .inventory
                .gpus
                .iter()
                .any(|gpu| gpu.vendor == GpuVendor::Amd && gpus.contains(gpu.index)),
        };
        report(taken, &known)
    }

    /// A job's refusals, from the fence's own counters (or those given).
    fn count(&self, job: JobId, counters: Option<Counters>) -> Option<DenialCount> {
        let counters =
            counters.or_else(|| Some(crate::fence::node::counters(self.fences.get(&job)?)))?;
        let canaries = self
            .journal
            .jobs()
            .get(&job)
            .map_or(0, |entry| entry.canaries);
        let extra: Extra = self.extra.get(&job).copied().unwrap_or_default();
        Some(act::denials(counters, canaries, extra))
    }

    /// The last word on an ended job's refusals, if there were any.
    pub(super) fn send_final_count(&mut self, job: JobId, counters: Counters) {
        self.send_refusals();
        let count = self
            .count(job, Some(counters))
            .filter(|count| count.total > 0);
        if let (Some(count), true) = (count, self.link.is_some()) {
            self.send(FromAgent::Denials {
                counts: vec![(job, count)],
                events: Vec::new(),
                rows: Vec::new(),
            });
        }
    }
}

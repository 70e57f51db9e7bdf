//! Rows for readers, after each turn.

use super::Writer;
use super::turn::Turn;
use spur_core::api::Stats;
use spur_core::id::{JobId, NodeId, Uid};
use spur_core::view;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

impl Writer {
    /// Publishes what the turn touched.
    pub(super) fn publish(&mut self, turn: &Turn) {
        if turn.partitions_touched {
            self.publish_all();
            return;
        }
        if turn.managed_touched {
            self.managed();
        }
        for uid in &turn.crontabs_touched {
            self.crontab_of(*uid);
        }
        let mut arrays = BTreeSet::new();
        for job in &turn.touched_jobs {
            arrays.extend(self.row_of_job(*job));
        }
        self.rows_of_arrays(arrays);
        for node in &turn.touched_nodes {
            self.row_of_node(*node);
        }
        self.finish_draft();
    }

    /// Publishes everything anew.
    pub(super) fn publish_all(&mut self) {
        self.publisher.draft.jobs.clear();
        self.publisher.draft.arrays.clear();
        self.publisher.draft.nodes.clear();
        self.publisher.draft.partitions = Arc::new(self.cluster.partitions.clone());
        self.publisher.draft.topology = Arc::new(self.cluster.topology.clone());
        self.publisher.draft.licenses = Arc::new(self.cluster.licenses.clone());
        self.publisher.draft.cluster.clone_from(&self.cluster.name);
        self.managed();
        let tables = self.cluster.crontabs.iter();
        let tables = tables.map(|(uid, table)| (*uid, Arc::from(table.as_str())));
        self.publisher.draft.crontabs = Arc::new(tables.collect());
        let jobs: Vec<JobId> = self.cluster.jobs.keys().copied().collect();
        for job in jobs {
            self.row_of_job(job);
        }
        let arrays = self.cluster.arrays.keys().copied().collect();
        self.rows_of_arrays(arrays);
        let nodes: Vec<NodeId> = self.cluster.nodes.keys().copied().collect();
        for node in nodes {
            self.row_of_node(node);
        }
        self.finish_draft();
    }

    /// A user's crontab, if it changed: the others are shared.
    fn crontab_of(&mut self, uid: Uid) {
        let now = self.cluster.crontabs.get(&uid).map(String::as_str);
        let all = &mut self.publisher.draft.crontabs;
        if all.get(&uid).map(AsRef::as_ref) == now {
            return;
        }
        let all = Arc::make_mut(all);
        match now {
            Some(table) => drop(all.insert(uid, table.into())),
            None => drop(all.remove(&uid)),
        }
    }

    /// Reservations and accounts.
    fn managed(&mut self) {
        let managed = &self.cluster.managed;
        let reservations = managed.reservations.values().cloned().collect();
        self.publisher.draft.reservations = Arc::new(reservations);
        self.publisher.draft.accounts = Arc::new(managed.accounts.clone());
    }

    /// Records of arrays that were made or forgotten.
    fn rows_of_arrays(&mut self, arrays: BTreeSet<JobId>) {
        for array in arrays {
            let members: Vec<JobId> = self.cluster.members(array).collect();
            let rows = &mut self.publisher.draft.arrays;
            if members.is_empty() {
                rows.remove(array.0);
            } else if rows.get(array.0).is_none_or(|known| **known != members) {
                rows.insert(array.0, Arc::new(members));
            }
        }
    }

    /// The array that the job is part of is the answer.
    fn row_of_job(&mut self, job: JobId) -> Option<JobId> {
        let before = self.publisher.draft.jobs.get(job.0).map(Arc::clone);
        match self.cluster.jobs.get(&job) {
            Some(known) => {
                let row = Arc::new(view::job_view(&self.cluster, known));
                if before
                    .as_ref()
                    .is_some_and(|before| !before.state.is_terminal())
                {
                    self.counters.ended(row.state);
                }
                self.usage.job(before.as_deref(), &row);
                let array = row.array.as_ref().map(|array| array.job);
                self.publisher.draft.jobs.insert(job.0, row);
                array
            }
            None => {
                self.publisher.draft.jobs.remove(job.0);
                self.denials.forget(job);
                let last = before?;
                self.usage.forget(&last);
                last.array.as_ref().map(|array| array.job)
            }
        }
    }

    fn row_of_node(&mut self, id: NodeId) {
        let Some(node) = self.cluster.nodes.get(&id) else {
            return;
        };
        let mut row = view::node_view(&self.cluster, node);
        if let Some(pulse) = self.pulses.get(&id) {
            row.node.load_x100 = pulse.load_x100;
            row.node.free_mib = pulse.free_mib;
            row.node.last_seen = row.node.last_seen.max(pulse.at);
        }
        self.publisher.draft.nodes.insert(id.0, Arc::new(row));
    }

    fn finish_draft(&mut self) {
        let counters = &self.counters;
        let (pending, running) = self.cluster.counts();
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.publisher.draft.stats = Stats {
            started: counters.started,
            log_entries: counters.entries,
            log_batches: counters.batches,
            passes: counters.passes,
            last_pass_us: micros(counters.last_pass),
            max_pass_us: micros(counters.max_pass),
            jobs_started: counters.jobs_started,
            pending: pending as u64,
            running: running as u64,
            ignored: counters.ignored,
            rss_kib: 0,
            counted_since: counters.counted_since,
            submitted: counters.submitted,
            completed: counters.completed,
            cancelled: counters.cancelled,
            failed: counters.failed,
            passes_us: micros(counters.all_passes),
            passes_queue: counters.passes_queue,
            last_queue: counters.last_queue,
            last_pass: counters.last_pass_at,
            ..Stats::default()
        };
        self.publisher.publish();
        if self.usage.wants_all() {
            self.usage.all_jobs(&self.publisher.draft);
        }
    }
}

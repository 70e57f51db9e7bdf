//! Totals by kind, for each job on each node. An agent that was restarted counts anew: what its predecessor had counted stays.

use serde::{Deserialize, Serialize};
use spur_core::api::NodeRows;
use spur_core::denial::{DenialKey, DenialRow, JobRows, ROWS_MAX};
use spur_core::id::{Generation, JobId, NodeName};
use spur_core::time::Millis;
use std::collections::BTreeMap;
use std::mem::take;

/// Most rows kept in all. Beyond, new kinds get no row of their own.
pub(super) const ALL_ROWS_MAX: usize = 200_000;

/// What one node counted of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Table {
    generation: Generation,
    /// Since when the agent counts that `current` comes from.
    since: Millis,
    /// What earlier agents counted.
    before: Vec<DenialRow>,
    current: Vec<DenialRow>,
}

impl Table {
    fn len(&self) -> usize {
        self.before.len() + self.current.len()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Rows {
    tables: BTreeMap<JobId, BTreeMap<NodeName, Table>>,
    len: usize,
}

impl Rows {
    /// Takes a node's word; the answer is whether anything changed.
    pub(super) fn put(&mut self, node: &NodeName, said: JobRows) -> bool {
        let JobRows {
            job,
            generation,
            since,
            mut rows,
        } = said;
        rows.truncate(ROWS_MAX);
        let newest = self.tables.get(&job).into_iter().flatten();
        let newest = newest.map(|(_, table)| table.generation).max();
        if newest.is_some_and(|newest| newest > generation) {
            return false;
        }
        if newest.is_some_and(|newest| newest < generation) {
            // What an earlier placement was refused is in its lines; counts begin anew with each.
            self.forget(job);
        }
        let known = self.tables.get(&job).and_then(|tables| tables.get(node));
        let mut table = match known {
            Some(known) => known.clone(),
            None => Table {
                generation,
                since,
                before: Vec::new(),
                current: Vec::new(),
            },
        };
        if table.since > since {
            return false;
        }
        if table.since < since {
            table.before = sum(take(&mut table.before), take(&mut table.current));
            table.since = since;
        }
        table.current = rows;
        let (grown, was) = (table.len(), known.map_or(0, Table::len));
        if known == Some(&table) || (grown > was && self.len + grown - was > ALL_ROWS_MAX) {
            return false;
        }
        self.len = self.len + grown - was;
        self.tables
            .entry(job)
            .or_default()
            .insert(node.clone(), table);
        true
    }

    /// Puts back what was read.
    pub(super) fn restore(&mut self, job: JobId, node: NodeName, table: Table) {
        self.len += table.len();
        self.tables.entry(job).or_default().insert(node, table);
    }

    /// One node's.
    pub(super) fn table(&self, job: JobId, node: &NodeName) -> Option<&Table> {
        self.tables.get(&job)?.get(node)
    }

    /// Where there is something.
    pub(super) fn keys(&self) -> impl Iterator<Item = (JobId, NodeName)> + '_ {
        let of = |(job, nodes): (&JobId, &BTreeMap<NodeName, Table>)| {
            let job = *job;
            nodes
                .keys()
                .cloned()
                .map(move |node| (job, node))
                .collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(of)
    }

    /// Forgets a job; the answer is whether there was anything.
    pub(super) fn forget(&mut self, job: JobId) -> bool {
        let tables = self.tables.remove(&job);
        self.len -= tables
            .iter()
            .flatten()
            .map(|(_, table)| table.len())
            .sum::<usize>();
        tables.is_some()
    }

    /// What is known of a job.
    pub(super) fn of_job(&self, job: JobId) -> Vec<NodeRows> {
        let all = || self.tables.get(&job).into_iter().flatten();
        let newest = all().map(|(_, table)| table.generation).max();
        let tables = all().filter(|(_, table)| Some(table.generation) == newest);
        let shown = tables.map(|(node, table)| {
            let mut rows = sum(table.before.clone(), table.current.clone());
            rows.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.key.cmp(&b.key)));
            NodeRows {
                node: node.clone(),
                rows,
            }
        });
        shown.collect()
    }
}

/// Rows of both, those of one kind added up; at most [`ROWS_MAX`], first come first kept.
fn sum(first: Vec<DenialRow>, second: Vec<DenialRow>) -> Vec<DenialRow> {
    let mut totals: BTreeMap<DenialKey, u64> = BTreeMap::new();
    for row in first.into_iter().chain(second) {
        let room = totals.len() < ROWS_MAX;
        match totals.get_mut(&row.key) {
            Some(total) => *total = total.saturating_add(row.total),
            None if room => drop(totals.insert(row.key, row.total)),
            None => {}
        }
    }
    let rows = totals.into_iter();
    rows.map(|(key, total)| DenialRow { key, total }).collect()
}

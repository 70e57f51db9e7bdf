//! One transaction of the record.

use super::schema::Trouble;
use super::{Incoming, series};
use crate::store::sqlite::signed;
use crate::usage::board::TailBatch;
use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use spur_core::api::{JobView, RunKey, StepView};
use spur_core::id::{Generation, JobId, NodeName, StepKind};
use spur_core::job::step::StepState;
use spur_core::slurm::codes;
use spur_core::time::Millis;
use spur_core::usage::summary::{JobUsage, StepUsage};
use spur_core::usage::words::{UsageEvent, UsageEventKind, UsageRecord};
use spur_proto::wire;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most runs that are forgotten at a time.
const PURGE_MAX: i64 = 200;

/// What a transaction writes.
pub(super) struct Round {
    pub(super) jobs: Vec<(RunKey, Arc<JobView>)>,
    pub(super) records: Vec<Arc<Incoming>>,
    pub(super) tails: Vec<TailBatch>,
}

impl Round {
    /// Nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.records.is_empty() && self.tails.is_empty()
    }
}

/// Why a transaction was not made.
pub(super) struct Unwritten {
    /// In words.
    pub(super) text: String,
    /// The file must be opened anew.
    pub(super) broken: bool,
}

impl From<rusqlite::Error> for Unwritten {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        Self {
            broken: matches!(Trouble::from(error), Trouble::Broken(_)),
            text,
        }
    }
}

/// Runs that were found, and who took part in them.
type Runs = BTreeMap<(JobId, Generation), Option<(i64, BTreeSet<NodeName>)>>;

/// Writes a round, whole or not at all.
pub(super) fn write(db: &mut Connection, round: &Round) -> Result<(), Unwritten> {
    // Only records are acknowledged, so only they must outlive a power cut at once.
    let mode = if round.records.is_empty() {
        "NORMAL"
    } else {
        "FULL"
    };
    db.pragma_update(None, "synchronous", mode)?;
    let tx = db.transaction()?;
    for (_, row) in &round.jobs {
        job(&tx, row)?;
    }
    let mut runs = Runs::new();
    for incoming in &round.records {
        record(&tx, incoming, &mut runs)?;
    }
    for tail in &round.tails {
        tail_of(&tx, tail, &mut runs)?;
    }
    tx.commit()?;
    Ok(())
}

fn job(tx: &Transaction<'_>, row: &JobView) -> rusqlite::Result<()> {
    let spec = &row.spec;
    let ended = row.ended.filter(|_| row.state.is_terminal());
    let cpus: u64 = row
        .nodes
        .iter()
        .map(|n| u64::from(n.share.cpus.len()))
        .sum();
    let gpus: u64 = row
        .nodes
        .iter()
        .map(|n| u64::from(n.share.gpus.len()))
        .sum();
    let body = wire::JobView::from(row).encode_to_vec();
    let sql = "INSERT INTO run (job, submitted, restarts, generation, uid, user, account, partition, name, state, started,
            ended, superseded, nodes, cpus, gpus, exit_code, exit_signal, body, array)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
        ON CONFLICT (submitted, job, restarts) DO UPDATE SET generation = excluded.generation, account = excluded.account,
            partition = excluded.partition, name = excluded.name, state = excluded.state, started = excluded.started,
            ended = excluded.ended, nodes = excluded.nodes, cpus = excluded.cpus, gpus = excluded.gpus,
            exit_code = excluded.exit_code, exit_signal = excluded.exit_signal, body = excluded.body,
            array = excluded.array
        RETURNING run";
    let run: i64 = tx.prepare_cached(sql)?.query_row(
        params![
            row.id.0,
            signed(row.submitted.0),
            row.restarts,
            signed(row.generation.0),
            spec.owner.uid.0,
            spec.owner.user,
            spec.account,
            spec.partition,
            spec.name,
            codes::job_state(row.state, false),
            row.started.map(|at| signed(at.0)),
            ended.map(|at| signed(at.0)),
            signed(row.nodes.len() as u64),
            signed(cpus),
            signed(gpus),
            row.exit.code,
            row.exit.signal,
            body,
            row.array.as_ref().map(|array| array.job.0)
        ],
        |found| found.get(0),
    )?;
    for step in &row.steps {
        step_row(tx, run, step)?;
    }
    if row.restarts > 0 {
        supersede(tx, row)?;
    }
    Ok(())
}

/// Earlier runs of the job are not its newest any more; one that was running ended when the job went back to the queue.
fn supersede(tx: &Transaction<'_>, row: &JobView) -> rusqlite::Result<()> {
    let sql = "UPDATE run SET superseded = 1,
            requeued = CASE WHEN ended IS NULL THEN coalesce(requeued, ?4) ELSE requeued END,
            ended = coalesce(ended, ?4)
        WHERE submitted = ?1 AND job = ?2 AND restarts < ?3 AND superseded = 0";
    tx.prepare_cached(sql)?.execute(params![
        signed(row.submitted.0),
        row.id.0,
        row.restarts,
        signed(row.eligible.0)
    ])?;
    Ok(())
}

/// A step's name as a key.
pub(super) fn step_key(step: StepKind) -> String {
    step.to_string()
}

fn step_row(tx: &Transaction<'_>, run: i64, step: &StepView) -> rusqlite::Result<()> {
    let tasks: u64 = step.shares.iter().map(|s| u64::from(s.share.tasks)).sum();
    let state = match step.state {
        StepState::Running => "RUNNING",
        StepState::Ended => "ENDED",
    };
    let sql = "INSERT OR REPLACE INTO step VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    tx.prepare_cached(sql)?.execute(params![
        run,
        step_key(step.kind),
        step.name,
        state,
        signed(step.started.0),
        step.ended.map(|at| signed(at.0)),
        signed(step.shares.len() as u64),
        signed(tasks),
        step.exit.code,
        step.exit.signal
    ])?;
    Ok(())
}

/// A record, unless it was written before. One of a job that the node never held is dropped: kept, it would come again for ever.
fn record(tx: &Transaction<'_>, incoming: &Incoming, runs: &mut Runs) -> rusqlite::Result<()> {
    let sql = "SELECT record FROM spool WHERE node = ?1 AND spool = ?2";
    let known: Option<i64> = tx
        .prepare_cached(sql)?
        .query_row(params![incoming.node.as_str(), incoming.spool], |row| {
            row.get(0)
        })
        .optional()?;
    if known.is_some_and(|known| known.unsigned_abs() >= incoming.number) {
        return Ok(());
    }
    match &incoming.record {
        UsageRecord::Step(step) => {
            match find(tx, (step.job, step.generation), &incoming.node, runs)? {
                Some(run) => step_usage(tx, run, step)?,
                None => strange(incoming, step.job),
            }
        }
        UsageRecord::Job(job) => match find(tx, (job.job, job.generation), &incoming.node, runs)? {
            Some(run) => job_usage(tx, run, job)?,
            None => strange(incoming, job.job),
        },
        UsageRecord::Event(event) => event_row(tx, &incoming.node, event)?,
    }
    let sql = "INSERT OR REPLACE INTO spool VALUES (?1, ?2, ?3)";
    tx.prepare_cached(sql)?.execute(params![
        incoming.node.as_str(),
        incoming.spool,
        signed(incoming.number)
    ])?;
    Ok(())
}

fn strange(incoming: &Incoming, job: JobId) {
    tracing::warn!(node = %incoming.node, %job, "a usage record of a job that the node never held is dropped");
}

/// The run of this placement, and the nodes that had a part in it.
fn run_of(
    tx: &Transaction<'_>,
    which: (JobId, Generation),
) -> rusqlite::Result<Option<(i64, BTreeSet<NodeName>)>> {
    let sql =
        "SELECT run, body FROM run WHERE job = ?1 AND generation = ?2 ORDER BY run DESC LIMIT 1";
    let found = tx
        .prepare_cached(sql)?
        .query_row(params![which.0.0, signed(which.1.0)], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    Ok(found.and_then(|(run, body)| {
        let view = JobView::try_from(wire::JobView::decode(body.as_slice()).ok()?).ok()?;
        let nodes = view.nodes.into_iter().map(|held| held.name);
        Some((run, nodes.collect()))
    }))
}

/// The run of this placement, if the node had a part in it.
fn find(
    tx: &Transaction<'_>,
    which: (JobId, Generation),
    node: &NodeName,
    runs: &mut Runs,
) -> rusqlite::Result<Option<i64>> {
    let known = match runs.get(&which) {
        Some(known) => known,
        None => {
            let found = run_of(tx, which)?;
            runs.entry(which).or_insert(found)
        }
    };
    let known = known.as_ref();
    Ok(known.and_then(|(run, nodes)| nodes.contains(node).then_some(*run)))
}

fn job_usage(tx: &Transaction<'_>, run: i64, usage: &JobUsage) -> rusqlite::Result<()> {
    let held = usage
        .gpus
        .iter()
        .fold(0u64, |sum, gpu| sum.saturating_add(gpu.held_us));
    let told = |of: fn(&spur_core::usage::summary::GpuUsage) -> Option<u64>| {
        let mut told = usage.gpus.iter().filter_map(of);
        let first = told.next()?;
        Some(signed(told.fold(first, u64::saturating_add)))
    };
    let sql = "INSERT OR REPLACE INTO job_usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    tx.prepare_cached(sql)?.execute(params![
        run,
        usage.node.as_str(),
        signed(usage.used.cpu_us),
        usage.used.memory_peak.map(signed),
        signed(usage.gpus.len() as u64),
        signed(held),
        told(|gpu| gpu.busy.map(|busy| busy.us)),
        told(|gpu| gpu.energy_mj),
        usage.coverage,
        wire::JobUsage::from(usage).encode_to_vec()
    ])?;
    Ok(())
}

fn step_usage(tx: &Transaction<'_>, run: i64, usage: &StepUsage) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO step_usage VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    tx.prepare_cached(sql)?.execute(params![
        run,
        step_key(usage.step),
        usage.node.as_str(),
        signed(usage.used.cpu_us),
        usage.used.memory_peak.map(signed),
        wire::StepUsage::from(usage).encode_to_vec()
    ])?;
    Ok(())
}

fn event_row(tx: &Transaction<'_>, node: &NodeName, event: &UsageEvent) -> rusqlite::Result<()> {
    let run: Option<i64> = match event.job {
        None => None,
        Some(job) => {
            let sql = "SELECT run FROM run WHERE job = ?1 AND started IS NOT NULL ORDER BY submitted DESC, restarts DESC LIMIT 1";
            tx.prepare_cached(sql)?
                .query_row([job.0], |row| row.get(0))
                .optional()?
        }
    };
    let kind = match event.what {
        UsageEventKind::DeviceError { .. } => "error",
        UsageEventKind::DeviceStale { .. } => "stale",
        UsageEventKind::Idle(_) => "idle",
        UsageEventKind::Busy => "busy",
        UsageEventKind::Gap { .. } => "gap",
        UsageEventKind::OomKill { .. } => "oom",
    };
    let sql = "INSERT INTO event (at, node, run, gpu, kind, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    tx.prepare_cached(sql)?.execute(params![
        signed(event.at.0),
        node.as_str(),
        run,
        event.gpu,
        kind,
        wire::UsageEvent::from(event).encode_to_vec()
    ])?;
    Ok(())
}

fn tail_of(tx: &Transaction<'_>, tail: &TailBatch, runs: &mut Runs) -> rusqlite::Result<()> {
    let Some(run) = find(tx, (tail.job, tail.generation), &tail.node, runs)? else {
        return Ok(());
    };
    let sql = "SELECT body FROM series WHERE run = ?1 AND node = ?2";
    let known: Option<Vec<u8>> = tx
        .prepare_cached(sql)?
        .query_row(params![run, tail.node.as_str()], |row| row.get(0))
        .optional()?;
    let mut all = known
        .and_then(|bytes| series::decode(&bytes))
        .unwrap_or_default();
    series::add(&mut all, &tail.series);
    let sql = "INSERT OR REPLACE INTO series VALUES (?1, ?2, ?3)";
    tx.prepare_cached(sql)?
        .execute(params![run, tail.node.as_str(), series::encode(&all)])?;
    Ok(())
}

/// Forgets runs that ended before this moment, a small portion at a time; how many.
pub(super) fn purge(db: &mut Connection, oldest: u64) -> rusqlite::Result<usize> {
    let oldest = signed(Millis(oldest).0);
    let tx = db.transaction()?;
    let runs: Vec<i64> = {
        let mut select =
            tx.prepare_cached("SELECT run FROM run WHERE ended < ?1 ORDER BY ended LIMIT ?2")?;
        let rows = select.query_map(params![oldest, PURGE_MAX], |row| row.get(0))?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    for run in &runs {
        for table in ["step", "job_usage", "step_usage", "event", "series", "run"] {
            let sql = format!("DELETE FROM {table} WHERE run = ?1");
            tx.prepare_cached(&sql)?.execute([run])?;
        }
    }
    let old = "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE at < ?1 AND run IS NULL ORDER BY at LIMIT ?2)";
    tx.prepare_cached(old)?
        .execute(params![oldest, PURGE_MAX])?;
    tx.commit()?;
    Ok(runs.len())
}

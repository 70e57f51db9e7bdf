//! One transaction of the record.

use super::db::{Db, DbError, Value};
use super::{Incoming, series};
use crate::store::sqlite::signed;
use crate::usage::answer::group;
use crate::usage::board::TailBatch;
use prost::Message as _;
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
    /// The record must be opened anew.
    pub(super) broken: bool,
}

impl From<DbError> for Unwritten {
    fn from(error: DbError) -> Self {
        Self {
            text: error.to_string(),
            broken: error.is_broken() || error.is_lost(),
        }
    }
}

type Done<T = ()> = Result<T, DbError>;

/// Runs that were found, and who took part in them.
type Runs = BTreeMap<(JobId, Generation), Option<(i64, BTreeSet<NodeName>)>>;

/// Writes a round, whole or not at all.
pub(super) fn write(db: &mut Db, round: &Round) -> Result<(), Unwritten> {
    // Only records are acknowledged, so only they must outlive a power cut at once.
    db.durable(!round.records.is_empty())?;
    db.transaction(|tx| {
        for (_, row) in &round.jobs {
            job(tx, row)?;
        }
        let mut runs = Runs::new();
        for incoming in &round.records {
            record(tx, incoming, &mut runs)?;
        }
        for tail in &round.tails {
            tail_of(tx, tail, &mut runs)?;
        }
        Ok(())
    })
}

fn job(tx: &mut Db, row: &JobView) -> Done {
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
    let sql = "INSERT INTO run (job, submitted, restarts, generation, uid, \"user\", account, partition, name, state, started,
            ended, superseded, nodes, cpus, gpus, exit_code, exit_signal, body, array_job)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
        ON CONFLICT (submitted, job, restarts) DO UPDATE SET generation = excluded.generation, account = excluded.account,
            partition = excluded.partition, name = excluded.name, state = excluded.state, started = excluded.started,
            ended = excluded.ended, nodes = excluded.nodes, cpus = excluded.cpus, gpus = excluded.gpus,
            exit_code = excluded.exit_code, exit_signal = excluded.exit_signal, body = excluded.body,
            array_job = excluded.array_job
        RETURNING run";
    let found = tx.row(
        sql,
        &[
            row.id.0.into(),
            signed(row.submitted.0).into(),
            row.restarts.into(),
            signed(row.generation.0).into(),
            spec.owner.uid.0.into(),
            spec.owner.user.as_str().into(),
            spec.account.as_str().into(),
            spec.partition.as_str().into(),
            spec.name.as_str().into(),
            codes::job_state(row.state, false).into(),
            row.started.map(|at| signed(at.0)).into(),
            ended.map(|at| signed(at.0)).into(),
            signed(row.nodes.len() as u64).into(),
            signed(cpus).into(),
            signed(gpus).into(),
            u32::from(row.exit.code).into(),
            u32::from(row.exit.signal).into(),
            body.as_slice().into(),
            group(row).map(|group| i64::from(group.0)).into(),
        ],
    )?;
    let run = found
        .as_ref()
        .map_or_else(|| Err(DbError::nothing()), |row| row.int(0))?;
    for step in &row.steps {
        step_row(tx, run, step)?;
    }
    if row.restarts > 0 {
        supersede(tx, row)?;
    }
    Ok(())
}

/// Earlier runs of the job are not its newest any more; one that was running ended when the job went back to the queue.
fn supersede(tx: &mut Db, row: &JobView) -> Done {
    let sql = "UPDATE run SET superseded = 1,
            requeued = CASE WHEN ended IS NULL THEN coalesce(requeued, ?4) ELSE requeued END,
            ended = coalesce(ended, ?4)
        WHERE submitted = ?1 AND job = ?2 AND restarts < ?3 AND superseded = 0";
    tx.run(
        sql,
        &[
            signed(row.submitted.0).into(),
            row.id.0.into(),
            row.restarts.into(),
            signed(row.eligible.0).into(),
        ],
    )?;
    Ok(())
}

/// A step's name as a key.
pub(super) fn step_key(step: StepKind) -> String {
    step.to_string()
}

fn step_row(tx: &mut Db, run: i64, step: &StepView) -> Done {
    let tasks: u64 = step.shares.iter().map(|s| u64::from(s.share.tasks)).sum();
    let state = match step.state {
        StepState::Running => "RUNNING",
        StepState::Ended => "ENDED",
    };
    let sql = "INSERT INTO step (run, step, name, state, started, ended, nodes, tasks, exit_code, exit_signal)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
        ON CONFLICT (run, step) DO UPDATE SET name = excluded.name, state = excluded.state, started = excluded.started,
            ended = excluded.ended, nodes = excluded.nodes, tasks = excluded.tasks, exit_code = excluded.exit_code,
            exit_signal = excluded.exit_signal";
    tx.run(
        sql,
        &[
            run.into(),
            step_key(step.kind).as_str().into(),
            step.name.as_str().into(),
            state.into(),
            signed(step.started.0).into(),
            step.ended.map(|at| signed(at.0)).into(),
            signed(step.shares.len() as u64).into(),
            signed(tasks).into(),
            u32::from(step.exit.code).into(),
            u32::from(step.exit.signal).into(),
        ],
    )?;
    Ok(())
}

/// A record, unless it was written before. One of a job that the node never held is dropped: kept, it would come again for ever.
fn record(tx: &mut Db, incoming: &Incoming, runs: &mut Runs) -> Done {
    let sql = "SELECT record FROM spool WHERE node = ?1 AND spool = ?2";
    let key = [
        incoming.node.as_str().into(),
        incoming.spool.as_str().into(),
    ];
    let known = tx.row(sql, &key)?.map(|row| row.int(0)).transpose()?;
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
    let sql = "INSERT INTO spool (node, spool, record) VALUES (?1, ?2, ?3)
        ON CONFLICT (node) DO UPDATE SET spool = excluded.spool, record = excluded.record";
    let [node, spool] = key;
    tx.run(sql, &[node, spool, signed(incoming.number).into()])?;
    Ok(())
}

fn strange(incoming: &Incoming, job: JobId) {
    tracing::warn!(node = %incoming.node, %job, "a usage record of a job that the node never held is dropped");
}

/// The run of this placement, and the nodes that had a part in it.
fn run_of(tx: &mut Db, which: (JobId, Generation)) -> Done<Option<(i64, BTreeSet<NodeName>)>> {
    let sql =
        "SELECT run, body FROM run WHERE job = ?1 AND generation = ?2 ORDER BY run DESC LIMIT 1";
    let Some(found) = tx.row(sql, &[which.0.0.into(), signed(which.1.0).into()])? else {
        return Ok(None);
    };
    let (run, body) = (found.int(0)?, found.bytes(1)?);
    let view = wire::JobView::decode(body).ok();
    let view = view.and_then(|view| JobView::try_from(view).ok());
    let nodes = view.map(|view| view.nodes.into_iter().map(|held| held.name).collect());
    Ok(nodes.map(|nodes| (run, nodes)))
}

/// The run of this placement, if the node had a part in it.
fn find(
    tx: &mut Db,
    which: (JobId, Generation),
    node: &NodeName,
    runs: &mut Runs,
) -> Done<Option<i64>> {
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

fn job_usage(tx: &mut Db, run: i64, usage: &JobUsage) -> Done {
    let held = usage
        .gpus
        .iter()
        .fold(0u64, |sum, gpu| sum.saturating_add(gpu.held_us));
    let told = |of: fn(&spur_core::usage::summary::GpuUsage) -> Option<u64>| {
        let mut told = usage.gpus.iter().filter_map(of);
        let first = told.next()?;
        Some(signed(told.fold(first, u64::saturating_add)))
    };
    let sql = "INSERT INTO job_usage (run, node, cpu_us, memory_peak, gpus, gpu_held_us, gpu_busy_us, gpu_energy_mj,
            coverage, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
        ON CONFLICT (run, node) DO UPDATE SET cpu_us = excluded.cpu_us, memory_peak = excluded.memory_peak,
            gpus = excluded.gpus, gpu_held_us = excluded.gpu_held_us, gpu_busy_us = excluded.gpu_busy_us,
            gpu_energy_mj = excluded.gpu_energy_mj, coverage = excluded.coverage, body = excluded.body";
    let body = wire::JobUsage::from(usage).encode_to_vec();
    tx.run(
        sql,
        &[
            run.into(),
            usage.node.as_str().into(),
            signed(usage.used.cpu_us).into(),
            usage.used.memory_peak.map(signed).into(),
            signed(usage.gpus.len() as u64).into(),
            signed(held).into(),
            told(|gpu| gpu.busy.map(|busy| busy.us)).into(),
            told(|gpu| gpu.energy_mj).into(),
            u32::from(usage.coverage).into(),
            body.as_slice().into(),
        ],
    )?;
    Ok(())
}

fn step_usage(tx: &mut Db, run: i64, usage: &StepUsage) -> Done {
    let sql = "INSERT INTO step_usage (run, step, node, cpu_us, memory_peak, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (run, step, node) DO UPDATE SET cpu_us = excluded.cpu_us, memory_peak = excluded.memory_peak,
            body = excluded.body";
    let body = wire::StepUsage::from(usage).encode_to_vec();
    tx.run(
        sql,
        &[
            run.into(),
            step_key(usage.step).as_str().into(),
            usage.node.as_str().into(),
            signed(usage.used.cpu_us).into(),
            usage.used.memory_peak.map(signed).into(),
            body.as_slice().into(),
        ],
    )?;
    Ok(())
}

fn event_row(tx: &mut Db, node: &NodeName, event: &UsageEvent) -> Done {
    let run: Option<i64> = match event.job {
        None => None,
        Some(job) => {
            let sql = "SELECT run FROM run WHERE job = ?1 AND started IS NOT NULL ORDER BY submitted DESC, restarts DESC LIMIT 1";
            let found = tx.row(sql, &[job.0.into()])?;
            found.map(|row| row.int(0)).transpose()?
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
    let body = wire::UsageEvent::from(event).encode_to_vec();
    tx.run(
        sql,
        &[
            signed(event.at.0).into(),
            node.as_str().into(),
            run.into(),
            event.gpu.map(i64::from).into(),
            kind.into(),
            body.as_slice().into(),
        ],
    )?;
    Ok(())
}

fn tail_of(tx: &mut Db, tail: &TailBatch, runs: &mut Runs) -> Done {
    let Some(run) = find(tx, (tail.job, tail.generation), &tail.node, runs)? else {
        return Ok(());
    };
    let sql = "SELECT body FROM series WHERE run = ?1 AND node = ?2";
    let key: [Value<'_>; 2] = [run.into(), tail.node.as_str().into()];
    let known = tx.row(sql, &key)?;
    let known = known.as_ref().map(|row| row.bytes(0)).transpose()?;
    let mut all = known.and_then(series::decode).unwrap_or_default();
    series::add(&mut all, &tail.series);
    let sql = "INSERT INTO series (run, node, body) VALUES (?1, ?2, ?3)
        ON CONFLICT (run, node) DO UPDATE SET body = excluded.body";
    let [run, node] = key;
    tx.run(sql, &[run, node, series::encode(&all).as_slice().into()])?;
    Ok(())
}

/// Forgets runs that ended before this moment, a small portion at a time; how many.
pub(super) fn purge(db: &mut Db, oldest: u64) -> Done<usize> {
    let oldest = signed(Millis(oldest).0);
    db.transaction(|tx| {
        let sql = "SELECT run FROM run WHERE ended < ?1 ORDER BY ended LIMIT ?2";
        let runs = tx.rows(sql, &[oldest.into(), PURGE_MAX.into()])?;
        for run in &runs {
            let run = run.int(0)?;
            for sql in [
                "DELETE FROM step WHERE run = ?1",
                "DELETE FROM job_usage WHERE run = ?1",
                "DELETE FROM step_usage WHERE run = ?1",
                "DELETE FROM event WHERE run = ?1",
                "DELETE FROM series WHERE run = ?1",
                "DELETE FROM run WHERE run = ?1",
            ] {
                tx.run(sql, &[run.into()])?;
            }
        }
        let old = "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE at < ?1 AND run IS NULL ORDER BY at LIMIT ?2)";
        tx.run(old, &[oldest.into(), PURGE_MAX.into()])?;
        Ok(runs.len())
    })
}

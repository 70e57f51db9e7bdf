//! Questions to the record. Each opens the file for itself, so that a file that was set aside or made anew is noticed at once.

use super::schema::open_to_read;
use super::series;
use crate::store::sqlite::signed;
use prost::Message;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use spur_core::api::{AccountFilter, JobView, NodeEvent, RunKey};
use spur_core::id::{JobId, NodeName};
use spur_core::time::Millis;
use spur_core::usage::summary::{JobUsage, StepUsage};
use spur_proto::wire;
use std::path::Path;

/// Most events of one run in an answer; the newest.
const EVENTS_MAX: i64 = 1000;

/// A run as it was found.
#[derive(Debug)]
pub(in crate::usage) struct Found {
    run: i64,
    /// The job as it was last.
    pub(in crate::usage) job: JobView,
    /// When it went back to the queue.
    pub(in crate::usage) requeued: Option<Millis>,
    /// Its use by node.
    pub(in crate::usage) nodes: Vec<JobUsage>,
    /// Its steps' use.
    pub(in crate::usage) steps: Vec<StepUsage>,
}

/// What is wanted of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::usage) enum Wanted {
    /// The newest run of a job.
    Newest(JobId),
    /// This one.
    Run(RunKey),
}

/// The record, open for a question.
#[derive(Debug)]
pub(in crate::usage) struct Page {
    db: Connection,
}

type Answer<T> = rusqlite::Result<T>;

fn unread(what: &'static str) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(format!("{what} cannot be read").into())
}

fn message<M: Message + Default, T: TryFrom<M>>(what: &'static str, body: &[u8]) -> Answer<T> {
    let message = M::decode(body).map_err(|_| unread(what))?;
    T::try_from(message).map_err(|_| unread(what))
}

fn found(row: &Row<'_>) -> Answer<Found> {
    let body: Vec<u8> = row.get(2)?;
    let requeued: Option<i64> = row.get(1)?;
    Ok(Found {
        run: row.get(0)?,
        job: message::<wire::JobView, _>("a job", &body)?,
        requeued: requeued.map(|at| Millis(at.unsigned_abs())),
        nodes: Vec::new(),
        steps: Vec::new(),
    })
}

impl Page {
    /// Opens it.
    pub(in crate::usage) fn open(path: &Path) -> Answer<Self> {
        open_to_read(path).map(|db| Self { db })
    }

    /// One run with its use.
    pub(in crate::usage) fn run(&self, wanted: Wanted) -> Answer<Option<Found>> {
        let all = "SELECT run, requeued, body FROM run WHERE";
        let one = match wanted {
            Wanted::Newest(job) => {
                let sql = format!("{all} job = ?1 ORDER BY submitted DESC, restarts DESC LIMIT 1");
                self.db.query_row(&sql, [job.0], found).optional()
            }
            Wanted::Run(key) => {
                let sql = format!("{all} submitted = ?1 AND job = ?2 AND restarts = ?3");
                let key = params![signed(key.submitted.0), key.job.0, key.restarts];
                self.db.query_row(&sql, key, found).optional()
            }
        };
        one?.map(|found| self.with_use(found)).transpose()
    }

    fn with_use(&self, mut found: Found) -> Answer<Found> {
        let mut select = self
            .db
            .prepare_cached("SELECT body FROM job_usage WHERE run = ?1 ORDER BY node")?;
        let mut rows = select.query([found.run])?;
        while let Some(row) = rows.next()? {
            let body = row.get_ref(0)?.as_blob()?;
            found
                .nodes
                .push(message::<wire::JobUsage, _>("a job's use", body)?);
        }
        let mut select = self
            .db
            .prepare_cached("SELECT body FROM step_usage WHERE run = ?1 ORDER BY step, node")?;
        let mut rows = select.query([found.run])?;
        while let Some(row) = rows.next()? {
            let body = row.get_ref(0)?.as_blob()?;
            found
                .steps
                .push(message::<wire::StepUsage, _>("a step's use", body)?);
        }
        Ok(found)
    }

    /// Runs after this one that pass, in order of time of submission, at most so many.
    pub(in crate::usage) fn runs(
        &self,
        filter: &AccountFilter,
        after: Option<RunKey>,
        limit: usize,
        passes: impl Fn(&JobView, Option<Millis>) -> bool,
    ) -> Answer<Vec<Found>> {
        let mut sql = String::from(
            "SELECT run, requeued, body FROM run WHERE submitted < ?1 AND coalesce(ended, ?1) >= ?2",
        );
        let mut listed = |column: &str, numbers: Vec<u32>| {
            if !numbers.is_empty() {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                sql.push_str(&format!(" AND {column} IN ({})", numbers.join(",")));
            }
        };
        listed("uid", filter.users.iter().map(|uid| uid.0).collect());
        if !filter.ids.is_empty() {
            let ids: Vec<String> = filter.ids.iter().map(|job| job.0.to_string()).collect();
            let ids = ids.join(",");
            sql.push_str(&format!(" AND (job IN ({ids}) OR array IN ({ids}))"));
        }
        if !filter.duplicates {
            sql.push_str(" AND superseded = 0");
        }
        let from = after.unwrap_or(RunKey {
            submitted: Millis(0),
            job: JobId(0),
            restarts: 0,
        });
        sql.push_str(
            " AND (submitted, job, restarts) > (?3, ?4, ?5) ORDER BY submitted, job, restarts",
        );
        let mut select = self.db.prepare(&sql)?;
        let mut rows = select.query(params![
            signed(filter.until.map_or(u64::MAX, |until| until.0)),
            signed(filter.since.map_or(0, |since| since.0)),
            signed(from.submitted.0),
            from.job.0,
            from.restarts
        ])?;
        let mut runs = Vec::new();
        while runs.len() < limit
            && let Some(row) = rows.next()?
        {
            let one = found(row)?;
            if passes(&one.job, one.requeued) {
                runs.push(self.with_use(one)?);
            }
        }
        Ok(runs)
    }

    /// What happened to a run, oldest first.
    pub(in crate::usage) fn events(&self, run: &Found) -> Answer<Vec<NodeEvent>> {
        let sql = "SELECT node, body FROM event WHERE run = ?1 ORDER BY at DESC, id DESC LIMIT ?2";
        let mut select = self.db.prepare_cached(sql)?;
        let mut rows = select.query(params![run.run, EVENTS_MAX])?;
        let mut events = Vec::new();
        while let Some(row) = rows.next()? {
            let node = NodeName::new(row.get::<_, String>(0)?).map_err(|_| unread("a node"))?;
            let body = row.get_ref(1)?.as_blob()?;
            let event = message::<wire::UsageEvent, _>("an event", body)?;
            events.push(NodeEvent { node, event });
        }
        events.reverse();
        Ok(events)
    }

    /// A run's series, by node.
    pub(in crate::usage) fn series(&self, run: &Found) -> Answer<Vec<(NodeName, series::All)>> {
        let sql = "SELECT node, body FROM series WHERE run = ?1 ORDER BY node";
        let mut select = self.db.prepare_cached(sql)?;
        let mut rows = select.query([run.run])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let node = NodeName::new(row.get::<_, String>(0)?).map_err(|_| unread("a node"))?;
            let body = row.get_ref(1)?.as_blob()?;
            all.push((node, series::decode(body).unwrap_or_default()));
        }
        Ok(all)
    }
}

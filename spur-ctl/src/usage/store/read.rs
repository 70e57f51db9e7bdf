//! Questions to the record. Each opens the file for itself, so that a file that was set aside or made anew is noticed at once.

use super::db::{Db, DbError, Row};
use super::schema::Place;
use super::series;
use crate::store::sqlite::signed;
use prost::Message;
use spur_core::api::{AccountFilter, JobView, NodeEvent, RunKey};
use spur_core::id::{JobId, NodeName};
use spur_core::time::Millis;
use spur_core::usage::summary::{JobUsage, StepUsage};
use spur_proto::wire;
use std::cell::RefCell;
use std::fmt;

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
pub(in crate::usage) struct Page {
    db: RefCell<Db>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Page")
    }
}

type Answer<T> = Result<T, DbError>;

fn message<M: Message + Default, T: TryFrom<M>>(what: &str, body: &[u8]) -> Answer<T> {
    let unread = || DbError::Column(format!("{what} cannot be read"));
    let message = M::decode(body).map_err(|_| unread())?;
    T::try_from(message).map_err(|_| unread())
}

fn found(row: &Row) -> Answer<Found> {
    let requeued = row.maybe_int(1)?;
    Ok(Found {
        run: row.int(0)?,
        job: message::<wire::JobView, _>("a job", row.bytes(2)?)?,
        requeued: requeued.map(|at| Millis(at.unsigned_abs())),
        nodes: Vec::new(),
        steps: Vec::new(),
    })
}

fn node(row: &Row) -> Answer<NodeName> {
    let name = NodeName::new(row.text(0)?);
    name.map_err(|_| DbError::Column("a node cannot be read".to_owned()))
}

impl Page {
    /// Opens it.
    pub(in crate::usage) fn open(place: &Place) -> Result<Self, String> {
        let db = place.open_to_read().map_err(|error| error.to_string())?;
        let db = RefCell::new(db);
        Ok(Self { db })
    }

    /// One run with its use.
    pub(in crate::usage) fn run(&self, wanted: Wanted) -> Answer<Option<Found>> {
        let all = "SELECT run, requeued, body FROM run WHERE";
        let row = match wanted {
            Wanted::Newest(job) => {
                let sql = format!("{all} job = ?1 ORDER BY submitted DESC, restarts DESC LIMIT 1");
                self.db.borrow_mut().row(&sql, &[job.0.into()])
            }
            Wanted::Run(key) => {
                let sql = format!("{all} submitted = ?1 AND job = ?2 AND restarts = ?3");
                let key = [
                    signed(key.submitted.0).into(),
                    key.job.0.into(),
                    key.restarts.into(),
                ];
                self.db.borrow_mut().row(&sql, &key)
            }
        }?;
        let one = row.map(|row| found(&row)).transpose()?;
        one.map(|found| self.with_use(found)).transpose()
    }

    fn with_use(&self, mut found: Found) -> Answer<Found> {
        let key = [found.run.into()];
        let mut db = self.db.borrow_mut();
        let sql = "SELECT body FROM job_usage WHERE run = ?1 ORDER BY node";
        for row in db.rows(sql, &key)? {
            let usage = message::<wire::JobUsage, _>("a job's use", row.bytes(0)?)?;
            found.nodes.push(usage);
        }
        let sql = "SELECT body FROM step_usage WHERE run = ?1 ORDER BY step, node";
        for row in db.rows(sql, &key)? {
            let usage = message::<wire::StepUsage, _>("a step's use", row.bytes(0)?)?;
            found.steps.push(usage);
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
        let list = |numbers: Vec<u32>| {
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            numbers.join(",")
        };
        if !filter.users.is_empty() {
            let users = list(filter.users.iter().map(|uid| uid.0).collect());
            sql.push_str(&format!(" AND uid IN ({users})"));
        }
        if !filter.ids.is_empty() {
            let ids = list(filter.ids.iter().map(|job| job.0).collect());
            sql.push_str(&format!(" AND (job IN ({ids}) OR array_job IN ({ids}))"));
        }
        if !filter.duplicates {
            sql.push_str(" AND superseded = 0");
        }
        sql.push_str(
            " AND (submitted, job, restarts) > (?3, ?4, ?5) ORDER BY submitted, job, restarts",
        );
        let from = after.unwrap_or(RunKey {
            submitted: Millis(0),
            job: JobId(0),
            restarts: 0,
        });
        let values = [
            signed(filter.until.map_or(u64::MAX, |until| until.0)).into(),
            signed(filter.since.map_or(0, |since| since.0)).into(),
            signed(from.submitted.0).into(),
            from.job.0.into(),
            from.restarts.into(),
        ];
        let mut runs = Vec::new();
        self.db.borrow_mut().each(&sql, &values, |row| {
            let one = found(&row)?;
            if passes(&one.job, one.requeued) {
                runs.push(one);
            }
            Ok::<_, DbError>(runs.len() < limit)
        })?;
        runs.into_iter().map(|run| self.with_use(run)).collect()
    }

    /// What happened to a run, oldest first.
    pub(in crate::usage) fn events(&self, run: &Found) -> Answer<Vec<NodeEvent>> {
        let sql = "SELECT node, body FROM event WHERE run = ?1 ORDER BY at DESC, id DESC LIMIT ?2";
        let mut events = Vec::new();
        for row in self
            .db
            .borrow_mut()
            .rows(sql, &[run.run.into(), EVENTS_MAX.into()])?
        {
            let event = message::<wire::UsageEvent, _>("an event", row.bytes(1)?)?;
            events.push(NodeEvent {
                node: node(&row)?,
                event,
            });
        }
        events.reverse();
        Ok(events)
    }

    /// A run's series, by node.
    pub(in crate::usage) fn series(&self, run: &Found) -> Answer<Vec<(NodeName, series::All)>> {
        let sql = "SELECT node, body FROM series WHERE run = ?1 ORDER BY node";
        let mut all = Vec::new();
        for row in self.db.borrow_mut().rows(sql, &[run.run.into()])? {
            all.push((
                node(&row)?,
                series::decode(row.bytes(1)?).unwrap_or_default(),
            ));
        }
        Ok(all)
    }
}

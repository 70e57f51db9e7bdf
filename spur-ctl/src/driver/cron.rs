//! Crontabs.

use super::Writer;
use super::ask::Answer;
use super::commands::refuse;
use super::turn::Turn;
use crate::cli::process;
use spur_core::api::{Refusal, RefusalKind, Reply};
use spur_core::event::Event;
use spur_core::id::{JobId, Uid};
use spur_core::job::spec::{JobSpec, Payload};
use spur_core::job::{Job, admit};
use std::sync::Arc;

impl Writer {
    /// Keeps a crontab. A refusal names the lines that it is about.
    pub(super) fn set_crontab(
        &mut self,
        turn: &mut Turn,
        uid: Uid,
        table: Option<String>,
        jobs: Vec<(JobSpec, Payload)>,
    ) -> Answer {
        let numbers_used_up = || refuse(RefusalKind::Busy, "every job number was used");
        let first = self.cluster.next_job_id().ok_or_else(numbers_used_up)?;
        let (mut admitted, mut payloads) = (Vec::new(), Vec::new());
        for ((mut spec, payload), number) in jobs.into_iter().zip(first.0..u32::MAX) {
            let job = JobId(number);
            let priority = self.admit_entry(turn, &mut spec)?;
            admitted.push((job, Arc::new(spec), priority));
            payloads.push((job, payload));
        }
        let set = Event::CrontabSet {
            uid,
            table,
            jobs: admitted,
        };
        self.propose(turn, set)
            .map_err(|why| refuse(RefusalKind::Invalid, why))?;
        for (job, payload) in payloads {
            self.submitted(turn, job, Some(payload));
        }
        Ok(Reply::Done)
    }

    /// Says when an entry begins again, by this machine's clock: the log has it, so that every replica has the same.
    pub(super) fn dated(&self, turn: &Turn, mut event: Event) -> Event {
        if let Event::CronAgain { job, next } = &mut event
            && let Some(cron) = self.cluster.jobs.get(job).and_then(Job::cron)
        {
            let clock = process::clock();
            *next = cron.next_by(turn.at, |at| clock.utc_offset(at));
        }
        event
    }

    fn admit_entry(&self, turn: &Turn, spec: &mut JobSpec) -> Result<u32, Refusal> {
        let Some(cron) = spec.extras().cron.clone() else {
            return Err(refuse(RefusalKind::Invalid, "no entry of a crontab"));
        };
        let lines = |mut refusal: Refusal| {
            let (first, last) = (cron.first_line, cron.last_line);
            refusal.text = format!("{first}-{last}: {}", refusal.text);
            refusal
        };
        let admitted = admit::admit(&self.cluster, spec, turn.at).map_err(lines)?;
        let never = || lines(refuse(RefusalKind::InvalidTime, "it never comes"));
        let clock = process::clock();
        let next = cron.next_by(turn.at, |at| clock.utc_offset(at));
        spec.begin = Some(next.ok_or_else(never)?);
        Ok(admitted.priority)
    }
}

//! Refusals by the fence: who may see which, and calls that wait for the next.

use super::{Service, owned, refuse};
use crate::readers::View;
use spur_core::api::{Caller, Refusal, RefusalKind, Reply};
use spur_core::denial::Denial;
use spur_core::id::{JobId, Uid};
use spur_core::job::state::JobState;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Most lines in one answer.
const ANSWER_MAX: usize = 10_000;
/// How long a call waits for a line before it is answered with none.
const PATIENCE: Duration = Duration::from_secs(30);
/// Shortest time between two looks of a call that waits, while lines come that are not for it.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Most calls that wait for lines.
const FOLLOWERS_MAX: usize = 1024;
/// Most of one user other than root.
const USER_FOLLOWERS_MAX: usize = 64;

/// Which lines.
pub(super) struct Wanted {
    pub(super) job: Option<JobId>,
    pub(super) limit: u32,
    pub(super) after: u64,
    pub(super) alarms: bool,
}

impl Service {
    /// Refusals of a job of one's own; or of all of one's jobs, and for an operator of everybody's and of processes outside jobs.
    pub(super) async fn denials(
        &self,
        caller: &Caller,
        wanted: &Wanted,
        wait: bool,
    ) -> Result<Reply, Refusal> {
        let found = self.found(caller, wanted)?;
        if !wait || !found.is_empty() {
            return Ok(Reply::Denials(found));
        }
        let _seat = self.followers.seat(caller.uid)?;
        let mut news = self.denials.watch();
        let until = Instant::now() + PATIENCE;
        loop {
            let found = self.found(caller, wanted)?;
            if !found.is_empty() {
                return Ok(Reply::Denials(found));
            }
            let changed = tokio::time::timeout_at(until, news.changed()).await;
            if !matches!(changed, Ok(Ok(()))) {
                return Ok(Reply::Denials(Vec::new()));
            }
            tokio::time::sleep_until(until.min(Instant::now() + LOOK_PAUSE)).await;
        }
    }

    /// What is there now. The view is of now as well: a call may wait for longer than a job lives.
    fn found(&self, caller: &Caller, wanted: &Wanted) -> Result<Vec<Denial>, Refusal> {
        let view = self.readers.view();
        let job = wanted
            .job
            .map(|job| owned(&view, caller, job))
            .transpose()?;
        let limit = (wanted.limit as usize).min(ANSWER_MAX);
        let visible = |denial: &Denial| {
            (!wanted.alarms || denial.is_alarm())
                && (job.is_some() || caller.operator || owned(&view, caller, denial.job).is_ok())
        };
        Ok(self.denials.lines(job, wanted.after, limit, visible))
    }

    /// Refusals of a job by kind. One that waits again has none: what its last placement was refused is in its lines.
    pub(super) fn denial_rows(&self, view: &View, job: JobId) -> Reply {
        let waits = view
            .job(job)
            .is_some_and(|row| row.state == JobState::Pending);
        Reply::DenialRows(if waits {
            Vec::new()
        } else {
            self.denials.rows(job)
        })
    }
}

/// Who waits for lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Followers(Arc<Mutex<BTreeMap<Uid, usize>>>);

/// One of them, until dropped.
#[derive(Debug)]
struct Seat {
    of: Followers,
    uid: Uid,
}

impl Followers {
    fn seats(&self) -> MutexGuard<'_, BTreeMap<Uid, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat(&self, uid: Uid) -> Result<Seat, Refusal> {
        let mut seats = self.seats();
        let all: usize = seats.values().sum();
        let own = seats.get(&uid).copied().unwrap_or(0);
        if all >= FOLLOWERS_MAX || (own >= USER_FOLLOWERS_MAX && uid != Uid(0)) {
            return Err(refuse(
                RefusalKind::Busy,
                "too many calls wait for refusals: end some `spur fence log -f`",
            ));
        }
        seats.insert(uid, own + 1);
        drop(seats);
        Ok(Seat {
            of: self.clone(),
            uid,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.of.seats();
        match seats.get_mut(&self.uid) {
            Some(own) if *own > 1 => *own -= 1,
            Some(_) | None => drop(seats.remove(&self.uid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_s_followers_do_not_keep_others_out() {
        let followers = Followers::default();
        let mut seats = Vec::new();
        while let Ok(seat) = followers.seat(Uid(7)) {
            seats.push(seat);
        }
        assert_eq!(seats.len(), USER_FOLLOWERS_MAX);
        assert!(followers.seat(Uid(8)).is_ok(), "another user");
        seats.pop();
        assert!(followers.seat(Uid(7)).is_ok(), "a place comes back");
        drop(seats);
        assert!(followers.seats().is_empty());
    }
}

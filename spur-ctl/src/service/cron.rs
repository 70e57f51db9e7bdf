//! Crontabs: whose they are, and what their entries may ask for.

use super::{Act, Service, refuse};
use crate::cli::process;
use crate::readers::View;
use spur_core::api::{Caller, Refusal, RefusalKind, Reply, SetCrontab};
use spur_core::id::Uid;
use spur_core::job::spec::JobKind;
use spur_core::slurm::crontab::Times;

/// One's own; anybody's for root.
pub(super) fn whose(caller: &Caller, user: Option<Uid>) -> Result<Uid, Refusal> {
    match user {
        Some(user) if user != caller.uid && caller.uid != Uid(0) => {
            Err(refuse(RefusalKind::AccessDenied, ""))
        }
        Some(user) => Ok(user),
        None => Ok(caller.uid),
    }
}

/// A user's crontab.
pub(super) fn shown(view: &View, user: Uid) -> Reply {
    let table = view.crontabs.get(&user);
    Reply::Crontab {
        table: table.map(|table| table.to_string()),
    }
}

impl Service {
    /// Entries are jobs as their owner would submit them, and begin by the clock of this machine.
    pub(super) async fn set_crontab(
        &self,
        caller: &Caller,
        set: SetCrontab,
    ) -> Result<Act, Refusal> {
        let uid = whose(caller, set.user)?;
        let entries = set.specs.into_iter().zip(set.payloads);
        let owner = self.users().caller(uid).await;
        let clock = process::clock();
        let mut jobs = Vec::new();
        for (mut spec, payload) in entries {
            let cron = spec.extras.as_mut().and_then(|extras| extras.cron.take());
            let bad = |why: &str| refuse(RefusalKind::Invalid, why);
            let mut cron = cron.ok_or_else(|| bad("an entry says when it begins"))?;
            let read = Times::read(&cron.times).map_err(|why| bad(&why.to_string()))?;
            if !spec.array.is_empty() {
                return Err(refuse(RefusalKind::InvalidArray, "an entry is no array"));
            }
            self.own(&owner, &mut spec, JobKind::Batch).await?;
            cron.times = read.0.to_string();
            cron.utc_offset = clock.utc_offset(clock.now);
            spec.extras_mut().cron = Some(cron);
            jobs.push((spec, payload));
        }
        Ok(Act::SetCrontab(uid, set.table, jobs))
    }
}

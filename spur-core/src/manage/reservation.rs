//! A reservation: nodes that are kept for some users or accounts during a window of time.

use crate::id::NodeName;
use crate::job::spec::JobSpec;
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// Seconds of a day.
const DAY: u64 = 86_400;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reservation {
    /// Name.
    pub name: String,
    /// Begins.
    pub start: Millis,
    /// Ends; after `start`.
    pub end: Millis,
    /// Its nodes, in order of name. With `PART_NODES` or `ALL_NODES` they are looked up when it is made or changed.
    pub nodes: Vec<NodeName>,
    /// Features that its nodes were chosen by, as written; empty if none.
    pub features: String,
    /// Partition; empty if none was named.
    pub partition: String,
    /// Flags as Slurm shows them, each once: `MAINT`, `SPEC_NODES`, …
    pub flags: Vec<String>,
    /// Users who may use it, by name; a leading `-` excludes one.
    pub users: Vec<String>,
    /// Groups, the same.
    pub groups: Vec<String>,
    /// Accounts, the same.
    pub accounts: Vec<String>,
    /// Licences, as written. Kept and shown.
    pub licenses: String,
    /// Remark.
    pub comment: String,
    /// Seconds that its start may be put off (`MaxStartDelay`); 0 if not at all. Kept and shown.
    pub max_start_delay: u64,
    /// Whether the controller chose its name.
    pub numbered: bool,
}

impl Reservation {
    /// Whether it has a flag, written as Slurm shows it.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether it counts at a moment.
    #[must_use]
    pub fn is_active(&self, at: Millis) -> bool {
        self.start <= at && at < self.end
    }

    /// Whether the controller chose its name, and so counted it.
    pub(crate) fn is_numbered(&self) -> bool {
        self.numbered
    }

    /// Whether its window and another, from `start` up to `end`, have a moment in common.
    #[must_use]
    pub fn overlaps(&self, start: Millis, end: Millis) -> bool {
        self.start < end && start < self.end
    }

    /// Whether other reservations may have the same nodes at the same time.
    #[must_use]
    pub fn may_overlap(&self) -> bool {
        self.has("MAINT") || self.has("OVERLAP")
    }

    /// Whether a job may use it: its user is named, or its account is, and neither is excluded. Groups are for the caller to settle.
    #[must_use]
    pub fn admits(&self, spec: &JobSpec) -> bool {
        let owner = &spec.owner;
        let user = verdict(&self.users, &owner.user);
        let group = verdict(&self.groups, &owner.group);
        let account = verdict(&self.accounts, &spec.account);
        let all = [user, group, account];
        let excluded = all.contains(&Some(false));
        // Users and accounts that are both named must both fit, as in Slurm.
        let named = |list: &[String]| list.iter().any(|name| !name.starts_with('-'));
        let lists = [&self.users, &self.groups, &self.accounts];
        let fits = lists
            .iter()
            .zip(all)
            .all(|(list, verdict)| !named(list) || verdict == Some(true));
        !excluded && fits
    }

    /// The next one of a series after this one is over; `None` if it is not repeated.
    #[must_use]
    pub fn next(&self, at: Millis) -> Option<Self> {
        let step = if self.has("HOURLY") {
            3600
        } else if self.has("DAILY") || self.has("WEEKDAY") || self.has("WEEKEND") {
            DAY
        } else if self.has("WEEKLY") {
            7 * DAY
        } else {
            return None;
        };
        let mut next = self.clone();
        // The controller may have been away for longer than one step.
        let behind = at.secs_since(self.end) / step;
        next.shift(behind.saturating_mul(step));
        loop {
            next.shift(step);
            let weekend = is_weekend(next.start);
            let unwanted = (self.has("WEEKDAY") && weekend) || (self.has("WEEKEND") && !weekend);
            if next.end > at && !unwanted {
                return Some(next);
            }
        }
    }

    fn shift(&mut self, secs: u64) {
        self.start = self.start.plus_secs(secs);
        self.end = self.end.plus_secs(secs);
    }
}

/// Whether a list names somebody (`Some(true)`), excludes them, or says nothing of them.
fn verdict(list: &[String], name: &str) -> Option<bool> {
    let excluded = |entry: &&String| entry.strip_prefix('-') == Some(name);
    if name.is_empty() {
        return None;
    }
    if list.iter().any(|entry| excluded(&entry)) {
        return Some(false);
    }
    list.iter().any(|entry| entry == name).then_some(true)
}

/// The epoch began on a Thursday.
fn is_weekend(at: Millis) -> bool {
    matches!((at.secs() / DAY + 4) % 7, 0 | 6)
}

//! How long jobs will run, learned from those that ended: order and estimates go by it, safety never does (a job may run to its
//! limit).
//!
//! What a user asks for tells little of how long a job runs; what the same user's last jobs of the same name and size with the
//! same limit did tells much. So there is a short memory for each such kind of job, and wider kinds behind it for users and
//! jobs that are new. A kind remembers its last [`REMEMBERED`] runs and nothing older; kinds that saw no run for longest are
//! forgotten when there are more than [`MOST_KINDS`].

use crate::id::Uid;
use crate::job::Job;
use crate::job::spec::JobSpec;
use crate::time::{Millis, TimeLimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Runs that a kind remembers.
const REMEMBERED: usize = 16;
/// Fewer runs than this tell nothing.
const LEAST: usize = 4;
/// Most kinds of jobs; beyond it, the quarter that was silent for longest goes.
const MOST_KINDS: usize = 4096;

/// Run times of jobs that ended, by kind of job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct History {
    kinds: BTreeMap<Kind, Runs>,
    /// Runs recorded so far.
    recorded: u64,
}

/// Whose jobs, narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Whose {
    /// A user's jobs with one name, apart from digits; by hash.
    Named(Uid, u64),
    /// A user's.
    User(Uid),
    /// Everybody's.
    All,
}

/// Jobs that are expected to run alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Kind {
    whose: Whose,
    /// GPUs in all, by powers of two; see [`magnitude`].
    gpus: u8,
    /// Limit in seconds, by powers of two; 0 for no limit.
    limit: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Runs {
    /// Seconds, oldest first; at most [`REMEMBERED`].
    secs: Vec<u32>,
    /// Which record was the last.
    last: u64,
}

/// A [`History`] as it is stored: a list, because not every format has maps with such keys.
#[derive(Serialize, Deserialize)]
struct Stored {
    kinds: Vec<(Kind, Runs)>,
    recorded: u64,
}

impl From<History> for Stored {
    fn from(history: History) -> Self {
        Self {
            kinds: history.kinds.into_iter().collect(),
            recorded: history.recorded,
        }
    }
}

impl From<Stored> for History {
    fn from(stored: Stored) -> Self {
        Self {
            kinds: stored.kinds.into_iter().collect(),
            recorded: stored.recorded,
        }
    }
}

impl History {
    /// Remembers that such a job ran for so long.
    pub(crate) fn record(&mut self, spec: &JobSpec, secs: u64) {
        self.recorded += 1;
        let secs = u32::try_from(secs).unwrap_or(u32::MAX);
        for kind in kinds_of(spec) {
            let runs = self.kinds.entry(kind).or_default();
            if runs.secs.len() >= REMEMBERED {
                runs.secs.remove(0);
            }
            runs.secs.push(secs);
            runs.last = self.recorded;
        }
        if self.kinds.len() > MOST_KINDS {
            self.forget_silent();
        }
    }

    /// How many seconds such a job is expected to run: nine of ten of its kind ended within that. Never more than its limit;
    /// `None` where nothing like it was seen.
    pub fn expected(&self, spec: &JobSpec) -> Option<u64> {
        let runs = kinds_of(spec)
            .into_iter()
            .filter_map(|kind| self.kinds.get(&kind))
            .find(|runs| runs.secs.len() >= LEAST)?;
        let mut secs = runs.secs.clone();
        secs.sort_unstable();
        let ninth_of_ten = *secs.get(secs.len() * 9 / 10)?;
        let secs = u64::from(ninth_of_ten).max(1);
        Some(secs.min(limit_secs(spec).unwrap_or(u64::MAX)))
    }

    fn forget_silent(&mut self) {
        let mut last: Vec<u64> = self.kinds.values().map(|runs| runs.last).collect();
        let quarter = last.len() / 4;
        let (_, oldest_kept, _) = last.select_nth_unstable(quarter);
        let oldest_kept = *oldest_kept;
        self.kinds.retain(|_, runs| runs.last >= oldest_kept);
    }
}

/// How long the job runs in all, as far as can be told: by prediction, and once it has outlived that, twice as long as it ran
/// so far; never beyond its limit. `None` if it has neither prediction nor limit.
pub fn run_secs(job: &Job, at: Millis) -> Option<u64> {
    let limit = limit_secs(&job.spec);
    let elapsed = job.started.map_or(0, |started| at.secs_since(started));
    let guess = match job.expected {
        Some(expected) if elapsed < expected => expected,
        Some(_) => elapsed.saturating_mul(2).max(1),
        None => return limit,
    };
    Some(guess.min(limit.unwrap_or(u64::MAX)))
}

/// A request's limit in seconds, if it has one.
pub fn limit_secs(spec: &JobSpec) -> Option<u64> {
    match spec.time_limit {
        Some(TimeLimit::Secs(secs)) => Some(secs),
        Some(TimeLimit::Unlimited) | None => None,
    }
}

/// The kinds that a request belongs to, narrowest first.
fn kinds_of(spec: &JobSpec) -> [Kind; 3] {
    let uid = spec.owner.uid;
    let (gpus, limit) = (
        magnitude(gpus_of(spec)),
        limit_secs(spec).map_or(0, magnitude),
    );
    let whose = [
        Whose::Named(uid, name_hash(&spec.name)),
        Whose::User(uid),
        Whose::All,
    ];
    whose.map(|whose| Kind { whose, gpus, limit })
}

/// GPUs in all that a request asks for.
pub fn gpus_of(spec: &JobSpec) -> u64 {
    let count = |gpus: &Option<crate::resources::GpuCount>| {
        gpus.as_ref().map_or(0, |gpus| u64::from(gpus.count))
    };
    let nodes = u64::from(spec.nodes_min.max(1));
    count(&spec.gpus_total)
        .max(count(&spec.gpus_per_node).saturating_mul(nodes))
        .max(count(&spec.gpus_per_task).saturating_mul(u64::from(spec.tasks.max(1))))
}

/// 0 for nothing, else one more than the logarithm to base two.
fn magnitude(amount: u64) -> u8 {
    amount
        .checked_ilog2()
        .and_then(|log| u8::try_from(log + 1).ok())
        .unwrap_or(0)
}

/// FNV-1a over a name without its digits: `train-17` and `train-18` are one kind of job.
fn name_hash(name: &str) -> u64 {
    let letters = name.bytes().filter(|byte| !byte.is_ascii_digit());
    letters.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;

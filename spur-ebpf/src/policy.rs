//! What one fenced cgroup may open, and what it was refused.

use crate::abi::{self, RawCounters, RawPolicy};
use crate::{CgroupId, Grants};

/// The policy of one fenced cgroup. The default grants nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Job id, shown in events.
    pub job: u64,
    /// Step number as the caller encodes it, shown in events.
    pub step: u32,
    /// Generation of the assignment, shown in events.
    pub generation: u64,
    /// What may be opened.
    pub grants: Grants,
    /// Count refusals without events: for a job whose steps have narrower fences, since both refuse and one report is enough.
    pub quiet: bool,
    /// Events that may come at once before the rate limit holds; 0 for 64.
    pub audit_burst: u32,
    /// Events per second that the rate limit lets through; 0 for 10.
    pub audit_per_second: u32,
}

impl Policy {
    pub(crate) fn to_raw(&self, cgroup: CgroupId) -> RawPolicy {
        let Policy {
            job,
            step,
            generation,
            ref grants,
            quiet,
            audit_burst,
            audit_per_second,
        } = *self;
        RawPolicy {
            abi: abi::ABI,
            flags: if quiet { abi::POLICY_QUIET } else { 0 },
            job,
            generation,
            cgroup: cgroup.0,
            step,
            audit_burst,
            audit_per_second,
            reserved: 0,
            grants: grants.to_words(),
            audit_next_ns: 0,
        }
    }

    /// `None` for an empty policy or one of another ABI, under which nothing can be opened.
    pub(crate) fn from_raw(raw: &RawPolicy) -> Option<Policy> {
        (raw.abi == abi::ABI).then(|| Policy {
            job: raw.job,
            step: raw.step,
            generation: raw.generation,
            grants: Grants::from_words(&raw.grants),
            quiet: raw.flags & abi::POLICY_QUIET != 0,
            audit_burst: raw.audit_burst,
            audit_per_second: raw.audit_per_second,
        })
    }
}

/// Refusals of one fence since it was attached. Exact: `denied = emitted + suppressed + lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All refusals.
    pub denied: u64,
    /// Of those, the ones with an event.
    pub emitted: u64,
    /// Of those, the ones held back by the rate limit or because the policy is quiet.
    pub suppressed: u64,
    /// Of those, the ones for which the audit ring had no room.
    pub lost: u64,
    /// What the guard saw and let through (signals to other jobs); no part of `denied`.
    pub noted: u64,
}

impl Counters {
    pub(crate) fn sum(per_cpu: impl IntoIterator<Item = RawCounters>) -> Counters {
        per_cpu
            .into_iter()
            .fold(Counters::default(), |sum, cpu| Counters {
                denied: sum.denied + cpu.denied,
                emitted: sum.emitted + cpu.emitted,
                suppressed: sum.suppressed + cpu.suppressed,
                lost: sum.lost + cpu.lost,
                noted: sum.noted + cpu.noted,
            })
    }

    pub(crate) fn to_raw(self) -> RawCounters {
        let Counters {
            denied,
            emitted,
            suppressed,
            lost,
            noted,
        } = self;
        RawCounters {
            denied,
            emitted,
            suppressed,
            lost,
            noted,
        }
    }
}

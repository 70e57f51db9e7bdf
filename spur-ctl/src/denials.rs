//! Single refusals by the fence, newest last: bounded in all and for each job, and lost with the controller. Totals are in the log.

use spur_core::denial::Denial;
use spur_core::id::{JobId, NodeName};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most refusals kept in all.
const ALL_MAX: usize = 20_000;
/// Most refusals kept for one job, so that a flood by one hides nobody else's.
const JOB_MAX: usize = 200;
/// Most jobs with refusals of their own; beyond, the lowest number goes first.
const JOBS_MAX: usize = 4096;

/// The refusals that are remembered.
#[derive(Debug, Default)]
pub struct Denials {
    rings: Mutex<Rings>,
}

#[derive(Debug, Default)]
struct Rings {
    all: VecDeque<Denial>,
    by_job: BTreeMap<JobId, VecDeque<Denial>>,
}

fn push(ring: &mut VecDeque<Denial>, denial: Denial, max: usize) {
    if ring.len() >= max {
        ring.pop_front();
    }
    ring.push_back(denial);
}

impl Denials {
    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a node reports; whatever it says, the node is itself.
    pub fn add(&self, node: &NodeName, denials: Vec<Denial>) {
        let mut rings = self.rings();
        for mut denial in denials {
            denial.node = node.clone();
            push(&mut rings.all, denial.clone(), ALL_MAX);
            if denial.job == JobId(0) {
                continue;
            }
            let ring = rings.by_job.entry(denial.job).or_default();
            push(ring, denial, JOB_MAX);
            if rings.by_job.len() > JOBS_MAX {
                rings.by_job.pop_first();
            }
        }
    }

    /// A job is forgotten.
    pub fn forget(&self, job: JobId) {
        self.rings().by_job.remove(&job);
    }

    /// The newest `limit` refusals of a job, oldest first.
    pub fn of_job(&self, job: JobId, limit: usize) -> Vec<Denial> {
        let rings = self.rings();
        let Some(ring) = rings.by_job.get(&job) else {
            return Vec::new();
        };
        ring.iter()
            .skip(ring.len().saturating_sub(limit))
            .cloned()
            .collect()
    }

    /// The newest `limit` refusals that pass, oldest first.
    pub fn newest(&self, limit: usize, passes: impl Fn(&Denial) -> bool) -> Vec<Denial> {
        let mut found: Vec<_> = self
            .rings()
            .all
            .iter()
            .rev()
            .filter(|d| passes(d))
            .take(limit)
            .cloned()
            .collect();
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::denial::{DenialReason, DeviceOp};
    use spur_core::id::Uid;
    use spur_core::time::Millis;

    fn denial(job: u32, at: u64) -> Denial {
        Denial {
            at: Millis(at),
            node: NodeName::new("liar").unwrap(),
            job: JobId(job),
            pid: 1,
            uid: Uid(1),
            command: "c".into(),
            major: 1,
            minor: 2,
            device: String::new(),
            op: DeviceOp::Read,
            seq: 0,
            reason: DenialReason::NotGranted,
            target_pid: None,
            object: String::new(),
            noted: false,
            label: None,
        }
    }

    #[test]
    fn a_flood_by_one_job_costs_bounded_memory_and_hides_nobody_else() {
        let denials = Denials::default();
        let node = NodeName::new("n1").unwrap();
        denials.add(&node, vec![denial(1, 0)]);
        for chunk in 0..100 {
            denials.add(
                &node,
                (0..1000).map(|n| denial(2, chunk * 1000 + n)).collect(),
            );
        }
        assert_eq!(denials.of_job(JobId(1), 10).len(), 1);
        let newest = denials.of_job(JobId(2), usize::MAX);
        assert_eq!(
            (newest.len(), newest[JOB_MAX - 1].at),
            (JOB_MAX, Millis(99_999))
        );
        assert_eq!(denials.newest(usize::MAX, |_| true).len(), ALL_MAX);
        assert_eq!(denials.newest(3, |_| true)[0].at, Millis(99_997));
        assert_eq!(newest[0].node, node, "a node speaks only for itself");
        for job in 3..10_000 {
            denials.add(&node, vec![denial(job, 0)]);
        }
        assert!(denials.rings().by_job.len() <= JOBS_MAX);
        denials.forget(JobId(9_999));
        assert!(denials.of_job(JobId(9_999), 1).is_empty());
    }
}

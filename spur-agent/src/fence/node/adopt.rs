//! Taking over the fences of an earlier agent, and making those of running jobs narrower.

use super::{FenceError, Holder, NodeFence};
use crate::fence::watched::Watched;
use spur_core::id::JobId;
use spur_core::resources::IdSet;
use spur_ebpf::{Adopted, Grants, JobFence, Policy};
use std::path::Path;

impl NodeFence {
    /// Takes over the fence of a job after a restart. One that is gone is put up again at once, closed until its policy is written.
    /// The second value says that it was gone, or granted what this holder must not have.
    pub fn adopt(&self, cgroup: &Path, holder: &Holder) -> Result<(JobFence, bool), FenceError> {
        let pin = holder.pin();
        match self.0.fence.adopt(&pin, cgroup)? {
            Adopted::Fence(job) => {
                let expected = self.policy(holder)?;
                match job.read_policy()? {
                    // Narrowed since, perhaps.
                    Some(policy) if is_subset(&policy.grants, &expected.grants) => {
                        let gpus = self.gpus_of(&policy.grants);
                        self.0
                            .wards
                            .add(&pin, Watched::new(cgroup, &job, policy, gpus));
                        Ok((job, false))
                    }
                    Some(_) | None => {
                        let gpus = holder.gpus.clone();
                        Ok((self.put_up(cgroup, &pin, &expected, gpus)?, true))
                    }
                }
            }
            Adopted::Elsewhere(_) => {
                self.unpin(&pin)?;
                Ok((self.raise(cgroup, holder)?, true))
            }
            Adopted::Missing => Ok((self.raise(cgroup, holder)?, true)),
        }
    }

    /// As [`Self::attach`] for a job that runs already: a GPU of it that is gone is no reason to leave it without a fence.
    fn raise(&self, cgroup: &Path, holder: &Holder) -> Result<JobFence, FenceError> {
        let policy = self.policy(holder)?;
        self.put_up(cgroup, &holder.pin(), &policy, holder.gpus.clone())
    }

    /// Takes over the fence of a narrowed step, whatever it grants; `false` if it is not up.
    pub fn adopt_step(&self, cgroup: &Path, holder: &Holder) -> Result<bool, FenceError> {
        let pin = holder.pin();
        let Adopted::Fence(step) = self.0.fence.adopt(&pin, cgroup)? else {
            return Ok(false);
        };
        let Some(policy) = step.read_policy()? else {
            return Ok(false);
        };
        let gpus = self.gpus_of(&policy.grants);
        self.0
            .wards
            .add(&pin, Watched::new(cgroup, &step, policy, gpus));
        Ok(true)
    }

    /// All jobs of an earlier agent are taken over: what is granted is what they hold.
    pub fn adopted_all(&self) {
        self.look().inherited.clear();
    }

    /// Leaves a job only these of its GPUs, and its steps no more; what it holds besides stays. In force for opens at once; for what is
    /// open already see [`crate::act::cut_off`]. Gives the GPUs that it lost.
    pub fn narrow(&self, job: JobId, gpus: &IdSet) -> Result<IdSet, FenceError> {
        let mut taken = IdSet::new();
        for (pin, ward) in self.0.wards.of_job(job) {
            let kept: IdSet = ward.gpus.iter().filter(|gpu| gpus.contains(*gpu)).collect();
            let gone: Vec<u32> = ward
                .gpus
                .iter()
                .filter(|gpu| !kept.contains(*gpu))
                .collect();
            if gone.is_empty() {
                continue;
            }
            let policy = Policy {
                grants: self.grants(&kept)?,
                ..ward.policy.clone()
            };
            ward.fence.write_policy(&policy)?;
            let (cgroup, fence) = (ward.cgroup.clone(), ward.fence.clone());
            self.0
                .wards
                .add(&pin, Watched::new(&cgroup, &fence, policy, kept));
            for gpu in gone {
                taken.insert(gpu);
            }
        }
        Ok(taken)
    }

    /// The GPUs whose bits these are.
    fn gpus_of(&self, grants: &Grants) -> IdSet {
        let identities = (0u32..).zip(&self.0.machine.identities);
        identities
            .filter(|(_, identity)| {
                let bit = self.0.bits.of(identity);
                bit.is_some_and(|bit| grants.contains(bit))
            })
            .map(|(index, _)| index)
            .collect()
    }
}

fn is_subset(some: &Grants, all: &Grants) -> bool {
    some.iter().all(|bit| all.contains(bit))
}

//! One fenced cgroup: a job, or a step below it.

use super::{Inner, PinnedLink, lookup, update};
use crate::abi::{Plain, RawCounters, RawPolicy};
use crate::pins::Pins;
use crate::{CgroupId, Counters, Error, Policy, Result, sys};
use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use std::os::fd::AsFd;
use std::sync::Arc;

/// One fenced cgroup. Dropping it changes nothing: the pin keeps the fence up.
#[derive(Clone, Debug)]
pub struct JobFence {
    inner: Arc<Inner>,
    name: String,
    cgroup: CgroupId,
}

/// What [`crate::Fence::adopt`] found.
#[derive(Clone, Debug)]
pub enum Adopted {
    /// The fence is up on this cgroup.
    Fence(JobFence),
    /// There is no such pin.
    Missing,
    /// The pin fences another cgroup, or one that is gone.
    Elsewhere(PinnedLink),
}

impl JobFence {
    pub(super) fn new(inner: Arc<Inner>, name: &str, cgroup: CgroupId) -> JobFence {
        JobFence {
            inner,
            name: name.to_owned(),
            cgroup,
        }
    }

    /// Name of the pin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fenced cgroup.
    #[must_use]
    pub fn cgroup(&self) -> CgroupId {
        self.cgroup
    }

    fn key(&self) -> [u8; 8] {
        self.cgroup.0.to_ne_bytes()
    }

    /// Puts a policy in force, in one step. Opens from now on follow it; descriptors that are open already stay so.
    pub fn write_policy(&self, policy: &Policy) -> Result<()> {
        update(
            &self.inner.maps.policies,
            &self.key(),
            policy.to_raw(self.cgroup).bytes(),
        )
    }

    /// The policy in force; `None` if none was written, under which nothing fenced can be opened.
    pub fn read_policy(&self) -> Result<Option<Policy>> {
        let bytes = lookup(&self.inner.maps.policies, &self.key())?;
        Ok(bytes
            .as_deref()
            .and_then(RawPolicy::from_bytes)
            .as_ref()
            .and_then(Policy::from_raw))
    }

    /// Takes every grant away, in one step.
    pub fn clear_policy(&self) -> Result<()> {
        update(
            &self.inner.maps.policies,
            &self.key(),
            RawPolicy::default().bytes(),
        )
    }

    /// Refusals since the fence was attached.
    pub fn counters(&self) -> Result<Counters> {
        let values = self
            .inner
            .maps
            .counters
            .lookup_percpu(&self.key(), MapFlags::ANY)
            .map_err(Error::libbpf("read map", "counters"))?;
        Ok(Counters::sum(
            values
                .iter()
                .flatten()
                .filter_map(|bytes| RawCounters::from_bytes(bytes)),
        ))
    }

    /// Forgets policy and counts of an earlier fence on the same cgroup, which the kernel keeps as long as the cgroup lives.
    pub(super) fn forget(&self) -> Result<()> {
        let maps = &self.inner.maps;
        let absent = |result: libbpf_rs::Result<()>| match result {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        absent(
            maps.policies
                .update(&self.key(), RawPolicy::default().bytes(), MapFlags::ANY),
        )
        .map_err(Error::libbpf("clear map", "policies"))?;
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(Error::libbpf("count", "possible cpus"))?;
        let zeros = vec![RawCounters::default().bytes().to_vec(); cpus];
        absent(
            maps.counters
                .update_percpu(&self.key(), &zeros, MapFlags::ANY),
        )
        .map_err(Error::libbpf("clear map", "counters"))
    }

    /// Lifts the fence, also if somebody else still holds the link, and removes the pin. May be repeated.
    pub fn detach(&self) -> Result<()> {
        let path = self.inner.pins.link(&self.name)?;
        match sys::pinned(&path) {
            // ENOLINK and the like: the cgroup is gone and took the link along.
            Ok(link) => drop(sys::link_detach(link.as_fd())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Error::kernel(
                    "open pinned link",
                    path.display().to_string(),
                )(error));
            }
        }
        Pins::remove(&path)
    }
}

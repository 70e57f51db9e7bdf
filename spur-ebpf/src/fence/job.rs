//! One fenced cgroup: a job, or a step below it.

use super::{Inner, PinnedLink, lookup, rows, update};
use crate::abi::{Plain, RawCounters, RawPolicy};
use crate::pins::Pins;
use crate::{CgroupId, Counters, Error, Policy, Result, sys};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};
use std::os::fd::AsFd;
use std::sync::Arc;

/// One fenced cgroup. Dropping it changes nothing: the pin keeps the fence up.
#[derive(Clone, Debug)]
pub struct JobFence {
    pub(super) inner: Arc<Inner>,
    pub(super) name: String,
    pub(super) cgroup: CgroupId,
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

    pub(super) fn key(&self) -> [u8; 8] {
        self.cgroup.0.to_ne_bytes()
    }

    /// Puts a policy in force, in one step. Opens from now on follow it; descriptors that are open already stay so.
    pub fn write_policy(&self, policy: &Policy) -> Result<()> {
        self.write_raw(&policy.to_raw(self.cgroup))
    }

    /// Writes both forms of a policy. The guard's first: an open needs both, so nothing that is taken away is opened in between.
    pub(super) fn write_raw(&self, policy: &RawPolicy) -> Result<()> {
        let maps = &self.inner.maps;
        update(&maps.guard_policies, &self.key(), policy.bytes())?;
        update(&maps.policies, &self.key(), policy.bytes())
    }

    /// The policy in force; `None` if none was written, under which nothing fenced can be opened, or if somebody changed what the
    /// guard has of it.
    pub fn read_policy(&self) -> Result<Option<Policy>> {
        let maps = &self.inner.maps;
        let read = |map| -> Result<Option<Policy>> {
            let bytes = lookup(map, &self.key())?;
            let raw = bytes.as_deref().and_then(RawPolicy::from_bytes);
            Ok(raw.as_ref().and_then(Policy::from_raw))
        };
        let policy = read(&maps.policies)?;
        Ok(policy.filter(|policy| {
            read(&maps.guard_policies).is_ok_and(|guards| guards.as_ref() == Some(policy))
        }))
    }

    /// Takes every grant away, in one step.
    pub fn clear_policy(&self) -> Result<()> {
        self.write_raw(&RawPolicy::default())
    }

    /// Refusals since the fence was attached, by fence and guard.
    pub fn counters(&self) -> Result<Counters> {
        let maps = &self.inner.maps;
        let read = |map: &MapHandle| {
            map.lookup_percpu(&self.key(), MapFlags::ANY)
                .map_err(Error::libbpf("read map", map.name().to_string_lossy()))
        };
        let values = [read(&maps.counters)?, read(&maps.guard_counters)?];
        Ok(Counters::sum(
            values
                .iter()
                .flatten()
                .flatten()
                .filter_map(|bytes| RawCounters::from_bytes(bytes)),
        ))
    }

    /// Goes on with the counts of an earlier fence on the same cgroup.
    pub(super) fn start_counters_at(
        &self,
        counts: impl Iterator<Item = RawCounters>,
    ) -> Result<()> {
        let sum = Counters::sum(counts);
        let mut values = rows::zeros()?;
        if let Some(first) = values.first_mut() {
            *first = sum.to_raw().bytes().to_vec();
        }
        self.inner
            .maps
            .counters
            .update_percpu(&self.key(), &values, MapFlags::ANY)
            .map_err(Error::libbpf("write map", "counters"))
    }

    /// Adds what the guard needs and an interrupted attempt may have left out.
    pub(super) fn complete(&self) -> Result<()> {
        let maps = &self.inner.maps;
        if lookup(&maps.guard_policies, &self.key())?.is_none() {
            let policy = lookup(&maps.policies, &self.key())?;
            let empty = RawPolicy::default();
            update(
                &maps.guard_policies,
                &self.key(),
                policy.as_deref().unwrap_or(empty.bytes()),
            )?;
        }
        let counts = maps
            .guard_counters
            .lookup_percpu(&self.key(), MapFlags::ANY)
            .map_err(Error::libbpf("read map", "guard_counters"))?;
        match counts {
            Some(_) => Ok(()),
            None => rows::zero_counters(maps, self.cgroup),
        }
    }

    /// Takes the guard's rows away. From here on the guard does not know the cgroup.
    pub(super) fn remove_rows(&self) -> Result<()> {
        rows::remove(&self.inner.maps, self.cgroup)
    }

    /// Forgets policy and counts of an earlier fence on the same cgroup, which the kernel keeps as long as the cgroup lives. Makes the
    /// guard's rows, under which nothing is granted.
    pub(super) fn forget(&self) -> Result<()> {
        let maps = &self.inner.maps;
        rows::make(maps, self.cgroup, RawPolicy::default().bytes())?;
        let absent = |result: libbpf_rs::Result<()>| match result {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        absent(
            maps.policies
                .update(&self.key(), RawPolicy::default().bytes(), MapFlags::ANY),
        )
        .map_err(Error::libbpf("clear map", "policies"))?;
        absent(
            maps.counters
                .update_percpu(&self.key(), &rows::zeros()?, MapFlags::ANY),
        )
        .map_err(Error::libbpf("clear map", "counters"))
    }

    /// Removes the pin, and the guard's rows, of a fence whose cgroup is gone: nothing is looked up for it. May be repeated.
    pub fn follow_cgroup(&self) -> Result<()> {
        Pins::remove(&self.inner.pins.link(&self.name)?)?;
        self.remove_rows()
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
        Pins::remove(&path)?;
        self.remove_rows()
    }
}

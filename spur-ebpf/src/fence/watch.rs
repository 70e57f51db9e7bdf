//! Noticing that somebody took a fence down by hand, and putting it back.

use super::{Fence, JobFence, lookup, object, update};
use crate::abi::{Plain, RawPolicy};
use crate::cgroup::Cgroup;
use crate::{Error, Result, pins, sys};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::PoisonError;

/// What became of the link of a fenced cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Pinned, attached to the cgroup, and running the fence's program.
    Up,
    /// The pin is gone; whether the program still runs is not known.
    Unpinned,
    /// Pinned and attached to nothing, because somebody detached it or the cgroup is gone.
    Detached,
    /// The pin is a link of another program or on another cgroup.
    Replaced,
}

impl JobFence {
    /// Looks whether the fence is still up: two system calls, meant to be asked several times a second.
    pub fn check(&self) -> Result<LinkState> {
        let path = self.inner.pins.link(&self.name)?;
        let link = match sys::pinned(&path) {
            Ok(link) => link,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(LinkState::Unpinned);
            }
            // Something that is no object of BPF lies there.
            Err(_) => return Ok(LinkState::Replaced),
        };
        let Ok(facts) = sys::link_facts(link.as_fd()) else {
            return Ok(LinkState::Replaced);
        };
        Ok(match (facts.cgroup, facts.program_id) {
            (0, _) => LinkState::Detached,
            (cgroup, program) if cgroup == self.cgroup.0 && program == self.inner.program_id => {
                LinkState::Up
            }
            _ => LinkState::Replaced,
        })
    }
}

impl Fence {
    /// Puts the fence of a cgroup up again after [`JobFence::check`] found it down, under the policy that was in force. What is
    /// pinned in its place is replaced.
    pub fn restore(&self, cgroup: &Path, name: &str) -> Result<JobFence> {
        let cgroup = Cgroup::open(cgroup)?;
        let _maker = self
            .inner
            .rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let job = JobFence::new(self.inner.clone(), name, cgroup.id);
        let link = super::create_link(&self.inner, &cgroup)?;
        pins::prepare_folder(&self.inner.pins.links())?;
        pins::replace(link.as_fd(), &self.inner.pins.link(name)?)?;
        job.complete()?;
        job.recover_policy()?;
        Ok(job)
    }

    /// Names of pins of the program and its maps that are gone. They work on as long as this process holds them.
    #[must_use]
    pub fn missing_pins(&self) -> Vec<&'static str> {
        object::missing_pins(&self.inner.pins)
    }

    /// Pins program and maps again where [`Fence::missing_pins`] found none.
    pub fn restore_pins(&self) -> Result<()> {
        object::pin_again(&self.inner)
    }
}

impl JobFence {
    /// The kernel keeps a policy with the cgroup when the link goes. Should it be gone too, the guard's form of it is written back.
    fn recover_policy(&self) -> Result<()> {
        let maps = &self.inner.maps;
        let read = |map| -> Result<RawPolicy> {
            let bytes = lookup(map, &self.key())?;
            Ok(bytes
                .as_deref()
                .and_then(RawPolicy::from_bytes)
                .unwrap_or_default())
        };
        let (ours, guards) = (read(&maps.policies)?, read(&maps.guard_policies)?);
        if ours.abi == 0 && guards.abi != 0 {
            update(&maps.policies, &self.key(), guards.bytes())?;
        }
        Ok(())
    }
}

/// Why a cgroup could not be fenced.
pub(super) fn link_error(cgroup: &Cgroup, error: std::io::Error) -> Error {
    if error.raw_os_error() == Some(libc::E2BIG) {
        return Error::TooManyPrograms {
            cgroup: cgroup.path.clone(),
        };
    }
    Error::kernel("fence cgroup", &cgroup.path)(error)
}

//! Programs of others on and above a cgroup that is to be fenced.
//!
//! The kernel runs, for a process, the programs of its own cgroup and those of ancestors that were attached with `ALLOW_MULTI`.
//! One attached with `ALLOW_OVERRIDE` stops running for a cgroup that has programs of its own, so our fence would take somebody
//! else's away. One attached with neither lets no other be attached below.

use crate::cgroup::Cgroup;
use crate::{Error, Result, sys};
use libbpf_rs::libbpf_sys::{BPF_F_ALLOW_MULTI, BPF_F_ALLOW_OVERRIDE};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Refuses a cgroup on which our program would not run, or would stop another from running.
pub(super) fn check(cgroup: &Cgroup) -> Result<()> {
    let link = format!("/proc/self/fd/{}", cgroup.as_fd().as_raw_fd());
    let path = std::fs::read_link(link).map_err(Error::kernel("find cgroup", &cgroup.path))?;
    for at in path.ancestors() {
        // Above the mount point.
        let Ok(folder) = Cgroup::open(at) else {
            return Ok(());
        };
        let (count, flags) = sys::cgroup_attach_flags(folder.as_fd())
            .map_err(Error::kernel("query device programs of", &folder.path))?;
        if count > 0 && flags & BPF_F_ALLOW_MULTI == 0 {
            return Err(conflict(cgroup, at, flags));
        }
    }
    Ok(())
}

fn conflict(cgroup: &Cgroup, at: &Path, flags: u32) -> Error {
    let overrides = flags & BPF_F_ALLOW_OVERRIDE != 0;
    Error::Conflict {
        cgroup: cgroup.path.clone(),
        at: at.display().to_string(),
        what: if overrides {
            "that would stop running for the job (it was attached with ALLOW_OVERRIDE)"
        } else {
            "that lets no other run beside it or below (it was attached without ALLOW_MULTI)"
        },
    }
}

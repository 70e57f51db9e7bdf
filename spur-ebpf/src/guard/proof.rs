//! That a program of the guard is attached does not mean that it is asked: a kernel whose list of LSMs lacks `bpf` attaches such
//! programs and never runs them. So the guard is seen to refuse something, to a process in a group like a job's.

use crate::abi::{ABI, POLICY_QUIET, Plain, RawPolicy};
use crate::cgroup::Cgroup;
use crate::fence::{Maps, rows};
use crate::{Error, Result, sys};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the group, beside the jobs'.
const NAME: &str = "guard_proof";
/// How long a group may take to become empty after its only process was waited for.
const EMPTY_WITHIN: Duration = Duration::from_secs(5);

/// Whether `bpf()`, which works here, is refused to a process in a job. This also shows that jobs are looked for on the right level.
pub(super) fn is_asked(maps: &Maps, folder: &Path) -> Result<bool> {
    let path = folder.join(NAME);
    let shown = path.display().to_string();
    match std::fs::create_dir(&path) {
        // Left by an agent that died here.
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::kernel("make cgroup", shown)(error));
        }
        _ => {}
    }
    let cgroup = Cgroup::open(&path)?;
    let policy = RawPolicy {
        abi: ABI,
        flags: POLICY_QUIET,
        cgroup: cgroup.id.0,
        ..RawPolicy::default()
    };
    let answer = rows::make(maps, cgroup.id, policy.bytes()).and_then(|()| {
        sys::bpf_errno_in(cgroup.as_fd())
            .map_err(Error::kernel("start a process in cgroup", &shown))
    });
    rows::remove(maps, cgroup.id)?;
    remove(&path)?;
    Ok(answer? == libc::EPERM)
}

fn remove(path: &Path) -> Result<()> {
    let deadline = Instant::now() + EMPTY_WITHIN;
    loop {
        match std::fs::remove_dir(path) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                std::thread::yield_now();
            }
            result => {
                return result.map_err(Error::kernel("remove cgroup", path.display().to_string()));
            }
        }
    }
}

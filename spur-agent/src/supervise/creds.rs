//! Becoming the job's user, for good.
//!
//! A user's task keeps no capability, in no set, and `no_new_privs` keeps setuid programs and file capabilities from giving any
//! back. A task of root keeps its user id and what an ordinary administrator's program needs, but none of the capabilities
//! by which the fence could be taken down or passed by: see [`KEPT_FROM_ROOT`]. Root owns the cgroup tree and most of `/proc/sys`, so
//! a fence against root is a guard against accidents, not a boundary.

use caps::{CapSet, Capability, CapsHashSet};
use rustix::process::{Gid, Uid};
use rustix::thread::CapabilitySet;
use spur_core::job::spec::Owner;
use std::io;

/// What a task that runs as root does not get: loading programs and modules, mounting, tracing, raw devices, device nodes.
const KEPT_FROM_ROOT: [Capability; 13] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_MODULE,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_SYS_RAWIO,
    Capability::CAP_SYS_BOOT,
    Capability::CAP_MKNOD,
    Capability::CAP_MAC_ADMIN,
    Capability::CAP_MAC_OVERRIDE,
    Capability::CAP_CHECKPOINT_RESTORE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_SETPCAP,
];

/// Takes on the owner's groups and ids and gives up capabilities, then checks that they are gone.
pub(crate) fn become_user(owner: &Owner) -> io::Result<()> {
    let root = owner.uid.0 == 0;
    rustix::thread::set_no_new_privs(true)?;
    let keep = limit_bounding_set(root)?;
    let groups: Vec<_> = owner.groups.iter().map(|g| Gid::from_raw(g.0)).collect();
    rustix::thread::set_thread_groups(&groups)?;
    let (uid, gid) = (Uid::from_raw(owner.uid.0), Gid::from_raw(owner.gid.0));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    give_up(&keep)
}

/// Takes every capability that the kernel knows out of the bounding set, also those that we do not know, but not those that a task of
/// root keeps; gives these.
fn limit_bounding_set(root: bool) -> io::Result<CapsHashSet> {
    let mut keep = caps::all();
    keep.retain(|cap| root && !KEPT_FROM_ROOT.contains(cap));
    let kept = keep.iter().fold(0, |kept, cap| kept | cap.bitmask());
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if kept & one.bits() != 0 {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel knows no more.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(keep)
}

/// Limits every set to `keep` and reads them back.
fn give_up(keep: &CapsHashSet) -> io::Result<()> {
    if caps::runtime::ambient_set_supported().is_ok() {
        caps::clear(None, CapSet::Ambient).map_err(other)?;
    }
    caps::clear(None, CapSet::Inheritable).map_err(other)?;
    // The effective set first: it must stay within the permitted one.
    for set in [CapSet::Effective, CapSet::Permitted] {
        let have = caps::read(None, set).map_err(other)?;
        let rest: CapsHashSet = have.intersection(keep).copied().collect();
        caps::set(None, set, &rest).map_err(other)?;
        if !caps::read(None, set).map_err(other)?.is_subset(keep) {
            return Err(io::Error::other("capabilities are left over"));
        }
    }
    Ok(())
}

fn other(error: caps::errors::CapsError) -> io::Error {
    io::Error::other(error.to_string())
}

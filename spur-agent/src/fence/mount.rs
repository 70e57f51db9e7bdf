//! The BPF file system in which the fence is pinned.

use super::node::FenceError;
use crate::config::Config;
use std::path::{Path, PathBuf};

/// Folder in a BPF file system that an agent mounted.
pub const MOUNTED_BY_AGENT: &str = "mounted_by_spurd";

/// Where the agent's pins are.
pub fn pins_of(config: &Config) -> PathBuf {
    config.bpffs.join(&config.pins)
}

/// Mounts a BPF file system if there is none, and leaves a mark in it, so that the last agent to leave takes it away.
pub(crate) fn mount(config: &Config) -> Result<(), FenceError> {
    // Agents of one cluster may share a machine and its mount and start at once: a second mount would hide the first one's pins.
    // The kernel gives the turn back with the file.
    let _turn = take_turn(&config.token_file);
    let at = config.bpffs.to_string_lossy().into_owned();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let before = mounts.lines().any(|line| {
        let mut fields = line.split(' ');
        (fields.nth(1), fields.next()) == (Some(&*at), Some("bpf"))
    });
    spur_ebpf::mount_bpffs_if_needed(&config.bpffs)?;
    if !before && let Err(error) = std::fs::create_dir(config.bpffs.join(MOUNTED_BY_AGENT)) {
        tracing::warn!(bpffs = at, %error, "it will stay mounted");
    }
    Ok(())
}

/// Waits until no other agent of the cluster is at this. The lock is on the token because only root can open that: whoever can open
/// what is locked here can keep every agent from starting. Without a token there is no second agent either.
fn take_turn(token_file: &Path) -> Option<std::fs::File> {
    let token = std::fs::File::open(token_file).ok()?;
    rustix::fs::flock(&token, rustix::fs::FlockOperation::LockExclusive).ok()?;
    Some(token)
}

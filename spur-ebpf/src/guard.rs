//! The guard: LSM programs that see what a device program cannot, by the same policies.
//!
//! The fence is asked when a node is opened. The guard is asked when a descriptor is passed, used or mapped, when a process takes
//! hold of another, and when sysfs or `bpf()` would lead around the fence. It needs a kernel that runs BPF LSM programs; whether it
//! does is found out by loading and attaching each one.

mod level;
mod load;
mod proof;
pub(crate) mod said;

use crate::{Error, Result, sys};
use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

pub(crate) use load::guard;

/// How the guard is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardOptions {
    /// The cgroup v2 folder whose children are the jobs' groups, and their children the steps'. It has to exist.
    pub cgroup: PathBuf,
    /// Refuse signals to processes of other jobs and of none; otherwise they are only noted.
    pub deny_signals: bool,
}

/// Where a program of the guard sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// A file is opened: remembers whose it is; sysfs, debugfs, control groups.
    FileOpen,
    /// A descriptor comes from another process.
    FileReceive,
    /// `ioctl`.
    FileIoctl,
    /// `ioctl` of 32-bit programs; newer kernels ask separately.
    FileIoctlCompat,
    /// `mmap`.
    MmapFile,
    /// `ptrace`, `/proc/PID/mem`, `process_vm_readv`, `pidfd_getfd`.
    PtraceAccessCheck,
    /// `bpf()`.
    Bpf,
    /// `io_uring` with a thread in the kernel.
    UringSqpoll,
    /// A signal.
    TaskKill,
    /// Unpinning.
    InodeUnlink,
    /// Moving a pin.
    InodeRename,
    /// Taking a BPF file system away.
    SbUmount,
    /// A process that would start in another control group.
    TaskAlloc,
    /// A dma-buf is made: remembers whose it is.
    DmaBufExport,
}

impl Hook {
    /// All, in the order in which they are reported.
    pub const ALL: [Hook; 14] = [
        Hook::FileOpen,
        Hook::FileReceive,
        Hook::FileIoctl,
        Hook::FileIoctlCompat,
        Hook::MmapFile,
        Hook::PtraceAccessCheck,
        Hook::Bpf,
        Hook::UringSqpoll,
        Hook::TaskKill,
        Hook::InodeUnlink,
        Hook::InodeRename,
        Hook::SbUmount,
        Hook::TaskAlloc,
        Hook::DmaBufExport,
    ];

    /// The kernel's name of the hook, which is also the pin's below `guard/`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Hook::FileOpen => "file_open",
            Hook::FileReceive => "file_receive",
            Hook::FileIoctl => "file_ioctl",
            Hook::FileIoctlCompat => "file_ioctl_compat",
            Hook::MmapFile => "mmap_file",
            Hook::PtraceAccessCheck => "ptrace_access_check",
            Hook::Bpf => "bpf",
            Hook::UringSqpoll => "uring_sqpoll",
            Hook::TaskKill => "task_kill",
            Hook::InodeUnlink => "inode_unlink",
            Hook::InodeRename => "inode_rename",
            Hook::SbUmount => "sb_umount",
            Hook::TaskAlloc => "task_alloc",
            Hook::DmaBufExport => "dma_buf_export",
        }
    }

    /// The kernel's function that its program is attached to.
    fn function(self) -> String {
        let prefix = if self.is_lsm() { "bpf_lsm_" } else { "" };
        format!("{prefix}{}", self.name())
    }

    /// Whether a node without it is not guarded. Hooks that a kernel does not have, because it lacks what they watch, are no want.
    #[must_use]
    pub fn is_required(self) -> bool {
        !matches!(
            self,
            Hook::TaskKill
                | Hook::InodeUnlink
                | Hook::InodeRename
                | Hook::SbUmount
                | Hook::TaskAlloc
                | Hook::DmaBufExport
        )
    }

    /// LSM programs and others are different kinds to the kernel; one may be refused where the other is not.
    fn is_lsm(self) -> bool {
        self != Hook::DmaBufExport
    }

    /// A program that this one only works for. Nothing is attached to the kernel for nothing: Linux 5.10 refuses every LSM program of
    /// ours, would take the one at `dma_buf_export`, and was seen to hang after that.
    fn needs(self) -> Option<Hook> {
        (self == Hook::DmaBufExport).then_some(Hook::FileReceive)
    }

    /// Whether a kernel that runs the guard may lack this hook together with what it watches.
    fn may_be_absent(self) -> bool {
        matches!(self, Hook::FileIoctlCompat | Hook::UringSqpoll)
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What came of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookState {
    /// It runs.
    Attached {
        /// Kernel id of the program.
        program_id: u32,
        /// Kernel id of its link.
        link_id: u32,
        /// Whether it was attached by an earlier agent.
        adopted: bool,
    },
    /// The kernel has no such hook.
    Absent,
    /// The kernel refused it, with its reason.
    Refused(String),
}

/// What is wrong with a program of the guard that did run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardFault {
    /// Its pin is gone; it runs only as long as this process holds it.
    Unpinned,
    /// The pin is another link or program than ours.
    Replaced,
}

/// The guard of a node. Dropping it leaves the pinned programs in force.
#[derive(Debug)]
pub struct Guard {
    folder: PathBuf,
    hooks: BTreeMap<Hook, HookState>,
    links: BTreeMap<Hook, OwnedFd>,
}

impl Guard {
    /// Every hook and what came of it, in the order of [`Hook::ALL`].
    pub fn hooks(&self) -> impl Iterator<Item = (Hook, &HookState)> {
        Hook::ALL
            .into_iter()
            .filter_map(|hook| Some((hook, self.hooks.get(&hook)?)))
    }

    /// What came of one hook.
    #[must_use]
    pub fn hook(&self, hook: Hook) -> &HookState {
        self.hooks.get(&hook).unwrap_or(&HookState::Absent)
    }

    /// Whether everything runs that a guarded node needs.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing().next().is_none()
    }

    /// Required programs that do not run, with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (Hook, &str)> {
        self.hooks()
            .filter(|(hook, _)| hook.is_required())
            .filter_map(|(hook, state)| match state {
                HookState::Attached { .. } => None,
                HookState::Absent if hook.may_be_absent() => None,
                HookState::Absent => Some((hook, "this kernel has no such hook")),
                HookState::Refused(reason) => Some((hook, reason.as_str())),
            })
    }

    /// One line for people: that it is complete, or what is missing and why.
    #[must_use]
    pub fn summary(&self) -> String {
        let missing: Vec<(Hook, &str)> = self.missing().collect();
        let Some((_, reason)) = missing.first() else {
            return "all required programs run".to_owned();
        };
        let none_runs = self
            .hooks()
            .all(|(_, state)| !matches!(state, HookState::Attached { .. }));
        if none_runs && missing.iter().all(|(_, other)| other == reason) {
            return format!("no program of the guard runs here: {reason}");
        }
        let each: Vec<String> = missing
            .iter()
            .map(|(hook, reason)| format!("{hook}: {reason}"))
            .collect();
        each.join("; ")
    }

    /// Programs that ran and whose pin is gone or another. A few system calls for each; meant to be asked several times a second.
    #[must_use]
    pub fn check(&self) -> Vec<(Hook, GuardFault)> {
        self.links
            .keys()
            .filter_map(|&hook| Some((hook, self.fault(hook)?)))
            .collect()
    }

    fn fault(&self, hook: Hook) -> Option<GuardFault> {
        let Some(HookState::Attached {
            program_id,
            link_id,
            ..
        }) = self.hooks.get(&hook)
        else {
            return None;
        };
        let Ok(pinned) = sys::pinned(&self.pin(hook)) else {
            return Some(GuardFault::Unpinned);
        };
        match sys::link_facts(pinned.as_fd()) {
            Ok(facts) if (facts.id, facts.program_id) == (*link_id, *program_id) => None,
            Ok(_) | Err(_) => Some(GuardFault::Replaced),
        }
    }

    /// Pins again what [`Guard::check`] found missing. The programs have run all the while, because this process holds them.
    pub fn restore(&self) -> Result<()> {
        crate::pins::prepare_folder(&self.folder)?;
        for (hook, _) in self.check() {
            let Some(link) = self.links.get(&hook) else {
                continue;
            };
            crate::pins::replace(link.as_fd(), &self.pin(hook))?;
        }
        Ok(())
    }

    fn pin(&self, hook: Hook) -> PathBuf {
        self.folder.join(hook.name())
    }

    /// The folder of the pins.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Takes the guard in a folder of pins away.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    for hook in Hook::ALL {
        crate::pins::Pins::remove(&folder.join(hook.name()))?;
    }
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::kernel("remove folder", folder.display().to_string())(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

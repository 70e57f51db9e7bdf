//! What can go wrong between us and the kernel.

use std::io;
use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure, with what was attempted and on what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(clippy::error_impl_error, reason = "its users say spur_ebpf::Error")]
pub enum Error {
    /// A system call or a libbpf call failed.
    #[error("cannot {action} {subject}")]
    Kernel {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On what.
        subject: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// libbpf or the verifier refused the object.
    #[error("cannot {action} {subject}")]
    Libbpf {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On what.
        subject: String,
        /// Why not.
        #[source]
        source: libbpf_rs::Error,
    },
    /// What is pinned was made by another version of the layouts.
    #[error("the fence pinned at {pins} has ABI {found} and this program knows {known}: {advice}", pins = pins.display())]
    Abi {
        /// Where.
        pins: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
        /// What to do.
        advice: &'static str,
    },
    /// A map, program or link is not what it has to be.
    #[error("{subject} is not usable: {reason}")]
    Unfit {
        /// Which.
        subject: String,
        /// In what it differs.
        reason: String,
    },
    /// A name that cannot be a pin.
    #[error("invalid pin name {0:?}: use 1 to 128 letters, digits, '-' and '_'")]
    BadName(String),
    /// A device table that cannot be meant.
    #[error("invalid device table: {0}")]
    BadTable(String),
    /// The kernel runs at most 64 programs per cgroup.
    #[error(
        "cannot fence {cgroup}: it already has the kernel's limit of 64 device programs; detach leaked ones (`bpftool cgroup show {cgroup}`)"
    )]
    TooManyPrograms {
        /// Which cgroup.
        cgroup: String,
    },
    /// The meter has a bounded number of slots.
    #[error("cannot meter another cgroup: all {slots} slots are in use")]
    MeterFull {
        /// How many there are.
        slots: u32,
    },
    /// Somebody else's device program on or above the cgroup.
    #[error(
        "cannot fence {cgroup}: {at} has a device program {what}; see `bpftool cgroup show {at}`, and take it off or give spur \
         another cgroup"
    )]
    Conflict {
        /// Which cgroup.
        cgroup: String,
        /// Where the program is.
        at: String,
        /// What is the matter with it.
        what: &'static str,
    },
    /// A cgroup folder that is not in a cgroup v2 tree.
    #[error("{0} is not a folder of a cgroup v2 tree")]
    NotCgroup2(String),
}

impl Error {
    /// Wraps an `io::Error`, to be used with `map_err`.
    pub(crate) fn kernel(
        action: &'static str,
        subject: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> Error {
        let subject = subject.into();
        move |source| Error::Kernel {
            action,
            subject,
            source,
        }
    }

    /// Wraps a libbpf error, to be used with `map_err`.
    pub(crate) fn libbpf(
        action: &'static str,
        subject: impl Into<String>,
    ) -> impl FnOnce(libbpf_rs::Error) -> Error {
        let subject = subject.into();
        move |source| Error::Libbpf {
            action,
            subject,
            source,
        }
    }
}

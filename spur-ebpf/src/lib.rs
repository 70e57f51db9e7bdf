//! The device fence: BPF programs, the layouts they share with user space, and the typed API that loads, pins and reads them.
//!
//! A node has one [`Fence`]: a program and its maps, pinned in a folder of a BPF file system so that they outlive whoever
//! loaded them. [`Fence::set_devices`] says which device numbers are fenced; [`Fence::attach`] puts a cgroup under the fence,
//! which from then on opens no fenced device until [`JobFence::write_policy`] grants some. Everything that is missing means
//! "no": an empty policy, an unknown minor, a dead agent.
//!
//! ```no_run
//! # use spur_ebpf::*;
//! # use std::path::Path;
//! # fn main() -> Result<()> {
//! mount_bpffs_if_needed(Path::new("/sys/fs/bpf"))?;
//! let fence = Fence::open_or_load(Path::new("/sys/fs/bpf/spur"))?;
//! let gpu0 = GrantBit::new(0).expect("below 512");
//! let mut table = DeviceTable::new();
//! table.deny_memory().set_major(195, MajorClass::Whole).list(DeviceNumber { major: 195, minor: 0 }, Rule::Bit(gpu0));
//! fence.set_devices(&table)?;
//! let job = fence.attach(Path::new("/sys/fs/cgroup/spur/job_7"), "job_7")?;
//! job.write_policy(&Policy { job: 7, grants: [gpu0].into_iter().collect(), ..Policy::default() })?;
//! # Ok(())
//! # }
//! ```
//!
//! A device program is asked when a node is opened. What happens to open descriptors, and on side ways, is seen by the LSM programs
//! of the [`Guard`], by the same policies, where the kernel runs such: [`Fence::guard`] finds out.
//!
//! What is attached with libbpf here is read back through `aya` in [`doctor`].

pub mod abi;
pub mod audit;
mod cgroup;
mod device;
pub mod doctor;
mod error;
mod fence;
mod guard;
pub mod meter;
mod pins;
mod policy;
mod sys;

pub use audit::{Audit, Event, Operation, Reason};
pub use cgroup::CgroupId;
pub use device::{DeviceNumber, DeviceTable, GrantBit, Grants, MajorClass, Rule, is_base_device};
pub use error::{Error, Result};
pub use fence::{Adopted, Fence, JobFence, LinkState, PinnedLink};
pub use guard::{Guard, GuardFault, GuardOptions, Hook, HookState};
pub use pins::{links_folder, mount_bpffs_if_needed};
pub use policy::{Counters, Policy};

/// Objects that only tests may load.
#[cfg(feature = "test-objects")]
pub mod test_objects {
    /// A fence with the right maps that allows everything: what must notice it is under test.
    pub const ALLOW_ALL: &[u8] = include_bytes!(env!("SPUR_ALLOW_ALL_OBJECT"));
    /// The fence as an agent of the oldest ABI pins it.
    pub const OLDER: &[u8] = include_bytes!(env!("SPUR_OLDER_OBJECT"));
}

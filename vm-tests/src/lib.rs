//! Boots real kernels in QEMU and runs the built binaries on them; and what tests of whole clusters share, in a virtual
//! machine or on this one.
//!
//! ```text
//!  spur_vm (host)   kernel -> modules -> image -> qemu, one verdict line back
//!  guest_init       process 1 of the machine: mounts, modules, then guest_tests or one command
//!  guest_tests      the named tests of `guest`, on real DRM render nodes
//!  golden           recorded commands of the real Slurm, played here and compared (`golden`)
//!  chaos            daemons killed at random under a mixed workload (`chaos`)
//!  escape_table     which test closes which of the known escapes (`escapes`), and the verdict over what ran
//!  tests/cluster    the same helpers, on the machine that builds
//! ```
//!
//! Helpers for tests panic with what went wrong, as tests do: a failure keeps its place in the code.

pub mod chaos;
pub mod cluster;
pub mod daemons;
pub mod escapes;
pub mod golden;
pub mod guest;
pub mod host;
pub mod leftovers;
pub mod meter;
pub mod probe;
pub mod procs;
pub mod user;
pub mod vm;
pub mod wait;

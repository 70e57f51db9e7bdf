//! The host's side: a kernel package, an initial file system, QEMU.

pub mod apt;
pub mod cpio;
pub mod headers;
pub mod image;
pub mod kernel;
pub mod modules;
pub mod qemu;
pub mod testgpu;

/// What the first process says first.
pub const UP: &str = "spur-vm: the guest is up";

/// The guest's console line that ends a run: this, then `ok` or `FAILED`, then numbers.
pub const VERDICT: &str = "spur-vm verdict:";

/// The file in the guest that holds the command to run instead of the tests, one word a line.
pub const COMMAND_FILE: &str = "/etc/spur-vm-command";

/// The folder in the guest with the kernel modules that are loaded at boot, named in order of loading.
pub const MODULE_DIR: &str = "/modules";

/// The folder in the guest with sets of modules that tests load, each in a folder of its own and named in order of loading.
pub const LATE_DIR: &str = "/late-modules";

/// Stands in such a set's place where there is none, and says why.
pub const MISSING: &str = "missing";

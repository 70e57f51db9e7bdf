//! What the tests find on the machine that they run on.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder with `spur` and `spurd`: where cargo put them, or where `SPUR_BINS` says.
pub fn bins() -> PathBuf {
    if let Some(dir) = std::env::var_os("SPUR_BINS") {
        return dir.into();
    }
    let exe = std::env::current_exe().expect("the kernel knows what runs");
    let mut dirs = exe.ancestors().skip(1);
    let found = dirs.find(|dir| dir.join("spur").is_file() && dir.join("spurd").is_file());
    found
        .expect("spur and spurd are built: cargo build -p spur-ctl -p spur-agent")
        .to_path_buf()
}

/// Whether we are root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that a test cannot be made here, in the words that `cargo xtask test` looks for.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Where the version 2 tree of control groups is mounted.
pub fn cgroup2() -> Option<PathBuf> {
    mounts()
        .into_iter()
        .find(|mount| mount.kind == "cgroup2")
        .map(|mount| mount.at.into())
}

/// Whether the kernel offers a controller in the version 2 tree.
pub fn has_controller(name: &str) -> bool {
    let list = cgroup2().and_then(|root| fs::read_to_string(root.join("cgroup.controllers")).ok());
    list.is_some_and(|list| list.split_whitespace().any(|word| word == name))
}

/// A line of `/proc/self/mounts`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Where.
    pub at: String,
    /// File system type.
    pub kind: String,
}

/// Everything that is mounted.
pub fn mounts() -> Vec<Mount> {
    let text = fs::read_to_string("/proc/self/mounts").expect("/proc is mounted");
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        Some(Mount {
            at: words.next()?.to_owned(),
            kind: words.next()?.to_owned(),
        })
    };
    text.lines().filter_map(mount).collect()
}

/// The running kernel's version, without its last part.
pub fn kernel() -> (u32, u32) {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
    let mut parts = text
        .split(['.', '-'])
        .map_while(|part| part.trim().parse().ok());
    let version = parts.next().zip(parts.next());
    version.unwrap_or_else(|| panic!("{text:?} is no version"))
}

/// Reads a file that must be there.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

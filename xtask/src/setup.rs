//! What a fresh Debian or Ubuntu machine lacks: installed when we are root, otherwise named in one line to run.

use crate::sh;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Something that the build, the tests or the demo need.
pub(crate) struct Need {
    /// Debian's package.
    package: &'static str,
    /// What it is for.
    why: &'static str,
    /// How to see that it is here.
    probe: Probe,
}

impl Need {
    /// Debian's package.
    pub(crate) fn package(&self) -> &'static str {
        self.package
    }
}

enum Probe {
    /// A program on the path.
    Program(&'static str),
    /// A file.
    File(&'static str),
    /// A command that succeeds.
    Command(&'static [&'static str]),
}

impl Probe {
    fn found(&self) -> bool {
        match self {
            Self::Program(name) => sh::has(name),
            Self::File(path) => Path::new(path).exists(),
            Self::Command(words) => {
                let mut command = Command::new(words.first().unwrap_or(&"false"));
                command.args(words.iter().skip(1));
                command.stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            }
        }
    }
}

pub(crate) const fn program(package: &'static str, name: &'static str, why: &'static str) -> Need {
    Need {
        package,
        why,
        probe: Probe::Program(name),
    }
}

pub(crate) const fn file(package: &'static str, path: &'static str, why: &'static str) -> Need {
    Need {
        package,
        why,
        probe: Probe::File(path),
    }
}

pub(crate) const fn command(
    package: &'static str,
    words: &'static [&'static str],
    why: &'static str,
) -> Need {
    Need {
        package,
        why,
        probe: Probe::Command(words),
    }
}

/// Needed to build at all.
const BUILD: &[Need] = &[
    program("clang", "clang", "compiles the BPF programs"),
    program("gcc", "gcc", "links, and builds bundled C libraries"),
    program("make", "make", "builds libbpf"),
    program("pkg-config", "pkg-config", "finds libelf"),
    file("libc6-dev", "/usr/include/stdio.h", "C headers"),
    file(
        "libelf-dev",
        "/usr/include/libelf.h",
        "libbpf reads ELF files",
    ),
    file(
        "zlib1g-dev",
        "/usr/include/zlib.h",
        "libelf reads compressed sections",
    ),
];

/// Needed by the tests in a virtual machine only.
const MACHINE: &[Need] = &[
    program(
        "qemu-system-x86",
        "qemu-system-x86_64",
        "boots real kernels",
    ),
    program("binutils", "strip", "keeps the guest's file system small"),
    program("xz-utils", "xz", "unpacks kernel modules"),
    program("iproute2", "ip", "brings up the guest's loopback"),
];

/// Needed by the tests of the mesh only, which say what they skip.
const MESH: &[Need] = &[
    program(
        "nftables",
        "nft",
        "cuts ways between hosts of the mesh's tests",
    ),
    program("tcpdump", "tcpdump", "sees what the mesh's tests send"),
    program("wireguard-tools", "wg", "sets up the reference"),
    program(
        "wireguard-go",
        "wireguard-go",
        "is what the mesh must understand",
    ),
];

/// Installs what is missing, or says how.
pub(crate) fn run() -> Result<()> {
    let needs: Vec<&Need> = BUILD.iter().chain(MACHINE).chain(MESH).collect();
    if !provide(&needs)? {
        println!("setup: everything is here");
    }
    Ok(())
}

/// The same for these. Returns whether something was missing.
pub(crate) fn provide(needs: &[&Need]) -> Result<bool> {
    let missing: Vec<&&Need> = needs.iter().filter(|need| !need.probe.found()).collect();
    if missing.is_empty() {
        return Ok(false);
    }
    for need in &missing {
        println!("setup: {} is missing: {}", need.package, need.why);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    if !Path::new("/etc/debian_version").exists() {
        bail!(
            "install these with your system's package manager: {}",
            packages.join(" ")
        );
    }
    if !sh::is_root() {
        bail!(
            "run this, then try again: sudo apt-get install -y {}",
            packages.join(" ")
        );
    }
    install(&packages)?;
    Ok(true)
}

/// For `test` and `demo`: as `run`, but what only the virtual machine needs is no reason to stop.
pub(crate) fn for_build() -> Result<()> {
    let Err(error) = run() else { return Ok(()) };
    if BUILD.iter().all(|need| need.probe.found()) {
        println!("setup: {error:#}");
        return Ok(());
    }
    Err(error)
}

/// Why no virtual machine can be booted here, if so.
pub(crate) fn no_machine() -> Option<String> {
    let missing: Vec<&str> = MACHINE
        .iter()
        .filter(|need| !need.probe.found())
        .map(|need| need.package)
        .collect();
    if !missing.is_empty() {
        return Some(format!("not installed: {}", missing.join(" ")));
    }
    if !sh::has("apt-get") {
        return Some("no apt-get to fetch Debian's kernels with".into());
    }
    (!cfg!(target_arch = "x86_64")).then(|| "virtual machines are built for x86-64 only".into())
}

fn install(packages: &[&str]) -> Result<()> {
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(args);
        sh::run(&mut command)
    };
    let mut install = vec!["-q", "install", "-y", "--no-install-recommends"];
    install.extend(packages);
    // The lists of a fresh machine are empty; those of an old one may still do.
    if apt(&install).is_err() {
        apt(&["-q", "update"]).context("refreshing package lists")?;
        apt(&install).context("installing packages")?;
    }
    Ok(())
}

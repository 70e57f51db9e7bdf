//! Debian's kernels, by apt, in a cache of our own.

use crate::vm::apt;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// An unpacked kernel package.
#[derive(Debug)]
pub struct Kernel {
    /// `6.1.0-50-amd64`.
    pub release: String,
    /// The image to boot.
    pub image: PathBuf,
    /// The folder with `kernel/` and the list of modules.
    pub modules: PathBuf,
    /// Where this kernel's packages, and what is made of them, are kept.
    pub cache: PathBuf,
}

/// Debian's release that carries a kernel version.
fn suite(version: &str) -> Result<&'static str> {
    Ok(match version {
        "5.10" => "bullseye",
        "6.1" => "bookworm",
        "6.12" => "trixie",
        "7" => "sid",
        _ => bail!("no kernel {version}: choose 5.10, 6.1, 6.12 or 7"),
    })
}

/// The folder for packages and lists, outside the tree: `$SPUR_VM_CACHE`, or the system's cache as root, or the user's.
pub fn cache() -> PathBuf {
    if let Some(dir) = std::env::var_os("SPUR_VM_CACHE") {
        return dir.into();
    }
    if rustix::process::geteuid().is_root() {
        return "/var/cache/spur-vm".into();
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home);
    base.unwrap_or_else(|| "/tmp".into()).join("spur-vm")
}

/// The kernel of that version: from the cache, or fetched and unpacked now.
pub fn get(version: &str) -> Result<Kernel> {
    let suite = suite(version)?;
    let dir = cache().join(version);
    let unpacked = dir.join("unpacked");
    if !unpacked.exists() {
        fetch(&dir, suite).with_context(|| format!("fetching Debian's kernel {version}"))?;
    }
    find(&dir).with_context(|| format!("looking for a kernel in {}", unpacked.display()))
}

fn find(dir: &Path) -> Result<Kernel> {
    let unpacked = dir.join("unpacked");
    // Merged or not: packages still differ in where they keep modules.
    let homes = ["usr/lib/modules", "lib/modules"].map(|home| unpacked.join(home));
    let home = homes
        .into_iter()
        .find(|home| home.is_dir())
        .context("no folder of modules")?;
    let entry = fs::read_dir(&home)?.next().context("no modules")??;
    let release = entry.file_name().to_string_lossy().into_owned();
    // Newer packages keep the image beside its modules.
    let images = [
        unpacked.join("boot").join(format!("vmlinuz-{release}")),
        entry.path().join("vmlinuz"),
    ];
    let image = images
        .into_iter()
        .find(|image| image.is_file())
        .context("no image to boot")?;
    Ok(Kernel {
        release,
        image,
        modules: entry.path(),
        cache: dir.to_owned(),
    })
}

fn fetch(dir: &Path, suite: &str) -> Result<()> {
    apt::source(dir, suite)?;
    apt::update(dir)?;
    let packages = packages(dir)?;
    let half = dir.join("unpacking");
    if half.exists() {
        fs::remove_dir_all(&half).context("removing what an earlier run left")?;
    }
    apt::unpack(dir, &packages, &half)?;
    // Whole or not at all.
    fs::rename(&half, dir.join("unpacked")).context("renaming the unpacked kernel")
}

/// The kernel's package and, where they are apart, its modules' and image's.
fn packages(dir: &Path) -> Result<Vec<String>> {
    let mut found = apt::depends(dir, "linux-image-amd64", "linux-image-")?;
    ensure!(
        !found.is_empty(),
        "this mirror has no package linux-image-amd64"
    );
    for package in found.clone() {
        for prefix in ["linux-modules-", "linux-binary-"] {
            found.extend(apt::depends(dir, &package, prefix)?);
        }
    }
    Ok(found)
}

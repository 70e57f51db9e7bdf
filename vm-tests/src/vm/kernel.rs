//! Debian's kernels, by apt: from the mirror that this machine is configured for, with lists and packages in a cache of our own.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An unpacked kernel package.
#[derive(Debug)]
pub struct Kernel {
    /// `6.1.0-50-amd64`.
    pub release: String,
    /// The image to boot.
    pub image: PathBuf,
    /// The folder with `kernel/` and the list of modules.
    pub modules: PathBuf,
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
    find(&unpacked).with_context(|| format!("looking for a kernel in {}", unpacked.display()))
}

fn find(unpacked: &Path) -> Result<Kernel> {
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
    })
}

fn fetch(dir: &Path, suite: &str) -> Result<()> {
    for folder in ["lists/partial", "archives/partial"] {
        let folder = dir.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let signed = if Path::new(keyring).exists() {
        format!("[signed-by={keyring}] ")
    } else {
        String::new()
    };
    let source = format!("deb {signed}{} {suite} main\n", mirror()?);
    fs::write(dir.join("sources.list"), source).context("writing a list of package sources")?;
    run(apt(dir, "apt-get").args(["-q", "update"]))?;
    let packages = packages(dir)?;
    run(apt(dir, "apt-get")
        .args(["-q", "download"])
        .args(&packages)
        .current_dir(dir.join("archives")))?;
    let half = dir.join("unpacking");
    if half.exists() {
        fs::remove_dir_all(&half).context("removing what an earlier run left")?;
    }
    for entry in fs::read_dir(dir.join("archives"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(&half))?;
            fs::remove_file(&path).context("removing a package that is unpacked")?;
        }
    }
    // Whole or not at all.
    fs::rename(&half, dir.join("unpacked")).context("renaming the unpacked kernel")
}

/// The kernel's package and, where they are apart, its modules' and image's.
fn packages(dir: &Path) -> Result<Vec<String>> {
    let mut found = depends(dir, "linux-image-amd64", "linux-image-")?;
    ensure!(
        !found.is_empty(),
        "this mirror has no package linux-image-amd64"
    );
    for package in found.clone() {
        for prefix in ["linux-modules-", "linux-binary-"] {
            found.extend(depends(dir, &package, prefix)?);
        }
    }
    Ok(found)
}

fn depends(dir: &Path, package: &str, prefix: &str) -> Result<Vec<String>> {
    let text =
        read(apt(dir, "apt-cache").args(["depends", "--no-recommends", "--no-suggests", package]))?;
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    Ok(names
        .filter(|name| name.starts_with(prefix))
        .map(str::to_owned)
        .collect())
}

/// The Debian archive that this machine's own apt reads.
fn mirror() -> Result<String> {
    let format = "$(ORIGIN)|$(RELEASE)|$(REPO_URI)";
    let text = read(Command::new("apt-get").args(["indextargets", "--format", format]))?;
    let debian = |line: &str| {
        let mut fields = line.split('|');
        let (origin, release, uri) = (fields.next()?, fields.next()?, fields.next()?);
        let plain = origin == "Debian" && !release.ends_with("-security");
        plain.then(|| uri.to_owned())
    };
    text.lines().find_map(debian).context(
        "this machine's apt is not configured for a Debian mirror (or its lists are empty: apt-get update)",
    )
}

/// An apt program that sees our sources and lists only, and needs no privilege.
fn apt(dir: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, value) in [
        ("Dir::Etc::sourcelist", dir.join("sources.list")),
        ("Dir::Etc::sourceparts", "/dev/null".into()),
        ("Dir::State::lists", dir.join("lists")),
        ("Dir::Cache", dir.join("archives")),
        ("Dir::State::status", "/dev/null".into()),
    ] {
        command.arg("-o").arg(format!("{name}={}", value.display()));
    }
    // Only the main index is wanted, in any language, and the sandbox user cannot write to our folders.
    command.args(["-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User="]);
    command
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    ensure!(
        status.success(),
        "{:?} ended with {status}",
        command.get_program()
    );
    Ok(())
}

fn read(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{:?} failed: {}",
        command.get_program(),
        said.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

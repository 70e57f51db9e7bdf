//! Debian's packages, by apt: from the mirror that this machine is configured for, with lists and packages in a folder of our own.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes the folder one that reads a suite of Debian's, and nothing else.
pub fn source(dir: &Path, suite: &str) -> Result<()> {
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
    fs::write(dir.join("sources.list"), source).context("writing a list of package sources")
}

/// Refreshes the folder's lists.
pub fn update(dir: &Path) -> Result<()> {
    run(apt(dir, "apt-get").args(["-q", "update"]))
}

/// Downloads packages and unpacks them all into one folder.
pub fn unpack(dir: &Path, packages: &[String], into: &Path) -> Result<()> {
    let archives = tempfile::tempdir_in(dir).context("making a folder for packages")?;
    run(apt(dir, "apt-get")
        .args(["-q", "download"])
        .args(packages)
        .current_dir(archives.path()))?;
    for entry in fs::read_dir(archives.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(into))?;
        }
    }
    Ok(())
}

/// The packages that one needs and whose names begin so.
pub fn depends(dir: &Path, package: &str, prefix: &str) -> Result<Vec<String>> {
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

//! The guest's whole file system, as an archive: our binaries, a shell and a few tools of this machine with the libraries that
//! they link to, modules, and the command to run.

use crate::vm::cpio::Archive;
use crate::vm::modules::{LateSet, Module};
use crate::vm::{COMMAND_FILE, LATE_DIR, MISSING, MODULE_DIR};
use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ours, from the folder of built binaries.
const BINARIES: [&str; 5] = ["spur", "spurctld", "spurd", "guest-init", "guest-tests"];

/// Programs of this machine that jobs and tests use.
const TOOLS: [&str; 40] = [
    "sh", "bash", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "echo", "env", "false",
    "grep", "head", "hostname", "id", "ip", "kill", "ln", "ls", "mkdir", "mknod", "mv", "nproc",
    "printf", "pwd", "rm", "seq", "setsid", "sleep", "sort", "stat", "tail", "tee", "timeout",
    "touch", "tr", "true", "uname", "wc",
];

/// Programs that a test uses if this machine has them: where they are here, and so where they are in the guest.
const IF_THERE: [&str; 4] = [
    "/usr/lib/systemd/systemd",
    "/usr/bin/systemctl",
    "/usr/bin/unshare",
    "/usr/bin/nsenter",
];

/// What the user database of the guest says: one ordinary user with a second group, and an operator.
const ACCOUNTS: [(&str, &str); 5] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n\
         bob:x:1001:1001::/home/bob:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    ),
    (
        "etc/group",
        "root:x:0:\nalice:x:1000:\nbob:x:1001:\nlab:x:2000:alice\nnogroup:x:65534:\n",
    ),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\n",
    ),
    ("etc/hostname", "guest\n"),
    ("etc/hosts", "127.0.0.1 localhost guest\n"),
];

/// What goes into the machine beside its tools.
#[derive(Debug)]
pub struct Contents<'a> {
    /// Folder of our built binaries.
    pub bins: &'a Path,
    /// Further programs: name in the guest's `/usr/bin`, file here.
    pub with: &'a [(String, PathBuf)],
    /// In the order of loading.
    pub modules: &'a [Module],
    /// What tests load.
    pub late: &'a [LateSet],
    /// Empty for the tests.
    pub command: &'a [String],
}

/// Writes the archive to `out`, gzipped.
pub fn write(out: &Path, contents: &Contents<'_>) -> Result<()> {
    let Contents {
        bins,
        with,
        modules,
        late,
        command,
    } = contents;
    let work = out.with_extension("work");
    fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
    let files = gather(bins, with, &work)?;
    let file = File::create(out).with_context(|| format!("creating {}", out.display()))?;
    // The fastest level: the guest unpacks without hardware help, and size hardly matters.
    let gzip = GzEncoder::new(BufWriter::new(file), Compression::fast());
    let mut archive = Archive::new(gzip);
    skeleton(&mut archive, &files)?;
    for (path, from) in &files {
        let data = fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        archive.file(path, 0o755, &data)?;
    }
    archive.link("init", "usr/bin/guest-init")?;
    write_modules(&mut archive, MODULE_DIR, modules)?;
    for set in *late {
        let dir = format!("{LATE_DIR}/{}", set.name);
        archive.dir(&dir, 0o755)?;
        match &set.modules {
            Ok(modules) => write_modules(&mut archive, &dir, modules)?,
            Err(why) => archive.file(&format!("{dir}/{MISSING}"), 0o644, why.as_bytes())?,
        }
    }
    archive.file(COMMAND_FILE, 0o644, command.join("\n").as_bytes())?;
    let gzip = archive.finish().context("writing the archive")?;
    let mut file = gzip.finish().context("compressing the archive")?;
    file.flush().context("writing the archive")?;
    fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))
}

fn write_modules<W: Write>(archive: &mut Archive<W>, dir: &str, modules: &[Module]) -> Result<()> {
    for (number, module) in modules.iter().enumerate() {
        let path = format!("{dir}/{number:02}-{}", module.name);
        archive.file(&path, 0o644, &module.image)?;
    }
    Ok(())
}

fn skeleton<W: Write>(archive: &mut Archive<W>, files: &BTreeMap<String, PathBuf>) -> Result<()> {
    let mut dirs: BTreeSet<String> = [
        "dev",
        "etc",
        "home",
        "home/alice",
        "home/bob",
        "modules",
        "late-modules",
        "proc",
        "root",
        "run",
        "sys",
        "tmp",
        "usr",
        "usr/bin",
        "usr/lib",
        "usr/lib64",
        "var",
        "var/lib",
    ]
    .map(str::to_owned)
    .into();
    for path in files.keys() {
        let mut parent = Path::new(path).parent();
        while let Some(dir) = parent.filter(|dir| !dir.as_os_str().is_empty()) {
            dirs.insert(dir.to_string_lossy().into_owned());
            parent = dir.parent();
        }
    }
    for dir in &dirs {
        archive.dir(dir, if dir == "tmp" { 0o1777 } else { 0o755 })?;
    }
    for (name, target) in [
        ("bin", "usr/bin"),
        ("sbin", "usr/bin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
    ] {
        archive.link(name, target)?;
    }
    // The kernel opens this before any of our code runs; without it process 1 has no output.
    archive.device("dev/console", 0o600, 5, 1)?;
    archive.device("dev/null", 0o666, 1, 3)?;
    for (path, text) in ACCOUNTS {
        archive.file(path, 0o644, text.as_bytes())?;
    }
    Ok(())
}

/// Path in the guest to path here: binaries without debug information, tools, and every library that one of them needs.
fn gather(
    bins: &Path,
    with: &[(String, PathBuf)],
    work: &Path,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    let ours = BINARIES.map(|name| (name.to_owned(), bins.join(name)));
    for (name, from) in ours.iter().chain(with) {
        ensure!(from.is_file(), "{} is not built", from.display());
        let stripped = work.join(name);
        let status = Command::new("strip")
            .arg("-o")
            .arg(&stripped)
            .arg(from)
            .status();
        ensure!(
            status.context("starting strip")?.success(),
            "strip failed on {}",
            from.display()
        );
        add_with_libraries(&format!("usr/bin/{name}"), stripped, &mut files)?;
    }
    for name in TOOLS {
        let from = find_tool(name).with_context(|| format!("this machine has no {name}"))?;
        add_with_libraries(&format!("usr/bin/{name}"), from, &mut files)?;
    }
    for path in IF_THERE
        .into_iter()
        .filter(|path| Path::new(path).is_file())
    {
        add_with_libraries(path.trim_start_matches('/'), path.into(), &mut files)?;
    }
    Ok(files)
}

fn find_tool(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    dirs.iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.is_file())
}

fn add_with_libraries(
    path: &str,
    from: PathBuf,
    files: &mut BTreeMap<String, PathBuf>,
) -> Result<()> {
    let output = Command::new("ldd")
        .arg(&from)
        .output()
        .context("starting ldd")?;
    // A static program makes ldd fail, and needs nothing.
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        ensure!(
            !line.contains("not found"),
            "{path} lacks a library: {}",
            line.trim()
        );
        let Some(library) = line.split_whitespace().find(|word| word.starts_with('/')) else {
            continue;
        };
        let below = library.trim_start_matches('/');
        let merged = if below.starts_with("lib") {
            format!("usr/{below}")
        } else {
            below.to_owned()
        };
        files.insert(merged, library.into());
    }
    files.insert(path.to_owned(), from);
    Ok(())
}

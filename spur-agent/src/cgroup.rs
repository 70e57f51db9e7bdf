//! Control groups: `CG2/<folder>/job_<id>/step_<kind>/`, where CG2 is the cgroup v2 tree wherever it is mounted.
//!
//! Directories belong to root and are not writable by users, so a job cannot make groups of its own or move processes. Processes
//! live in step groups only, as v2 asks of groups with controllers. Waiting for the last process is by the kernel's event.

pub mod limits;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use spur_core::id::{JobId, StepKind};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a group's processes are listed and killed one by one where `cgroup.kill` is absent (before Linux 5.14).
const KILL_ROUNDS: u32 = 64;

/// How deep a tree of groups may be that is listed or removed; the kernel's own limit on names is lower in practice.
const MAX_DEPTH: u32 = 64;

/// What went wrong with a cgroup.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No cgroup v2 tree is mounted.
    #[error("no cgroup v2 tree is mounted: mount one (mount -t cgroup2 none /sys/fs/cgroup)")]
    NotMounted,
    /// An operation on a group failed.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The group still has processes.
    #[error("{} still has processes", path.display())]
    Busy {
        /// Which group.
        path: PathBuf,
    },
}

fn failed(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.into();
    move |source| CgroupError::Io { what, path, source }
}

/// The folder of the cgroup v2 tree that belongs to this agent.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// Finds where cgroup v2 is mounted, on pure and hybrid hosts alike.
    ///
    /// # Errors
    /// [`CgroupError::NotMounted`], or that `/proc/self/mountinfo` cannot be read.
    pub fn mount() -> Result<PathBuf, CgroupError> {
        let table = "/proc/self/mountinfo";
        let text = fs::read_to_string(table).map_err(failed("read", table))?;
        find_mount(&text).ok_or(CgroupError::NotMounted)
    }

    /// Makes (or opens) `folder` below the mounted v2 tree and hands controllers down to it where there are any.
    ///
    /// # Errors
    /// See [`Self::mount`]; or the folder cannot be made.
    pub fn open(folder: &str) -> Result<Self, CgroupError> {
        let mut path = Self::mount()?;
        limits::delegate(&path);
        for part in Path::new(folder) {
            path.push(part);
            make(&path)?;
            limits::delegate(&path);
        }
        Ok(Self { path })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a job's group, or opens it if it is there.
    ///
    /// # Errors
    /// The directory cannot be made or opened.
    pub fn create_job(&self, job: JobId) -> Result<Cgroup, CgroupError> {
        let cgroup = Cgroup::create(self.job_path(job))?;
        limits::delegate(&cgroup.path);
        Ok(cgroup)
    }

    /// Opens a job's group, if it is there.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn job(&self, job: JobId) -> Result<Option<Cgroup>, CgroupError> {
        Cgroup::open(self.job_path(job))
    }

    /// Where a job's group is or would be.
    pub fn job_path(&self, job: JobId) -> PathBuf {
        self.path.join(format!("job_{job}"))
    }

    /// Every job that has a group here.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn jobs(&self) -> Result<BTreeSet<JobId>, CgroupError> {
        let names = children(&self.path)?;
        let ids = names
            .iter()
            .filter_map(|name| name.strip_prefix("job_")?.parse().ok().map(JobId));
        Ok(ids.collect())
    }

    /// Removes the folder itself, which must hold no job any more; nothing happens if it is gone already.
    ///
    /// # Errors
    /// It is not empty, or cannot be removed.
    pub fn remove(&self) -> Result<(), CgroupError> {
        remove_dir(&self.path)
    }
}

/// The mount point of the first cgroup2 entry of a `mountinfo` table (`proc_pid_mountinfo(5)`).
fn find_mount(table: &str) -> Option<PathBuf> {
    table.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let fs_type = kind.split(' ').next()?;
        let point = place.split(' ').nth(4)?;
        (fs_type == "cgroup2").then(|| PathBuf::from(unescape(point)))
    })
}

/// Undoes the kernel's `\040`-style octal escapes.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, real)| {
        text.replace(code, real)
    })
}

/// A group of a job or of one of its steps.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    dir: OwnedFd,
}

impl Cgroup {
    /// Makes the group at `path`, or opens it if it is there.
    ///
    /// # Errors
    /// The directory cannot be made or opened.
    pub fn create(path: PathBuf) -> Result<Self, CgroupError> {
        make(&path)?;
        let missing = CgroupError::Io {
            what: "open",
            path: path.clone(),
            source: io::ErrorKind::NotFound.into(),
        };
        Self::open(path)?.ok_or(missing)
    }

    /// Opens the group at `path`, if it is there.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(path: PathBuf) -> Result<Option<Self>, CgroupError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(dir) => Ok(Some(Self { path, dir })),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(failed("open", path)(error.into())),
        }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its id, as BPF programs see it: the directory's inode number.
    ///
    /// # Errors
    /// The directory cannot be examined.
    pub fn id(&self) -> Result<u64, CgroupError> {
        let stat = rustix::fs::fstat(&self.dir);
        stat.map(|s| s.st_ino)
            .map_err(|e| failed("examine", &self.path)(e.into()))
    }

    /// Makes a step's group below this one, or opens it if it is there.
    ///
    /// # Errors
    /// The directory cannot be made or opened.
    pub fn step(&self, kind: StepKind) -> Result<Self, CgroupError> {
        Self::create(self.step_path(kind))
    }

    /// Where a step's group is or would be.
    pub fn step_path(&self, kind: StepKind) -> PathBuf {
        self.path.join(format!("step_{kind}"))
    }

    /// Stops every process in the group and below it, those to come too, or lets them run on. They can be killed meanwhile.
    ///
    /// # Errors
    /// The kernel refuses. A group that was removed has no processes.
    pub fn freeze(&self, frozen: bool) -> Result<(), CgroupError> {
        let word = if frozen { "1" } else { "0" };
        match fs::write(self.path.join("cgroup.freeze"), word) {
            Err(error) if gone(&error) => Ok(()),
            result => result.map_err(failed("freeze or thaw", &self.path)),
        }
    }

    /// Kills every process in the group and below it, now. Processes die a moment later: see [`Self::wait_empty`].
    ///
    /// # Errors
    /// The kernel refuses, or (before Linux 5.14) a process can be neither frozen nor killed.
    pub fn kill(&self) -> Result<(), CgroupError> {
        // Opened without making it: for a file that is not there this file system says "not allowed" to whoever would make one.
        let file = fs::OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.kill"));
        match file.and_then(|mut file| file.write_all(b"1")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.path.exists() => {
                self.kill_each()
            }
            Err(error) if gone(&error) => Ok(()),
            result => result.map_err(failed("kill the processes of", &self.path)),
        }
    }

    /// Freezes the group so that nothing in it can fork, kills each process, and thaws: they die as they run on.
    fn kill_each(&self) -> Result<(), CgroupError> {
        let freeze = self.path.join("cgroup.freeze");
        fs::write(&freeze, "1").map_err(failed("freeze", &self.path))?;
        let mut seen = BTreeSet::new();
        for _ in 0..KILL_ROUNDS {
            let all: BTreeSet<i32> = self.procs()?.into_iter().collect();
            for pid in all.difference(&seen) {
                // The list names processes of this frozen group, so the number cannot have passed to another one.
                crate::sys::process::kill(*pid, libc::SIGKILL).or_else(|e| {
                    if e.raw_os_error() == Some(libc::ESRCH) {
                        Ok(())
                    } else {
                        Err(failed("kill in", &self.path)(e))
                    }
                })?;
            }
            if all.is_subset(&seen) {
                break;
            }
            seen.extend(all);
        }
        fs::write(&freeze, "0").map_err(failed("thaw", &self.path))
    }

    /// Whether a live process is in the group or below it.
    ///
    /// # Errors
    /// `cgroup.events` cannot be read. A group that was removed has none.
    pub fn populated(&self) -> Result<bool, CgroupError> {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(text) => Ok(text.lines().any(|line| line == "populated 1")),
            Err(error) if gone(&error) => Ok(false),
            Err(error) => Err(failed("read cgroup.events of", &self.path)(error)),
        }
    }

    /// A descriptor that becomes ready (`POLLPRI`) each time that the group fills or empties, to wait on without polling.
    ///
    /// # Errors
    /// `cgroup.events` cannot be opened.
    pub fn events(&self) -> Result<Events, CgroupError> {
        let file = fs::File::open(self.path.join("cgroup.events"));
        file.map(|file| Events { file })
            .map_err(failed("open cgroup.events of", &self.path))
    }

    /// Waits until no process is left; `false` if some are when `patience` ends.
    ///
    /// # Errors
    /// As [`Self::events`].
    pub fn wait_empty(&self, patience: Duration) -> Result<bool, CgroupError> {
        if !self.path.exists() {
            return Ok(true);
        }
        let events = self.events()?;
        let deadline = Instant::now() + patience;
        while events
            .populated()
            .map_err(failed("read cgroup.events of", &self.path))?
        {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let timeout = Timespec::try_from(left).ok();
            let mut fds = [PollFd::new(&events, PollFlags::PRI)];
            match rustix::event::poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed("wait for", &self.path)(error.into())),
            }
        }
        Ok(true)
    }

    /// Every process in the group and below it, by process id.
    ///
    /// # Errors
    /// A list cannot be read. Groups that go away meanwhile have none.
    pub fn procs(&self) -> Result<Vec<i32>, CgroupError> {
        let mut found = Vec::new();
        collect_procs(&self.path, MAX_DEPTH, &mut found)?;
        Ok(found)
    }

    /// How often the out-of-memory killer struck in the group or below it; 0 where the memory controller is absent.
    pub fn oom_kills(&self) -> u64 {
        let text = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
            .unwrap_or(0)
    }

    /// Removes the group and all below it, deepest first; nothing happens if it is gone already.
    ///
    /// # Errors
    /// [`CgroupError::Busy`] while processes are left; otherwise why a directory cannot be removed.
    pub fn remove(self) -> Result<(), CgroupError> {
        remove_tree(&self.path, MAX_DEPTH)
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// `cgroup.events` of a group, kept open.
#[derive(Debug)]
pub struct Events {
    file: fs::File,
}

impl Events {
    /// Whether a live process is in the group; reading also arms the descriptor for the next change.
    ///
    /// # Errors
    /// The file cannot be read. A removed group has no process.
    pub fn populated(&self) -> io::Result<bool> {
        use std::os::unix::fs::FileExt;
        let mut text = [0; 256];
        match self.file.read_at(&mut text, 0) {
            Ok(length) => {
                let text = String::from_utf8_lossy(text.get(..length).unwrap_or_default());
                Ok(text.lines().any(|line| line == "populated 1"))
            }
            Err(error) if gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl std::os::fd::AsRawFd for Events {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.file.as_raw_fd()
    }
}

/// Whether an error means that the group was removed meanwhile.
fn gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

fn make(path: &Path) -> Result<(), CgroupError> {
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(failed("make", path)(error))
        }
        _ => owned_by_us(path),
    }
}

/// Refuses a directory that somebody else could have prepared.
fn owned_by_us(path: &Path) -> Result<(), CgroupError> {
    let metadata = fs::symlink_metadata(path).map_err(failed("examine", path))?;
    let safe = metadata.is_dir()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.mode() & 0o022 == 0;
    let refuse = || failed("trust", path)(io::Error::other("not ours, or writable by others"));
    if safe { Ok(()) } else { Err(refuse()) }
}

/// Names of the groups directly below one; none if it is gone.
fn children(path: &Path) -> Result<Vec<String>, CgroupError> {
    let entries = match fs::read_dir(path) {
        Err(error) if gone(&error) => return Ok(Vec::new()),
        entries => entries.map_err(failed("list", path))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed("list", path))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

fn collect_procs(path: &Path, depth: u32, found: &mut Vec<i32>) -> Result<(), CgroupError> {
    match fs::read_to_string(path.join("cgroup.procs")) {
        Ok(text) => found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok())),
        Err(error) if gone(&error) => return Ok(()),
        Err(error) => return Err(failed("list the processes of", path)(error)),
    }
    if depth > 0 {
        for name in children(path)? {
            collect_procs(&path.join(name), depth - 1, found)?;
        }
    }
    Ok(())
}

fn remove_tree(path: &Path, depth: u32) -> Result<(), CgroupError> {
    // Most have nothing below them, which a list of all its files would tell at a price.
    if depth > 0 && remove_dir(path).is_err() {
        for name in children(path)? {
            remove_tree(&path.join(name), depth - 1)?;
        }
    }
    remove_dir(path)
}

fn remove_dir(path: &Path) -> Result<(), CgroupError> {
    match fs::remove_dir(path) {
        Err(error) if gone(&error) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            Err(CgroupError::Busy { path: path.into() })
        }
        result => result.map_err(failed("remove", path)),
    }
}

#[cfg(test)]
mod tests;

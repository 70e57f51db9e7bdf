//! How a step ended on this node, written before its supervisor exits.

use super::{LaunchError, failed};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use spur_core::job::state::ExitStatus;
use spur_core::time::Millis;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

/// The end of a step on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Worst status of its tasks: the greatest as a shell counts (128 + signal).
    pub exit: ExitStatus,
    /// Each task that ran.
    pub tasks: Vec<TaskEnd>,
    /// Why nothing of the step ran, if so: for people.
    pub failure: Option<String>,
    /// With `failure`: the node's fault (fence not proven, cgroup gone) rather than the job's (output file not writable).
    pub node_fault: bool,
    /// The out-of-memory killer struck in the step's cgroup.
    pub oom: bool,
    /// It was ended by order, or its client went away.
    pub cancelled: bool,
    /// It was ended for reaching its time limit.
    pub timed_out: bool,
    /// When the tasks were let go; 0 if none was.
    pub started: Millis,
    /// When the last task had ended.
    pub ended: Millis,
    /// It was ended because no agent was there for so long that the job may run elsewhere.
    #[serde(default)]
    pub orphaned: bool,
}

/// The end of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// Global number.
    pub id: u32,
    /// Process id that it had.
    pub pid: i32,
    /// How it ended.
    pub exit: ExitStatus,
    /// Whether it dumped core.
    pub core: bool,
}

/// The exit record before it is whole.
const DRAFT: &str = "exit.new";
/// Room for an exit record: without its tasks (a reason may be long), and for each of them.
const RECORD_BYTES: u64 = 4096;
const TASK_BYTES: u64 = 96;
/// Pause between tries to write an exit record.
const RETRY: Duration = Duration::from_secs(1);

/// The file that is in a step's folder until its tasks are let go.
const STARTING: &str = "starting";
/// The file that a supervisor holds locked while it lives.
pub(crate) const LOCK: &str = "lock";

/// Says that nothing of the step has run.
pub(super) fn mark_starting(dir: &Path) -> Result<(), LaunchError> {
    let path = dir.join(STARTING);
    private_file(&path)
        .map(drop)
        .map_err(failed("create", &path))
}

/// From now on something of the step may have run.
pub(crate) fn unmark_starting(dir: &Path) -> Result<(), LaunchError> {
    let path = dir.join(STARTING);
    fs::remove_file(&path).map_err(failed("remove", &path))
}

/// Whether a step that no supervisor runs any more ended before anything of it ran, so that it can be started anew: it has the mark
/// still, or no supervisor came so far as to take its lock. Folders of earlier versions have no mark: what is not known has begun.
pub fn never_began(dir: &Path) -> bool {
    let untouched = dir.join(STARTING).exists() || !dir.join(LOCK).exists();
    untouched && matches!(exit_record(dir), Ok(None))
}

/// Takes the room on the disk that the step's exit record will need: by its end the disk may be full, and it must not be lost then.
pub(super) fn reserve_exit_record(dir: &Path, tasks: usize) -> Result<(), LaunchError> {
    let path = dir.join(DRAFT);
    let size = RECORD_BYTES + TASK_BYTES * tasks as u64;
    let take = |file: fs::File| match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size)
    {
        // Where nothing can be reserved, it is written.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            io::copy(&mut io::repeat(0).take(size), &mut &file).map(drop)
        }
        taken => taken.map_err(io::Error::from),
    };
    private_file(&path)
        .and_then(take)
        .map_err(failed("take room for the end of the step in", &path))
}

/// Reads a step's exit record; `None` while there is none.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn exit_record(dir: &Path) -> Result<Option<ExitRecord>, LaunchError> {
    let path = dir.join("exit");
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(failed("read", &path))?,
    };
    let record = rmp_serde::from_slice(&bytes);
    record.map(Some).map_err(|why| LaunchError::Damaged {
        path,
        why: why.to_string(),
    })
}

/// Puts a step's exit record in place, whole or not at all, its content durable. [`sync_dir`] makes its name durable too.
pub(crate) fn write_exit_record(dir: &Path, record: &ExitRecord) -> Result<(), LaunchError> {
    let bytes = encode(record);
    let (path, draft) = (dir.join("exit"), dir.join(DRAFT));
    // Not emptied: that would give the room away which it has.
    let mut file = private(false, &draft).map_err(failed("create", &draft))?;
    file.write_all(&bytes)
        .and_then(|()| file.set_len(bytes.len() as u64))
        .and_then(|()| file.sync_data())
        .map_err(failed("write", &draft))?;
    fs::rename(&draft, &path).map_err(failed("put in place", &path))
}

/// The same for however long it takes: there is nobody else who knows how the step ended. `why` hears once why it takes long.
pub(crate) fn keep_exit_record(dir: &Path, record: &ExitRecord, why: impl FnOnce(&LaunchError)) {
    let mut why = Some(why);
    while let Err(error) = write_exit_record(dir, record) {
        // A folder that is gone is nobody's any more.
        if !dir.exists() {
            return;
        }
        if let Some(why) = why.take() {
            why(&error);
        }
        std::thread::sleep(RETRY);
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), LaunchError> {
    fs::File::open(dir)
        .and_then(|folder| folder.sync_all())
        .map_err(failed("sync", dir))
}

/// MessagePack with field names, so that a newer agent reads what an older one wrote.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain data always encodes into memory")
}

/// A new or emptied file that only root reads.
pub(crate) fn private_file(path: &Path) -> io::Result<fs::File> {
    private(true, path)
}

fn private(emptied: bool, path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(emptied)
        .mode(0o600)
        .open(path)
}

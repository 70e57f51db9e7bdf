//! How a step ended on this node, written before its supervisor exits.

use super::{LaunchError, failed};
use serde::{Deserialize, Serialize};
use spur_core::job::state::ExitStatus;
use spur_core::time::Millis;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

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
    let (path, draft) = (dir.join("exit"), dir.join("exit.new"));
    let mut file = private_file(&draft).map_err(failed("create", &draft))?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_data())
        .map_err(failed("write", &draft))?;
    fs::rename(&draft, &path).map_err(failed("put in place", &path))
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
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

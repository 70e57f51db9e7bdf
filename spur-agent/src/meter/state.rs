//! What a restarted meter needs to go on: a small file beside the journal, written every few seconds. It need not survive a crash
//! of the machine, which ends the jobs too.

use super::account::job::Job;
use serde::{Deserialize, Serialize};
use spur_core::id::{Generation, JobId};
use std::collections::{BTreeMap, VecDeque};
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Jobs whose record was made, that are remembered so that none is made twice.
pub const DONE_MAX: usize = 1024;

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Boot of the kernel: nothing of another boot is of use.
    pub boot_id: String,
    /// Jobs here.
    pub jobs: BTreeMap<JobId, Job>,
    /// Jobs that have their record.
    pub done: VecDeque<(JobId, Generation)>,
}

impl Saved {
    /// Reads the file; without one, from another boot, or from another version, there is nothing.
    pub fn read(file: &Path, boot_id: &str) -> Self {
        let bytes = std::fs::read(file).unwrap_or_default();
        let saved: Option<Self> = rmp_serde::from_slice(&bytes).ok();
        saved
            .filter(|saved| saved.boot_id == boot_id)
            .unwrap_or_else(|| Self {
                boot_id: boot_id.to_owned(),
                ..Self::default()
            })
    }

    /// As bytes for [`write`].
    pub fn encode(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).expect("plain data always encodes into memory")
    }
}

/// Puts a new file in place of the old one, whole or not at all.
pub fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = file.with_extension("new");
    // Users' numbers are nobody else's business.
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut out = options.open(&draft)?;
    out.set_permissions(Permissions::from_mode(0o600))?;
    out.write_all(bytes)?;
    std::fs::rename(&draft, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_comes_back_in_the_same_boot_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("meter");
        assert_eq!(Saved::read(&file, "a").jobs.len(), 0);
        let mut saved = Saved {
            boot_id: "a".into(),
            ..Saved::default()
        };
        let mut job = Job {
            cpus: 3,
            ..Job::default()
        };
        job.gpus
            .insert(2, super::super::account::gpu::JobGpu::new("u", "m", 1, 5));
        saved.jobs.insert(JobId(7), job);
        write(&file, &saved.encode()).unwrap();
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
        assert_eq!(Saved::read(&file, "a"), saved);
        assert_eq!(Saved::read(&file, "b").jobs.len(), 0);
        std::fs::write(&file, "nonsense").unwrap();
        assert_eq!(Saved::read(&file, "a").jobs.len(), 0);
    }
}

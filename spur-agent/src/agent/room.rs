//! Whether the disk under the agent's state has room for what jobs need there. Without it none could be started whose end is sure to be
//! kept, so that the node says so, and takes no more until there is room again.

use super::Agent;
use std::path::Path;

/// With fewer bytes than this the node takes no jobs.
const BYTES_MIN: u64 = 4 << 20;
/// The same of files.
const FILES_MIN: u64 = 64;
/// Twice as much makes it take jobs again: it must not go to and fro.
const AGAIN: u64 = 2;

/// What is left of a disk, for root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    bytes: u64,
    /// `None` on file systems that have no limit of files.
    files: Option<u64>,
}

impl Left {
    fn of(dir: &Path) -> rustix::io::Result<Self> {
        let disk = rustix::fs::statvfs(dir)?;
        Ok(Self {
            bytes: disk.f_bfree.saturating_mul(disk.f_frsize),
            files: (disk.f_files > 0).then_some(disk.f_ffree),
        })
    }

    /// What it is too little of, in words.
    fn lacks(self, was_full: bool) -> Option<String> {
        let times = if was_full { AGAIN } else { 1 };
        if self.bytes < BYTES_MIN * times {
            return Some(format!("{} KiB are left", self.bytes >> 10));
        }
        let files = self.files.filter(|files| *files < FILES_MIN * times)?;
        Some(format!("{files} files can be made yet"))
    }
}

impl Agent {
    /// Looks at the disk, and tells the controller if that changed.
    pub(super) fn look_at_room(&mut self) {
        let dir = &self.node.config.state_dir;
        let left = match Left::of(dir) {
            Ok(left) => left,
            Err(error) => {
                tracing::warn!(dir = %dir.display(), %error, "cannot look how full the disk is");
                return;
            }
        };
        let full = left.lacks(self.full.is_some()).map(|left| {
            let dir = dir.display();
            format!("the disk under {dir} is full: {left}; no job is started before there is room")
        });
        if full.is_some() == self.full.is_some() {
            return;
        }
        match &full {
            Some(why) => tracing::error!("{why}"),
            None => tracing::info!("there is room on the disk again"),
        }
        self.full = full;
        self.send_condition();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_before_it_is_and_has_room_again_later() {
        let left = |bytes, files| Left { bytes, files };
        let full = |left: Left| left.lacks(false).is_some();
        assert!(!full(left(BYTES_MIN, None)) && full(left(BYTES_MIN - 1, None)));
        assert!(!full(left(BYTES_MIN, Some(64))) && full(left(1 << 40, Some(63))));
        let again = |left: Left| left.lacks(true).is_none();
        assert!(!again(left(BYTES_MIN, None)) && again(left(2 * BYTES_MIN, Some(128))));
        let text = left(5000, None).lacks(false);
        assert_eq!(text.as_deref(), Some("4 KiB are left"));
    }
}

//! Stand-ins of development clusters: how busy one is stands in a file beside its device node, and is simulated in every view.

use crate::config::DeclaredGpus;
use crate::discover::declared;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Most bytes of the file that are looked at.
const BYTES_MAX: usize = 32;

/// The file of a stand-in's device node.
pub fn file(device: &str) -> PathBuf {
    PathBuf::from(format!("{device}.busy"))
}

/// Makes the files that are not there yet, with "0": everybody may write them.
pub fn make_all(groups: &[DeclaredGpus]) -> io::Result<()> {
    for group in groups {
        for number in 0..group.count {
            make(&file(&declared::file(group, number).path))?;
        }
    }
    Ok(())
}

fn make(path: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o666).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(mut made) => {
            // The umask took bits away.
            made.set_permissions(std::fs::Permissions::from_mode(0o666))?;
            io::Write::write_all(&mut made, b"0\n")
        }
    }
}

/// The file that says how busy one stand-in is. It may be replaced: it is opened anew once in a while.
#[derive(Debug)]
pub struct StandIn {
    /// Its index in the inventory.
    pub index: u32,
    path: PathBuf,
    file: Option<std::fs::File>,
}

impl StandIn {
    /// The stand-in whose file is at `path`.
    pub fn new(index: u32, path: PathBuf) -> Self {
        Self {
            index,
            path,
            file: None,
        }
    }

    /// How busy it is, in thousandths; absent if the file is, or says anything but a number from 0 to 1000.
    pub fn read(&mut self, anew: bool) -> Option<u16> {
        use std::os::unix::fs::FileExt;
        if anew || self.file.is_none() {
            let options = libc::O_NONBLOCK | libc::O_NOFOLLOW;
            let opened = std::fs::OpenOptions::new()
                .read(true)
                .custom_flags(options)
                .open(&self.path);
            self.file = opened.ok();
        }
        let mut text = [0; BYTES_MAX];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        text.trim().parse().ok().filter(|share| *share <= 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_share_is_a_share() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gpu0.busy");
        let mut standin = StandIn::new(0, path.clone());
        assert_eq!(standin.read(false), None);
        make(&path).unwrap();
        assert_eq!(standin.read(false), Some(0));
        for (text, share) in [
            ("750\n", Some(750)),
            ("1000", Some(1000)),
            ("1001", None),
            ("-1", None),
            ("", None),
            ("x", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(standin.read(false), share, "{text:?}");
        }
        make(&path).unwrap();
        assert_eq!(standin.read(false), None, "what is there stays");
        let draft = dir.path().join("draft");
        std::fs::write(&draft, "7").unwrap();
        std::fs::rename(&draft, &path).unwrap();
        assert_eq!(standin.read(true), Some(7));
    }
}

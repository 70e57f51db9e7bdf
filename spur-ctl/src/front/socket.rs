//! Unix sockets to listen on.

use rustix::fs::Mode;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixListener;

/// How often it is looked whether anybody listens: a process that was just killed closes its files one by one.
const TRIES: u32 = 20;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Why a socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody listens there.
    #[error("another process listens on {0}: stop it, or configure another socket")]
    InUse(PathBuf),
    /// There is something else.
    #[error("{0} exists and is not a socket: remove it, or configure another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot {what} {path}: {cause}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
}

/// A socket file that goes when this does.
#[derive(Debug)]
pub struct Bound {
    /// The listener.
    pub listener: UnixListener,
    /// Removes the file.
    pub file: SocketFile,
}

/// Removes the socket's file when dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

/// Listens at a path with these permission bits. A file that a dead process left is replaced.
pub async fn bind(path: &Path, mode: u32) -> Result<Bound, SocketError> {
    let system = |what, cause| SocketError::System {
        what,
        path: path.to_owned(),
        cause,
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|cause| system("make the folder of", cause))?;
    }
    clear(path).await?;
    // Nobody may connect between the two calls who may not afterwards.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener.map_err(|cause| system("listen on", cause))?;
    let file = SocketFile(path.to_owned());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(|cause| system("set the mode of", cause))?;
    Ok(Bound { listener, file })
}

/// Removes what a dead process left; refuses to touch anything else.
async fn clear(path: &Path) -> Result<(), SocketError> {
    let system = |what, cause| SocketError::System {
        what,
        path: path.to_owned(),
        cause,
    };
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(system("look at", e)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    for _ in 0..TRIES {
        match tokio::net::UnixStream::connect(path).await {
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
                return std::fs::remove_file(path).map_err(|cause| system("remove", cause));
            }
            Err(e) => return Err(system("try", e)),
        }
    }
    Err(SocketError::InUse(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/sock");
        let live = bind(&path, 0o666).await.unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o666
        );
        assert!(matches!(
            bind(&path, 0o600).await,
            Err(SocketError::InUse(_))
        ));
        // As a process that is killed leaves it.
        std::fs::rename(&path, path.with_extension("kept")).unwrap();
        drop(live);
        std::fs::rename(path.with_extension("kept"), &path).unwrap();
        let next = bind(&path, 0o600).await.unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        drop(next);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(
            bind(&path, 0o600).await,
            Err(SocketError::NotASocket(_))
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}

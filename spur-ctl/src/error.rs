//! Why the controller does not start, or stops.

use crate::config::ConfigError;
use crate::front::socket::SocketError;
use crate::store::StoreError;
use std::path::PathBuf;

/// What the daemon ends with.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration or the token.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The state folder cannot be used.
    #[error("cannot use the state folder {path}: {cause}")]
    StateDir {
        /// The folder.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// Another controller lives on it.
    #[error("another controller uses {0}: stop it first")]
    Locked(PathBuf),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The system refused something that every process needs.
    #[error("cannot {what}: {cause}")]
    System {
        /// What.
        what: &'static str,
        /// Why not.
        cause: std::io::Error,
    },
    /// A server ended.
    #[error("cannot serve: {0}")]
    Serve(#[from] tonic::transport::Error),
    /// The writer cannot go on.
    #[error("{0}")]
    Writer(String),
}

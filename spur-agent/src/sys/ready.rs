//! Waiting for a descriptor in tokio's event loop.

use std::os::fd::{BorrowedFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits until the descriptor is readable. Must be called within a tokio runtime.
pub async fn readable(fd: BorrowedFd<'_>) -> std::io::Result<()> {
    let own: OwnedFd = fd.try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` gives the same open descriptor every time until it is dropped, which `AsyncFd` does after it has
    // taken the descriptor out of the event loop.
    let watched = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) }?;
    watched.readable().await?.retain_ready();
    Ok(())
}

//! The signals that srun takes, as one stream.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Linux numbers (`signal(7)`).
pub const INT: u8 = 2;
/// See [`INT`].
pub const HUP: u8 = 1;
/// See [`INT`].
pub const QUIT: u8 = 3;
/// See [`INT`].
pub const KILL: u8 = 9;
/// See [`INT`].
pub const TERM: u8 = 15;
/// See [`INT`].
pub const CONT: u8 = 18;
/// See [`INT`].
pub const WINCH: u8 = 28;
/// Those by which the user wants no more: Ctrl-C and the like.
pub const ENDING: [u8; 4] = [HUP, INT, QUIT, TERM];
/// Signals that may wait to be handled.
const QUEUE: usize = 16;

/// Does something unless a signal comes meanwhile by which the user wants no more: `None` then.
pub async fn unless_stopped<T>(work: impl Future<Output = T>) -> Option<T> {
    let Ok(mut signals) = listen() else {
        return Some(work.await);
    };
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            Some(signal) = signals.recv() => {
                if ENDING.contains(&signal) {
                    return None;
                }
            }
        }
    }
}

/// Takes them from now on. Those that end srun, and those that only pass.
pub fn listen() -> std::io::Result<mpsc::Receiver<u8>> {
    let kinds = [
        (HUP, SignalKind::hangup()),
        (INT, SignalKind::interrupt()),
        (QUIT, SignalKind::quit()),
        (10, SignalKind::user_defined1()),
        (12, SignalKind::user_defined2()),
        (14, SignalKind::alarm()),
        (TERM, SignalKind::terminate()),
        (CONT, SignalKind::from_raw(CONT.into())),
        (WINCH, SignalKind::window_change()),
    ];
    let (queue, signals) = mpsc::channel(QUEUE);
    for (number, kind) in kinds {
        let mut taken = signal(kind)?;
        let queue = queue.clone();
        tokio::spawn(async move {
            while taken.recv().await.is_some() {
                if queue.send(number).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(signals)
}

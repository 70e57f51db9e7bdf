//! The thread that writes the tasks' output, so that a slow reader of srun stops the tasks but not srun's handling of
//! signals.

use super::super::output;
use super::files::Sink;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// Pieces of output that may wait; when so many do, no more is read from the nodes.
const QUEUE: usize = 64;

/// One piece of output.
#[derive(Debug)]
pub struct Piece {
    /// For standard error.
    pub stderr: bool,
    /// The bytes.
    pub data: Vec<u8>,
}

/// A running printer.
#[derive(Debug)]
pub struct Printer {
    queue: mpsc::Sender<Piece>,
    thread: std::thread::JoinHandle<()>,
}

impl Printer {
    /// Starts it with files for the streams that do not go to srun's own. It tells `gone` when nobody reads srun's any more.
    pub fn start(stdout: &Sink, stderr: &Sink, gone: &Arc<Notify>) -> std::io::Result<Self> {
        let file = |sink: &Sink| match sink {
            Sink::File(file) => file.try_clone().map(Some),
            Sink::Own | Sink::OwnOf(_) | Sink::WithStdout | Sink::Remote(_) => Ok(None),
        };
        let out = file(stdout)?;
        let err = if matches!(stderr, Sink::WithStdout) {
            file(stdout)?
        } else {
            file(stderr)?
        };
        let (queue, pieces) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn({
                let gone = Arc::clone(gone);
                move || write_all(pieces, (out, err), &gone)
            })?;
        Ok(Self { queue, thread })
    }

    /// Waits for room and hands a piece over. A printer that is gone takes nothing.
    pub async fn print(&self, piece: Piece) {
        if !piece.data.is_empty() {
            self.queue.send(piece).await.ok();
        }
    }

    /// Waits until everything is written.
    pub fn finish(self) {
        let Self { queue, thread } = self;
        drop(queue);
        thread.join().ok();
    }
}

fn write_all(
    mut pieces: mpsc::Receiver<Piece>,
    (mut out, mut err): (Option<File>, Option<File>),
    gone: &Notify,
) {
    while let Some(piece) = pieces.blocking_recv() {
        let file = if piece.stderr { &mut err } else { &mut out };
        // A full disk must not end the tasks: what would have gone there is dropped.
        match (file, piece.stderr) {
            (Some(file), _) => output::note("the output file", file.write_all(&piece.data)),
            (None, true) => drop(std::io::stderr().write_all(&piece.data)),
            (None, false) => {
                output::write(&piece.data);
                if output::is_unread() {
                    gone.notify_one();
                }
            }
        }
    }
}

//! The thread that writes the tasks' output, so that a slow reader of srun stops the tasks but not srun's handling of
//! signals. It begins with the first of it.
//!
//! What finds no room at the thread is held here. Whoever holds something takes no more from the nodes until [`room`] has handed it
//! over, and hears signals and clocks meanwhile.

use super::super::output;
use super::files::Sink;
use super::{signals, words};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

/// Pieces of output that may wait; when so many do, no more is read from the nodes.
const QUEUE: usize = 64;
/// How long a reader may take for the last of it once the user wants no more.
pub const LAST_PRINT: Duration = Duration::from_secs(2);

/// One piece of output.
#[derive(Debug)]
pub struct Piece {
    /// For standard error.
    pub stderr: bool,
    /// The bytes.
    pub data: Vec<u8>,
}

/// A printer.
#[derive(Debug)]
pub struct Printer {
    /// What a thread is to begin with, until there is one.
    outlets: Option<Outlets>,
    queue: mpsc::Sender<Piece>,
    /// What found no room, in order.
    held: VecDeque<Piece>,
    /// What finds no room is dropped.
    dropping: bool,
    /// Closed when the thread has written everything, or there is none.
    written: oneshot::Receiver<()>,
}

/// Where a printer's thread takes pieces from and writes them to.
#[derive(Debug)]
struct Outlets {
    pieces: mpsc::Receiver<Piece>,
    /// In place of standard output and standard error.
    files: [Option<File>; 2],
    /// Told when nobody reads srun's any more.
    gone: Arc<Notify>,
    done: oneshot::Sender<()>,
}

impl Printer {
    /// One with files for the streams that do not go to srun's own. It tells `gone` when nobody reads srun's any more.
    pub fn new(stdout: &Sink, stderr: &Sink, gone: &Arc<Notify>) -> std::io::Result<Self> {
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
        let (done, written) = oneshot::channel();
        Ok(Self {
            outlets: Some(Outlets {
                pieces,
                files: [out, err],
                gone: Arc::clone(gone),
                done,
            }),
            queue,
            held: VecDeque::new(),
            dropping: false,
            written,
        })
    }

    /// Begins the thread, if it has not begun.
    fn begin(&mut self) {
        let Some(outlets) = self.outlets.take() else {
            return;
        };
        let thread = std::thread::Builder::new().name("output".to_owned());
        if let Err(why) = thread.spawn(move || outlets.write_all()) {
            words::say(format!(
                "srun: error: output is lost, no thread can be made to write it: {why}"
            ));
        }
    }

    /// Hands a piece over, or holds it. A printer that is gone takes nothing.
    pub fn print(&mut self, piece: Piece) {
        if piece.data.is_empty() {
            return;
        }
        self.begin();
        if !self.held.is_empty() {
            self.held.push_back(piece);
            return;
        }
        match self.queue.try_send(piece) {
            Err(mpsc::error::TrySendError::Full(piece)) if !self.dropping => {
                self.held.push_back(piece);
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// From now on drops what finds no room: the end is waited for, and output that nobody reads stands before it.
    pub fn hold_no_more(&mut self) {
        self.dropping = true;
        self.held.clear();
    }

    async fn hand_over(&mut self) {
        while !self.held.is_empty() {
            match self.queue.reserve().await {
                Ok(room) => {
                    if let Some(piece) = self.held.pop_front() {
                        room.send(piece);
                    }
                }
                Err(_) => self.held.clear(),
            }
        }
    }

    async fn finish(mut self) {
        self.hand_over().await;
        let Self {
            queue,
            written,
            outlets,
            ..
        } = self;
        drop((queue, outlets));
        written.await.ok();
    }
}

/// Whether one of them holds something.
pub fn any_holds(printers: &[Printer]) -> bool {
    printers.iter().any(|printer| !printer.held.is_empty())
}

/// Hands over what they hold, as there is room. Nothing is lost if it is not waited for to the end.
pub async fn room(printers: &mut [Printer]) {
    for printer in printers {
        printer.hand_over().await;
    }
}

/// Waits until everything is written, and what was said too; not for long if the user wants no more, before or meanwhile: whether
/// that is so.
pub async fn finish(
    printers: Vec<Printer>,
    signals: &mut mpsc::Receiver<u8>,
    mut wants_no_more: bool,
) -> bool {
    let mut written = std::pin::pin!(async {
        for printer in printers {
            printer.finish().await;
        }
        words::written().await;
    });
    let mut end = Instant::now() + LAST_PRINT;
    loop {
        tokio::select! {
            biased;
            () = &mut written => return wants_no_more,
            () = tokio::time::sleep_until(end), if wants_no_more => return true,
            Some(signal) = signals.recv() => {
                if signals::ENDING.contains(&signal) && !wants_no_more {
                    (wants_no_more, end) = (true, Instant::now() + LAST_PRINT);
                }
            }
        }
    }
}

impl Outlets {
    fn write_all(mut self) {
        while let Some(piece) = self.pieces.blocking_recv() {
            let [out, err] = &mut self.files;
            let file = if piece.stderr { err } else { out };
            // A full disk must not end the tasks: what would have gone there is dropped.
            match (file, piece.stderr) {
                (Some(file), _) => output::note("the output file", file.write_all(&piece.data)),
                (None, true) => drop(std::io::stderr().write_all(&piece.data)),
                (None, false) => {
                    output::write(&piece.data);
                    if output::is_unread() {
                        self.gone.notify_one();
                    }
                }
            }
        }
        drop::<oneshot::Sender<()>>(self.done);
    }
}

//! srun's own lines on stderr while a step runs: a thread writes them, since whoever reads may have stopped to, and srun is to
//! hear signals and clocks meanwhile.

use super::super::output;
use std::sync::OnceLock;
use tokio::sync::{mpsc, oneshot};

/// Lines that may wait; more than a reader who stopped will miss.
const QUEUE: usize = 4096;

static THREAD: OnceLock<mpsc::Sender<Word>> = OnceLock::new();

enum Word {
    Line(String),
    /// Everything before is written.
    Mark(oneshot::Sender<()>),
}

/// From now on lines are written by the thread, which ends with the process.
pub fn start() -> std::io::Result<()> {
    if THREAD.get().is_some() {
        return Ok(());
    }
    let (queue, words) = mpsc::channel(QUEUE);
    std::thread::Builder::new()
        .name("words".to_owned())
        .spawn(move || write_all(words))?;
    THREAD.get_or_init(|| queue);
    Ok(())
}

fn write_all(mut words: mpsc::Receiver<Word>) {
    while let Some(word) = words.blocking_recv() {
        match word {
            Word::Line(line) => output::complain(&[line]),
            Word::Mark(written) => drop(written.send(())),
        }
    }
}

/// Prints a line, or has it printed. One that finds no room among those that nobody has read is dropped.
pub fn say(line: String) {
    match THREAD.get() {
        Some(thread) => drop(thread.try_send(Word::Line(line))),
        None => output::complain(&[line]),
    }
}

/// Waits until what was said is written.
pub async fn written() {
    let (mark, reached) = oneshot::channel();
    if let Some(thread) = THREAD.get()
        && thread.send(Word::Mark(mark)).await.is_ok()
    {
        reached.await.ok();
    }
}

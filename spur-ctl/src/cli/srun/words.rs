//! srun's own lines on stderr while a step runs: a thread writes them, since whoever reads may have stopped to, and srun is to
//! hear signals and clocks meanwhile. It begins with the first line: most steps have none.

use super::super::output;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Lines that may wait; more than a reader who stopped will miss.
const QUEUE: usize = 4096;

/// Whether a step runs.
static RUNS: AtomicBool = AtomicBool::new(false);

/// The thread's queue; `None` if there could be no thread.
static THREAD: OnceLock<Option<mpsc::Sender<Word>>> = OnceLock::new();

enum Word {
    Line(String),
    /// Everything before is written.
    Mark(oneshot::Sender<()>),
}

/// From now on lines are written by the thread, which ends with the process.
pub fn start() {
    RUNS.store(true, Ordering::Relaxed);
}

fn begin() -> Option<mpsc::Sender<Word>> {
    let (queue, words) = mpsc::channel(QUEUE);
    let thread = std::thread::Builder::new().name("words".to_owned());
    thread.spawn(move || write_all(words)).ok().map(|_| queue)
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
    let thread = RUNS
        .load(Ordering::Relaxed)
        .then(|| THREAD.get_or_init(begin));
    match thread {
        Some(Some(thread)) => drop(thread.try_send(Word::Line(line))),
        Some(None) | None => output::complain(&[line]),
    }
}

/// Waits until what was said is written.
pub async fn written() {
    let (mark, reached) = oneshot::channel();
    if let Some(Some(thread)) = THREAD.get()
        && thread.send(Word::Mark(mark)).await.is_ok()
    {
        reached.await.ok();
    }
}

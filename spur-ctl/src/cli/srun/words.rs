//! srun's own lines on stderr while a step runs: what cannot be written at once is left to a thread, since whoever reads may have
//! stopped to, and srun is to hear signals and clocks meanwhile.

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

/// The longest line that a pipe takes whole if it takes anything (`PIPE_BUF`).
const AT_ONCE_MAX: usize = 4096;

/// From now on no line is waited for.
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

/// Whether a line can be written without waiting.
fn has_room(line: &str) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stderr = std::io::stderr();
    let mut room = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = Timespec::default();
    line.len() < AT_ONCE_MAX
        && poll(&mut room, Some(&now)).is_ok()
        && room[0].revents().contains(PollFlags::OUT)
}

/// Prints a line, or has it printed. One that finds no room among those that nobody has read is dropped. The thread begins with the
/// first line that would have to be waited for, ends with the process, and has all that come after.
pub fn say(line: String) {
    let waits = RUNS.load(Ordering::Relaxed) && (THREAD.get().is_some() || !has_room(&line));
    match waits.then(|| THREAD.get_or_init(begin)) {
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

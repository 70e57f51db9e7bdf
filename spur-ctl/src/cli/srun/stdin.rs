//! srun's standard input on its way to the tasks.

use super::files::Feed;
use super::wire::{Link, may_read_stdin};
use std::io::Read;
use tokio::sync::mpsc;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Chunks that may wait.
const QUEUE: usize = 2;

/// Reads in a thread of its own, since a terminal or a file can only be waited for by blocking, and passes on what comes.
/// The thread ends with the process. `only` is the one task that it is for.
pub fn pump(feed: Feed, links: Vec<Link>, only: Option<u32>) {
    let source: Option<Box<dyn Read + Send>> = match feed {
        Feed::All | Feed::Task(_) if is_null() => None,
        Feed::All | Feed::Task(_) if may_read_stdin() => Some(Box::new(std::io::stdin())),
        Feed::File(file) => Some(Box::new(file)),
        Feed::All | Feed::Task(_) | Feed::None | Feed::Remote(_) => return,
    };
    let (queue, mut chunks) = mpsc::channel(QUEUE);
    let thread = source.map(|source| {
        let thread = std::thread::Builder::new().name("input".to_owned());
        thread.spawn(move || read(source, &queue))
    });
    tokio::spawn(async move {
        while let Some(chunk) = chunks.recv().await {
            for link in &links {
                link.feed(Vec::clone(&chunk), only).await;
            }
        }
        for link in &links {
            link.feed(Vec::new(), only).await;
        }
    });
    if let Some(Err(why)) = thread {
        super::err(format_args!("cannot read standard input: {why}"));
    }
}

/// Whether standard input is the null device, where there is nothing to wait for.
fn is_null() -> bool {
    let null = rustix::fs::makedev(1, 3);
    rustix::fs::fstat(std::io::stdin()).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device() && stat.st_rdev == null
    })
}

fn read(mut source: Box<dyn Read + Send>, queue: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match source.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if queue.blocking_send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        }
    }
}

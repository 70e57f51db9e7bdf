//! The connections to the agents, one for each node.

use super::programs::Programs;
use super::terminal::in_foreground;
use spur_core::api::{Grant, GrantNode};
use spur_proto::client::unix_path;
use spur_proto::frame::{read_frame_async, write_frame_async};
use spur_proto::wire::{FromStep, Open, Signal, Stdin, ToStep, WindowSize, from_step, to_step};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};

/// Messages of one node that may wait for srun.
const INWARD: usize = 16;
/// Messages for one node that may wait to be sent.
const OUTWARD: usize = 2;
/// Bytes of input that may be on their way to an MPI program's tasks: less than what makes a node stop to read (1 MiB), since what
/// the tasks tell each other comes by the same way.
const INPUT_MAX: usize = 512 << 10;

/// How long an agent may take to start again, and the pause between looks.
const REACH_WITHIN: Duration = Duration::from_secs(60);
const REACH_PAUSE: Duration = Duration::from_millis(250);

/// What came from a node.
#[derive(Debug)]
pub enum News {
    /// A message.
    Message(from_step::Kind),
    /// The connection could not be made, or ended; why.
    Gone(String),
}

/// srun's end of the connection to one node.
#[derive(Clone, Debug)]
pub struct Link {
    outward: mpsc::Sender<ToStep>,
    busy: Arc<AtomicBool>,
    /// What is left of [`INPUT_MAX`], where that counts; closed when the node is gone.
    credit: Option<Arc<Semaphore>>,
}

impl Link {
    /// Sends input, for one task or all that get any, when there is room.
    pub async fn feed(&self, data: Vec<u8>, task: Option<u32>) {
        if let Some(credit) = &self.credit {
            let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
            if let Ok(permits) = credit.acquire_many(bytes).await {
                permits.forget();
            }
        }
        let stdin = Stdin {
            eof: data.is_empty(),
            data,
            task,
        };
        self.outward
            .send(ToStep {
                kind: Some(to_step::Kind::Stdin(stdin)),
            })
            .await
            .ok();
    }

    /// Sends the terminal's size when there is room: what `size` says then.
    pub async fn resize(&self, size: impl FnOnce() -> WindowSize) {
        if let Ok(room) = self.outward.reserve().await {
            room.send(ToStep {
                kind: Some(to_step::Kind::Window(size())),
            });
        }
    }

    /// So many bytes of input are with the tasks.
    pub fn taken(&self, bytes: u64) {
        if let Some(credit) = &self.credit {
            let bytes = usize::try_from(bytes).unwrap_or(INPUT_MAX).min(INPUT_MAX);
            credit.add_permits(bytes);
        }
    }

    /// Sends a message, when there is room.
    pub async fn tell(&self, kind: to_step::Kind) {
        self.outward.send(ToStep { kind: Some(kind) }).await.ok();
    }

    /// Sends a signal unless input that no task takes stands in its way; `false` then.
    pub fn signal(&self, number: u8) -> bool {
        let free = self.outward.capacity() == OUTWARD && !self.busy.load(Ordering::Relaxed);
        let message = ToStep {
            kind: Some(to_step::Kind::Signal(Signal {
                number: number.into(),
            })),
        };
        free && self.outward.try_send(message).is_ok()
    }
}

/// Connects to every node at once, with what it is to run: one of these, by its place, and a program for each task where they
/// differ. What they say arrives at the receiver, with the node's index.
pub fn connect(
    grant: &Grant,
    (opens, programs): (&[Open], &[Option<Programs>]),
    parts: &[usize],
) -> (Vec<Link>, mpsc::Receiver<(usize, News)>) {
    let (news, inbox) = mpsc::channel(INWARD * grant.nodes.len().clamp(1, 64));
    let mut links = Vec::new();
    for (at, node) in grant.nodes.iter().enumerate() {
        let (outward, queue) = mpsc::channel(OUTWARD);
        let busy = Arc::new(AtomicBool::new(true));
        let part = parts.get(at).copied().unwrap_or_default();
        let open = opens.get(part).or(opens.first());
        let credit = open.and_then(|open| open.mpi.as_ref());
        let link = Link {
            outward,
            busy,
            credit: credit.map(|_| Arc::new(Semaphore::new(INPUT_MAX))),
        };
        links.push(link.clone());
        let Some(open) = open else {
            continue;
        };
        let programs = programs.get(part).and_then(Option::as_ref);
        let open = Open {
            ticket: node.ticket.clone(),
            programs: programs.map_or_else(Vec::new, |own| own.of(&node.task_ids)),
            ..open.clone()
        };
        tokio::spawn(talk(at, node.clone(), open, queue, link, news.clone()));
    }
    (links, inbox)
}

async fn talk(
    at: usize,
    node: GrantNode,
    open: Open,
    queue: mpsc::Receiver<ToStep>,
    link: Link,
    news: mpsc::Sender<(usize, News)>,
) {
    let Link { busy, credit, .. } = link;
    let why = match reach(&node, open, &news).await {
        Ok((first, read, write)) => {
            news.send((at, News::Message(first))).await.ok();
            busy.store(false, Ordering::Relaxed);
            let writer = tokio::spawn(send_all(write, queue, busy));
            let why = hear_all(at, read, &news).await;
            writer.abort();
            why
        }
        Err(why) => why,
    };
    if let Some(credit) = credit {
        credit.close();
    }
    news.send((at, News::Gone(why))).await.ok();
}

type Reached = (from_step::Kind, BufReader<OwnedReadHalf>, OwnedWriteHalf);

/// Connects until the step says its first word. An agent that is away may be starting again; one that went away before it handed the
/// connection on has started nothing, for the step speaks first.
async fn reach(
    node: &GrantNode,
    open: Open,
    news: &mpsc::Sender<(usize, News)>,
) -> Result<Reached, String> {
    let path = unix_path(&node.address).ok_or_else(|| format!("bad address {}", node.address))?;
    let end = Instant::now() + REACH_WITHIN;
    loop {
        let why = match first_word(path, open.clone()).await {
            Ok(reached) => return Ok(reached),
            Err(why) => format!("{}: {why}", node.address),
        };
        if Instant::now() > end || news.is_closed() {
            return Err(why);
        }
        tokio::time::sleep(REACH_PAUSE).await;
    }
}

async fn first_word(path: &Path, open: Open) -> std::io::Result<Reached> {
    let stream = UnixStream::connect(path).await?;
    let (read, mut write) = stream.into_split();
    let message = ToStep {
        kind: Some(to_step::Kind::Open(open)),
    };
    write_frame_async(&mut write, &message).await?;
    let mut read = BufReader::with_capacity(128 << 10, read);
    loop {
        match read_frame_async::<FromStep>(&mut read).await? {
            Some(FromStep { kind: Some(kind) }) => return Ok((kind, read, write)),
            Some(FromStep { kind: None }) => {}
            None => return Err(std::io::ErrorKind::ConnectionReset.into()),
        }
    }
}

async fn send_all(
    mut write: OwnedWriteHalf,
    mut queue: mpsc::Receiver<ToStep>,
    busy: Arc<AtomicBool>,
) {
    while let Some(message) = queue.recv().await {
        busy.store(true, Ordering::Relaxed);
        if write_frame_async(&mut write, &message).await.is_err() {
            // The reading side learns why.
            return;
        }
        busy.store(false, Ordering::Relaxed);
    }
    // Half-closing would be taken for the end of input; keep the line until the step ends.
    std::future::pending::<()>().await;
}

async fn hear_all(
    at: usize,
    mut read: BufReader<OwnedReadHalf>,
    news: &mpsc::Sender<(usize, News)>,
) -> String {
    loop {
        match read_frame_async::<FromStep>(&mut read).await {
            Ok(Some(FromStep { kind: Some(kind) })) => {
                if news.send((at, News::Message(kind))).await.is_err() {
                    return String::new();
                }
            }
            Ok(Some(FromStep { kind: None })) => {}
            Ok(None) => return "connection closed".to_owned(),
            Err(why) => return why.to_string(),
        }
    }
}

/// The environment as it is, bytes and all.
pub fn whole_environment() -> Vec<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt as _;
    let entry = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        [name.into_vec(), value.into_vec()].join(&b'=')
    };
    std::env::vars_os().map(entry).collect()
}

/// Whether this process may read its terminal: a background job would be stopped for trying.
pub fn may_read_stdin() -> bool {
    let stdin = std::io::stdin();
    !rustix::termios::isatty(&stdin) || in_foreground(&stdin)
}

//! The meter's stream to the controller, and the spool behind it: on a thread of its own, so that neither a slow disk nor a slow
//! controller delays an order or a reading.

pub mod late;

use super::input::{Feed, Input};
use super::outlet::{LinkView, Reading};
use super::spool::records::Records;
use super::spool::segments::Segments;
use late::Late;
use spur_core::id::NodeName;
use spur_core::time::Millis;
use spur_core::usage::words::{Batch, FromMeter, ToMeter, UsageEvent, UsageEventKind, UsageRecord};
use spur_proto::client::channel_over;
use spur_proto::wire;
use spur_proto::wire::meter_client::MeterClient;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Items from the sampler that may wait; readings are joined, and records kept, by the sampler while it is full.
pub const QUEUE_MAX: usize = 1024;

/// Live batches that may be sent before the controller's first word.
const INITIAL_CREDIT: u64 = 4;

/// Records without an acknowledgement that are on their way.
const RECORDS_IN_FLIGHT: usize = 64;

/// Messages on their way out: live batches by credit, late ones and records by their own bounds.
const OUT_MAX: usize = 512;

/// Pause between two late batches.
const LATE_PAUSE: Duration = Duration::from_millis(50);

/// Readings that come faster than [`FAST`] go out together once in so long: each time the thread wakes costs as much as a reading.
const TOGETHER: Duration = Duration::from_millis(400);

/// See [`TOGETHER`].
const FAST: Duration = Duration::from_millis(800);

/// How often the disk is tried again that took nothing.
const DISK_RETRY: Duration = Duration::from_secs(5);

/// First and longest pause between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Longest message: a keyframe of 65,536 series.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// What the sampler hands over.
#[derive(Debug)]
pub enum Item {
    /// To be sent now.
    Live(Batch),
    /// To be kept for later.
    Spool(Reading),
    /// To be kept until it is acknowledged.
    Record(Box<UsageRecord>),
    /// What a restarted meter needs, for its file.
    Save(Vec<u8>),
    /// Nothing comes any more. Answered when all before it is written.
    Stop(Option<SyncSender<()>>),
}

/// What sampler and stream tell each other without waiting.
#[derive(Debug, Default)]
pub struct Shared {
    connection: AtomicU64,
    limit: AtomicU64,
    spool_bytes: AtomicU64,
    cpu_us: AtomicU64,
    dropped: AtomicU64,
}

impl Shared {
    /// A connection begins, over which live batches up to `limit` may be sent.
    pub fn open(&self, connection: u64, limit: u64) {
        self.limit.store(limit, Ordering::Release);
        self.connection.store(connection, Ordering::Release);
    }

    /// The link, for a queue with or without room.
    pub fn link(&self, room: bool) -> LinkView {
        LinkView {
            connection: self.connection.load(Ordering::Acquire),
            limit: self.limit.load(Ordering::Acquire),
            room,
        }
    }

    /// Bytes on disk.
    pub fn spool_bytes(&self) -> u64 {
        self.spool_bytes.load(Ordering::Relaxed)
    }

    /// CPU time of the stream's thread, µs.
    pub fn cpu_us(&self) -> u64 {
        self.cpu_us.load(Ordering::Relaxed)
    }

    /// Records that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Who streams, and where to.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The controller's agent socket.
    pub controller: PathBuf,
    /// The shared secret.
    pub token: String,
    /// The node.
    pub node: NodeName,
    /// Boot of the kernel.
    pub boot_id: String,
    /// When this life of the meter began.
    pub epoch: Millis,
}

/// The stream's end here.
#[derive(Debug)]
pub struct Courier {
    /// Who streams.
    pub identity: Identity,
    /// From the sampler.
    pub queue: mpsc::Receiver<Item>,
    /// To the sampler.
    pub feed: Feed,
    /// Between the two.
    pub shared: Arc<Shared>,
    /// Records.
    pub records: Records,
    /// Spooled readings.
    pub segments: Segments,
    /// Where [`Item::Save`] goes.
    pub state_file: PathBuf,
}

struct Link {
    out: mpsc::Sender<FromMeter>,
    incoming: Streaming<wire::MeterAnswer>,
    /// The last live batch before this connection.
    base: u64,
    record_sent: u64,
    /// The controller takes something now.
    credit: bool,
    late_at: Instant,
    /// Until when the queue is left alone; see [`TOGETHER`].
    hold: Instant,
    /// When the queue was emptied last.
    emptied: Instant,
}

impl Link {
    /// The queue was emptied; if it is filled fast, it is left alone for a while.
    fn emptied(&mut self, now: Instant) {
        let fast = now.duration_since(self.emptied) < FAST;
        self.hold = if fast { now + TOGETHER } else { now };
        self.emptied = now;
    }
}

type Dialling = Pin<Box<dyn Future<Output = Result<Link, String>> + Send>>;

/// Why a connection, or the whole, ended.
enum Ended {
    Link(String),
    Stop,
}

impl Courier {
    /// Runs until told to stop.
    pub async fn run(mut self) {
        let mut late = Late::default();
        let (mut connection, mut sequence) = (0u64, 0u64);
        let mut pause = PAUSE_MIN;
        let mut quiet = false;
        loop {
            let mut dialling = self.dial(sequence);
            let dialled = loop {
                tokio::select! {
                    outcome = &mut dialling => break outcome,
                    item = self.queue.recv() => if self.take(item, &mut sequence, None).is_err() { return },
                    () = sleep(DISK_RETRY) => self.records.write(),
                }
            };
            let why = match dialled {
                Ok(link) => {
                    (pause, quiet) = (PAUSE_MIN, false);
                    connection += 1;
                    late.begin_again();
                    self.shared.open(connection, sequence + INITIAL_CREDIT);
                    let ended = self.connected(link, &mut late, &mut sequence).await;
                    self.shared.connection.store(0, Ordering::Release);
                    match ended {
                        Ended::Stop => return,
                        Ended::Link(why) => why,
                    }
                }
                Err(why) => why,
            };
            if !std::mem::replace(&mut quiet, true) {
                tracing::warn!(why, "usage does not reach the controller; it is spooled");
            }
            let again = Instant::now() + pause;
            pause = (pause * 2).min(PAUSE_MAX);
            while Instant::now() < again {
                tokio::select! {
                    item = self.queue.recv() => if self.take(item, &mut sequence, None).is_err() { return },
                    () = sleep_until(again) => {}
                }
            }
        }
    }

    fn dial(&self, base: u64) -> Dialling {
        let identity = self.identity.clone();
        Box::pin(async move {
            let stream = UnixStream::connect(&identity.controller)
                .await
                .map_err(|e| e.to_string())?;
            let channel = channel_over(stream).await.map_err(|e| e.to_string())?;
            let mut client = MeterClient::new(channel).max_encoding_message_size(MESSAGE_BYTES_MAX);
            let (out, rest) = mpsc::channel(OUT_MAX);
            let hello = FromMeter::Hello {
                token: identity.token,
                node: identity.node,
                boot_id: identity.boot_id,
                epoch: identity.epoch,
            };
            out.send(hello).await.map_err(|e| e.to_string())?;
            let outgoing =
                ReceiverStream::new(rest).map(|message| wire::MeterMessage::from(&message));
            let answer = client
                .report(outgoing)
                .await
                .map_err(|status| status.message().to_owned())?;
            Ok(Link {
                out,
                incoming: answer.into_inner(),
                base,
                record_sent: 0,
                credit: true,
                late_at: Instant::now(),
                hold: Instant::now(),
                emptied: Instant::now(),
            })
        })
    }

    async fn connected(&mut self, mut link: Link, late: &mut Late, sequence: &mut u64) -> Ended {
        loop {
            if let Err(why) = self.push(&mut link, late) {
                return Ended::Link(why.into());
            }
            self.account();
            let retry = self.records.is_behind();
            let held = Instant::now() < link.hold;
            let replay = link.credit && !(self.segments.is_empty() && late.is_idle());
            tokio::select! {
                message = link.incoming.message() => match message {
                    Ok(Some(message)) => match ToMeter::try_from(message) {
                        Ok(answer) => self.answer(&answer, &mut link, late),
                        Err(error) => return Ended::Link(error.to_string()),
                    },
                    Ok(None) => return Ended::Link("it closed the stream".into()),
                    Err(status) => return Ended::Link(status.message().to_owned()),
                },
                () = sleep_until(link.hold), if held => {}
                item = self.queue.recv(), if !held => match self.take(item, sequence, Some(&link.out)) {
                    Ok(true) => link.emptied(Instant::now()),
                    Ok(false) => return Ended::Link("it does not read".into()),
                    Err(()) => return Ended::Stop,
                },
                () = sleep_until(link.late_at), if replay => {}
                () = sleep(DISK_RETRY), if retry => self.records.write(),
            }
        }
    }

    /// Sends records, and late batches when their time has come.
    fn push(&mut self, link: &mut Link, late: &mut Late) -> Result<(), &'static str> {
        let behind = Err("it does not read");
        let sent = link.record_sent;
        let on_their_way = self.records.after(0, RECORDS_IN_FLIGHT);
        for (number, record) in on_their_way.filter(|(number, _)| *number > sent) {
            let message = FromMeter::Record {
                number,
                spool: self.records.id().to_owned(),
                record: record.clone(),
            };
            if link.out.try_send(message).is_err() {
                return behind;
            }
            link.record_sent = number;
        }
        let now = Instant::now();
        if link.credit && now >= link.late_at {
            link.late_at = now + LATE_PAUSE;
            if let Some(batch) = late.next(&mut self.segments)
                && link.out.try_send(FromMeter::Batch(batch)).is_err()
            {
                return behind;
            }
        }
        Ok(())
    }

    fn answer(&mut self, answer: &ToMeter, link: &mut Link, late: &mut Late) {
        match answer {
            ToMeter::Ack {
                live,
                late: taken,
                record,
                credit,
            } => {
                link.credit = *credit > 0;
                let limit = link.base.max(*live).saturating_add(u64::from(*credit));
                self.shared.limit.store(limit, Ordering::Release);
                late.acked(*taken, &mut self.segments);
                // Only what was sent over this connection can be meant.
                if *record <= link.record_sent {
                    self.records.acked(*record);
                }
            }
            ToMeter::Watch {
                interval,
                time_to_live,
            } => self.feed.send(Input::Watch {
                interval: *interval,
                time_to_live: *time_to_live,
            }),
        }
    }

    /// Takes an item and all that wait behind it. `Ok(false)`: the controller does not read; an error: it is over.
    fn take(
        &mut self,
        first: Option<Item>,
        sequence: &mut u64,
        out: Option<&mpsc::Sender<FromMeter>>,
    ) -> Result<bool, ()> {
        let mut records = Vec::new();
        let (mut next, mut over, mut reads) = (first, false, true);
        let mut done = None;
        loop {
            match next {
                Some(Item::Live(batch)) => {
                    *sequence = batch.sequence;
                    // Without a connection it is lost; the next one begins with a keyframe.
                    if let Some(out) = out {
                        reads &= out.try_send(FromMeter::Batch(batch)).is_ok();
                    }
                }
                Some(Item::Spool(reading)) => {
                    self.segments.add(reading);
                    records.extend(self.gap());
                }
                Some(Item::Record(record)) => records.push(*record),
                Some(Item::Save(state)) => self.save(&state),
                Some(Item::Stop(told)) => {
                    (over, done) = (true, told);
                    break;
                }
                None => {
                    over = true;
                    break;
                }
            }
            match self.queue.try_recv() {
                Ok(item) => next = Some(item),
                Err(_) => break,
            }
        }
        if !records.is_empty() {
            self.records.add(records);
        }
        self.account();
        if over {
            // Who asked may have given up.
            done.map(|done| done.try_send(()));
            return Err(());
        }
        Ok(reads)
    }

    /// What was dropped from the spool, as a record.
    fn gap(&mut self) -> Option<UsageRecord> {
        let millis = Some(self.segments.take_lost()).filter(|lost| *lost > 0)?;
        let what = UsageEventKind::Gap {
            millis,
            why:
                "the spool was full: the oldest readings of the time without a controller are gone"
                    .into(),
        };
        Some(UsageRecord::Event(UsageEvent {
            at: crate::node::now(),
            job: None,
            gpu: None,
            what,
        }))
    }

    fn save(&self, state: &[u8]) {
        if let Err(error) = super::state::write(&self.state_file, state) {
            tracing::debug!(%error, "what a restarted meter needs cannot be written");
        }
    }

    fn account(&self) {
        let bytes = self.segments.bytes() + self.records.bytes();
        self.shared.spool_bytes.store(bytes, Ordering::Relaxed);
        self.shared
            .dropped
            .store(self.records.dropped(), Ordering::Relaxed);
        let cpu = crate::sys::clock::thread_cpu();
        self.shared.cpu_us.store(
            u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }
}

#[cfg(test)]
mod tests;

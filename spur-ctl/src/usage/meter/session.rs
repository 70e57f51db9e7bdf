//! One meter's stream, from its greeting to its end.

use super::{Greeting, Meters};
use crate::driver::{Input, UsageWord};
use crate::usage::board::Slot;
use crate::usage::store::Incoming;
use crate::usage::{clean, holds};
use spur_core::id::NodeName;
use spur_core::usage::words::{Batch, FromMeter, ToMeter, UsageEventKind, UsageRecord};
use spur_proto::wire::{MeterAnswer, MeterMessage};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Status, Streaming};

/// Most batches that may be on their way at once.
const CREDIT_MAX: usize = 64;
/// Shortest time between two acknowledgements.
const ACK_PAUSE: Duration = Duration::from_millis(500);
/// A meter that says nothing for this long is taken for gone.
const SILENCE: Duration = Duration::from_secs(60);
/// How long an answer may take to be read.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Requests to measure more often that wait.
const WATCHES_MAX: usize = 4;

/// A stream.
pub(super) struct Session {
    meters: Meters,
    node: NodeName,
    slot: Arc<Slot>,
    number: u64,
    out: mpsc::Sender<Result<MeterAnswer, Status>>,
    watches: mpsc::Receiver<ToMeter>,
    /// The spool that this stream's records come from.
    spool: String,
    ack_due: Option<Instant>,
}

/// Why a stream ends.
enum End {
    /// The other side closed it.
    Closed,
    /// It is told why.
    Told(Status),
}

type Goes<T = ()> = Result<T, End>;

impl Session {
    /// Makes the stream the one that counts for its node. `None` if there is no room for the node.
    pub(super) fn begin(
        meters: Meters,
        greeting: Greeting,
        out: mpsc::Sender<Result<MeterAnswer, Status>>,
    ) -> Option<Self> {
        let Greeting { node, epoch } = greeting;
        let known = meters.readers.view().nodes.iter().count();
        let usage = &meters.usage;
        let slot = usage
            .board
            .slot(&node, known, || usage.store.durable(&node))?;
        let (ask, watches) = mpsc::channel(WATCHES_MAX);
        let number = usage.board.session();
        slot.session.send_replace(number);
        slot.state().begin(epoch, ask);
        Some(Self {
            meters,
            node,
            slot,
            number,
            out,
            watches,
            spool: String::new(),
            ack_due: Some(Instant::now()),
        })
    }

    /// Reads the stream to its end.
    pub(super) async fn listen(mut self, mut from: Streaming<MeterMessage>) {
        let counters = Arc::clone(&self.meters.usage);
        counters.counters.meters.fetch_add(1, Ordering::Relaxed);
        tracing::info!(node = %self.node, "meter connected");
        let mut durable = self.slot.durable.subscribe();
        let mut current = self.slot.session.subscribe();
        let end = loop {
            if let Err(end) = self.step(&mut from, &mut durable, &mut current).await {
                break end;
            }
        };
        counters.counters.meters.fetch_sub(1, Ordering::Relaxed);
        match end {
            End::Closed => tracing::info!(node = %self.node, "meter gone"),
            End::Told(status) => {
                tracing::info!(node = %self.node, "meter's stream ends: {}", status.message());
                timeout(READ_WITHIN, self.out.send(Err(status))).await.ok();
            }
        }
    }

    async fn step(
        &mut self,
        from: &mut Streaming<MeterMessage>,
        durable: &mut watch::Receiver<(String, u64)>,
        current: &mut watch::Receiver<u64>,
    ) -> Goes {
        let ack_due = self.ack_due;
        let ack = async move {
            match ack_due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = timeout(SILENCE, from.message()) => match message {
                Ok(Ok(Some(message))) => self.hear(message).await,
                Ok(Ok(None) | Err(_)) => Err(End::Closed),
                Err(_) => Err(End::Told(Status::deadline_exceeded("it was silent for too long"))),
            },
            changed = durable.changed() => {
                changed.map_err(|_| End::Closed)?;
                self.want_ack();
                Ok(())
            }
            changed = current.changed() => {
                changed.map_err(|_| End::Closed)?;
                self.is_current()
            }
            () = ack => self.ack().await,
            Some(watch) = self.watches.recv() => self.say(&watch).await,
        }
    }

    fn is_current(&self) -> Goes {
        if *self.slot.session.borrow() == self.number {
            Ok(())
        } else {
            let why = "a newer stream of the same node takes its place";
            Err(End::Told(Status::aborted(why)))
        }
    }

    fn want_ack(&mut self) {
        self.ack_due
            .get_or_insert_with(|| Instant::now() + ACK_PAUSE);
    }

    async fn ack(&mut self) -> Goes {
        self.ack_due = None;
        let (live, late) = self.slot.state().last();
        let record = {
            let durable = self.slot.durable.borrow();
            if durable.0 == self.spool {
                durable.1
            } else {
                0
            }
        };
        let full = self.meters.usage.store.fullness().min(1000);
        let credit = (CREDIT_MAX * (1000 - full) / 1000).max(1);
        let word = ToMeter::Ack {
            live,
            late,
            record,
            credit: u32::try_from(credit).unwrap_or(1),
        };
        self.say(&word).await
    }

    async fn say(&self, word: &ToMeter) -> Goes {
        let sent = self.out.send(Ok(MeterAnswer::from(word)));
        match timeout(READ_WITHIN, sent).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(End::Closed),
        }
    }

    async fn hear(&mut self, message: MeterMessage) -> Goes {
        self.is_current()?;
        let bad = |why: String| End::Told(Status::invalid_argument(why));
        let size = prost::Message::encoded_len(&message) as u64;
        match FromMeter::try_from(message).map_err(|why| bad(why.to_string()))? {
            FromMeter::Hello { .. } => Err(bad("a second greeting on one stream".to_owned())),
            FromMeter::Batch(batch) => self.batch(&batch, size),
            FromMeter::Record {
                number,
                spool,
                record,
            } => self.record(number, spool, record).await,
        }
    }

    fn batch(&mut self, batch: &Batch, size: u64) -> Goes {
        let counters = &self.meters.usage.counters;
        let view = self.meters.readers.view();
        let held = |job| holds(&view, job, &self.node);
        let taken = self.meters.usage.board.take(&self.slot, batch, held);
        let taken = taken.map_err(|why| {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            End::Told(Status::failed_precondition(why.to_string()))
        })?;
        if taken.fresh {
            counters.batches.fetch_add(1, Ordering::Relaxed);
            counters.bytes.fetch_add(size, Ordering::Relaxed);
        }
        counters.refused.fetch_add(taken.refused, Ordering::Relaxed);
        if let Some(gpus) = taken.recent {
            let word = UsageWord::Utilization {
                node: self.node.clone(),
                gpus,
            };
            // A writer that is busy has other worries; there will be another minute.
            self.meters.inbox.try_send(Input::Usage(word)).ok();
        }
        self.want_ack();
        Ok(())
    }

    async fn record(&mut self, number: u64, spool: String, mut record: UsageRecord) -> Goes {
        if spool.is_empty() || spool.len() > super::TEXT_MAX {
            return Err(End::Told(Status::invalid_argument(
                "a spool has a short name",
            )));
        }
        clean::record(&self.node, &mut record);
        let known = {
            let durable = self.slot.durable.borrow();
            durable.0 == spool && number <= durable.1
        };
        self.spool.clone_from(&spool);
        if known {
            self.want_ack();
            return Ok(());
        }
        self.verdict(&record).await?;
        let incoming = Incoming {
            node: self.node.clone(),
            slot: Arc::clone(&self.slot),
            spool,
            number,
            record,
        };
        self.meters.usage.store.record(incoming).await;
        Ok(())
    }

    /// What the planner is to know goes to the writer first. If that cannot make it durable, the node says it again later.
    async fn verdict(&self, record: &UsageRecord) -> Goes {
        let UsageRecord::Event(event) = record else {
            return Ok(());
        };
        let idle = match &event.what {
            UsageEventKind::Idle(idle) => Some(idle.clone()),
            UsageEventKind::Busy => None,
            UsageEventKind::DeviceError { .. }
            | UsageEventKind::DeviceStale { .. }
            | UsageEventKind::Gap { .. }
            | UsageEventKind::OomKill { .. } => return Ok(()),
        };
        let (Some(job), Some(gpu)) = (event.job, event.gpu) else {
            return Ok(());
        };
        let (done, durable) = oneshot::channel();
        let word = UsageWord::Idle {
            node: self.node.clone(),
            job,
            gpu,
            idle,
            done,
        };
        let gone = || {
            End::Told(Status::unavailable(
                "the controller cannot keep a verdict now",
            ))
        };
        self.meters
            .inbox
            .send(Input::Usage(word))
            .await
            .map_err(|_| gone())?;
        durable.await.map_err(|_| gone())
    }
}

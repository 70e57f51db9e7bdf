//! A hollow node's stream of made-up use, beside its stream of orders.

use super::Template;
use super::made::Made;
use crate::meter::outlet::{Emit, LinkView, Moment, Outlet};
use crate::meter::sampler::uptime;
use crate::node::now;
use spur_core::event::NodeHello;
use spur_core::usage::words::{FromMeter, ToMeter};
use spur_proto::wire;
use spur_proto::wire::meter_client::MeterClient;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// Between two readings.
const SECOND: Duration = Duration::from_secs(1);

/// Messages on their way out.
const OUT_MAX: usize = 64;

/// Records on their way out.
const RECORDS_MAX: usize = 32;

/// Live batches that may be sent before the controller's first word.
const INITIAL_CREDIT: u64 = 4;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(2);

/// What lives through the connections.
#[derive(Debug)]
pub(super) struct Metering {
    pub(super) made: Mutex<Made>,
    outlet: tokio::sync::Mutex<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    outlet: Outlet,
    connections: u64,
    sequence: u64,
    seconds: u64,
}

impl Metering {
    pub(super) fn new(made: Made) -> Self {
        Self {
            made: Mutex::new(made),
            outlet: tokio::sync::Mutex::default(),
        }
    }

    /// Changes or asks what is made up.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut Made) -> T) -> T {
        what(&mut self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Streams until it is aborted with its connection.
pub(super) async fn keep(
    channel: Channel,
    template: Arc<Template>,
    hello: Arc<NodeHello>,
    metering: Arc<Metering>,
) {
    loop {
        if let Err(why) = once(channel.clone(), &template, &hello, &metering).await {
            tracing::debug!(node = %hello.name, why, "a hollow node's use is not taken");
        }
        sleep(PAUSE).await;
    }
}

async fn once(
    channel: Channel,
    template: &Template,
    hello: &NodeHello,
    metering: &Metering,
) -> Result<(), String> {
    let mut sent = metering.outlet.lock().await;
    let (out, rest) = mpsc::channel(OUT_MAX);
    let greeting = FromMeter::Hello {
        token: template.token.clone(),
        node: hello.name.clone(),
        boot_id: hello.boot_id.clone(),
        epoch: hello.agent_start,
    };
    out.send(greeting)
        .await
        .map_err(|error| error.to_string())?;
    let outgoing = ReceiverStream::new(rest).map(|message| wire::MeterMessage::from(&message));
    let answer = MeterClient::new(channel).report(outgoing).await;
    let mut incoming = answer
        .map_err(|status| status.message().to_owned())?
        .into_inner();
    sent.connections += 1;
    let base = sent.sequence;
    let (mut limit, mut recorded) = (base + INITIAL_CREDIT, 0);
    // Spread over the second, so that a thousand nodes do not all speak at once.
    let offset = Duration::from_millis(uptime() * 7919 % 1000);
    let mut ticks = interval_at(Instant::now() + offset, SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            message = incoming.message() => {
                let message = message.map_err(|status| status.message().to_owned())?.ok_or("it closed the stream")?;
                if let ToMeter::Ack { live, record, credit, .. } = ToMeter::try_from(message).map_err(|error| error.to_string())? {
                    limit = base.max(live) + u64::from(credit);
                    if record <= recorded {
                        metering.with(|made| made.acked(record));
                    }
                }
            }
            _ = ticks.tick() => {
                let link = LinkView { connection: sent.connections, limit, room: out.capacity() > RECORDS_MAX };
                if let Some(Emit::Live(batch)) = sent.reading(metering, link) {
                    out.try_send(FromMeter::Batch(batch)).map_err(|_| "it does not read")?;
                }
            }
        }
        let (spool, records) = metering.with(|made| made.after(0, RECORDS_MAX));
        let before = recorded;
        for (number, record) in records.into_iter().filter(|(number, _)| *number > before) {
            let spool = spool.clone();
            let message = FromMeter::Record {
                number,
                spool,
                record,
            };
            out.try_send(message).map_err(|_| "it does not read")?;
            recorded = number;
        }
    }
}

impl Sent {
    fn reading(&mut self, metering: &Metering, link: LinkView) -> Option<Emit> {
        self.seconds += 1;
        let moment = Moment {
            at: now(),
            uptime: uptime(),
        };
        let values = metering.with(|made| made.values(moment.at, self.seconds));
        let emit = self.outlet.take(values, 1000, moment, link);
        if let Some(Emit::Live(batch)) = &emit {
            self.sequence = batch.sequence;
        }
        emit
    }
}

//! Which readings go where: to the controller while it takes them, joined while it does not, to the spool while it is away. Pure.

use super::window::{Values, Window};
use spur_core::time::Millis;
use spur_core::usage::codec::Encoder;
use spur_core::usage::metric::{SeriesKey, Value};
use spur_core::usage::words::Batch;

/// How often all names and absolute values are sent again, ms.
pub const KEYFRAME_EVERY: u64 = 60_000;

/// So much is joined into one batch of the spool at first, ms …
pub const AWAY_SPAN: u64 = 10_000;

/// … and so much after [`AWAY_LONG`].
pub const AWAY_LONG_SPAN: u64 = 60_000;

/// When the controller has been away for long, ms.
pub const AWAY_LONG: u64 = 600_000;

/// A controller that gave no credit for so long is asked by one batch whether it still wants none, ms.
pub const PROBE_AFTER: u64 = 5_000;

/// The link as the sampler sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkView {
    /// Which connection; 0 for none.
    pub connection: u64,
    /// The highest live batch that may be sent.
    pub limit: u64,
    /// Whether the queue to the stream has room.
    pub room: bool,
}

/// When a reading was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The node's wall clock.
    pub at: Millis,
    /// Milliseconds since boot.
    pub uptime: u64,
}

/// Joined values for the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub moment: Moment,
    /// Milliseconds that they cover.
    pub span: u64,
    /// Values.
    pub values: Values,
}

/// What becomes of a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emit {
    /// It goes out.
    Live(Batch),
    /// It is kept for later.
    Spool(Reading),
}

/// The sender's end of the live lane.
#[derive(Debug, Default)]
pub struct Outlet {
    encoder: Encoder,
    window: Window,
    /// Of the last live batch.
    sequence: u64,
    connection: u64,
    keyframe_at: u64,
    sent_at: u64,
    away_since: Option<u64>,
    /// Values that were above the bounds of a batch.
    left_out: u64,
}

impl Outlet {
    /// Takes the reading of the last `millis` milliseconds.
    pub fn take(
        &mut self,
        values: Values,
        millis: u64,
        now: Moment,
        link: LinkView,
    ) -> Option<Emit> {
        self.window.add(values, millis);
        if link.connection == 0 {
            return self.away(now).map(Emit::Spool);
        }
        self.away_since = None;
        let probe = now.uptime.saturating_sub(self.sent_at) >= PROBE_AFTER;
        if link.room && (self.sequence < link.limit || probe) {
            return Some(Emit::Live(self.batch(now, link.connection)));
        }
        None
    }

    /// The number of the last live batch.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// What waits to be sent.
    pub fn pending(&self) -> &[(SeriesKey, Value)] {
        self.window.values()
    }

    /// Values that were left out for want of room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    fn away(&mut self, now: Moment) -> Option<Reading> {
        let since = *self.away_since.get_or_insert(now.uptime);
        let long = now.uptime.saturating_sub(since) >= AWAY_LONG;
        let enough = if long { AWAY_LONG_SPAN } else { AWAY_SPAN };
        (self.window.span() >= enough).then(|| {
            let (values, span) = self.window.take();
            Reading {
                moment: now,
                span,
                values,
            }
        })
    }

    fn batch(&mut self, now: Moment, connection: u64) -> Batch {
        let old = now.uptime.saturating_sub(self.keyframe_at) >= KEYFRAME_EVERY;
        let keyframe = connection != self.connection || old;
        if keyframe {
            self.keyframe_at = now.uptime;
        }
        self.connection = connection;
        self.sequence += 1;
        self.sent_at = now.uptime;
        let (values, span) = self.window.take();
        let (batch, left_out) = encode(&mut self.encoder, &values, (now, span), keyframe);
        self.left_out += left_out;
        Batch {
            sequence: self.sequence,
            ..batch
        }
    }
}

/// Encodes values into a batch without a number; gives how many were left out.
pub fn encode(
    encoder: &mut Encoder,
    values: &[(SeriesKey, Value)],
    (moment, span): (Moment, u64),
    keyframe: bool,
) -> (Batch, u64) {
    let (encoded, left_out) = encoder.encode_sorted(values, keyframe);
    let batch = Batch {
        sequence: 0,
        late: false,
        at: moment.at,
        uptime: moment.uptime,
        span: u32::try_from(span).unwrap_or(u32::MAX),
        keyframe,
        names: encoded.names,
        ended: encoded.ended,
        body: encoded.body,
    };
    (batch, left_out as u64)
}

#[cfg(test)]
mod tests;

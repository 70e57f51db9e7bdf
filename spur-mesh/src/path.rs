//! How a member is reached: directly, at one of the places where it may be, or through a relay. Pure: the time is passed in.
//!
//! ```text
//!            data to send            answer from an endpoint
//!   at rest ------------> knocking --------------------------> direct
//!      ^                     |  no answer for `relay_after`      |  nothing comes back for `silence`,
//!      |                     v  also through the relay           v  and no answer to a new handshake
//!      +---- idle ------- relayed <--------------------------- knocking
//!                            |  every `retry_direct`, a handshake to the endpoints only
//!                            +-----------------------------------------------> direct, if it is answered
//! ```
//!
//! Only packets that the tunnel has authenticated move the route. A handshake shows that both directions work, so a relayed member
//! becomes direct by a handshake alone; a direct one roams with any packet, as WireGuard does.

use crate::key::PublicKey;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Endpoints of one member that are tried at once.
pub const CANDIDATES_MAX: usize = 8;

/// How long after an answered handshake its first packet may come to confirm the way.
const CONFIRM_WITHIN: Duration = Duration::from_secs(15);

/// Least time between two handshakes that nobody asked for by sending.
const KNOCK_AGAIN: Duration = Duration::from_secs(5);

/// A place in the underlying network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Where the member is.
    pub address: SocketAddr,
    /// Our own address that it last wrote to, so that the answer comes from there.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            local: None,
        }
    }
}

/// One way to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Via {
    /// By a datagram of our own.
    Direct(Endpoint),
    /// Inside the tunnel to this member, which passes it on.
    Relay(PublicKey),
}

/// What was received and is genuine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The first message of a handshake. It may be a copy of an old one, so it moves nothing.
    Initiation,
    /// The answer to our handshake: fresh, as it answers a secret of ours.
    Response,
    /// A packet of a session; `data` if it carried anything.
    Packet {
        /// Whether it was more than a keepalive.
        data: bool,
    },
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Send the first message of a handshake, to where [`Path::knock`] says.
    Knock,
    /// Send an empty packet.
    Keepalive,
    /// Forget the sessions: nothing was sent or received for long.
    Rest,
}

/// Times that the state machine keeps.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// A member that is not used for so long is put to rest.
    pub idle: Duration,
    /// A handshake without an answer for so long also goes through the relay.
    pub relay_after: Duration,
    /// Data without anything back for so long asks for a handshake.
    pub silence: Duration,
    /// How often a relayed member is tried directly.
    pub retry_direct: Duration,
    /// How often an unused tunnel sends something, to keep a NAT's mapping open; only for members behind one.
    pub keepalive: Option<Duration>,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(180),
            relay_after: Duration::from_secs(2),
            silence: Duration::from_secs(5),
            retry_direct: Duration::from_secs(30),
            keepalive: None,
        }
    }
}

/// What is known of where a member is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Where it may be, the likeliest first. More than [`CANDIDATES_MAX`] are not tried.
    pub endpoints: Vec<SocketAddr>,
    /// Members that pass packets on to it, the best first.
    pub relays: Vec<PublicKey>,
    /// Its tunnel is kept up at all times.
    pub persistent: bool,
}

/// The route to one member.
#[derive(Debug)]
pub struct Path {
    times: Times,
    places: Places,
    route: Option<Via>,
    /// Since when a handshake waits for its answer, and when it was last sent.
    knocking: Option<(Instant, Instant)>,
    knocked_at: Option<Instant>,
    /// The handshake that we answered last: from where, and when.
    answered: Option<(Via, Instant)>,
    received_at: Option<Instant>,
    /// Since when what we send has had nothing back.
    unanswered: Option<Instant>,
    sent_at: Option<Instant>,
    used_at: Option<Instant>,
    direct_at: Option<Instant>,
}

impl Path {
    /// A member that is at rest.
    #[must_use]
    pub const fn new(times: Times, places: Places) -> Self {
        Self {
            times,
            places,
            route: None,
            knocking: None,
            knocked_at: None,
            answered: None,
            received_at: None,
            unanswered: None,
            sent_at: None,
            used_at: None,
            direct_at: None,
        }
    }

    /// Takes what is now known of where the member is. The route in use stays until it fails.
    pub fn set_places(&mut self, places: Places) {
        let dead = |via: &Via| matches!(via, Via::Relay(relay) if !places.relays.contains(relay));
        if self.route.as_ref().is_some_and(dead) {
            self.route = None;
        }
        if places.endpoints != self.places.endpoints {
            self.direct_at = None;
        }
        self.places = places;
    }

    /// Where packets to the member go, if a way is known.
    #[must_use]
    pub const fn route(&self) -> Option<Via> {
        self.route
    }

    /// Whether this member may pass packets on to ours.
    #[must_use]
    pub fn is_relay(&self, relay: &PublicKey) -> bool {
        self.places.relays.contains(relay)
    }

    /// Whether the tunnel is to be up at all times.
    #[must_use]
    pub const fn is_persistent(&self) -> bool {
        self.places.persistent
    }

    /// Whether a handshake waits for its answer.
    #[must_use]
    pub const fn is_knocking(&self) -> bool {
        self.knocking.is_some()
    }

    /// When something genuine last came.
    #[must_use]
    pub const fn received_at(&self) -> Option<Instant> {
        self.received_at
    }

    /// A handshake's first message is about to be sent: to where.
    pub fn knock(&mut self, now: Instant) -> Vec<Via> {
        let first = self.knocking.map_or(now, |(since, _)| since);
        self.knocking = Some((first, now));
        self.knocked_at = Some(now);
        let late = now.saturating_duration_since(first) >= self.times.relay_after;
        let endpoints = self.places.endpoints.iter().take(CANDIDATES_MAX);
        let endpoints = endpoints.map(|address| Via::Direct(Endpoint::from(*address)));
        let relay = self.places.relays.first().copied().map(Via::Relay);
        let mut to = Vec::new();
        match self.route {
            Some(Via::Direct(known)) => {
                to.push(Via::Direct(known));
                if late {
                    to.extend(endpoints.filter(|via| *via != Via::Direct(known.address.into())));
                    to.extend(relay);
                }
            }
            Some(Via::Relay(known)) => {
                let try_direct = self.direct_at.is_none_or(|at| at <= now);
                if try_direct {
                    self.direct_at = Some(now + self.times.retry_direct);
                    to.extend(endpoints);
                }
                if to.is_empty() || late {
                    to.push(Via::Relay(known));
                }
            }
            None => {
                to.extend(endpoints);
                if to.is_empty() || late {
                    to.extend(relay);
                }
            }
        }
        to
    }

    /// The handshake was given up, for want of an answer.
    pub const fn give_up(&mut self) {
        self.knocking = None;
    }

    /// Data waits to be sent, and there is no session yet.
    pub const fn want(&mut self, now: Instant) {
        self.used_at = Some(now);
    }

    /// A packet was sent.
    pub fn sent(&mut self, now: Instant, data: bool) {
        self.sent_at = Some(now);
        if data {
            self.used_at = Some(now);
            self.unanswered.get_or_insert(now);
        }
    }

    /// Something genuine came this way.
    pub fn received(&mut self, now: Instant, from: Via, what: Received) {
        match what {
            Received::Initiation => self.answered = Some((from, now)),
            Received::Response => {
                self.heard(now);
                self.take(now, from);
            }
            Received::Packet { data } => {
                self.heard(now);
                // The first packet of a session that the other one began: it is about to use it.
                let confirms = self.answered.is_some_and(|(via, _)| via == from);
                if data || confirms {
                    self.used_at = Some(now);
                }
                if self.moves(now, from) {
                    self.take(now, from);
                }
                if confirms {
                    self.answered = None;
                }
            }
        }
    }

    const fn heard(&mut self, now: Instant) {
        self.received_at = Some(now);
        self.unanswered = None;
    }

    /// Whether a genuine packet from there changes the route.
    fn moves(&self, now: Instant, from: Via) -> bool {
        match (self.route, from) {
            (None, _) | (Some(Via::Direct(_)), Via::Direct(_)) => true,
            (Some(Via::Relay(_)), Via::Relay(_)) => self.route != Some(from),
            (Some(Via::Relay(_)), Via::Direct(_)) | (Some(Via::Direct(_)), Via::Relay(_)) => {
                let fresh = |at: Instant| now.saturating_duration_since(at) <= CONFIRM_WITHIN;
                self.answered
                    .is_some_and(|(via, at)| via == from && fresh(at))
            }
        }
    }

    fn take(&mut self, now: Instant, from: Via) {
        if matches!(from, Via::Relay(_)) && !matches!(self.route, Some(Via::Relay(_))) {
            self.direct_at = Some(now + self.times.retry_direct);
        }
        self.route = Some(from);
        self.knocking = None;
        self.answered = None;
    }

    /// What is to be done at this time; `up` says whether there is a session to send with.
    #[must_use]
    pub fn task(&self, now: Instant, up: bool) -> Option<Task> {
        let past = |at: Instant, wait: Duration| now.saturating_duration_since(at) >= wait;
        let persistent = self.places.persistent;
        let used = self.used_at.is_some_and(|at| !past(at, self.times.idle));
        if !persistent && !used {
            // What a member at rest is sent by others is no use of it, and may be a copy.
            let held = self
                .answered
                .is_some_and(|(_, at)| !past(at, CONFIRM_WITHIN));
            return (!held).then_some(Task::Rest);
        }
        if let Some((first, last)) = self.knocking {
            let before = last.saturating_duration_since(first) < self.times.relay_after;
            return (before && past(first, self.times.relay_after)).then_some(Task::Knock);
        }
        let again = self.knocked_at.is_none_or(|at| past(at, KNOCK_AGAIN));
        if !up {
            return (persistent && again).then_some(Task::Knock);
        }
        let silent = self
            .unanswered
            .is_some_and(|at| past(at, self.times.silence));
        let relayed = matches!(self.route, Some(Via::Relay(_)));
        let try_direct = relayed
            && !self.places.endpoints.is_empty()
            && self.direct_at.is_none_or(|at| at <= now);
        if (silent && again) || try_direct {
            return Some(Task::Knock);
        }
        let keepalive = self.times.keepalive.filter(|_| self.route.is_some());
        let due = keepalive.is_some_and(|every| self.sent_at.is_none_or(|at| past(at, every)));
        due.then_some(Task::Keepalive)
    }

    /// The sessions are gone; where the member was is remembered.
    pub const fn rested(&mut self) {
        self.knocking = None;
        self.answered = None;
        self.unanswered = None;
        self.sent_at = None;
        self.used_at = None;
    }
}

#[cfg(test)]
mod tests;

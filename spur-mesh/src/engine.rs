//! Moves packets: for each queue one thread from the tun interface to the network and one back, and one thread for what is due.

mod incoming;
mod outgoing;

use crate::device::Queue;
use crate::filter::{Filter, Refusal};
use crate::path::{Endpoint, Via};
use crate::peer::{Identities, Identity, Indices, Letters, Peer, Sealed};
use crate::relay;
use crate::socket::{DATAGRAM_MAX, Sockets, Unsent};
use crate::table::Table;
use parking_lot::{Mutex, RwLock};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often what is due is done.
const TICK: Duration = Duration::from_millis(100);

/// How often handshakes are counted anew.
const LIMITER_PERIOD: Duration = Duration::from_secs(1);

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) mtu: u16,
    pub(crate) relays: bool,
    pub(crate) filter: Filter,
    pub(crate) indices: Indices,
    pub(crate) table: RwLock<Arc<Table<Peer>>>,
    pub(crate) peers: Mutex<Vec<Arc<Peer>>>,
    pub(crate) identities: RwLock<Identities>,
    pub(crate) drops: Drops,
    stop: OwnedFd,
}

/// Packets that did not pass, by why.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    pub(crate) no_member: AtomicU64,
    pub(crate) not_genuine: AtomicU64,
    pub(crate) wrong_address: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) too_long: AtomicU64,
    pub(crate) unsent: AtomicU64,
    pub(crate) cookies: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Shared {
    pub(crate) fn new(
        addresses: Vec<IpAddr>,
        mtu: u16,
        relays: bool,
        filter: Filter,
        identity: Identity,
    ) -> io::Result<Self> {
        Ok(Self {
            addresses,
            mtu,
            relays,
            filter,
            indices: Indices::default(),
            table: RwLock::default(),
            peers: Mutex::default(),
            identities: RwLock::new(Arc::new(vec![Arc::new(identity)])),
            drops: Drops::default(),
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    fn table(&self) -> Arc<Table<Peer>> {
        Arc::clone(&self.table.read())
    }

    /// An address of ours and one of the peer's, of one family.
    fn pair(&self, peer: &Peer) -> Option<(IpAddr, IpAddr)> {
        let same = |own: &IpAddr| {
            let peers = peer.addresses.iter();
            let mut same = peers.filter(|address| address.is_ipv4() == own.is_ipv4());
            Some((*own, *same.next()?))
        };
        self.addresses.iter().find_map(same)
    }

    /// Sends what a peer's state machine wants sent.
    pub(crate) fn post(&self, sockets: &Sockets, now: Instant, peer: &Peer, letters: &Letters) {
        for (via, letter) in letters {
            match via {
                Via::Direct(endpoint) => self.send(sockets, *endpoint, letter),
                Via::Relay(_) => {
                    let mut sealed = vec![0; letter.len() + DATAGRAM_MAX];
                    if let Some((len, endpoint)) =
                        self.seal_for_relay(sockets, now, peer, (*via, letter), &mut sealed)
                    {
                        self.send(sockets, endpoint, sealed.get(..len).unwrap_or_default());
                    }
                }
            }
        }
    }

    fn send(&self, sockets: &Sockets, endpoint: Endpoint, bytes: &[u8]) {
        if sockets.send(endpoint, bytes, bytes.len()).bytes > 0 {
            count(&self.drops.unsent);
        }
    }

    /// Counts what a batch could not send, and lets the member there have shorter packets if they were too long.
    fn unsent(&self, now: Instant, unsent: Option<(Endpoint, Unsent)>) {
        let Some((to, unsent)) = unsent else { return };
        count(&self.drops.unsent);
        if unsent.too_long > 0 {
            for peer in self.peers.lock().iter() {
                peer.shrink(now, to, unsent.too_long);
            }
        }
    }

    /// Puts a message for `peer` into the tunnel to the relay: how long the result is, and where it goes.
    fn seal_for_relay(
        &self,
        sockets: &Sockets,
        now: Instant,
        peer: &Peer,
        (via, message): (Via, &[u8]),
        to: &mut [u8],
    ) -> Option<(usize, Endpoint)> {
        let Via::Relay(key) = via else { return None };
        let table = self.table();
        let relay = table.by_key(&key)?;
        let (own, peers) = self.pair(peer)?;
        let frame = relay::wrap(own, peers, message)?;
        self.seal_directly(sockets, now, relay, &frame, to)
    }

    /// Encrypts a frame for a member that is reached directly. One that is relayed itself relays nothing: no packet goes through two.
    fn seal_directly(
        &self,
        sockets: &Sockets,
        now: Instant,
        relay: &Arc<Peer>,
        frame: &[u8],
        to: &mut [u8],
    ) -> Option<(usize, Endpoint)> {
        match relay.seal(&self.indices, now, DATAGRAM_MAX, frame, to) {
            Sealed::Ready(len, Via::Direct(endpoint)) => Some((len, endpoint)),
            Sealed::Waits(letters) => {
                for (via, letter) in letters {
                    if let Via::Direct(endpoint) = via {
                        self.send(sockets, endpoint, &letter);
                    }
                }
                None
            }
            Sealed::Ready(_, Via::Relay(_)) | Sealed::TooLong(_) | Sealed::Cut => {
                count(&self.drops.unsent);
                None
            }
        }
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        // It can fail only if it was called often enough to fill the counter, and then it is set.
        if let Err(error) = rustix::io::write(&self.stop, &1_u64.to_ne_bytes()) {
            tracing::debug!(%error, "the mesh was stopped before");
        }
    }

    /// Waits until one of these can be read. `None` if the mesh stops; which ones otherwise.
    fn wait<const N: usize>(
        &self,
        sources: [BorrowedFd<'_>; N],
        limit: Option<Duration>,
    ) -> Option<[bool; N]> {
        let mut waits: Vec<PollFd<'_>> = sources
            .iter()
            .map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN))
            .collect();
        waits.push(PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut waits, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "the mesh cannot wait for packets and stops");
                return None;
            }
        }
        let ready = |n: usize| waits.get(n).is_some_and(|wait| !wait.revents().is_empty());
        (!ready(N)).then(|| std::array::from_fn(ready))
    }
}

/// Starts all threads. They end by themselves once [`Shared::stop`] was called.
pub(crate) fn start(
    shared: &Arc<Shared>,
    name: &str,
    queues: Vec<Queue>,
    sockets: Vec<Sockets>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    let spawn = |name: String, run: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name).spawn(run)
    };
    let mut timer_sockets = None;
    for (n, (queue, sockets)) in queues.into_iter().zip(sockets).enumerate() {
        let (queue, sockets) = (Arc::new(queue), Arc::new(sockets));
        timer_sockets.get_or_insert_with(|| Arc::clone(&sockets));
        let parts = (Arc::clone(shared), Arc::clone(&queue), Arc::clone(&sockets));
        let run = move || outgoing::run(&parts.0, &parts.1, &parts.2);
        threads.push(spawn(format!("{name}-out{n}"), Box::new(run))?);
        let shared = Arc::clone(shared);
        let run = move || incoming::run(&shared, &queue, &sockets);
        threads.push(spawn(format!("{name}-in{n}"), Box::new(run))?);
    }
    if let Some(sockets) = timer_sockets {
        let shared = Arc::clone(shared);
        let run = move || tick(&shared, &sockets);
        threads.push(spawn(format!("{name}-timer"), Box::new(run))?);
    }
    Ok(threads)
}

fn tick(shared: &Shared, sockets: &Sockets) {
    let mut counted_at = Instant::now();
    while shared.wait([], Some(TICK)).is_some() {
        let now = Instant::now();
        if now.saturating_duration_since(counted_at) >= LIMITER_PERIOD {
            counted_at = now;
            for identity in shared.identities.read().iter() {
                identity.limiter.reset_count();
            }
            forget_old_identities(shared, now);
        }
        let peers = shared.peers.lock().clone();
        for peer in peers {
            let letters = peer.tick(&shared.indices, now);
            shared.post(sockets, now, &peer, &letters);
        }
    }
}

/// Key pairs of ours whose time is over are accepted no more.
fn forget_old_identities(shared: &Shared, now: Instant) {
    let over = |identity: &Arc<Identity>| identity.until.is_some_and(|until| until <= now);
    // The lock of the peers orders this against a new key that is set at the same time.
    let peers = shared.peers.lock();
    let before = Arc::clone(&shared.identities.read());
    if !before.iter().any(over) {
        return;
    }
    let kept: Vec<_> = before.iter().filter(|i| !over(i)).cloned().collect();
    let kept = Arc::new(kept);
    *shared.identities.write() = Arc::clone(&kept);
    for peer in peers.iter() {
        peer.set_identities(&shared.indices, Arc::clone(&kept));
    }
}

/// Why a packet that was genuine, or came from the own kernel, does not pass.
fn refused(shared: &Shared, refusal: Refusal, peer: &Peer) {
    count(&shared.drops.refused);
    count(&peer.counters.dropped);
    tracing::debug!(?refusal, addresses = ?peer.addresses, "packet refused");
}

//! What the agent uses: a mesh that is started, told who its members are, looked at, and stopped.

use crate::device::{Queue, Spec};
use crate::engine::{self, Shared};
use crate::filter::Filter;
use crate::key::{PrivateKey, PublicKey};
use crate::path::{Places, Times, Via};
use crate::peer::{Identities, Identity, KEYS_MAX, Known, Peer};
use crate::socket::{DATAGRAM_MAX, Sockets};
use crate::status::{Dropped, Member, Route, Status};
use crate::table::{Clash, Names, Table};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Least MTU: a relayed packet is 80 bytes longer, and IPv6 wants 1280.
pub const MTU_MIN: u16 = 1360;

/// The MTU that passes networks of 1500 bytes, also over IPv6.
pub const MTU_DEFAULT: u16 = 1420;

/// Queues that one mesh may have.
pub const QUEUES_MAX: usize = 16;

/// Handshakes in a second from which on strangers must show a cookie first. Each costs about a tenth of a millisecond.
const HANDSHAKES_PER_SECOND: u64 = 400;

/// One member's mesh.
#[derive(Debug)]
pub struct Config {
    /// Our key.
    pub private_key: PrivateKey,
    /// Name of the interface, up to 15 bytes.
    pub name: String,
    /// UDP port for all members, 0 for any.
    pub listen_port: u16,
    /// Our addresses in the mesh with the length of the mesh's prefix: at most one IPv4 and one IPv6 address.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Longest packet in the mesh, in bytes.
    pub mtu: u16,
    /// Queues of the interface, each with two threads. Nothing: one for each two cores, up to four.
    pub queues: Option<usize>,
    /// Whether we pass packets on between other members.
    pub relay: bool,
    /// Which packets may pass.
    pub filter: Filter,
    /// When members rest, are tried again, and through whom.
    pub times: Times,
}

/// Another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// Its key.
    pub public_key: PublicKey,
    /// The key before that, while it is still accepted.
    pub previous_key: Option<PublicKey>,
    /// Its addresses in the mesh.
    pub addresses: Vec<IpAddr>,
    /// Where it may be, the likeliest first.
    pub endpoints: Vec<SocketAddr>,
    /// Members that relay to it, the best first.
    pub relays: Vec<PublicKey>,
    /// Whether the tunnel to it is up at all times, not only when it is used.
    pub persistent: bool,
    /// Whether we and it may reach each other's control ports.
    pub control: bool,
}

/// Why a mesh could not be started or told something.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The configuration makes no sense.
    #[error("mesh {name}: {why}")]
    Config {
        /// Of the interface.
        name: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The interface could not be made.
    #[error(
        "making the mesh interface {name} (it needs root, /dev/net/tun and a name that is free)"
    )]
    Interface {
        /// Its name.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The UDP port could not be had.
    #[error("opening UDP port {port} for the mesh (another program may have it)")]
    Port {
        /// The port.
        port: u16,
        /// What the kernel said.
        source: io::Error,
    },
    /// No threads.
    #[error("starting the threads of the mesh")]
    Threads(#[source] io::Error),
    /// Members that cannot be told apart.
    #[error("setting the members of the mesh: nothing was changed")]
    Members(#[from] Clash),
}

/// A running mesh. Dropping it stops it, and the interface and its routes go with it.
pub struct Mesh {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    name: String,
    port: u16,
    times: Times,
}

impl Mesh {
    /// Makes the interface and opens the port, in the network namespace of this thread.
    ///
    /// # Errors
    /// If either cannot be had, or the configuration makes no sense. Nothing is left behind.
    pub fn start(config: Config) -> Result<Self, MeshError> {
        check(&config)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let queues = config.queues.unwrap_or((cores / 2).clamp(1, 4));
        let port = config.listen_port;
        let sockets =
            Sockets::bind(port, queues).map_err(|source| MeshError::Port { port, source })?;
        let first = sockets.first().map_or(Ok(port), Sockets::port);
        let port = first.map_err(|source| MeshError::Port { port, source })?;
        let spec = Spec {
            name: &config.name,
            addresses: &config.addresses,
            mtu: config.mtu,
            queues,
        };
        let interface = |source| MeshError::Interface {
            name: config.name.clone(),
            source,
        };
        // The kernel would take it for another queue of an interface that has several.
        if sockets
            .first()
            .is_some_and(|s| s.sees_interface(&config.name))
        {
            return Err(interface(io::ErrorKind::AlreadyExists.into()));
        }
        let queues = Queue::open(&spec).map_err(interface)?;
        let addresses = config.addresses.iter().map(|(address, _)| *address);
        let identity = Identity::new(config.private_key, HANDSHAKES_PER_SECOND);
        let shared = Shared::new(
            addresses.collect(),
            config.mtu,
            config.relay,
            config.filter,
            identity,
        );
        let shared = Arc::new(shared.map_err(MeshError::Threads)?);
        let mut mesh = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            name: config.name,
            port,
            times: config.times,
        };
        let threads = engine::start(&shared, &mesh.name, queues, sockets);
        mesh.threads = threads.map_err(MeshError::Threads)?;
        Ok(mesh)
    }

    /// The UDP port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Our key.
    #[must_use]
    pub fn public_key(&self) -> Option<PublicKey> {
        let identities = self.shared.identities.read();
        identities.first().map(|identity| identity.public)
    }

    /// Takes the members that there are now. Tunnels of those who stay, stay; those who are gone are cut off when this returns.
    ///
    /// # Errors
    /// If two members have one address or key. Nothing is changed then.
    pub fn set_peers(&self, members: &[PeerConfig]) -> Result<(), MeshError> {
        let shared = &self.shared;
        let mut peers = shared.peers.lock();
        let before = shared.table.read().clone();
        let identities = Arc::clone(&shared.identities.read());
        let mut next: Vec<(Names, Known, Arc<Peer>)> = Vec::new();
        for member in members {
            let keys = keys(member);
            let same = |peer: &&Arc<Peer>| peer.addresses == member.addresses;
            let old = keys.iter().find_map(|key| before.by_key(key)).filter(same);
            let peer = old.cloned().unwrap_or_else(|| {
                let known = known(member);
                let identities = Arc::clone(&identities);
                Arc::new(Peer::new(
                    member.addresses.clone(),
                    known,
                    identities,
                    self.times,
                ))
            });
            let names = Names {
                keys,
                addresses: member.addresses.clone(),
            };
            next.push((names, known(member), peer));
        }
        let table = next
            .iter()
            .map(|(names, _, peer)| (names.clone(), Arc::clone(peer)));
        let table = Table::build(table)?;
        *shared.table.write() = Arc::new(table);
        let stays = |peer: &Arc<Peer>| next.iter().any(|(.., new)| Arc::ptr_eq(new, peer));
        for gone in peers.iter().filter(|peer| !stays(peer)) {
            gone.cut(&shared.indices);
        }
        *peers = next.iter().map(|(.., peer)| Arc::clone(peer)).collect();
        for (_, known, peer) in next {
            peer.set_known(&shared.indices, known);
        }
        Ok(())
    }

    /// Takes a new key of ours. The old one is accepted for so long, and used until the new one has a tunnel, so nothing is lost.
    pub fn set_private_key(&self, private_key: PrivateKey, keep_old_for: Duration) {
        let shared = &self.shared;
        // Held to the end, so that two changes do not cross.
        let peers = shared.peers.lock();
        let mut identities = vec![Arc::new(Identity::new(private_key, HANDSHAKES_PER_SECOND))];
        let before = Arc::clone(&shared.identities.read());
        let until = Instant::now() + keep_old_for;
        identities.extend(before.iter().take(1).map(|old| Arc::new(old.ending(until))));
        let identities: Identities = Arc::new(identities);
        *shared.identities.write() = Arc::clone(&identities);
        for peer in peers.iter() {
            peer.set_identities(&shared.indices, Arc::clone(&identities));
        }
    }

    /// How all members are reached and what was carried, now.
    #[must_use]
    pub fn status(&self) -> Status {
        let peers = self.shared.peers.lock().clone();
        let now = Instant::now();
        let drops = &self.shared.drops;
        let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Status {
            name: self.name.clone(),
            port: self.port,
            public_key: self.public_key(),
            members: peers.iter().map(|peer| member(peer, now)).collect(),
            dropped: Dropped {
                no_member: get(&drops.no_member),
                not_genuine: get(&drops.not_genuine),
                wrong_address: get(&drops.wrong_address),
                refused: get(&drops.refused),
                too_long: get(&drops.too_long),
                unsent: get(&drops.unsent),
                cookies: get(&drops.cookies),
            },
        }
    }

    /// Stops it: when this returns, no thread, interface or route is left.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(name = self.name, "a thread of the mesh panicked");
            }
        }
        for peer in self.shared.peers.lock().drain(..) {
            peer.cut(&self.shared.indices);
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.end();
    }
}

fn check(config: &Config) -> Result<(), MeshError> {
    const NAME_MAX: usize = 15;
    // What WireGuard and a relay add, within the longest datagram.
    const MTU_MAX: u16 = 8_960;
    let wrong = |why: String| {
        let name = config.name.clone();
        Err(MeshError::Config { name, why })
    };
    if config.name.is_empty() || config.name.len() > NAME_MAX {
        return wrong(format!(
            "the interface's name must have 1 to {NAME_MAX} bytes"
        ));
    }
    let four = config.addresses.iter().filter(|(a, _)| a.is_ipv4()).count();
    let six = config.addresses.len() - four;
    if config.addresses.is_empty() || four > 1 || six > 1 {
        return wrong(format!(
            "{four} IPv4 and {six} IPv6 addresses: it must be one of either, or one of both"
        ));
    }
    for (address, prefix) in &config.addresses {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        if *prefix > longest {
            return wrong(format!(
                "{address}/{prefix}: a prefix has at most {longest} bits"
            ));
        }
    }
    if !(MTU_MIN..=MTU_MAX).contains(&config.mtu) {
        let mtu = config.mtu;
        return wrong(format!(
            "the MTU is {mtu}: it must be {MTU_MIN} to {MTU_MAX}"
        ));
    }
    debug_assert!(usize::from(MTU_MAX) + 160 <= DATAGRAM_MAX);
    if config
        .queues
        .is_some_and(|n| !(1..=QUEUES_MAX).contains(&n))
    {
        return wrong(format!("it must have 1 to {QUEUES_MAX} queues"));
    }
    Ok(())
}

fn keys(member: &PeerConfig) -> Vec<PublicKey> {
    let previous = member.previous_key.filter(|key| *key != member.public_key);
    let mut keys = vec![member.public_key];
    keys.extend(previous);
    debug_assert!(keys.len() <= KEYS_MAX);
    keys
}

fn known(member: &PeerConfig) -> Known {
    Known {
        keys: keys(member),
        places: Places {
            endpoints: member.endpoints.clone(),
            relays: member.relays.clone(),
            persistent: member.persistent,
        },
        control: member.control,
    }
}

fn member(peer: &Peer, now: Instant) -> Member {
    let snapshot = peer.snapshot();
    let counters = &peer.counters;
    Member {
        public_key: snapshot.keys.first().copied(),
        own_key: snapshot.own_key,
        addresses: peer.addresses.clone(),
        route: match snapshot.via {
            None => Route::Unknown,
            Some(Via::Direct(endpoint)) => Route::Direct(endpoint.address),
            Some(Via::Relay(key)) => Route::Relay(key),
        },
        up: snapshot.up,
        handshake_age: snapshot.handshake_age,
        heard_ago: snapshot.heard.map(|at| now.saturating_duration_since(at)),
        round_trip: snapshot.round_trip,
        loss: snapshot.loss,
        sent_bytes: counters.sent_bytes.load(Ordering::Relaxed),
        sent_packets: counters.sent_packets.load(Ordering::Relaxed),
        received_bytes: counters.received_bytes.load(Ordering::Relaxed),
        received_packets: counters.received_packets.load(Ordering::Relaxed),
        dropped: counters.dropped.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            private_key: PrivateKey::from_bytes([1; 32]),
            name: "mesh0".to_owned(),
            listen_port: 0,
            addresses: vec![([10, 0, 0, 1].into(), 24)],
            mtu: MTU_DEFAULT,
            queues: None,
            relay: false,
            filter: Filter::default(),
            times: Times::default(),
        }
    }

    #[test]
    fn a_configuration_that_makes_no_sense_is_refused_with_what_is_wrong() {
        type Change = fn(&mut Config);
        let cases: [(&str, Change); 6] = [
            ("name", |c| c.name = "longer than fifteen".to_owned()),
            ("0 IPv4 and 0 IPv6", |c| c.addresses.clear()),
            ("2 IPv4", |c| c.addresses.push(([10, 0, 0, 2].into(), 24))),
            ("/33", |c| c.addresses[0].1 = 33),
            ("1279", |c| c.mtu = 1279),
            ("queues", |c| c.queues = Some(0)),
        ];
        assert!(check(&config()).is_ok());
        for (said, change) in cases {
            let mut config = config();
            change(&mut config);
            let error = check(&config).expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}

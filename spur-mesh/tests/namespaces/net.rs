//! Hosts as network namespaces on one bridge, each with a mesh of this process. All of it goes away when it is dropped.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use spur_mesh::{Config, Filter, Mesh, MeshError, PeerConfig, PrivateKey, PublicKey, Times};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Ends a test here, with a word, where it cannot run.
macro_rules! skip {
    ([$($program:literal),*]) => {
        if let Some(why) = crate::net::missing(&[$($program),*]) {
            eprintln!("skipped: {why}");
            return;
        }
    };
}
pub(crate) use skip;

/// Why these tests cannot run here, if so.
pub(crate) fn missing(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    if File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .is_err()
    {
        return Some("/dev/net/tun cannot be opened".to_owned());
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let has = |program: &&&str| {
        !path
            .split(':')
            .any(|dir| File::open(format!("{dir}/{program}")).is_ok())
    };
    let absent = programs.iter().find(has)?;
    Some(format!("{absent} is not installed"))
}

/// Runs a command that must succeed; what it printed.
fn sh(command: &str) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Something that listens on any address of this one's family.
pub(crate) fn any(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::from([0, 0, 0, 0]),
        IpAddr::V6(_) => IpAddr::from([0_u16; 8]),
    }
}

/// A wire: a bridge in a namespace of its own.
pub(crate) struct Net {
    name: String,
}

impl Net {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sm{}-{number}", std::process::id());
        let net = Self { name };
        net.host("w");
        let wire = net.space("w");
        sh(&format!(
            "ip -n {wire} link add br0 type bridge forward_delay 0"
        ));
        sh(&format!("ip -n {wire} link set br0 up"));
        net
    }

    fn space(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    fn host(&self, host: &str) {
        let space = self.space(host);
        sh(&format!("ip netns add {space}"));
        sh(&format!("ip -n {space} link set lo up"));
    }

    /// A host on the wire, without a mesh. Its name.
    fn wired(&self, n: u8) -> String {
        let host = n.to_string();
        self.host(&host);
        let (space, wire) = (self.space(&host), self.space("w"));
        sh(&format!(
            "ip -n {wire} link add v{n} type veth peer name eth0 netns {space}"
        ));
        sh(&format!("ip -n {wire} link set v{n} master br0 up"));
        sh(&format!("ip -n {space} addr add 192.0.2.{n}/24 dev eth0"));
        sh(&format!(
            "ip -n {space} addr add fd02::{n}/64 dev eth0 nodad"
        ));
        sh(&format!("ip -n {space} link set eth0 up"));
        space
    }

    pub(crate) fn node(&self, n: u8) -> Node {
        self.node_with(n, |_| {})
    }

    /// A host with a mesh, whose configuration this changes first.
    pub(crate) fn node_with(&self, n: u8, change: impl FnOnce(&mut Config)) -> Node {
        let space = self.wired(n);
        let (four, six) = (IpAddr::from([10, 66, 0, n]), six(n));
        let mut config = config(four, six);
        change(&mut config);
        let key = config.private_key.public();
        let mut node = Node {
            space,
            number: AtomicU8::new(n),
            four,
            six,
            key,
            mesh: None,
            peers: Mutex::default(),
        };
        node.mesh = Some(node.within(|| Mesh::start(config).expect("a mesh")));
        node
    }

    /// Records the wire of host 1 until it is ended, without what kernels and bridges say of multicast groups.
    pub(crate) fn capture(&self) -> Capture {
        let mut child = Command::new("ip")
            .args([
                "netns",
                "exec",
                &self.space("w"),
                "tcpdump",
                "-i",
                "v1",
                "-U",
            ])
            .args(["-w", "-", "--immediate-mode", "ip and not igmp"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump");
        let mut said = child.stderr.take().expect("its stderr");
        let mut line = Vec::new();
        while !line.windows(9).any(|words| words == b"listening") {
            let mut byte = [0];
            assert!(
                said.read(&mut byte).expect("a word") > 0,
                "{}",
                String::from_utf8_lossy(&line)
            );
            line.extend(byte);
        }
        let mut out = child.stdout.take().expect("its stdout");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            loop {
                match out.read(&mut buffer).expect("a capture") {
                    0 => return,
                    len => all.lock().expect("no panic").extend(&buffer[..len]),
                }
            }
        });
        Capture {
            child,
            reader,
            seen,
            _said: said,
        }
    }

    /// A host whose tunnel to `node` is wireguard-go's.
    pub(crate) fn reference(&self, n: u8, node: &Node) -> Reference {
        let reference = self.wireguard_go(n);
        let allowed = format!("{}/32,{}/128", node.four, node.six);
        reference.meets(node.key(), node.place(), &allowed);
        reference
    }

    /// A host with wireguard-go, which knows nobody yet.
    pub(crate) fn wireguard_go(&self, n: u8) -> Reference {
        // Its socket is named after its interface, in one folder for all namespaces.
        let interface = format!("wg{}-{n}", std::process::id());
        let space = self.wired(n);
        let secret = PrivateKey::generate().expect("a key");
        let child = Command::new("ip")
            .args(["netns", "exec", &space, "wireguard-go", "-f", &interface])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("wireguard-go");
        let reference = Reference {
            four: IpAddr::from([10, 66, 0, n]),
            key: secret.public(),
            at: SocketAddr::from(([192, 0, 2, n], 51820)),
            space,
            interface,
            child,
        };
        let end = Instant::now() + Duration::from_secs(20);
        let socket = format!("/var/run/wireguard/{}.sock", reference.interface);
        while !std::path::Path::new(&socket).exists() {
            assert!(Instant::now() < end, "wireguard-go does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        let key = ["listen-port", "51820", "private-key", "/dev/stdin"];
        reference.wg(&key, &secret.to_base64());
        let (space, four) = (&reference.space, reference.four);
        let interface = &reference.interface;
        sh(&format!("ip -n {space} addr add {four}/24 dev {interface}"));
        sh(&format!("ip -n {space} link set {interface} up"));
        reference
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let spaces = sh("ip netns list");
        let prefix = format!("{}-", self.name);
        let names = spaces
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        for space in names.filter(|name| name.starts_with(&prefix)) {
            sh(&format!("ip netns del {space}"));
        }
    }
}

fn config(four: IpAddr, six: IpAddr) -> Config {
    Config {
        private_key: PrivateKey::generate().expect("a key"),
        name: "mesh0".to_owned(),
        listen_port: 51820,
        addresses: vec![(four, 24), (six, 64)],
        mtu: 1420,
        queues: Some(1),
        relay: false,
        filter: Filter::default(),
        times: Times::default(),
    }
}

fn six(n: u8) -> IpAddr {
    IpAddr::from([0xfd66, 0, 0, 0, 0, 0, 0, u16::from(n)])
}

/// Runs something in a network namespace, on a thread of its own.
pub(crate) fn within<T: Send>(space: &str, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{space}")).expect("a namespace");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("inside the namespace");
            run()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A host with a mesh.
pub(crate) struct Node {
    pub(crate) space: String,
    number: AtomicU8,
    pub(crate) four: IpAddr,
    pub(crate) six: IpAddr,
    key: PublicKey,
    mesh: Option<Mesh>,
    peers: Mutex<Vec<PeerConfig>>,
}

impl Node {
    pub(crate) fn within<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        within(&self.space, run)
    }

    pub(crate) fn mesh(&self) -> &Mesh {
        self.mesh.as_ref().expect("a mesh that runs")
    }

    pub(crate) fn stop(&mut self) {
        self.mesh.take().expect("a mesh that runs").stop();
    }

    /// Its first key.
    pub(crate) fn key(&self) -> PublicKey {
        self.key
    }

    /// Where it is on the wire.
    pub(crate) fn place(&self) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, self.number.load(Ordering::Relaxed)], 51820))
    }

    /// The same in IPv6.
    pub(crate) fn place_six(&self) -> SocketAddr {
        let number = u16::from(self.number.load(Ordering::Relaxed));
        SocketAddr::from(([0xfd02, 0, 0, 0, 0, 0, 0, number], 51820))
    }

    /// This one is a member, and is somewhere in these places.
    pub(crate) fn meets_at(&self, other: &Self, endpoints: Vec<SocketAddr>) {
        self.set(vec![PeerConfig {
            endpoints,
            ..Self::config_of(other, &[])
        }]);
    }

    fn config_of(other: &Self, relays: &[&Self]) -> PeerConfig {
        PeerConfig {
            public_key: other.key,
            previous_key: None,
            addresses: vec![other.four, other.six],
            endpoints: vec![other.place()],
            relays: relays.iter().map(|relay| relay.key).collect(),
            persistent: false,
            control: false,
        }
    }

    fn set(&self, peers: Vec<PeerConfig>) {
        self.mesh().set_peers(&peers).expect("members");
        *self.peers.lock().expect("no panic before") = peers;
    }

    /// These are its members now.
    pub(crate) fn meets(&self, others: &[&Self]) {
        self.set(
            others
                .iter()
                .map(|other| Self::config_of(other, &[]))
                .collect(),
        );
    }

    /// These, through those, and those too.
    pub(crate) fn meets_through(&self, others: &[&Self], relays: &[&Self]) {
        let members = others.iter().map(|other| Self::config_of(other, relays));
        let relays = relays.iter().map(|relay| Self::config_of(relay, &[]));
        self.set(members.chain(relays).collect());
    }

    /// This one, with these keys.
    pub(crate) fn meets_as(&self, other: &Self, key: PublicKey, previous: Option<PublicKey>) {
        self.set(vec![PeerConfig {
            public_key: key,
            previous_key: previous,
            ..Self::config_of(other, &[])
        }]);
    }

    pub(crate) fn meets_reference(&self, other: &Reference) {
        self.set(vec![PeerConfig {
            public_key: other.key,
            previous_key: None,
            addresses: vec![other.four],
            endpoints: vec![other.at],
            relays: Vec::new(),
            persistent: false,
            control: false,
        }]);
    }

    /// Lets this one and another reach each other's control ports.
    pub(crate) fn controls(&self, other: &Self) {
        let mut peers = self.peers.lock().expect("no panic before").clone();
        for peer in &mut peers {
            peer.control |= peer.public_key == other.key;
        }
        self.set(peers);
    }

    /// Gets another address on the wire, in place of the present one.
    pub(crate) fn moves(&self, to: u8) {
        let (space, from) = (&self.space, self.number.load(Ordering::Relaxed));
        sh(&format!(
            "ip -n {space} addr del 192.0.2.{from}/24 dev eth0"
        ));
        sh(&format!("ip -n {space} addr add 192.0.2.{to}/24 dev eth0"));
        self.number.store(to, Ordering::Relaxed);
    }

    /// Drops what comes from another one.
    pub(crate) fn drops(&self, other: &Self) {
        let nft = format!("ip netns exec {} nft", self.space);
        sh(&format!("{nft} add table inet t"));
        sh(&format!(
            "{nft} add chain inet t in {{ type filter hook input priority 0 ; }}"
        ));
        sh(&format!(
            "{nft} add rule inet t in ip saddr {} drop",
            other.place().ip()
        ));
    }

    /// Drops nothing any more.
    pub(crate) fn passes(&self) {
        sh(&format!("ip netns exec {} nft flush ruleset", self.space));
    }

    /// Its wire takes packets up to so many bytes.
    pub(crate) fn narrows(&self, mtu: u16) {
        sh(&format!("ip -n {} link set eth0 mtu {mtu}", self.space));
    }

    /// What it sends is late, and some of it lost. False if this kernel cannot do that.
    pub(crate) fn loses(&self) -> bool {
        let netem = "qdisc add dev eth0 root netem delay 50ms loss 5%";
        let mut tc = Command::new("ip");
        tc.args(["netns", "exec", &self.space, "tc"])
            .args(netem.split(' '));
        tc.stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Starts a second mesh, whose interface has the name of the first's.
    pub(crate) fn starts_again(&self) -> Result<Mesh, MeshError> {
        self.within(|| Mesh::start(config(self.four, self.six)))
    }

    pub(crate) fn interfaces(&self) -> String {
        sh(&format!("ip -n {} -o link", self.space))
    }

    pub(crate) fn routes(&self) -> String {
        sh(&format!("ip -n {} route show table all", self.space))
    }

    /// Packets that its mesh gave to its kernel.
    pub(crate) fn interface_packets(&self) -> u64 {
        self.statistic("rx_packets")
    }

    /// Their mean length in bytes.
    pub(crate) fn interface_mean(&self) -> u64 {
        self.statistic("rx_bytes") / self.interface_packets().max(1)
    }

    fn statistic(&self, name: &str) -> u64 {
        let file = format!("/sys/class/net/mesh0/statistics/{name}");
        let text = sh(&format!("ip netns exec {} cat {file}", self.space));
        text.trim().parse().expect("a number")
    }

    /// Sends bytes by TCP to another, and sees that all arrive.
    pub(crate) fn streams_to(&self, other: &Self, bytes: usize) {
        stream((&self.space, self.four), (&other.space, other.four), bytes);
    }

    pub(crate) fn pings(&self, address: IpAddr) {
        ping(&self.space, address);
    }
}

/// One datagram that is answered by a refusal or not at all shows nothing; so a stream is opened until it is.
pub(crate) fn ping(space: &str, address: IpAddr) {
    within(space, || {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            // Refused is an answer too, from the other end of the tunnel.
            let at = SocketAddr::new(address, 1);
            match TcpStream::connect_timeout(&at, Duration::from_secs(2)) {
                Ok(_) => return,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return,
                Err(error) => assert!(Instant::now() < end, "{address}: {error}"),
            }
        }
    });
}

/// Packets that were on the wire.
pub(crate) struct Capture {
    child: Child,
    reader: std::thread::JoinHandle<()>,
    seen: Arc<Mutex<Vec<u8>>>,
    /// It goes on to speak, and would be killed if nobody could hear it.
    _said: std::process::ChildStderr,
}

impl Capture {
    /// Ends it once it saw so many bytes. The IP packets that it saw.
    pub(crate) fn end(mut self, bytes: usize) -> Vec<Vec<u8>> {
        // What was sent just now takes a moment to tcpdump.
        let end = Instant::now() + Duration::from_secs(20);
        let seen = || self.seen.lock().expect("no panic").len();
        while seen() < bytes {
            assert!(
                Instant::now() < end,
                "{} bytes of {bytes} were seen",
                seen()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let id = i32::try_from(self.child.id()).expect("a process id");
        let id = rustix::process::Pid::from_raw(id).expect("a process id");
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("a signal");
        self.child.wait().expect("its end");
        self.reader.join().expect("the reader");
        let all = self.seen.lock().expect("no panic").clone();
        let mut rest = all.get(24..).expect("a capture's header");
        let mut packets = Vec::new();
        while let Some(header) = rest.get(..16) {
            let len = u32::from_le_bytes(header[8..12].try_into().expect("four bytes")) as usize;
            let Some(frame) = rest.get(16..16 + len) else {
                break;
            };
            packets.push(frame[14..].to_vec());
            rest = &rest[16 + len..];
        }
        packets
    }
}

/// What a UDP packet carries.
pub(crate) fn payload(packet: &[u8]) -> &[u8] {
    &packet[28..]
}

/// Whether an IPv4 packet is one of WireGuard, by port, type and reserved bytes.
pub(crate) fn is_wireguard(packet: &[u8]) -> bool {
    let ports = packet.get(20..24) == Some(&[0xca, 0x6c, 0xca, 0x6c]);
    let kind = packet.get(28..32);
    let known = kind.is_some_and(|kind| (1..=4).contains(&kind[0]) && kind[1..] == [0; 3]);
    packet.get(9) == Some(&17) && ports && known
}

/// First messages of handshakes with the owner of a key, each of another stranger.
pub(crate) fn initiations(to: PublicKey, count: usize) -> Vec<Vec<u8>> {
    use boringtun::noise::{Tunn, TunnResult};
    use boringtun::x25519;
    let to = x25519::PublicKey::from(*to.as_bytes());
    let one = |n: usize| {
        let secret = PrivateKey::generate().expect("a key").to_bytes();
        let secret = x25519::StaticSecret::from(secret);
        let mut tunn = Tunn::new(secret, to, None, None, u32::try_from(n).expect("few"), None);
        let mut buffer = [0; 148];
        let TunnResult::WriteToNetwork(message) =
            tunn.format_handshake_initiation(&mut buffer, true)
        else {
            panic!("no handshake");
        };
        message.to_vec()
    };
    (0..count).map(one).collect()
}

/// Waits until the mesh with this interface has so many threads: they take their names, and leave `/proc`, a moment later.
pub(crate) fn await_threads(interface: &str, wanted: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    while mesh_threads(interface) != wanted {
        assert!(Instant::now() < end, "{} threads", mesh_threads(interface));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Threads of this process that are of the mesh with this interface.
fn mesh_threads(interface: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with(&format!("{interface}-")))
        .count()
}

/// A host with wireguard-go.
pub(crate) struct Reference {
    pub(crate) space: String,
    pub(crate) four: IpAddr,
    pub(crate) key: PublicKey,
    pub(crate) at: SocketAddr,
    interface: String,
    pub(crate) child: Child,
}

impl Reference {
    /// Changes its settings.
    fn wg(&self, words: &[&str], input: &str) {
        let mut wg = Command::new("ip")
            .args(["netns", "exec", &self.space, "wg", "set", &self.interface])
            .args(words)
            .stdin(Stdio::piped())
            .spawn()
            .expect("wg");
        let mut stdin = wg.stdin.take().expect("its stdin");
        writeln!(stdin, "{input}").expect("its input");
        drop(stdin);
        assert!(wg.wait().expect("wg").success());
    }

    /// The owner of this key, at this place, has these addresses.
    pub(crate) fn meets(&self, key: PublicKey, at: SocketAddr, allowed: &str) {
        let (key, at) = (key.to_string(), at.to_string());
        let words = ["peer", &key, "endpoint", &at, "allowed-ips", allowed];
        self.wg(&words, "");
    }

    pub(crate) fn pings(&self, address: IpAddr) {
        ping(&self.space, address);
    }

    /// Sends bytes by TCP to a member, and sees that all arrive.
    pub(crate) fn streams_to(&self, node: &Node, bytes: usize) {
        stream((&self.space, self.four), (&node.space, node.four), bytes);
    }

    /// The other way.
    pub(crate) fn streams_from(&self, node: &Node, bytes: usize) {
        stream((&node.space, node.four), (&self.space, self.four), bytes);
    }
}

fn stream((from, _): (&str, IpAddr), (to, address): (&str, IpAddr), bytes: usize) {
    let listener = within(to, || TcpListener::bind((address, 0)).expect("a port"));
    let at = listener.local_addr().expect("an address");
    let sender = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut stream = within(from, || TcpStream::connect(at).expect("a connection"));
            stream.write_all(&vec![7; bytes]).expect("sent");
        });
        let (mut stream, _) = listener.accept().expect("a caller");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("received");
        assert!(got == vec![7; bytes]);
        sender.join()
    });
    sender.expect("the sender");
}

impl Drop for Reference {
    fn drop(&mut self) {
        // By a signal that lets it take its socket away. It may have ended by itself; then there is nothing to do.
        let id = i32::try_from(self.child.id()).expect("a process id");
        if let Some(id) = rustix::process::Pid::from_raw(id) {
            rustix::process::kill_process(id, rustix::process::Signal::TERM).ok();
        }
        drop(self.child.wait());
    }
}

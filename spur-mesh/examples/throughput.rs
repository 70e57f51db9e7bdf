//! What the mesh carries between two hosts of this machine, beside the bare wire and wireguard-go: one TCP stream, in network
//! namespaces, as root. `cargo run --release -p spur-mesh --example throughput [SECONDS]`.
//!
//! CPU time is that of both ends, tunnels and programs together. What the kernel does in interrupts is in none.

#[expect(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "the tests use the rest"
)]
#[path = "../tests/namespaces/net.rs"]
mod net;

use net::{Net, Reference};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A way to carry a stream.
struct Row {
    name: &'static str,
    bytes: u64,
    seconds: f64,
    cpu_seconds: f64,
    round_trip: Duration,
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(5));
    if let Some(why) = net::missing(&["ip", "wg", "wireguard-go"]) {
        eprintln!("skipped: {why}");
        return;
    }
    let rows = [wire(time), ours(1, time), ours(2, time), reference(time)];
    println!(
        "{:16} {:>10} {:>12} {:>14}",
        "", "MB/s", "CPU s/GB", "round trip us"
    );
    for row in rows {
        let megabytes = row.bytes as f64 / 1e6;
        println!(
            "{:16} {:>10.0} {:>12.2} {:>14.0}",
            row.name,
            megabytes / row.seconds,
            row.cpu_seconds / megabytes * 1000.0,
            row.round_trip.as_secs_f64() * 1e6,
        );
    }
}

fn wire(time: Duration) -> Row {
    let net = Net::new();
    let (a, b) = (net.node(1), net.node(2));
    measure("wire", (&a.space, &b.space), b.place().ip(), &[], time)
}

fn ours(queues: usize, time: Duration) -> Row {
    let net = Net::new();
    let name = if queues == 1 {
        "spur, 1 queue"
    } else {
        "spur, 2 queues"
    };
    let node = |n| net.node_with(n, |config| config.queues = Some(queues));
    let (a, b) = (node(1), node(2));
    a.meets(&[&b]);
    b.meets(&[&a]);
    measure(name, (&a.space, &b.space), b.four, &[], time)
}

fn reference(time: Duration) -> Row {
    let net = Net::new();
    let (a, b) = (net.wireguard_go(1), net.wireguard_go(2));
    a.meets(b.key, b.at, &format!("{}/32", b.four));
    b.meets(a.key, a.at, &format!("{}/32", a.four));
    measure(
        "wireguard-go",
        (&a.space, &b.space),
        b.four,
        &[&a, &b],
        time,
    )
}

fn measure(
    name: &'static str,
    (from, to): (&str, &str),
    address: IpAddr,
    others: &[&Reference],
    time: Duration,
) -> Row {
    net::ping(from, address);
    let listener = net::within(to, || TcpListener::bind((address, 0)).expect("a port"));
    let at = listener.local_addr().expect("an address");
    let mut stream = net::within(from, || TcpStream::connect(at).expect("a connection"));
    let (mut other, _) = listener.accept().expect("a caller");
    let round_trip = round_trip(&mut stream, &mut other);
    let cpu = || {
        cpu_seconds("self")
            + others
                .iter()
                .map(|r| cpu_seconds(&r.child.id().to_string()))
                .sum::<f64>()
    };
    let (before, start) = (cpu(), Instant::now());
    let bytes = std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0_u64);
            loop {
                match other.read(&mut buffer).expect("bytes") {
                    0 => return bytes,
                    len => bytes += len as u64,
                }
            }
        });
        let data = vec![7; 1 << 18];
        while start.elapsed() < time {
            stream.write_all(&data).expect("sent");
        }
        drop(stream);
        receiver.join().expect("the receiver")
    });
    Row {
        name,
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        cpu_seconds: cpu() - before,
        round_trip,
    }
}

/// The median of many.
fn round_trip(one: &mut TcpStream, other: &mut TcpStream) -> Duration {
    one.set_nodelay(true).expect("an option");
    other.set_nodelay(true).expect("an option");
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            let (start, mut byte) = (Instant::now(), [1]);
            one.write_all(&byte).expect("sent");
            other.read_exact(&mut byte).expect("received");
            other.write_all(&byte).expect("sent");
            one.read_exact(&mut byte).expect("received");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// User and system time of a process.
fn cpu_seconds(process: &str) -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(')').expect("its name");
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |n: usize| fields[n].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

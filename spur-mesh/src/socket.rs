//! UDP sockets of one queue, IPv4 and IPv6, and batches of datagrams to one place.

use crate::path::Endpoint;
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// What the kernel may hold for one socket in each direction, in bytes: what a fast link brings while a thread is not running.
const KERNEL_BUFFER: usize = 4 << 20;

/// Datagrams that the kernel takes in one call.
const SEGMENTS_MAX: usize = 64;

/// Bytes that the kernel takes in one call: 64 KiB less the headers that it adds.
const BATCH_BYTES: usize = 65_000;

/// Longest datagram that is sent.
pub(crate) const DATAGRAM_MAX: usize = 9_216;

/// How long a full send buffer is waited for, before the datagram is dropped.
const SEND_WAIT_NS: i64 = 20_000_000;

/// One bound socket.
pub(crate) struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
}

/// The sockets of one queue. A host without IPv6 has one.
pub(crate) struct Sockets {
    pub(crate) four: Socket,
    pub(crate) six: Option<Socket>,
}

impl Sockets {
    /// Binds one pair for each queue to one port, 0 for any. The kernel spreads senders over them.
    pub(crate) fn bind(port: u16, queues: usize) -> io::Result<Vec<Self>> {
        let first = Socket::bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)?;
        let port = first.udp.local_addr()?.port();
        let mut all = vec![Self::with(first, port)?];
        while all.len() < queues {
            let four = Socket::bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)?;
            all.push(Self::with(four, port)?);
        }
        Ok(all)
    }

    fn with(four: Socket, port: u16) -> io::Result<Self> {
        let six = match Socket::bind(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port) {
            Ok(six) => Some(six),
            Err(error) if no_ipv6(&error) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { four, six })
    }

    /// The port.
    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.four.udp.local_addr()?.port())
    }

    fn for_address(&self, address: &SocketAddr) -> Option<&Socket> {
        match address {
            SocketAddr::V4(_) => Some(&self.four),
            SocketAddr::V6(_) => self.six.as_ref(),
        }
    }

    /// Sends datagrams of `segment` bytes each, the last perhaps shorter. What cannot be sent is dropped, as networks do.
    pub(crate) fn send(&self, to: Endpoint, bytes: &[u8], segment: usize) -> Unsent {
        let mut unsent = Unsent::default();
        let Some(socket) = self.for_address(&to.address) else {
            unsent.bytes = bytes.len();
            return unsent;
        };
        if segment < bytes.len() && socket.send(to, bytes, Some(segment)).is_ok() {
            return unsent;
        }
        for datagram in bytes.chunks(segment.max(1)) {
            let Err(error) = socket.send(to, datagram, None) else {
                continue;
            };
            unsent.bytes += datagram.len();
            if quinn_udp::is_msg_size_err(&error) {
                unsent.too_long = unsent.too_long.max(datagram.len());
            }
            tracing::debug!(to = %to.address, len = datagram.len(), %error, "datagram not sent");
        }
        unsent
    }

    /// Whether this host has an interface with this name.
    pub(crate) fn sees_interface(&self, name: &str) -> bool {
        rustix::net::netdevice::name_to_index(&self.four, name).is_ok()
    }
}

/// What could not be sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsent {
    /// All of it, in bytes.
    pub(crate) bytes: usize,
    /// The longest datagram that the way does not take, in bytes; 0 if that was not why.
    pub(crate) too_long: usize,
}

fn no_ipv6(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

impl Socket {
    fn bind(address: IpAddr, port: u16) -> io::Result<Self> {
        let family = match address {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        sockopt::set_socket_reuseport(&fd, true)?;
        // Beyond the system's limit where we may, up to it otherwise.
        if sockopt::set_socket_recv_buffer_size_force(&fd, KERNEL_BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, KERNEL_BUFFER)?;
        }
        if sockopt::set_socket_send_buffer_size_force(&fd, KERNEL_BUFFER).is_err() {
            sockopt::set_socket_send_buffer_size(&fd, KERNEL_BUFFER)?;
        }
        rustix::net::bind(&fd, &SocketAddr::new(address, port))?;
        let udp = UdpSocket::from(fd);
        let state = UdpSocketState::new(UdpSockRef::from(&udp))?;
        // The kernel learns how long datagrams may be on each way, and refuses longer ones.
        match address {
            IpAddr::V4(_) => sockopt::set_ip_mtu_discover(&udp, Ipv4PathMtuDiscovery::DO)?,
            IpAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&udp, Ipv6PathMtuDiscovery::DO)?,
        }
        Ok(Self { udp, state })
    }

    fn send(&self, to: Endpoint, bytes: &[u8], segment: Option<usize>) -> io::Result<()> {
        let transmit = |src_ip| Transmit {
            destination: to.address,
            ecn: None,
            contents: bytes,
            segment_size: segment,
            src_ip,
        };
        match self.send_waiting(&transmit(to.local)) {
            // Our address there may be gone: let the kernel choose one.
            Err(_) if to.local.is_some() => self.send_waiting(&transmit(None)),
            sent => sent,
        }
    }

    fn send_waiting(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let send = || self.state.try_send(UdpSockRef::from(&self.udp), transmit);
        match send() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut ready = [PollFd::new(&self.udp, PollFlags::OUT)];
                let wait = Timespec {
                    tv_sec: 0,
                    tv_nsec: SEND_WAIT_NS,
                };
                poll(&mut ready, Some(&wait))?;
                send()
            }
            sent => sent,
        }
    }

    /// Fills the buffers, each with one datagram or several of one length from one sender.
    pub(crate) fn receive(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.state.recv(UdpSockRef::from(&self.udp), buffers, metas)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

/// Datagrams of one length to one endpoint, that go out in one call. Only the last may be shorter.
pub(crate) struct Batch {
    buffer: Vec<u8>,
    len: usize,
    segment: usize,
    count: usize,
    to: Option<Endpoint>,
    /// What could not be sent, and the last place that it was for.
    pub(crate) unsent: Option<(Endpoint, Unsent)>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; BATCH_BYTES + DATAGRAM_MAX],
            len: 0,
            segment: 0,
            count: 0,
            to: None,
            unsent: None,
        }
    }

    /// Room for one more datagram.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.len..).unwrap_or_default()
    }

    /// What was written to the room so far.
    pub(crate) fn written(&self, len: usize) -> &[u8] {
        self.buffer
            .get(self.len..self.len + len)
            .unwrap_or_default()
    }

    /// The first `len` bytes of the room are a datagram to this endpoint.
    pub(crate) fn push(&mut self, sockets: &Sockets, to: Endpoint, len: usize) {
        let fits = self.to == Some(to) && len <= self.segment && self.count < SEGMENTS_MAX;
        if !fits && self.len > 0 {
            let start = self.len;
            self.flush(sockets);
            self.buffer.copy_within(start..start + len, 0);
        }
        if self.len == 0 {
            self.to = Some(to);
            self.segment = len;
        }
        self.len += len;
        self.count += 1;
        if len < self.segment || self.len + self.segment > BATCH_BYTES {
            self.flush(sockets);
        }
    }

    /// Sends what is there.
    pub(crate) fn flush(&mut self, sockets: &Sockets) {
        if let (Some(to), Some(bytes)) = (self.to, self.buffer.get(..self.len)) {
            let unsent = sockets.send(to, bytes, self.segment);
            if unsent != Unsent::default() {
                self.unsent = Some((to, unsent));
            }
        }
        (self.len, self.count, self.to) = (0, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch to a socket of the test, which then says what came.
    fn sent(lens: &[usize]) -> Vec<Vec<u8>> {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let wait = std::time::Duration::from_secs(5);
        receiver.set_read_timeout(Some(wait)).expect("a timeout");
        let to = Endpoint::from(receiver.local_addr().expect("an address"));
        let sockets = Sockets::bind(0, 1).expect("sockets").remove(0);
        let mut batch = Batch::new();
        for (n, len) in (0_u8..).zip(lens) {
            batch.room()[..*len].fill(n);
            batch.push(&sockets, to, *len);
        }
        batch.flush(&sockets);
        assert_eq!(batch.unsent, None);
        let receive = |_: &usize| {
            let mut buffer = [0; 2000];
            let len = receiver.recv(&mut buffer).expect("a datagram");
            buffer[..len].to_vec()
        };
        lens.iter().map(receive).collect()
    }

    #[test]
    fn datagrams_keep_their_bounds_and_their_order() {
        let mixed = [100, 100, 60, 100, 1400, 1400, 20, 20, 21, 1, 1400];
        let many: Vec<usize> = (0..70)
            .map(|n| if n % 40 == 39 { 7 } else { 1200 })
            .collect();
        for lens in [&mixed[..], &many] {
            let wanted: Vec<Vec<u8>> = (0_u8..).zip(lens).map(|(n, len)| vec![n; *len]).collect();
            assert_eq!(sent(lens), wanted);
        }
    }

    #[test]
    fn all_queues_have_one_port() {
        let sockets = Sockets::bind(0, 3).expect("sockets");
        let ports: Vec<u16> = sockets.iter().map(|s| s.port().expect("a port")).collect();
        assert!(ports[0] != 0 && ports.iter().all(|port| *port == ports[0]));
    }
}

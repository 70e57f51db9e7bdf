//! The tun interface: one per mesh, with several queues and the kernel's segmentation offload.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use tun_rs::{DeviceBuilder, GROTable, SyncDevice, VIRTIO_NET_HDR_LEN};

/// Packets of one read, and of one write: what 64 KiB may be cut into.
pub(crate) const PACKETS_MAX: usize = 128;

/// Free bytes before each packet to be written, for the kernel's header.
pub(crate) const HEADROOM: usize = VIRTIO_NET_HDR_LEN;

/// What is to be made.
pub(crate) struct Spec<'a> {
    pub(crate) name: &'a str,
    pub(crate) addresses: &'a [(IpAddr, u8)],
    pub(crate) mtu: u16,
    pub(crate) queues: usize,
}

/// One queue. The interface is gone with its last queue.
pub(crate) struct Queue(SyncDevice);

impl Queue {
    /// Makes the interface, with its addresses and the route to their networks, and brings it up.
    pub(crate) fn open(spec: &Spec<'_>) -> io::Result<Vec<Self>> {
        let mut builder = DeviceBuilder::new()
            .name(spec.name)
            .mtu(spec.mtu)
            .multi_queue(true)
            .offload(true);
        for (address, prefix) in spec.addresses {
            builder = match address {
                IpAddr::V4(address) => builder.ipv4(*address, *prefix, None),
                IpAddr::V6(address) => builder.ipv6(*address, *prefix),
            };
        }
        let first = builder.enable(true).build_sync()?;
        first.set_nonblocking(true)?;
        let mut queues = vec![Self(first)];
        while queues.len() < spec.queues.max(1) {
            let next = queues[0].0.try_clone()?;
            next.set_nonblocking(true)?;
            queues.push(Self(next));
        }
        Ok(queues)
    }

    /// Reads what the kernel sends, cut into packets. Nothing if it sends nothing now.
    pub(crate) fn read(&self, packets: &mut Packets) -> io::Result<Option<usize>> {
        let Packets { raw, cut, lens } = packets;
        match self.0.recv_multiple(raw, cut, lens, 0) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives packets to the kernel, each [`HEADROOM`] bytes into its buffer, those of one stream together.
    pub(crate) fn write(&self, table: &mut GROTable, packets: &mut [Vec<u8>]) -> io::Result<()> {
        self.0.send_multiple(table, packets, HEADROOM).map(drop)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Room for one read.
pub(crate) struct Packets {
    raw: Vec<u8>,
    cut: Vec<Vec<u8>>,
    lens: Vec<usize>,
}

impl Packets {
    pub(crate) fn new(mtu: u16) -> Self {
        Self {
            raw: vec![0; HEADROOM + usize::from(u16::MAX)],
            cut: vec![vec![0; usize::from(mtu) + 64]; PACKETS_MAX],
            lens: vec![0; PACKETS_MAX],
        }
    }

    /// One of the packets that were read.
    pub(crate) fn get(&self, n: usize) -> Option<&[u8]> {
        self.cut.get(n)?.get(..*self.lens.get(n)?)
    }
}

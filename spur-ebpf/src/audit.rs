//! Refusals as the program reports them.

use crate::abi::{EVENT_NOTED, Plain, RawEvent};
use crate::{DeviceNumber, Error, Result, sys};
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Events taken out of the ring at once.
const BATCH: usize = 256;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opened for reading (also `inotify` and `access(R_OK)`).
    Read,
    /// Opened for writing.
    Write,
    /// Opened for both, or KFD's own probe of a render node.
    ReadWrite,
    /// `mknod`.
    Mknod,
    /// `access(F_OK)` and the like: asked, not opened.
    Probe,
    /// Took a descriptor from another process (`SCM_RIGHTS`, `pidfd_getfd`).
    Receive,
    /// `ioctl` on an open descriptor.
    Ioctl,
    /// `mmap` of an open descriptor.
    Mmap,
    /// Opened a file of sysfs, debugfs or tracefs.
    Sysfs,
    /// Looked into, or took hold of, another process.
    Ptrace,
    /// `bpf()`.
    Bpf,
    /// A ring of `io_uring` with a thread of its own.
    Sqpoll,
    /// A signal to a process of another job.
    Signal,
    /// Took a pin away, or its file system.
    Unpin,
    /// Wrote to a control group outside its own.
    Cgroup,
    /// An operation of a newer program.
    Other(u32),
}

/// Why it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The number of a fenced device is never made.
    Mknod,
    /// An unknown minor of a fenced major.
    Unlisted,
    /// Listed as never granted.
    Never,
    /// No policy was written yet.
    NoPolicy,
    /// The policy does not grant it.
    NotGranted,
    /// It belongs to another job, or to none.
    Foreign,
    /// No job may do that.
    Forbidden,
    /// A reason of a newer program.
    Other(u32),
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, to within the time between the clock readings (microseconds).
    pub at: SystemTime,
    /// Job of the policy, 0 if none was written.
    pub job: u64,
    /// Step of the policy.
    pub step: u32,
    /// Generation of the policy.
    pub generation: u64,
    /// Id of the process's cgroup, which may be below the fenced one.
    pub cgroup: u64,
    /// Thread id in the initial pid namespace.
    pub thread: u32,
    /// Process id in the initial pid namespace.
    pub pid: u32,
    /// Real user id in the initial user namespace.
    pub uid: u32,
    /// Command name, at most 15 bytes.
    pub command: String,
    /// The device.
    pub device: DeviceNumber,
    /// What was tried.
    pub operation: Operation,
    /// Why it was refused.
    pub reason: Reason,
    /// The process that was the object (its id in the initial pid namespace), for `Ptrace` and `Signal`.
    pub target: Option<u32>,
    /// Short name of what is no device: of a sysfs file, or `dma-buf`; at most 23 bytes, else empty.
    pub object: String,
    /// Seen by the guard, not by the fence. The guard counts for the job alone, also what a step's policy refused.
    pub by_guard: bool,
    /// Whether it was refused; `false` for what was only noted.
    pub refused: bool,
}

impl Event {
    fn from_raw(raw: &RawEvent) -> Event {
        let age = Duration::from_nanos(sys::monotonic_ns().saturating_sub(raw.time_ns));
        Event {
            at: SystemTime::now()
                .checked_sub(age)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            job: raw.job,
            step: raw.step,
            generation: raw.generation,
            cgroup: raw.cgroup,
            thread: raw.pid,
            pid: raw.tgid,
            uid: raw.uid,
            command: text(&raw.comm),
            device: DeviceNumber {
                major: raw.major,
                minor: raw.minor,
            },
            operation: operation(raw),
            reason: reason(raw.verdict),
            target: (raw.target != 0).then_some(raw.target),
            object: text(&raw.object),
            by_guard: raw.operation != 0,
            refused: raw.flags & EVENT_NOTED == 0,
        }
    }
}

/// Text that the program filled up with zeros.
fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..length.unwrap_or(bytes.len())]).into_owned()
}

fn operation(raw: &RawEvent) -> Operation {
    match raw.operation {
        0 | 1 => of_access(raw.access),
        2 => Operation::Receive,
        3 => Operation::Ioctl,
        4 => Operation::Mmap,
        5 => Operation::Sysfs,
        6 => Operation::Ptrace,
        7 => Operation::Bpf,
        8 => Operation::Sqpoll,
        9 => Operation::Signal,
        10 => Operation::Unpin,
        11 => Operation::Cgroup,
        other => Operation::Other(other),
    }
}

fn of_access(access: u16) -> Operation {
    match (access & 1 != 0, access & 2 != 0, access & 4 != 0) {
        (true, _, _) => Operation::Mknod,
        (false, true, true) => Operation::ReadWrite,
        (false, true, false) => Operation::Read,
        (false, false, true) => Operation::Write,
        (false, false, false) => Operation::Probe,
    }
}

fn reason(verdict: u32) -> Reason {
    match verdict {
        16 => Reason::Mknod,
        17 => Reason::Unlisted,
        18 => Reason::Never,
        19 => Reason::NoPolicy,
        20 => Reason::NotGranted,
        21 => Reason::Foreign,
        22 => Reason::Forbidden,
        other => Reason::Other(other),
    }
}

/// Reads the audit ring. Make one per node: two readers would share the events between them.
///
/// To wait in an event loop, poll [`Audit::as_fd`] for readability and call [`Audit::read`] until it returns 0.
pub struct Audit {
    ring: RingBuffer<'static>,
    /// Filled by the ring's callback, at most [`BATCH`] events, and emptied before `read` returns.
    taken: Arc<Mutex<VecDeque<RawEvent>>>,
    /// The ring's memory stays mapped without it; its descriptor has to stay open.
    _map: MapHandle,
}

impl Audit {
    pub(crate) fn new(map: MapHandle) -> Result<Audit> {
        let taken = Arc::new(Mutex::new(VecDeque::with_capacity(BATCH)));
        let into = Arc::clone(&taken);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&map, move |bytes| {
                // A record of another size is not ours to read; the ABI check at open makes that impossible.
                lock(&into).extend(RawEvent::from_bytes(bytes));
                0
            })
            .map_err(Error::libbpf("read", "the audit ring"))?;
        let ring = builder
            .build()
            .map_err(Error::libbpf("read", "the audit ring"))?;
        Ok(Audit {
            ring,
            taken,
            _map: map,
        })
    }

    /// Hands over the events that are in the ring now, at most 256, without waiting. Returns how many.
    pub fn read(&mut self, mut each: impl FnMut(Event)) -> Result<usize> {
        let result = self.ring.consume_raw_n(BATCH);
        if result < 0 {
            return Err(Error::kernel("read", "the audit ring")(
                std::io::Error::from_raw_os_error(-result),
            ));
        }
        let events: Vec<RawEvent> = lock(&self.taken).drain(..).collect();
        events.iter().map(Event::from_raw).for_each(&mut each);
        Ok(events.len())
    }

    /// Waits at most `timeout` for events and hands over what there is. Returns how many.
    pub fn poll(&mut self, timeout: Duration, each: impl FnMut(Event)) -> Result<usize> {
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        sys::wait_readable(self.as_fd(), timeout_ms)
            .map_err(Error::kernel("wait for", "the audit ring"))?;
        self.read(each)
    }
}

impl AsFd for Audit {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: libbpf keeps this descriptor open until the ring is freed, which happens when `self` is dropped.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }
}

impl std::os::fd::AsRawFd for Audit {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.ring.epoll_fd()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What was seen of one job: counts by kind, and lines that wait, few for each device.

use spur_core::denial::{DenialReason, DeviceOp, ROWS_MAX};
use spur_core::id::{Generation, JobId};
use spur_ebpf::{Event, Operation, Reason};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Lines of a job that may wait between two messages.
const LINES_MAX: usize = 128;
/// Lines of a device and operation that come at once.
const BURST: u32 = 8;
/// Then one in this time.
const EVERY: Duration = Duration::from_secs(1);
/// Devices and operations with a rate of their own; all others of the job share one.
const RATES_MAX: usize = 64;

/// What refusals are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Device number; 0:0 if it is about none.
    pub number: (u32, u32),
    /// Of a buffer that is shared without a node (`dma-buf`).
    pub is_dma_buf: bool,
    /// What was tried.
    pub op: DeviceOp,
    /// Why it was refused.
    pub reason: DenialReason,
    /// Only noted.
    pub noted: bool,
    /// By the guard.
    pub by_guard: bool,
    /// By a step's narrower fence.
    pub narrow: bool,
}

impl Kind {
    fn of(event: &Event) -> Self {
        Self {
            number: (event.device.major, event.device.minor),
            is_dma_buf: event.device.major == 0 && event.object == "dma-buf",
            op: operation(event.operation),
            reason: reason(event.reason),
            noted: !event.refused,
            by_guard: event.by_guard,
            // The guard counts for the job alone, whichever policy it was.
            narrow: event.step != 0 && !event.by_guard,
        }
    }
}

/// How many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Seen.
    pub total: u64,
    /// Of those, how many got no line.
    pub cut: u64,
}

/// What is there to tell of a job.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Which job.
    pub job: JobId,
    /// Of which placement.
    pub generation: Generation,
    /// Lines, oldest first.
    pub lines: Vec<Event>,
    /// Counts since the placement, or the agent, began.
    pub kinds: Vec<(Kind, Tally)>,
    /// Of kinds beyond those.
    pub others: Tally,
}

/// One job's.
#[derive(Debug, Default)]
pub(super) struct OfJob {
    generation: u64,
    lines: Vec<Event>,
    kinds: BTreeMap<Kind, Tally>,
    /// How many of `kinds` are of a step's fence.
    narrow: usize,
    others: Tally,
    rates: BTreeMap<((u32, u32), DeviceOp), Rate>,
    shared_rate: Rate,
    changed: bool,
}

impl OfJob {
    pub(super) fn put(&mut self, event: Event) {
        if event.generation > self.generation {
            let generation = event.generation;
            *self = Self {
                generation,
                ..Self::default()
            };
        }
        let kind = Kind::of(&event);
        let (number, op, narrow) = (kind.number, kind.op, kind.narrow);
        let has_line = self.lines.len() < LINES_MAX && self.rate(number, op).admit(event.at);
        if has_line {
            self.lines.push(event);
        }
        let alike = if narrow {
            self.narrow
        } else {
            self.kinds.len() - self.narrow
        };
        let known = self.kinds.len();
        let tally = if alike < ROWS_MAX || self.kinds.contains_key(&kind) {
            self.kinds.entry(kind).or_default()
        } else if narrow {
            // Whether the job's own fence counts these as well is not known without the device: they stay uncounted.
            &mut Tally::default()
        } else {
            &mut self.others
        };
        tally.total += 1;
        tally.cut += u64::from(!has_line);
        self.narrow += usize::from(narrow && self.kinds.len() > known);
        self.changed = true;
    }

    fn rate(&mut self, number: (u32, u32), op: DeviceOp) -> &mut Rate {
        let key = (number, op);
        if self.rates.len() < RATES_MAX || self.rates.contains_key(&key) {
            self.rates.entry(key).or_default()
        } else {
            &mut self.shared_rate
        }
    }

    pub(super) fn take(&mut self, job: JobId) -> Option<Taken> {
        std::mem::take(&mut self.changed).then(|| Taken {
            job,
            generation: Generation(self.generation),
            lines: std::mem::take(&mut self.lines),
            kinds: self
                .kinds
                .iter()
                .map(|(kind, tally)| (kind.clone(), *tally))
                .collect(),
            others: self.others,
        })
    }

    pub(super) fn say_again(&mut self) {
        self.changed = true;
    }
}

/// When the next line is due if they come evenly.
#[derive(Debug)]
struct Rate(SystemTime);

impl Default for Rate {
    fn default() -> Self {
        Self(SystemTime::UNIX_EPOCH)
    }
}

impl Rate {
    fn admit(&mut self, at: SystemTime) -> bool {
        if self.0 > at + EVERY * (BURST - 1) {
            return false;
        }
        self.0 = self.0.max(at) + EVERY;
        true
    }
}

pub(super) fn operation(operation: Operation) -> DeviceOp {
    match operation {
        Operation::Read => DeviceOp::Read,
        Operation::Write => DeviceOp::Write,
        Operation::ReadWrite => DeviceOp::ReadWrite,
        Operation::Mknod => DeviceOp::Mknod,
        Operation::Probe => DeviceOp::Probe,
        Operation::Receive => DeviceOp::Receive,
        Operation::Ioctl => DeviceOp::Ioctl,
        Operation::Mmap => DeviceOp::Mmap,
        Operation::Sysfs => DeviceOp::Sysfs,
        Operation::Ptrace => DeviceOp::Ptrace,
        Operation::Bpf => DeviceOp::Bpf,
        Operation::Sqpoll => DeviceOp::Sqpoll,
        Operation::Signal => DeviceOp::Signal,
        Operation::Unpin => DeviceOp::Unpin,
        Operation::Cgroup => DeviceOp::Cgroup,
        Operation::Other(_) => DeviceOp::Other,
    }
}

pub(super) fn reason(reason: Reason) -> DenialReason {
    match reason {
        Reason::Mknod | Reason::Never => DenialReason::NeverGranted,
        Reason::Unlisted => DenialReason::UnknownMinor,
        Reason::NoPolicy => DenialReason::NoPolicy,
        Reason::NotGranted => DenialReason::NotGranted,
        Reason::Foreign => DenialReason::Foreign,
        Reason::Forbidden => DenialReason::Forbidden,
        Reason::Other(_) => DenialReason::Unknown,
    }
}

//! From the kernel's audit ring to what the controller shows. A thread reads the ring; the newest few refusals of each job wait in
//! a small buffer until the loop takes them, at most a few times a second. A flood costs a bounded number of them, and the totals
//! come from the fence's own counters.

use crate::agent::Input;
use crate::fence::canary;
use crate::node::millis;
use spur_core::denial::{Denial, DenialReason, DeviceOp};
use spur_core::id::{JobId, NodeName, Uid};
use spur_ebpf::{Audit, Event, Operation, Reason};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Newest refusals kept for each job between two messages.
const PER_JOB_MAX: usize = 32;

/// Jobs that may have refusals waiting; those of further jobs are only counted.
const JOBS_MAX: usize = 256;

/// The shortest time between two messages.
const PAUSE: Duration = Duration::from_millis(250);

/// How long a wait for the ring lasts before the thread looks whether it is still wanted.
const WAIT: Duration = Duration::from_secs(60);

/// Refusals that wait to be sent.
#[derive(Clone, Debug, Default)]
pub struct Buffer(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    jobs: Mutex<BTreeMap<u64, VecDeque<Event>>>,
    filled: Notify,
}

impl Buffer {
    /// Adds a refusal, in place of the job's oldest if it has enough. The canary's are ours and are left out, as are those of cgroups
    /// that belong to no job.
    pub fn put(&self, event: Event) {
        let own = (event.device.major, event.device.minor) == (canary::MAJOR, canary::MINOR);
        if own || event.job == 0 {
            return;
        }
        let mut jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() >= JOBS_MAX && !jobs.contains_key(&event.job) {
            return;
        }
        let of_job = jobs.entry(event.job).or_default();
        if of_job.len() >= PER_JOB_MAX {
            of_job.pop_front();
        }
        of_job.push_back(event);
        drop(jobs);
        self.0.filled.notify_one();
    }

    /// Takes everything that waits, by job, oldest first.
    pub fn take(&self) -> Vec<Event> {
        let mut jobs = self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *jobs).into_values().flatten().collect()
    }
}

/// Reads the ring until the process ends, and tells the loop, not too often, that there is something.
pub fn watch(audit: Audit, buffer: &Buffer, inputs: mpsc::Sender<Input>) -> std::io::Result<()> {
    let into = buffer.clone();
    let mut reader = Reader(audit);
    std::thread::Builder::new()
        .name("audit".into())
        .spawn(move || reader.read_on(&into))?;
    let filled = buffer.clone();
    tokio::spawn(async move {
        loop {
            filled.0.filled.notified().await;
            if inputs.send(Input::Refusals).await.is_err() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    Ok(())
}

/// The ring's reader, which moves to its thread once and stays there.
struct Reader(Audit);

impl Reader {
    fn read_on(&mut self, into: &Buffer) {
        loop {
            if let Err(error) = self.0.poll(WAIT, |event| into.put(event)) {
                tracing::error!(%error, "the audit ring cannot be read: refusals are counted but not shown");
                return;
            }
        }
    }
}

/// A refusal as the controller keeps it.
pub fn denial(event: &Event, node: &NodeName, device: String) -> Denial {
    Denial {
        at: millis(event.at),
        node: node.clone(),
        job: JobId(u32::try_from(event.job).unwrap_or(0)),
        pid: event.pid,
        uid: Uid(event.uid),
        command: event.command.clone(),
        major: event.device.major,
        minor: event.device.minor,
        device,
        op: match event.operation {
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
            Operation::Other(_) => DeviceOp::Probe,
        },
        seq: 0,
        reason: match event.reason {
            Reason::Mknod | Reason::Never | Reason::Forbidden => DenialReason::NeverGranted,
            Reason::Unlisted => DenialReason::UnknownMinor,
            Reason::NoPolicy => DenialReason::NoPolicy,
            Reason::NotGranted => DenialReason::NotGranted,
            Reason::Foreign => DenialReason::Foreign,
            Reason::Other(_) => DenialReason::Unknown,
        },
        target_pid: event.target,
        object: event.object.clone(),
        noted: !event.refused,
        label: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_ebpf::DeviceNumber;
    use std::time::SystemTime;

    fn event(job: u64, minor: u32) -> Event {
        Event {
            at: SystemTime::UNIX_EPOCH,
            job,
            step: 0,
            generation: 1,
            cgroup: 1,
            thread: 1,
            pid: 1,
            uid: 1,
            command: "x".into(),
            device: DeviceNumber { major: 226, minor },
            operation: Operation::Read,
            reason: Reason::NotGranted,
            target: None,
            object: String::new(),
            by_guard: false,
            refused: true,
        }
    }

    #[test]
    fn a_flood_is_bounded_and_hides_nobody() {
        let buffer = Buffer::default();
        for minor in 0..100_000 {
            buffer.put(event(1, minor));
        }
        buffer.put(event(2, 5));
        buffer.put(event(2, canary::MINOR));
        buffer.put(event(0, 5));
        let taken = buffer.take();
        assert_eq!(taken.len(), PER_JOB_MAX + 1);
        assert_eq!(
            taken[PER_JOB_MAX - 1].device.minor,
            99_999,
            "the newest are kept"
        );
        assert_eq!(
            (taken[PER_JOB_MAX].job, taken[PER_JOB_MAX].device.minor),
            (2, 5)
        );
        assert!(buffer.take().is_empty());
        for job in 1..10_000 {
            buffer.put(event(job, 0));
        }
        assert_eq!(buffer.take().len(), JOBS_MAX);
    }
}

//! The last looks of a source that runs on a thread of its own: whoever hangs there, nobody waits for it here.

use super::device::Looks;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Notes that may wait for the sampler.
const NOTES_MAX: usize = 256;

/// A device's source answers no more, or again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// GPU, by its index in the inventory.
    pub gpu: u32,
    /// No answer.
    pub stale: bool,
    /// What was tried.
    pub why: String,
}

/// Where the source puts its looks, and the sampler finds them.
#[derive(Debug, Default)]
pub struct Latest {
    looks: Mutex<Looks>,
    notes: Mutex<VecDeque<Note>>,
    cpu_us: AtomicU64,
    memory: AtomicU64,
    /// How often the sampler wants looks, ms.
    interval: AtomicU64,
    /// Whether it wants no costly ones.
    cheap: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Latest {
    /// Puts the looks of `uptime` there.
    pub fn publish(
        &self,
        uptime: u64,
        gpus: std::collections::BTreeMap<u32, super::device::DeviceLook>,
    ) {
        let mut looks = lock(&self.looks);
        let serial = looks.serial + 1;
        *looks = Looks {
            serial,
            uptime,
            gpus,
        };
    }

    /// The looks, if they are newer than `serial`.
    pub fn newer(&self, serial: u64) -> Option<Looks> {
        let looks = lock(&self.looks);
        (looks.serial > serial).then(|| looks.clone())
    }

    /// Notes something for the record.
    pub fn note(&self, note: Note) {
        let mut notes = lock(&self.notes);
        if notes.len() < NOTES_MAX {
            notes.push_back(note);
        }
    }

    /// Takes what was noted.
    pub fn take_notes(&self) -> VecDeque<Note> {
        std::mem::take(&mut *lock(&self.notes))
    }

    /// The CPU time that the source took so far, µs, and its memory in bytes.
    pub fn set_cost(&self, cpu_us: u64, memory: u64) {
        self.cpu_us.store(cpu_us, Ordering::Relaxed);
        self.memory.store(memory, Ordering::Relaxed);
    }

    /// See [`Self::set_cost`].
    pub fn cost(&self) -> (u64, u64) {
        (
            self.cpu_us.load(Ordering::Relaxed),
            self.memory.load(Ordering::Relaxed),
        )
    }

    /// The sampler's wish.
    pub fn want(&self, interval: u64, costly: bool) {
        self.interval.store(interval, Ordering::Relaxed);
        self.cheap.store(!costly, Ordering::Relaxed);
    }

    /// Whether costly looks are wanted too.
    pub fn wants_costly(&self) -> bool {
        !self.cheap.load(Ordering::Relaxed)
    }

    /// Milliseconds between looks that the sampler wants; at least 100.
    pub fn wanted(&self) -> u64 {
        self.interval.load(Ordering::Relaxed).max(100)
    }
}

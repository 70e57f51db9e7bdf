//! Whose processes have which GPU open, and what they say they do on it.

use spur_core::id::JobId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A job's hold on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Processes that have it open.
    pub holders: u64,
    /// Busy time since the look before, µs; absent if the driver does not tell.
    pub busy_us: Option<u64>,
    /// Device memory, bytes; absent if the driver does not tell.
    pub memory: Option<u64>,
}

/// One look at all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Rises with every look; 0 before the first.
    pub serial: u64,
    /// When, milliseconds since boot.
    pub uptime: u64,
    /// Since the look before, ms; 0 for the first.
    pub span: u64,
    /// Whether clients were asked what they do, or only counted.
    pub asked: bool,
    /// GPUs that were looked at: a job that is not below has none of them open.
    pub gpus: Vec<u32>,
    /// By job and GPU.
    pub by: BTreeMap<(JobId, u32), Claim>,
}

/// Where the looks are put, and found.
#[derive(Debug, Default)]
pub struct Board {
    claims: Mutex<Claims>,
    wanted: AtomicBool,
    ask: AtomicBool,
}

impl Board {
    /// Puts a look there.
    pub fn publish(&self, claims: Claims) {
        let mut board = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let serial = board.serial + 1;
        *board = Claims { serial, ..claims };
    }

    /// The look, if it is newer than `serial`.
    pub fn newer(&self, serial: u64) -> Option<Claims> {
        let board = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        (board.serial > serial).then(|| board.clone())
    }

    /// Whether anybody holds a GPU that can be looked at, and whether clients are to be asked.
    pub fn want(&self, wanted: bool, ask: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
        self.ask.store(ask, Ordering::Relaxed);
    }

    /// See [`Self::want`].
    pub fn wanted(&self) -> (bool, bool) {
        (
            self.wanted.load(Ordering::Relaxed),
            self.ask.load(Ordering::Relaxed),
        )
    }
}

//! What the meter's programs cost.

use super::probes::Running;
use crate::{Error, Result, sys};
use std::os::fd::{AsFd, OwnedFd};

/// While this lives, the kernel measures how long BPF programs run, at the cost of two readings of its clock for each run. Meant for
/// a second now and then.
#[derive(Debug)]
pub struct Timing {
    _on: OwnedFd,
}

impl Timing {
    /// Begins.
    pub fn start() -> Result<Timing> {
        let on = sys::enable_run_time()
            .map_err(Error::kernel("measure", "the run time of BPF programs"))?;
        Ok(Timing { _on: on })
    }
}

/// Events at which the kernel left these programs out.
pub(super) fn missed<'a>(programs: impl Iterator<Item = &'a Running>) -> u64 {
    let misses = programs.filter_map(|running| sys::missed_runs(running.program.as_fd()).ok());
    misses.fold(0, u64::saturating_add)
}

/// Time in these programs, or `None` if it was never measured.
pub(super) fn run_time_ns<'a>(programs: impl Iterator<Item = &'a Running>) -> Option<u64> {
    let times = programs.filter_map(|running| sys::run_time(running.program.as_fd()).ok());
    let (runs, ns) = times.fold((0u64, 0u64), |(runs, ns), (more_runs, more_ns)| {
        (runs.saturating_add(more_runs), ns.saturating_add(more_ns))
    });
    (runs > 0).then_some(ns)
}

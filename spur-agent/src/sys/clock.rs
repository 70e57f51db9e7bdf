//! Local time, as Slurm prints it, and the kernel's clocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since the machine was booted, sleep included (`CLOCK_BOOTTIME`).
pub fn uptime() -> Duration {
    read(libc::CLOCK_BOOTTIME)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process.
pub fn process_cpu() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a live `timespec` for the kernel to write. For a clock that it does not have it stays 0.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(secs, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The present local time as `2026-11-30T01:42:52`.
pub fn local_now() -> String {
    let secs = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let secs = libc::time_t::try_from(secs).unwrap_or(0);
    // SAFETY: `tm` is plain data (the zone pointer may be null), for which all zeroes is a value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right type.
    if unsafe { libc::localtime_r(&raw const secs, &raw mut tm) }.is_null() {
        return "Unknown".into();
    }
    let (year, month) = (tm.tm_year + 1900, tm.tm_mon + 1);
    let (day, hour, minute, second) = (tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

//! Local time, as Slurm prints it.

use std::time::{SystemTime, UNIX_EPOCH};

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

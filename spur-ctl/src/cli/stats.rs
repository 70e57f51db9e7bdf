//! `spur stats`: counters of the controller, one `name=value` a line, for people and for benchmarks.

use super::failure::Failure;
use super::{link, output};
use spur_core::api::{Reply, Request, Stats};
use std::ffi::OsString;

const USAGE: &str = "Usage: spur stats

Counters of the controller since it started, one name=value a line. Times in microseconds, memory in KiB.
";

/// Runs it.
pub fn main(args: &[OsString]) -> Result<u8, Failure> {
    match args {
        [] => {}
        [word] if word == "--help" || word == "-h" => {
            output::print(USAGE);
            return Ok(0);
        }
        _ => {
            return Err(Failure {
                text: USAGE.to_owned(),
                code: 1,
            });
        }
    }
    let failed = |trouble: &link::Trouble| Failure::error("spur stats", trouble.text());
    match link::question(&Request::Stats) {
        Ok(Reply::Stats(stats)) => {
            output::print(&text(&stats));
            Ok(0)
        }
        Ok(_) => Err(failed(&link::unexpected())),
        Err(trouble) => Err(failed(&trouble)),
    }
}

fn text(stats: &Stats) -> String {
    let Stats {
        started,
        log_entries,
        log_batches,
        passes,
        last_pass_us,
        max_pass_us,
        jobs_started,
        pending,
        running,
        ignored,
        rss_kib,
        meters,
        usage_batches,
        usage_bytes,
        usage_refused,
        usage_lag_ms,
        usage_records,
        accounting_backlog,
        submitted,
        completed,
        cancelled,
        failed,
        passes_us,
        // See `sdiag`.
        counted_since: _,
        passes_queue: _,
        last_queue: _,
        last_pass: _,
        requests: _,
        requesters: _,
    } = stats;
    [
        ("started_ms", started.0),
        ("jobs_pending", *pending),
        ("jobs_running", *running),
        ("jobs_started", *jobs_started),
        ("plan_passes", *passes),
        ("plan_pass_last_us", *last_pass_us),
        ("plan_pass_max_us", *max_pass_us),
        ("log_entries", *log_entries),
        ("log_batches", *log_batches),
        ("events_ignored", *ignored),
        ("memory_kib", *rss_kib),
        ("meters", *meters),
        ("usage_batches", *usage_batches),
        ("usage_bytes", *usage_bytes),
        ("usage_refused", *usage_refused),
        ("usage_lag_ms", *usage_lag_ms),
        ("usage_records", *usage_records),
        ("accounting_backlog", *accounting_backlog),
        ("jobs_submitted", *submitted),
        ("jobs_completed", *completed),
        ("jobs_cancelled", *cancelled),
        ("jobs_failed", *failed),
        ("plan_passes_us", *passes_us),
    ]
    .map(|(name, value)| format!("{name}={value}\n"))
    .concat()
}

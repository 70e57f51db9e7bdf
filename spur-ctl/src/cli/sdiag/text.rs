//! The text of `sdiag`.

use super::super::render::clock::Clock;
use super::{mean, minutes};
use spur_core::api::{RequestCount, Stats};
use spur_core::time::Millis;
use std::fmt::Write as _;

const RULE: &str = "*******************************************************\n";

/// All of it.
pub(super) fn of(stats: &Stats, clock: &Clock) -> String {
    let mut text = String::new();
    write(&mut text, stats, clock).expect("writing to a string cannot fail");
    text
}

/// `Mon Nov 30 01:44:05 2026 (1796003045)`.
fn moment(clock: &Clock, at: Millis) -> String {
    let mut clock = clock.clone();
    clock.now = at;
    format!("{} ({})", clock.heading(), at.secs())
}

fn write(text: &mut String, stats: &Stats, clock: &Clock) -> std::fmt::Result {
    let now = clock.now;
    writeln!(text, "{RULE}sdiag output at {}", moment(clock, now))?;
    write!(
        text,
        "Data since      {}\n{RULE}",
        moment(clock, stats.counted_since)
    )?;
    text.push_str("Server thread count:  1\nRPC queue enabled:    0\nAgent queue size:     0\n");
    text.push_str("Agent count:          0\nAgent thread count:   0\n");
    write!(
        text,
        "DBD Agent queue size: {}\n\n",
        stats.accounting_backlog
    )?;
    writeln!(text, "Jobs submitted: {}", stats.submitted)?;
    writeln!(text, "Jobs started:   {}", stats.jobs_started)?;
    writeln!(text, "Jobs completed: {}", stats.completed)?;
    writeln!(text, "Jobs canceled:  {}", stats.cancelled)?;
    write!(text, "Jobs failed:    {}\n\n", stats.failed)?;
    writeln!(text, "Job states ts:  {}", moment(clock, now))?;
    writeln!(text, "Jobs pending:   {}", stats.pending)?;
    write!(text, "Jobs running:   {}\n\n", stats.running)?;
    passes(text, stats, clock)?;
    text.push_str("Remote Procedure Call statistics by message type\n");
    for one in &stats.requests {
        row(text, one, 40)?;
    }
    text.push_str("\nRemote Procedure Call statistics by user\n");
    for one in &stats.requesters {
        user(text, one)?;
    }
    text.push_str("\nPending RPC statistics\n\tNo pending RPCs\n");
    Ok(())
}

fn passes(text: &mut String, stats: &Stats, clock: &Clock) -> std::fmt::Result {
    let each = |sum: u64| sum.checked_div(stats.passes).unwrap_or(0);
    text.push_str("Main schedule statistics (microseconds):\n");
    writeln!(text, "\tLast cycle:   {}", stats.last_pass_us)?;
    writeln!(text, "\tMax cycle:    {}", stats.max_pass_us)?;
    writeln!(text, "\tTotal cycles: {}", stats.passes)?;
    writeln!(text, "\tMean cycle:   {}", each(stats.passes_us))?;
    writeln!(text, "\tMean depth cycle:  {}", each(stats.passes_queue))?;
    writeln!(
        text,
        "\tCycles per minute: {}",
        stats.passes / minutes(stats, clock.now)
    )?;
    write!(text, "\tLast queue length: {}\n\n", stats.last_queue)?;
    write!(
        text,
        "Main scheduler exit:\n\tEnd of job queue:{}\n\tHit default_queue_depth: 0\n\tHit sched_max_job_start: 0\n\tBlocked on licenses: 0\n\tHit max_rpc_cnt: 0\n\tTimeout (max_sched_time): 0\n\n",
        stats.passes
    )?;
    text.push_str("Backfilling stats\n");
    text.push_str("\tTotal backfilled jobs (since last slurm start): 0\n");
    text.push_str("\tTotal backfilled jobs (since last stats cycle start): 0\n");
    text.push_str("\tTotal backfilled heterogeneous job components: 0\n");
    writeln!(text, "\tTotal cycles: {}", stats.passes)?;
    writeln!(
        text,
        "\tLast cycle when: {}",
        moment(clock, stats.last_pass)
    )?;
    writeln!(text, "\tLast cycle: {}", stats.last_pass_us)?;
    writeln!(text, "\tMax cycle:  {}", stats.max_pass_us)?;
    writeln!(text, "\tMean cycle: {}", each(stats.passes_us))?;
    let (last, mean) = (stats.last_queue, each(stats.passes_queue));
    writeln!(
        text,
        "\tLast depth cycle: {last}\n\tLast depth cycle (try sched): {last}"
    )?;
    writeln!(
        text,
        "\tDepth Mean: {mean}\n\tDepth Mean (try depth): {mean}"
    )?;
    writeln!(
        text,
        "\tLast queue length: {last}\n\tQueue length mean: {mean}"
    )?;
    text.push_str("\tLast table size: 0\n\tMean table size: 0\n\n");
    write!(
        text,
        "Backfill exit\n\tEnd of job queue: {}\n\tHit bf_max_job_start: 0\n\tHit bf_max_job_test: 0\n\tSystem state changed: 0\n\tHit table size limit (bf_node_space_size): 0\n\tTimeout (bf_max_time): 0\n\n",
        stats.passes
    )?;
    write!(
        text,
        "Latency for 1000 calls to gettimeofday(): {} microseconds\n\n",
        latency()
    )
}

/// Microseconds that a thousand looks at the clock take here.
pub(super) fn latency() -> u128 {
    let begun = std::time::Instant::now();
    let mut last = begun;
    for _ in 0..1000 {
        last = std::time::Instant::now();
    }
    last.duration_since(begun).as_micros()
}

fn row(text: &mut String, one: &RequestCount, width: usize) -> std::fmt::Result {
    writeln!(
        text,
        "\t{:<width$}({:5}) count:{:<6} ave_time:{:<6} total_time:{}",
        one.name,
        one.id,
        one.count,
        mean(one),
        one.micros
    )
}

fn user(text: &mut String, one: &RequestCount) -> std::fmt::Result {
    writeln!(
        text,
        "\t{:<16}({:8}) count:{:<6} ave_time:{:<6} total_time:{}",
        one.name,
        one.id,
        one.count,
        mean(one),
        one.micros
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exporters_find_their_labels() {
        let stats = Stats {
            started: Millis(1_796_002_802_000),
            counted_since: Millis(1_796_002_802_000),
            passes: 42,
            passes_us: 18_676,
            submitted: 84,
            requests: vec![RequestCount {
                id: 2009,
                name: "REQUEST_PARTITION_INFO".to_owned(),
                count: 66,
                micros: 14_923,
            }],
            ..Stats::default()
        };
        let text = of(&stats, &Clock::utc(Millis(1_796_003_045_000)));
        for line in [
            "sdiag output at Mon Nov 30 01:44:05 2026 (1796003045)",
            "Data since      Mon Nov 30 01:40:02 2026 (1796002802)",
            "Server thread count:  1",
            "Jobs submitted: 84",
            "\tMean cycle:   444",
            "\tCycles per minute: 10",
            "\tREQUEST_PARTITION_INFO                  ( 2009) count:66     ave_time:226    total_time:14923",
        ] {
            assert!(text.lines().any(|own| own == line), "{line:?} in\n{text}");
        }
    }
}

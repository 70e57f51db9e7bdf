//! `sdiag --json`.

use super::super::render::data::{Asked, Document, Meta, Number};
use super::{mean, minutes};
use spur_core::api::{RequestCount, Stats};
use spur_core::time::Millis;

/// Prints it.
pub(super) fn print(asked: Asked, cluster: &str, stats: &Stats, now: Millis) {
    let mut doc = Document::begin(asked);
    doc.map("statistics", |doc| statistics(doc, stats, now));
    let words = vec!["sdiag".to_owned(), String::new()];
    doc.finish(&Meta::of_process(cluster, words), &[], &[]);
}

fn statistics(doc: &mut Document, stats: &Stats, now: Millis) {
    let moment = |at: Millis| Number::Is(at.secs());
    let each = |sum: u64| sum.checked_div(stats.passes).unwrap_or(0);
    doc.int("parts_packed", 1);
    doc.number("req_time", moment(now));
    doc.number("req_time_start", moment(stats.counted_since));
    doc.int("server_thread_count", 1);
    for nothing in ["agent_queue_size", "agent_count", "agent_thread_count"] {
        doc.int(nothing, 0);
    }
    doc.count("dbd_agent_queue_size", stats.accounting_backlog);
    doc.count(
        "gettimeofday_latency",
        u64::try_from(super::text::latency()).unwrap_or(0),
    );
    doc.count("schedule_cycle_max", stats.max_pass_us);
    doc.count("schedule_cycle_last", stats.last_pass_us);
    doc.count("schedule_cycle_sum", stats.passes_us);
    doc.count("schedule_cycle_total", stats.passes);
    doc.count("schedule_cycle_mean", each(stats.passes_us));
    doc.count("schedule_cycle_mean_depth", each(stats.passes_queue));
    doc.count(
        "schedule_cycle_per_minute",
        stats.passes / minutes(stats, now),
    );
    doc.count("schedule_cycle_depth", stats.passes_queue);
    doc.map("schedule_exit", |doc| {
        doc.count("end_job_queue", stats.passes);
        for never in [
            "default_queue_depth",
            "max_job_start",
            "max_rpc_cnt",
            "max_sched_time",
            "licenses",
        ] {
            doc.int(never, 0);
        }
    });
    doc.count("schedule_queue_length", stats.last_queue);
    doc.count("jobs_submitted", stats.submitted);
    doc.count("jobs_started", stats.jobs_started);
    doc.count("jobs_completed", stats.completed);
    doc.count("jobs_canceled", stats.cancelled);
    doc.count("jobs_failed", stats.failed);
    doc.count("jobs_pending", stats.pending);
    doc.count("jobs_running", stats.running);
    doc.number("job_states_ts", moment(now));
    backfill(doc, stats, each);
    requests(doc, stats);
    doc.texts("pending_rpcs", []);
    doc.texts("pending_rpcs_by_hostlist", []);
}

fn backfill(doc: &mut Document, stats: &Stats, each: impl Fn(u64) -> u64) {
    for nothing in [
        "bf_backfilled_jobs",
        "bf_last_backfilled_jobs",
        "bf_backfilled_het_jobs",
    ] {
        doc.int(nothing, 0);
    }
    let (last, mean) = (stats.last_queue, each(stats.passes_queue));
    doc.count("bf_cycle_counter", stats.passes);
    doc.count("bf_cycle_mean", each(stats.passes_us));
    doc.count("bf_depth_mean", mean);
    doc.count("bf_depth_mean_try", mean);
    doc.count("bf_cycle_sum", stats.passes_us);
    doc.count("bf_cycle_last", stats.last_pass_us);
    doc.count("bf_cycle_max", stats.max_pass_us);
    doc.map("bf_exit", |doc| {
        doc.count("end_job_queue", stats.passes);
        for never in [
            "bf_max_job_start",
            "bf_max_job_test",
            "bf_max_time",
            "bf_node_space_size",
            "state_changed",
        ] {
            doc.int(never, 0);
        }
    });
    doc.count("bf_last_depth", last);
    doc.count("bf_last_depth_try", last);
    doc.count("bf_depth_sum", stats.passes_queue);
    doc.count("bf_depth_try_sum", stats.passes_queue);
    doc.count("bf_queue_len", last);
    doc.count("bf_queue_len_mean", mean);
    doc.count("bf_queue_len_sum", stats.passes_queue);
    for nothing in ["bf_table_size", "bf_table_size_sum", "bf_table_size_mean"] {
        doc.int(nothing, 0);
    }
    doc.number("bf_when_last_cycle", Number::Is(stats.last_pass.secs()));
    doc.bool("bf_active", false);
}

fn requests(doc: &mut Document, stats: &Stats) {
    let average = |doc: &mut Document, one: &RequestCount| {
        doc.number("average_time", Number::Is(mean(one)));
    };
    doc.list("rpcs_by_message_type", &stats.requests, |doc, one| {
        doc.item(|doc| {
            doc.int("type_id", one.id);
            doc.text("message_type", &one.name);
            doc.count("count", one.count);
            for nothing in ["queued", "dropped", "cycle_last", "cycle_max"] {
                doc.int(nothing, 0);
            }
            doc.count("total_time", one.micros);
            average(doc, one);
        });
    });
    doc.list("rpcs_by_user", &stats.requesters, |doc, one| {
        doc.item(|doc| {
            doc.int("user_id", one.id);
            doc.text("user", &one.name);
            doc.count("count", one.count);
            doc.count("total_time", one.micros);
            average(doc, one);
        });
    });
}

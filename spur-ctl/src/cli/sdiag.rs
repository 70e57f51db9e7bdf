//! `sdiag`: what the controller did since it started, under Slurm's labels. There is one kind of planning pass, which starts jobs in
//! order and backfills at once; both of Slurm's blocks show it.

mod data;
mod text;

use super::failure::Failure;
use super::flags::getopt::Options;
use super::render::data as structured;
use super::{link, output, process, users};
use spur_core::api::{Reply, Request, RequestCount, Stats};
use spur_core::id::Uid;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let failed = |trouble: link::Trouble| {
        Failure::plain(format!("slurm_get_statistics: {}", trouble.text()), 1)
    };
    if options.on("reset") {
        return match link::question(&Request::ResetStats) {
            Ok(_) => {
                output::print("Reset scheduling statistics\n");
                Ok(0)
            }
            Err(trouble) => Err(Failure::plain(
                format!("slurm_reset_statistics: {}", trouble.text()),
                1,
            )),
        };
    }
    let Reply::Stats(mut stats) = link::question(&Request::Stats).map_err(failed)? else {
        return Err(failed(link::unexpected()));
    };
    named(&mut stats.requesters);
    sort(options, &mut stats);
    if let Some(asked) = structured::asked(options)? {
        let Reply::Pong { cluster, .. } = link::question(&Request::Ping).map_err(failed)? else {
            return Err(failed(link::unexpected()));
        };
        data::print(asked, &cluster, &stats, process::now());
        return Ok(0);
    }
    output::print(&text::of(&stats, &process::clock()));
    Ok(0)
}

/// The users' names.
fn named(users: &mut [RequestCount]) {
    let names = users::names(users.iter().map(|user| Uid(user.id)));
    for user in users {
        user.name = names
            .get(&user.id)
            .cloned()
            .unwrap_or_else(|| user.id.to_string());
    }
}

/// The order of requests: by number, by time, by mean time, or most first.
fn sort(options: &Options, stats: &mut Stats) {
    for counts in [&mut stats.requests, &mut stats.requesters] {
        if options.on("sort-by-id") {
            counts.sort_by_key(|one| one.id);
        } else if options.on("sort-by-time") {
            counts.sort_by_key(|one| std::cmp::Reverse(one.micros));
        } else if options.on("sort-by-time2") {
            counts.sort_by_key(|one| std::cmp::Reverse(mean(one)));
        } else {
            counts.sort_by_key(|one| std::cmp::Reverse(one.count));
        }
    }
}

/// Mean microseconds.
fn mean(count: &RequestCount) -> u64 {
    count.micros.checked_div(count.count).unwrap_or(0)
}

/// Minutes that were counted, at least one.
fn minutes(stats: &Stats, now: spur_core::time::Millis) -> u64 {
    (now.secs_since(stats.counted_since) / 60).max(1)
}

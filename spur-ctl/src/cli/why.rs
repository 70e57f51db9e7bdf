//! `spur why JOB`: why a job waits, what is missing, where, until when, and what can be done about it.

mod json;
#[cfg(test)]
mod tests;

use super::failure::Failure;
use super::link::{self, Trouble};
use super::render::clock::Clock;
use super::render::job_text;
use super::{named, output, process};
use spur_core::api::{
    Explanation, JobFilter, JobView, RefusalKind, Reply, Request, StartBasis, Stop,
};
use spur_core::id::{JobId, NodeName};
use spur_core::job::state::{JobState, Reason};
use spur_core::plan::why::sentence;
use spur_core::slurm::{codes, hostlist};
use spur_core::time::Millis;
use std::ffi::OsString;
use std::fmt::Write;

const USAGE: &str = "Usage: spur why JOB [--json]

Why a waiting job waits: what it needs, what keeps it off each node, which jobs give back what and until when at the latest, when
it is expected to start, and what can be done. Whole for one's own jobs and for operators.
";

/// Runs it.
pub fn main(args: &[OsString]) -> Result<u8, Failure> {
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    let json = words.contains(&"--json");
    let rest: Vec<&str> = words.into_iter().filter(|word| *word != "--json").collect();
    let job = match rest.as_slice() {
        ["--help" | "-h"] => {
            output::print(USAGE);
            return Ok(0);
        }
        [job] => named::read(job)
            .ok_or_else(|| failed(format!("Invalid job id: {job}")))?
            .job_of()
            .map_err(|trouble| failed(trouble.text()))?,
        _ => {
            return Err(Failure {
                text: USAGE.to_owned(),
                code: 1,
            });
        }
    };
    let troubled = |trouble: &Trouble| failed(trouble.text());
    let why = match link::question(&Request::Explain { job }) {
        Ok(Reply::Explanation(why)) => *why,
        Err(Trouble::Refused(refusal)) if refusal.kind == RefusalKind::JobNotPending && !json => {
            output::print(&waits_no_more(job).map_err(|trouble| troubled(&trouble))?);
            return Ok(0);
        }
        Ok(_) => return Err(troubled(&link::unexpected())),
        Err(trouble) => return Err(troubled(&trouble)),
    };
    let clock = process::clock();
    output::print(&if json {
        json::text(&clock, &why)
    } else {
        text(&clock, &why)
    });
    Ok(0)
}

/// Where a job runs, or how it ended and for what.
fn waits_no_more(job: JobId) -> Result<String, Trouble> {
    let filter = JobFilter {
        ids: vec![job],
        ..JobFilter::default()
    };
    let Reply::Jobs(rows) = link::question(&Request::Jobs { filter })? else {
        return Err(link::unexpected());
    };
    let Some(row) = rows.iter().find(|row| row.id == job) else {
        return Err(link::unexpected());
    };
    Ok(past(row))
}

fn past(row: &JobView) -> String {
    if job_text::is_configuring(row) {
        return format!(
            "Job {} has its nodes and waits: the controller's prolog for it still runs (`scontrol show config` names it, as PrologSlurmctld).\n",
            row.id
        );
    }
    let state = job_text::state(row);
    if !row.state.is_terminal() {
        return format!("Job {} waits no more: it is {state}.\n", row.id);
    }
    let waited = row.started.is_none() && row.state == JobState::Cancelled;
    let reason = match codes::reason(row.reason) {
        _ if row.reason == Reason::None => String::new(),
        reason if waited => format!(" (it had waited: {reason})"),
        reason => format!(" ({reason})"),
    };
    let text = match row.reason_text.as_str() {
        "" => String::new(),
        text => format!(": {text}"),
    };
    let exit = row.exit;
    let code = match (exit.code, exit.signal) {
        (0, 0) => String::new(),
        (code, signal) => format!(" Exit code {code}:{signal}."),
    };
    format!("Job {} has ended as {state}{reason}{text}.{code}\n", row.id)
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error("spur why", why)
}

/// A moment as people say it: the time alone if it is today.
fn moment(clock: &Clock, at: Millis) -> String {
    let (Some(time), Some(now)) = (clock.fields(at), clock.fields(clock.now)) else {
        return clock.stamp(at);
    };
    let hour = format!("{:02}:{:02}", time.hour(), time.minute());
    let day = |t: &tz::DateTime| (t.year(), t.month(), t.month_day());
    if day(&time) == day(&now) {
        return hour;
    }
    let (year, month, day) = day(&time);
    format!("{year:04}-{month:02}-{day:02} {hour}")
}

/// One word for what keeps a job off a node.
fn word(stop: Stop) -> &'static str {
    match stop {
        Stop::Excluded => "excluded",
        Stop::NotNamed => "not_named",
        Stop::Feature => "feature",
        Stop::TooSmall => "too_small",
        Stop::LaunchFailed => "launch_failed",
        Stop::Unclean => "unclean",
        Stop::Down => "down",
        Stop::Silent => "silent",
        Stop::Drained => "drained",
        Stop::Unfenced => "unfenced",
        Stop::Changing => "changing",
        Stop::Resting => "resting",
        Stop::SickGpus => "sick_gpus",
        Stop::Busy => "busy",
        Stop::Shape => "shape",
        Stop::Nothing => "room",
    }
}

fn basis(basis: StartBasis) -> &'static str {
    match basis {
        StartBasis::Reserved => "reserved",
        StartBasis::Estimated => "estimated",
        StartBasis::Never => "never",
    }
}

fn folded(names: &[NodeName]) -> String {
    let names: Vec<&str> = names.iter().map(NodeName::as_str).collect();
    hostlist::compress(&names)
}

/// For people.
fn text(clock: &Clock, why: &Explanation) -> String {
    let mut text = format!("Job {} waits: {}\n", why.job, why.words);
    // Writing to a string cannot fail.
    writeln!(text, "  {}", sentence(why, &|at| moment(clock, at))).ok();
    if !why.stopped.is_empty() {
        writeln!(
            text,
            "\nNodes of partition {} by what keeps it off them",
            why.partition
        )
        .ok();
        for group in &why.stopped {
            let what = word(group.by).replace('_', " ");
            let detail = match group.detail.as_str() {
                "" => String::new(),
                detail => format!(" ({detail})"),
            };
            writeln!(
                text,
                "  {:>5}  {what}{detail}: {}",
                group.nodes,
                shown(group.nodes, &group.names)
            )
            .ok();
        }
    }
    text.push('\n');
    writeln!(text, "Expected start: {}", start(clock, why)).ok();
    if let Some(at) = why.by_limits {
        writeln!(
            text,
            "If nobody were before it: {} at the latest, by the limits of what runs",
            moment(clock, at)
        )
        .ok();
    }
    if why.ahead > 0 {
        writeln!(text, "Jobs before it: {}", why.ahead).ok();
    }
    for (at, advice) in why.advice.iter().enumerate() {
        let head = if at == 0 {
            "What can be done:"
        } else {
            "                 "
        };
        writeln!(text, "{head} {advice}").ok();
    }
    text
}

/// Names of a group; of a large one the first, and that there are more.
fn shown(nodes: u32, names: &[NodeName]) -> String {
    let more = (nodes as usize).saturating_sub(names.len());
    match more {
        0 => folded(names),
        more => format!("{} and {more} more", folded(names)),
    }
}

fn start(clock: &Clock, why: &Explanation) -> String {
    let Some(expected) = &why.expected else {
        return "not known yet".to_owned();
    };
    let Some(at) = expected.start else {
        return "never, as things stand".to_owned();
    };
    let place = match folded(&expected.nodes).as_str() {
        "" => String::new(),
        nodes => format!(" on {nodes}"),
    };
    format!(
        "{} ({}){place}",
        clock.stamp(at.max(clock.now)),
        basis(expected.basis)
    )
}

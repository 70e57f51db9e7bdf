//! `spur fence`: what the fence refused, and why a job has what it has.

use super::failure::Failure;
use super::link::{self, Trouble};
use super::render::{View, show_job};
use super::{output, process, users};
use spur_core::api::{JobFilter, JobView, NodeView, Reply, Request};
use spur_core::denial::Denial;
use spur_core::id::JobId;
use spur_core::node::FenceState;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

const USAGE: &str = "Usage: spur fence log [JOB] [-f]
       spur fence explain JOB

  log      refusals by the fence, oldest first; -f goes on as they happen
  explain  what a job was given on each node, what keeps it to that, and what it was refused
";
/// The most refusals that are asked for at once.
const LOG_LIMIT: u32 = 10_000;
/// The most refusals that `explain` shows.
const EXPLAIN_LIMIT: u32 = 10;
/// Pause between two looks of `log -f`.
const FOLLOW_PAUSE: Duration = Duration::from_millis(500);

/// Runs it.
pub fn main(args: &[OsString]) -> Result<u8, Failure> {
    let words: Vec<String> = args
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["log", rest @ ..] => log(rest),
        ["explain", job] => explain(job_id(job)?),
        ["--help" | "-h" | "help"] => {
            output::print(USAGE);
            Ok(0)
        }
        _ => Err(Failure {
            text: USAGE.to_owned(),
            code: 1,
        }),
    }
}

fn job_id(text: &str) -> Result<JobId, Failure> {
    let bad = |_| Failure::error("spur fence", format!("invalid job number {text:?}"));
    text.parse().map(JobId).map_err(bad)
}

fn failed(trouble: &Trouble) -> Failure {
    Failure::error("spur fence", trouble.text())
}

fn log(rest: &[&str]) -> Result<u8, Failure> {
    let (mut job, mut follow) = (None, false);
    for word in rest {
        match *word {
            "-f" | "--follow" => follow = true,
            text => job = Some(job_id(text)?),
        }
    }
    let mut seen: Vec<Denial> = Vec::new();
    loop {
        let found = denials(job, LOG_LIMIT)?;
        let fresh = after(&seen, &found);
        let view = view(fresh);
        let lines: Vec<_> = fresh
            .iter()
            .map(|denial| show_job::denied(&view, denial) + "\n")
            .collect();
        output::print(&lines.concat());
        if !follow {
            return Ok(0);
        }
        seen = found;
        std::thread::sleep(FOLLOW_PAUSE);
    }
}

/// What comes after everything that was seen: the longest end of `seen` that `found` begins with is old.
fn after<'a>(seen: &[Denial], found: &'a [Denial]) -> &'a [Denial] {
    let overlap = (0..=seen.len().min(found.len()))
        .rev()
        .find(|len| seen[seen.len() - len..] == found[..*len]);
    &found[overlap.unwrap_or(0)..]
}

fn denials(job: Option<JobId>, limit: u32) -> Result<Vec<Denial>, Failure> {
    match link::question(&Request::Denials {
        job,
        limit,
        after: 0,
        alarms: false,
        wait: false,
    }) {
        Ok(Reply::Denials(denials)) => Ok(denials),
        Ok(_) => Err(failed(&link::unexpected())),
        Err(trouble) => Err(failed(&trouble)),
    }
}

fn view(denials: &[Denial]) -> View {
    let users = users::names(denials.iter().map(|denial| denial.uid));
    View {
        clock: process::clock(),
        users,
        raw_sizes: false,
    }
}

fn explain(id: JobId) -> Result<u8, Failure> {
    let filter = JobFilter {
        ids: vec![id],
        all_states: true,
        ..JobFilter::default()
    };
    let answers = link::question(&Request::Jobs { filter })
        .and_then(|jobs| Ok((jobs, link::question(&Request::Nodes)?)));
    let (jobs, nodes) = match answers.map_err(|trouble| failed(&trouble))? {
        (Reply::Jobs(jobs), Reply::Nodes(nodes)) => (jobs, nodes),
        (_, _) => return Err(failed(&link::unexpected())),
    };
    let Some(job) = jobs.first() else {
        return Err(Failure::error(
            "spur fence",
            format!("job {id} is not known"),
        ));
    };
    let refused = denials(Some(id), EXPLAIN_LIMIT)?;
    output::print(&explanation(&view(&refused), job, &nodes, &refused));
    Ok(0)
}

/// The whole story of a job and the fence.
pub fn explanation(
    view: &View,
    job: &JobView,
    nodes: &[Arc<NodeView>],
    refused: &[Denial],
) -> String {
    use super::render::job_text::state;
    let mut text = format!(
        "Job {} ({}) of {}: {}\n",
        job.id,
        job.spec.name,
        job.spec.owner.user,
        state(job)
    );
    let over = job.state.is_terminal() && !job.completing;
    if over && !job.nodes.is_empty() {
        text.push_str("It has ended and holds nothing any more; this is what it had.\n");
    }
    if job.nodes.is_empty() {
        text.push_str("It holds nothing, so no device is open to it.\n");
    }
    for held in &job.nodes {
        let node = nodes.iter().find(|node| node.node.name == held.name);
        let all = node.map_or(0, |node| node.node.inventory.gpus.len());
        let granted = held.share.gpus.iter().count();
        let which = if granted == 0 {
            String::new()
        } else {
            format!(" (index {})", held.share.gpus)
        };
        let made = match node {
            Some(node) if node.node.inventory.simulated => ", simulated",
            Some(_) | None => "",
        };
        writeln!(
            text,
            "{}: {granted} of {all} GPUs{made}{which}; {}",
            held.name,
            condition(node)
        )
        .expect("a string grows");
        for file in node.map(|node| files(node, held)).unwrap_or_default() {
            writeln!(
                text,
                "    {} open {file}",
                if over { "could" } else { "may" }
            )
            .expect("a string grows");
        }
    }
    // Counts come a moment later than lines.
    let count = job.denials;
    let total = count
        .total
        .max(u64::try_from(refused.len()).unwrap_or(u64::MAX));
    writeln!(
        text,
        "Refused: {total} in all, {} without a line of their own",
        count.suppressed
    )
    .expect("a string grows");
    for denial in refused {
        writeln!(text, "    {}", show_job::denied(view, denial)).expect("a string grows");
    }
    text
}

fn condition(node: Option<&Arc<NodeView>>) -> &'static str {
    match node.map(|node| node.node.fence) {
        Some(FenceState::Unfenced) if node.is_some_and(|node| node.node.has_required_fence()) => {
            "NOT FENCED: the node's configuration requires no fence"
        }
        None => "the node is not known any more",
        Some(FenceState::Unfenced) => "the node has no proven fence and takes no job",
        Some(FenceState::Fenced) => "the kernel refuses all other GPUs (fence)",
        Some(FenceState::Guarded) => "the kernel refuses all other GPUs (fence and guard)",
    }
}

fn files(node: &NodeView, held: &spur_core::agent::order::AllocatedNode) -> Vec<String> {
    let granted = node
        .node
        .inventory
        .gpus
        .iter()
        .filter(|gpu| held.share.gpus.contains(gpu.index));
    granted
        .flat_map(|gpu| &gpu.files)
        .map(|file| format!("{} ({}:{})", file.path, file.major, file.minor))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::denial::{DenialReason, DeviceOp};
    use spur_core::id::{NodeName, Uid};
    use spur_core::time::Millis;

    fn denial(at: u64) -> Denial {
        Denial {
            at: Millis(at),
            node: NodeName::new("n1").unwrap(),
            job: JobId(1),
            pid: 2,
            uid: Uid(0),
            command: "sh".to_owned(),
            major: 120,
            minor: 3,
            device: String::new(),
            op: DeviceOp::Read,
            seq: 0,
            reason: DenialReason::NotGranted,
            target_pid: None,
            object: String::new(),
            noted: false,
            label: None,
        }
    }

    #[test]
    fn only_what_is_new_is_shown() {
        let all: Vec<Denial> = (1..6).map(denial).collect();
        assert_eq!(after(&[], &all), &all[..]);
        assert_eq!(after(&all[..3], &all), &all[3..]);
        assert_eq!(
            after(&all[..3], &all[1..]),
            &all[3..],
            "old ones may have been dropped"
        );
        assert_eq!(after(&all, &all), &[] as &[Denial]);
        assert_eq!(after(&all[..2], &all[3..]), &all[3..]);
    }
}

//! `scontrol hold`, `release`, `requeue` and `update`.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::link::{self, Trouble, refusal_text};
use super::super::{output, resolve};
use super::{ask, worded};
use spur_core::api::{JobFilter, RefusalKind, Reply, Request};
use spur_core::id::{JobId, NodeName};
use spur_core::node::AdminState;
use spur_core::partition::PartitionState;
use spur_core::slurm::{codes, hostlist, timespec};
use spur_core::time::TimeLimit;

/// Job numbers of words and comma lists.
fn ids(words: &[String], prefix: &str) -> Result<Vec<JobId>, Failure> {
    let unknown = || {
        Failure::plain(
            format!("{prefix}: {}", codes::message(RefusalKind::InvalidJobId)),
            1,
        )
    };
    let texts = words.iter().flat_map(|word| resolve::filter::list(word));
    texts
        .map(|text| text.parse().map(JobId).map_err(|_| unknown()))
        .collect()
}

/// Says of each job why it was refused; the answer is the exit code.
fn outcome(reply: &Reply, quiet: bool, word: impl Fn(JobId, &str) -> String) -> u8 {
    let Reply::PerJob(results) = reply else {
        return 0;
    };
    let mut code = 0;
    for (job, refusal) in results {
        if let Some(refusal) = refusal {
            code = 1;
            if !quiet {
                output::complain(&[word(*job, &refusal_text(refusal))]);
            }
        }
    }
    code
}

/// `hold` and `release`.
pub fn hold(options: &Options, words: &[String], hold: bool) -> Result<u8, Failure> {
    let prefix = "slurm_suspend error";
    let jobs = ids(words, prefix)?;
    let request = if hold {
        Request::Hold { jobs }
    } else {
        Request::Release { jobs }
    };
    let reply = ask(&request, prefix)?;
    let unknown = codes::message(RefusalKind::InvalidJobId);
    Ok(outcome(&reply, options.on("quiet"), |job, why| {
        if why == unknown {
            format!("{prefix}: {why}")
        } else {
            format!("{why} for job {job}")
        }
    }))
}

/// `requeue`.
pub fn requeue(options: &Options, words: &[String]) -> Result<u8, Failure> {
    let mut code = 0;
    for job in ids(words, "slurm_requeue error")? {
        match link::question(&Request::Requeue { job }) {
            Ok(_) => {}
            Err(trouble) => {
                code = 1;
                if !options.on("quiet") {
                    output::complain(&[format!("{} for job {job}", trouble.text())]);
                }
            }
        }
    }
    Ok(code)
}

/// `KEY=VALUE` words in order, keys in lower case.
type Pairs = Vec<(String, String)>;

fn pairs(words: &[String]) -> Result<Pairs, Failure> {
    let pair = |word: &String| match word.split_once('=') {
        Some((key, value)) => Ok((key.to_ascii_lowercase(), value.to_owned())),
        None => Err(Failure::plain(
            format!("Invalid input: {word}\nRequest aborted"),
            1,
        )),
    };
    words.iter().map(pair).collect()
}

/// `update KEY=VALUE…`: the key that names an entity says what is changed.
pub fn update(options: &Options, words: &[String]) -> Result<u8, Failure> {
    let pairs = pairs(words)?;
    for (key, value) in &pairs {
        let rest: Pairs = pairs
            .iter()
            .filter(|(other, _)| other != key)
            .cloned()
            .collect();
        match key.as_str() {
            "jobid" | "job" => return job(options, value, &rest),
            "nodename" | "node" => return node(value, &rest),
            "partitionname" | "partition" if !pairs.iter().any(|(k, _)| k.starts_with("job")) => {
                return partition(value, &rest);
            }
            _ => {}
        }
    }
    Err(Failure::plain(
        "No valid entity in update command\nInput line must include \"NodeName\", \"PartitionName\" or \"JobId\"",
        1,
    ))
}

fn unsupported(key: &str) -> Failure {
    Failure::plain(
        format!("Update of this parameter is not supported: {key}\nRequest aborted"),
        1,
    )
}

fn job(options: &Options, list: &str, rest: &Pairs) -> Result<u8, Failure> {
    let mut code = 0;
    for job in ids(&[list.to_owned()], "slurm_update error")? {
        let request = job_change(job, rest)?;
        if let Err(trouble) = link::question(&request) {
            code = 1;
            if !options.on("quiet") {
                output::complain(&[match trouble {
                    Trouble::Contact(why) => format!("slurm_update error: {why}"),
                    Trouble::Refused(refusal) => {
                        format!("{} for job {job}", refusal_text(&refusal))
                    }
                }]);
            }
        }
    }
    Ok(code)
}

fn job_change(job: JobId, rest: &Pairs) -> Result<Request, Failure> {
    let (mut time_limit, mut name, mut comment) = (None, None, None);
    let (mut partition, mut priority) = (None, None);
    for (key, value) in rest {
        match key.as_str() {
            "timelimit" => time_limit = Some(limit(job, value)?),
            "name" | "jobname" => name = Some(value.clone()),
            "comment" => comment = Some(value.clone()),
            "partition" | "partitionname" => partition = Some(value.clone()),
            "priority" => {
                let bad = |_| Failure::plain(format!("Invalid priority value: {value}"), 1);
                priority = Some(value.parse().map_err(bad)?);
            }
            other => return Err(unsupported(other)),
        }
    }
    Ok(Request::UpdateJob {
        job,
        time_limit,
        name,
        comment,
        partition,
        priority,
    })
}

/// A limit, or a change of the present one: `+30`, `-1:00:00`.
fn limit(job: JobId, text: &str) -> Result<TimeLimit, Failure> {
    let bad = |_| Failure::plain("Invalid TimeLimit value", 1);
    let (longer, span) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(span), _) => (true, span),
        (None, Some(span)) if text != "-1" => (false, span),
        (None, _) => return timespec::parse_limit(text).map_err(bad),
    };
    let change = match timespec::parse_span(span).map_err(bad)? {
        TimeLimit::Secs(secs) => secs,
        TimeLimit::Unlimited => return Ok(TimeLimit::Unlimited),
    };
    let filter = JobFilter {
        ids: vec![job],
        all_states: true,
        ..JobFilter::default()
    };
    let prefix = "slurm_load_jobs error";
    let Reply::Jobs(jobs) = ask(&Request::Jobs { filter }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    match jobs.first().and_then(|job| job.spec.time_limit) {
        Some(TimeLimit::Secs(secs)) if longer => Ok(TimeLimit::Secs(secs.saturating_add(change))),
        Some(TimeLimit::Secs(secs)) if secs > change => Ok(TimeLimit::Secs(secs - change)),
        Some(TimeLimit::Secs(_)) => Err(Failure::plain("Invalid TimeLimit value", 1)),
        Some(TimeLimit::Unlimited) | None => Ok(TimeLimit::Unlimited),
    }
}

fn node(list: &str, rest: &Pairs) -> Result<u8, Failure> {
    let prefix = "slurm_update error";
    let names =
        hostlist::parse(list).map_err(|why| Failure::plain(format!("{prefix}: {why}"), 1))?;
    let unknown = |_| {
        Failure::plain(
            format!("{prefix}: {}", codes::message(RefusalKind::InvalidNode)),
            1,
        )
    };
    let nodes: Result<Vec<NodeName>, Failure> = names
        .into_iter()
        .map(|name| NodeName::new(name).map_err(unknown))
        .collect();
    let (mut admin, mut reason) = (None, None);
    for (key, value) in rest {
        match key.as_str() {
            "state" => admin = Some(node_state(value)?),
            "reason" => reason = Some(value.clone()),
            other => return Err(unsupported(other)),
        }
    }
    let stops = matches!(admin, Some(AdminState::Drain | AdminState::Down));
    if stops && reason.as_ref().is_none_or(String::is_empty) {
        return Err(Failure::plain(
            "You must specify a reason when DOWNING or DRAINING a node. Request denied",
            1,
        ));
    }
    let nodes = nodes?;
    let code = changed(&Request::UpdateNode {
        nodes: nodes.clone(),
        admin,
        reason,
    })?;
    if admin == Some(AdminState::Up) {
        still_drained(&nodes);
    }
    Ok(code)
}

/// Resuming a node does not give it the fence that it lacks: says so, instead of leaving it to be found out.
fn still_drained(resumed: &[NodeName]) {
    let Ok(Reply::Nodes(nodes)) = link::question(&Request::Nodes) else {
        return;
    };
    let lacking = nodes.iter().map(|view| &view.node).filter(|node| {
        resumed.contains(&node.name) && node.connected && !node.has_required_fence()
    });
    let lines: Vec<String> = lacking
        .map(|node| {
            format!(
                "scontrol: warning: {} takes no jobs yet: {}",
                node.name, node.fence_note
            )
        })
        .collect();
    if !lines.is_empty() {
        output::complain(&lines);
    }
}

fn node_state(text: &str) -> Result<AdminState, Failure> {
    match text.to_ascii_uppercase().as_str() {
        "DRAIN" | "DRAINING" => Ok(AdminState::Drain),
        "DOWN" => Ok(AdminState::Down),
        "RESUME" | "UNDRAIN" | "IDLE" => Ok(AdminState::Up),
        _ => Err(Failure::plain(
            format!(
                "Invalid input: {text}\nRequest aborted\nValid states are: DOWN DRAIN IDLE RESUME UNDRAIN"
            ),
            1,
        )),
    }
}

fn partition(name: &str, rest: &Pairs) -> Result<u8, Failure> {
    let mut state = None;
    for (key, value) in rest {
        match (key.as_str(), value.to_ascii_uppercase().as_str()) {
            ("state", "UP") => state = Some(PartitionState::Up),
            ("state", "DOWN") => state = Some(PartitionState::Down),
            ("state", "DRAIN") => state = Some(PartitionState::Drain),
            ("state", "INACTIVE") => state = Some(PartitionState::Inactive),
            ("state", _) => {
                let text = format!(
                    "Invalid input: {key}={value}\nAcceptable State values are UP, DOWN, DRAIN and INACTIVE"
                );
                return Err(Failure::plain(text, 1));
            }
            (other, _) => return Err(unsupported(other)),
        }
    }
    let Some(state) = state else {
        return Err(Failure::plain("No changes specified", 1));
    };
    changed(&Request::UpdatePartition {
        name: name.to_owned(),
        state,
    })
}

/// Asks for a change that only operators may make: Slurm words a refusal as a wrong user.
fn changed(request: &Request) -> Result<u8, Failure> {
    match link::question(request) {
        Ok(_) => Ok(0),
        Err(trouble) if trouble.kind() == Some(RefusalKind::AccessDenied) => {
            Err(Failure::plain("slurm_update error: Invalid user id", 1))
        }
        Err(trouble) => Err(worded("slurm_update error", &trouble)),
    }
}

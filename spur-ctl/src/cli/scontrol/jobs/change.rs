//! `scontrol update jobid=…`.

use super::super::super::failure::Failure;
use super::super::super::flags::getopt::Options;
use super::super::super::link;
use super::super::super::{process, submit};
use super::super::change::Pairs;
use super::super::{abbreviates, ask, worded};
use super::{outcome, targets};
use spur_core::api::{JobFilter, Reply, Request};
use spur_core::job::array::JobTarget;
use spur_core::job::change::JobChange;
use spur_core::resources::{GpuCount, MemoryRequest};
use spur_core::slurm::timespec::{self, begin};
use spur_core::slurm::{gres, mail, size};
use spur_core::time::{Millis, TimeLimit};

/// Settings, with the shortest beginning that is taken for each.
const KEYS: [(&str, usize); 37] = [
    ("account", 1),
    ("arraytaskthrottle", 16),
    ("begintime", 9),
    ("comment", 3),
    ("contiguous", 3),
    ("cpuspertask", 9),
    ("dependency", 1),
    ("eligibletime", 2),
    ("excnodelist", 3),
    ("exclusive", 5),
    ("features", 1),
    ("gres", 2),
    ("jobname", 4),
    ("mincpusnode", 4),
    ("minmemorycpu", 10),
    ("minmemorynode", 10),
    ("name", 2),
    ("nice", 2),
    ("nodelist", 8),
    ("ntaskspernode", 9),
    ("numcpus", 6),
    ("numnodes", 8),
    ("numtasks", 8),
    ("oversubscribe", 2),
    ("partition", 2),
    ("priority", 2),
    ("qos", 2),
    ("reqnodelist", 8),
    ("reqnodes", 8),
    ("reqprocs", 8),
    ("requeue", 4),
    ("shared", 2),
    ("starttime", 5),
    ("stderr", 5),
    ("stdin", 5),
    ("stdout", 5),
    ("timelimit", 5),
];
/// More of them, that came later.
const MORE: [(&str, usize); 16] = [
    ("trespernode", 8),
    ("workdir", 2),
    ("reqcpus", 6),
    ("admincomment", 3),
    ("deadline", 3),
    ("extra", 5),
    ("licenses", 1),
    ("mailtype", 5),
    ("mailuser", 5),
    ("mcslabel", 2),
    ("mintmpdisknode", 6),
    ("prefer", 3),
    ("reservationname", 3),
    ("timemin", 5),
    ("wckey", 1),
    ("constraint", 4),
];

/// Changes each of the jobs of a list.
pub(crate) fn update(options: &Options, list: &str, pairs: &Pairs) -> Result<u8, Failure> {
    let prefix = "slurm_update error";
    let jobs = targets(&[list.to_owned()], prefix)?;
    let mut change = JobChange::default();
    for pair in pairs {
        set(&mut change, &jobs, &pair.key, &pair.value)?;
    }
    if change == JobChange::default() {
        return Err(Failure::plain("No changes specified", 1));
    }
    let change = Box::new(change);
    let (account, qos) = (change.account.clone(), change.qos.clone());
    let reply = ask(&Request::ChangeJobs { jobs, change }, prefix)?;
    let code = outcome(options, &reply, prefix);
    if code == 0 && !options.on("quiet") {
        submit::tell_unknown(options.command, account.as_deref(), qos.as_deref());
    }
    Ok(code)
}

fn unsupported(key: &str) -> Failure {
    let known = KEYS.iter().chain(&MORE).map(|(full, _)| *full);
    Failure::plain(
        format!("Update of this parameter is not supported: {key}\nRequest aborted"),
        1,
    )
    .nearest(key, known)
}

fn bad(what: &str, value: &str) -> Failure {
    Failure::plain(format!("Invalid {what} value: {value}"), 1)
}

fn number(what: &str, value: &str) -> Result<u32, Failure> {
    value.parse().map_err(|_| bad(what, value))
}

/// A moment; with one that is none, nothing is changed.
fn moment(value: &str) -> Result<Millis, Failure> {
    let clock = process::clock();
    let moment = begin::parse_begin(value, clock.now, clock.utc_offset(clock.now));
    moment.map_err(|why| Failure::plain("No changes specified", 1).after_moment(&why))
}

fn yes(what: &str, value: &str) -> Result<bool, Failure> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "y" | "1" => Ok(true),
        "no" | "n" | "0" => Ok(false),
        _ => Err(bad(what, value)),
    }
}

/// The setting that a key names, and whether it is changed by a part: `+=` and `-=`.
fn named(key: &str) -> Result<(&'static str, bool), Failure> {
    let all = || {
        KEYS.iter()
            .chain(&MORE)
            .map(|(full, least)| (*full, *least))
    };
    let (word, signed) = (key.trim_end_matches(['+', '-']), key.ends_with(['+', '-']));
    let exact = all().find(|(full, _)| full.eq_ignore_ascii_case(word));
    let begun = || all().find(|(full, least)| abbreviates(word, full, *least));
    match exact.or_else(begun) {
        Some((name, _)) if !signed || name == "timelimit" => Ok((name, signed)),
        Some(_) | None => Err(unsupported(key)),
    }
}

fn set(change: &mut JobChange, jobs: &[JobTarget], key: &str, value: &str) -> Result<(), Failure> {
    let (name, signed) = named(key)?;
    let text = || Some(value.to_owned());
    match name {
        // `TimeLimit+=30` is `TimeLimit=+30`.
        "timelimit" if signed => change.time_limit = Some(changed_limit(jobs, key, value)?),
        "timelimit" => change.time_limit = Some(limit(jobs, value)?),
        "name" | "jobname" => change.name = text(),
        "comment" => change.comment = text(),
        "partition" => change.partition = text(),
        "account" => change.account = text(),
        "qos" => change.qos = text(),
        "dependency" => change.dependency = text(),
        "priority" => change.priority = Some(number("Priority", value)?),
        "nice" => {
            let nice = if value.is_empty() {
                Ok(100)
            } else {
                value.parse()
            };
            change.nice = Some(nice.map_err(|_| bad("Nice", value))?);
        }
        "arraytaskthrottle" => {
            let bad = |_| Failure::error("scontrol", "Invalid ArrayTaskThrottle value");
            change.throttle = Some(value.parse().map_err(bad)?);
        }
        "starttime" | "begintime" | "eligibletime" => {
            change.begin = Some(moment(value)?);
        }
        "workdir" => change.work_dir = text(),
        "stdin" => change.stdin = text(),
        "stdout" => change.stdout = text(),
        "stderr" => change.stderr = text(),
        "requeue" => change.requeue = Some(number("Requeue", value)? > 0),
        "admincomment" => change.admin_comment = text(),
        "extra" => change.extra = text(),
        "licenses" => change.licenses = text(),
        "mailtype" => {
            let events = mail::Events::default().with(value);
            let events = events.ok_or_else(|| bad("MailType", value))?;
            change.mail_type = Some(events.to_string());
        }
        "mailuser" => change.mail_user = text(),
        "mcslabel" => change.mcs_label = text(),
        "wckey" => change.wckey = text(),
        "prefer" => change.prefer = text(),
        "reservationname" => change.reservation = text(),
        "deadline" => {
            change.deadline = Some(moment(value)?);
        }
        "timemin" => {
            let span = timespec::parse_limit(value);
            change.time_min = Some(span.map_err(|_| bad("TimeMin", value))?);
        }
        "mintmpdisknode" => {
            let mib = size::parse_mib(value).map_err(|_| bad("MinTmpDiskNode", value))?;
            change.tmp_mib = Some(mib);
        }
        other => return place(change, other, value),
    }
    Ok(())
}

/// What decides where a job may run.
fn place(change: &mut JobChange, name: &str, value: &str) -> Result<(), Failure> {
    match name {
        "numnodes" | "reqnodes" => {
            let (least, most) = value.split_once('-').unwrap_or((value, value));
            change.nodes_min = Some(number("NumNodes", least)?);
            change.nodes_max = Some(number("NumNodes", most)?);
        }
        "numtasks" | "reqprocs" | "numcpus" | "reqcpus" => {
            let (least, _) = value.split_once('-').unwrap_or((value, value));
            change.tasks = Some(number("NumTasks", least)?);
        }
        "ntaskspernode" => change.tasks_per_node = Some(number("TasksPerNode", value)?),
        "cpuspertask" => change.cpus_per_task = Some(number("CPUsPerTask", value)?),
        "mincpusnode" => change.mincpus = Some(number("MinCPUsNode", value)?),
        "minmemorynode" => {
            let mib = size::parse_mib(value).map_err(|_| bad("MinMemoryNode", value))?;
            change.memory = Some(MemoryRequest::PerNode(mib));
        }
        "minmemorycpu" => {
            let mib = size::parse_mib(value).map_err(|_| bad("MinMemoryCPU", value))?;
            change.memory = Some(MemoryRequest::PerCpu(mib));
        }
        "gres" | "trespernode" => change.gpus_per_node = Some(gpus(value)?),
        "reqnodelist" | "nodelist" => change.nodelist = Some(value.to_owned()),
        "excnodelist" => change.exclude = Some(value.to_owned()),
        "features" | "constraint" => change.constraint = Some(value.to_owned()),
        "contiguous" => change.contiguous = Some(yes("Contiguous", value)?),
        "exclusive" => change.exclusive = Some(yes("Exclusive", value)?),
        "oversubscribe" | "shared" => change.exclusive = Some(!yes("OverSubscribe", value)?),
        other => return Err(unsupported(other)),
    }
    Ok(())
}

/// `gpu:2`, `gres/gpu:h200:2`; nothing is none.
fn gpus(value: &str) -> Result<GpuCount, Failure> {
    let list = value.replace("gres/", "").replace("gres:", "");
    if list.is_empty() {
        return Ok(GpuCount {
            model: String::new(),
            count: 0,
        });
    }
    let found = gres::parse_gres(&list).map_err(|why| Failure::plain(format!("{why}"), 1))?;
    found.ok_or_else(|| bad("Gres", value))
}

/// A limit, or a change of the present one: `+30`, `-1:00:00`.
fn limit(jobs: &[JobTarget], text: &str) -> Result<TimeLimit, Failure> {
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(span), _) => changed_limit(jobs, "+", span),
        (None, Some(span)) if text != "-1" => changed_limit(jobs, "-", span),
        (None, _) => timespec::parse_limit(text).map_err(bad_limit),
    }
}

fn bad_limit(_: timespec::BadTime) -> Failure {
    Failure::plain("Invalid TimeLimit value", 1)
}

/// The present limit and a span, as the end of the key says: `+` or `-`.
fn changed_limit(jobs: &[JobTarget], key: &str, span: &str) -> Result<TimeLimit, Failure> {
    let (longer, bad) = (key.ends_with('+'), bad_limit);
    let by = match timespec::parse_span(span).map_err(bad)? {
        TimeLimit::Secs(secs) => secs,
        TimeLimit::Unlimited => return Ok(TimeLimit::Unlimited),
    };
    let filter = JobFilter {
        targets: jobs.to_vec(),
        all_states: true,
        ..JobFilter::default()
    };
    let prefix = "slurm_load_jobs error";
    let Reply::Jobs(found) = ask(&Request::Jobs { filter }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    match found.first().and_then(|job| job.spec.time_limit) {
        Some(TimeLimit::Secs(secs)) if longer => Ok(TimeLimit::Secs(secs.saturating_add(by))),
        Some(TimeLimit::Secs(secs)) if secs > by => Ok(TimeLimit::Secs(secs - by)),
        Some(TimeLimit::Secs(secs)) => Err(Failure::error(
            "scontrol",
            format!(
                "TimeLimit decrement larger than current time limit ({} > {})",
                by / 60,
                secs / 60
            ),
        )),
        Some(TimeLimit::Unlimited) => Err(Failure::error(
            "scontrol",
            "Cannot increment/decrement TimeLimit when set to UNLIMITED.",
        )),
        None => Err(Failure::plain("Invalid TimeLimit value", 1)),
    }
}

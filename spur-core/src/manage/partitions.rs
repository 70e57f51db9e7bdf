//! `scontrol create`, `update` and `delete` of partitions, and the settings of a partition as Slurm writes them.

use super::{
    Change, Changes, Manage, Setting, Sign, Verb, changed_list, invalid, key, refuse, yes_or_no,
};
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::NodeName;
use crate::partition::{Partition, PartitionState};
use crate::slurm::{hostlist, timespec};
use crate::time::TimeLimit;

/// Most partitions.
const PARTITIONS_MAX: usize = 1000;

/// Settings, with the shortest beginning that is taken for each.
const KEYS: [(&str, usize); 43] = [
    ("allocnodes", 3),
    ("allowaccounts", 6),
    ("allowgroups", 6),
    ("allowqos", 6),
    ("alternate", 3),
    ("cpubind", 7),
    ("default", 7),
    ("defaulttime", 8),
    ("defcpupergpu", 7),
    ("defmempercpu", 10),
    ("defmempergpu", 10),
    ("defmempernode", 10),
    ("denyaccounts", 5),
    ("denyqos", 5),
    ("disablerootjobs", 3),
    ("exclusivetopo", 10),
    ("exclusiveuser", 10),
    ("gracetime", 5),
    ("hidden", 1),
    ("jobdefaults", 3),
    ("lln", 2),
    ("maxcpuspernode", 12),
    ("maxcpuspersocket", 12),
    ("maxmempercpu", 10),
    ("maxmempernode", 10),
    ("maxnodes", 4),
    ("maxtime", 4),
    ("minnodes", 4),
    ("nodes", 1),
    ("oversubscribe", 5),
    ("overtimelimit", 5),
    ("powerdownonidle", 3),
    ("preemptmode", 3),
    ("priority", 8),
    ("priorityjobfactor", 9),
    ("prioritytier", 9),
    ("qos", 2),
    ("reqresv", 3),
    ("rootonly", 3),
    ("shared", 2),
    ("state", 2),
    ("tresbillingweights", 4),
    ("resumetimeout", 9),
];

/// Settings that are lists, which `+=` and `-=` make longer and shorter.
const LISTS: [&str; 6] = [
    "allowaccounts",
    "allowgroups",
    "allowqos",
    "denyaccounts",
    "denyqos",
    "nodes",
];

/// Reads a request for partitions.
pub(super) fn decide(cluster: &Cluster, request: &Manage) -> Result<Changes, Refusal> {
    let find = |name: &str| cluster.partitions.iter().find(|known| known.name == name);
    let unknown = |name: &str| refuse(RefusalKind::InvalidPartition, name);
    let mut changes = Vec::new();
    for name in &request.names {
        let new = match (request.verb, find(name)) {
            (Verb::Delete, Some(old)) => {
                changes.push(gone(cluster, old)?);
                continue;
            }
            (Verb::Delete | Verb::Update, None) => return Err(unknown(name)),
            (Verb::Update, Some(old)) => changed(old, &request.settings)?,
            (Verb::Create, Some(_)) => {
                return Err(invalid(format!("Duplicate partition name {name}")));
            }
            (Verb::Create, None) => changed(&fresh(cluster, name)?, &request.settings)?,
        };
        if !new.default && find(name).is_some_and(|old| old.default) {
            return Err(invalid(format!(
                "{name} is the default partition: make another the default one instead"
            )));
        }
        exist(cluster, find(name), &new)?;
        changes.push(Change::Partition(Box::new(new)));
    }
    Ok((changes, request.names.clone()))
}

/// Whether every node that the partition gets is one that registered or that the configuration names.
fn exist(cluster: &Cluster, old: Option<&Partition>, new: &Partition) -> Result<(), Refusal> {
    let had = old.and_then(|old| old.nodes.as_deref()).unwrap_or_default();
    let configured = |name: &NodeName| {
        let mut parts = cluster.partitions.iter().filter_map(|p| p.nodes.as_ref());
        cluster.node_config.contains_key(name) || parts.any(|nodes| nodes.contains(name))
    };
    let known = |name: &NodeName| {
        had.contains(name) || cluster.node_ids.contains_key(name) || configured(name)
    };
    let mut nodes = new.nodes.iter().flatten();
    match nodes.find(|name| !known(name)) {
        Some(unknown) => Err(refuse(
            RefusalKind::InvalidNode,
            format!("no node is named {unknown}"),
        )),
        None => Ok(()),
    }
}

fn fresh(cluster: &Cluster, name: &str) -> Result<Partition, Refusal> {
    if cluster.partitions.len() >= PARTITIONS_MAX {
        let text = format!("the cluster has {PARTITIONS_MAX} partitions");
        return Err(refuse(RefusalKind::Busy, text));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(legal) {
        return Err(invalid(format!(
            "partition name {name:?}: use letters, digits, '-', '_' and '.'"
        )));
    }
    if name == "DEFAULT" {
        return Err(invalid("PartitionName cannot be \"DEFAULT\"."));
    }
    Ok(Partition {
        name: name.to_owned(),
        // One without a list of nodes has none, until it is given some.
        nodes: Some(Vec::new()),
        ..Partition::default()
    })
}

fn gone(cluster: &Cluster, old: &Partition) -> Result<Change, Refusal> {
    let mut jobs = cluster.pending().chain(cluster.running());
    if jobs.any(|job| job.spec.partition == old.name) {
        let text = format!("partition {} has jobs", old.name);
        return Err(refuse(RefusalKind::PartitionBusy, text));
    }
    if old.default {
        return Err(invalid(format!(
            "{} is the default partition: make another the default one first",
            old.name
        )));
    }
    Ok(Change::PartitionGone(old.name.clone()))
}

/// The partition with these settings.
pub(super) fn changed(old: &Partition, settings: &[Setting]) -> Result<Partition, Refusal> {
    let mut new = old.clone();
    for setting in settings {
        let value = setting.value.trim();
        let unknown = || {
            let (key, value) = (&setting.key, &setting.value);
            invalid(format!("Invalid input: {key}={value}\nRequest aborted"))
        };
        let (name, sign) = key(&setting.key, &KEYS).ok_or_else(unknown)?;
        if sign != Sign::Is && !LISTS.contains(&name) {
            return Err(unknown());
        }
        set(&mut new, (name, sign), value)?;
    }
    if new.default_time.is_some_and(|time| time > new.max_time) {
        return Err(invalid("DefaultTime exceeds MaxTime"));
    }
    if new.max_nodes > 0 && new.min_nodes > new.max_nodes {
        return Err(invalid("MinNodes exceeds MaxNodes"));
    }
    Ok(new)
}

fn set(new: &mut Partition, (name, sign): (&str, Sign), value: &str) -> Result<(), Refusal> {
    if who(new, (name, sign), value) || kept(new, name, value)? {
        return Ok(());
    }
    match name {
        "nodes" => new.nodes = nodes(new.nodes.as_deref(), sign, value)?,
        "state" => new.state = state(value)?,
        "default" => new.default = yes_or_no("Default", value)?,
        "hidden" => new.hidden = yes_or_no("Hidden", value)?,
        "rootonly" => new.root_only = yes_or_no("RootOnly", value)?,
        "reqresv" => new.require_reservation = yes_or_no("ReqResv", value)?,
        "disablerootjobs" => new.disable_root_jobs = yes_or_no("DisableRootJobs", value)?,
        "maxtime" => new.max_time = limit(value)?,
        "defaulttime" if none(value) => new.default_time = None,
        "defaulttime" => new.default_time = Some(limit(value)?),
        "maxnodes" => new.max_nodes = bound("MaxNodes", value)?,
        "minnodes" => new.min_nodes = bound("MinNodes", value)?,
        "maxcpuspernode" => new.max_cpus_per_node = bound("MaxCPUsPerNode", value)?,
        "defcpupergpu" => new.def_cpu_per_gpu = bound("DefCpuPerGPU", value)?,
        "defmempergpu" => new.def_mem_per_gpu = mib("DefMemPerGPU", value)?,
        "defmempercpu" => {
            new.default_mem_per_cpu = mib("DefMemPerCPU", value)?;
            new.default_mem_per_node = 0;
        }
        "defmempernode" => {
            new.default_mem_per_node = mib("DefMemPerNode", value)?;
            new.default_mem_per_cpu = 0;
        }
        "maxmempercpu" => {
            new.max_mem_per_cpu = mib("MaxMemPerCPU", value)?;
            new.max_mem_per_node = 0;
        }
        "maxmempernode" => {
            new.max_mem_per_node = mib("MaxMemPerNode", value)?;
            new.max_mem_per_cpu = 0;
        }
        "prioritytier" => new.priority_tier = number("PriorityTier", value)?,
        "priority" => {
            new.priority_tier = number("PriorityTier", value)?;
            new.priority_job_factor = Some(new.priority_tier);
        }
        "jobdefaults" => defaults(new, value)?,
        other => return Err(invalid(format!("{other} cannot be changed here"))),
    }
    Ok(())
}

/// Who may use it; whether that was the key.
fn who(new: &mut Partition, (name, sign): (&str, Sign), value: &str) -> bool {
    let who = match name {
        "allowgroups" => &mut new.allow_groups,
        "allowaccounts" => &mut new.allow_accounts,
        "denyaccounts" => &mut new.deny_accounts,
        "allowqos" => &mut new.allow_qos,
        "denyqos" => &mut new.deny_qos,
        _ => return false,
    };
    *who = changed_list(who, sign, value);
    true
}

/// What is only kept and shown; whether that was the key.
fn kept(new: &mut Partition, name: &str, value: &str) -> Result<bool, Refusal> {
    let text = |what: &str| {
        let nothing = none(value) || value.eq_ignore_ascii_case(what);
        if nothing {
            String::new()
        } else {
            value.to_owned()
        }
    };
    match name {
        "allocnodes" => new.alloc_nodes = text("ALL"),
        "alternate" => new.alternate = text(""),
        "qos" => new.qos = text("N/A"),
        "tresbillingweights" => new.billing_weights = text(""),
        "exclusiveuser" => new.exclusive_user = yes_or_no("ExclusiveUser", value)?,
        "exclusivetopo" if !yes_or_no("ExclusiveTopo", value)? => {}
        "powerdownonidle" if !yes_or_no("PowerDownOnIdle", value)? => {}
        "lln" => new.least_loaded = yes_or_no("LLN", value)?,
        "gracetime" => new.grace_time = number("GraceTime", value)?,
        "priorityjobfactor" => {
            new.priority_job_factor = Some(number("PriorityJobFactor", value)?);
        }
        "maxcpuspersocket" => new.max_cpus_per_socket = bound("MaxCPUsPerSocket", value)?,
        "oversubscribe" | "shared" => new.over_subscribe = sharing(value)?,
        "overtimelimit" => {
            let upper = value.to_ascii_uppercase();
            let legal = upper.parse::<u32>().is_ok() || upper == "UNLIMITED" || none(&upper);
            let bad = || invalid(format!("Invalid OverTimeLimit value: {value}"));
            legal.then_some(()).ok_or_else(bad)?;
            new.over_time_limit = if none(&upper) { String::new() } else { upper };
        }
        "preemptmode" => {
            let upper = value.to_ascii_uppercase();
            if upper == "GANG" {
                return Err(invalid(
                    "PreemptMode=GANG is a cluster-wide option and cannot be set at partition level",
                ));
            }
            new.preempt_mode = if upper == "OFF" { String::new() } else { upper };
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn sharing(value: &str) -> Result<String, Refusal> {
    let upper = value.to_ascii_uppercase();
    let (word, count) = upper.split_once(':').unwrap_or((&upper, "4"));
    let count = count.parse::<u32>().ok().filter(|count| *count > 0);
    match (word, count) {
        ("NO", _) => Ok(String::new()),
        ("EXCLUSIVE", _) => Ok("EXCLUSIVE".to_owned()),
        ("YES", Some(count)) => Ok(format!("YES:{count}")),
        ("FORCE", Some(count)) => Ok(format!("FORCE:{count}")),
        _ => Err(invalid(format!(
            "Invalid input: OverSubscribe={value}\nAcceptable OverSubscribe values are NO, EXCLUSIVE, YES:#, and FORCE:#"
        ))),
    }
}

fn nodes(
    old: Option<&[NodeName]>,
    sign: Sign,
    value: &str,
) -> Result<Option<Vec<NodeName>>, Refusal> {
    if value.eq_ignore_ascii_case("ALL") {
        return Ok(None);
    }
    let bad =
        |why: &dyn std::fmt::Display| refuse(RefusalKind::InvalidNode, format!("{value}: {why}"));
    let names = hostlist::parse(value).map_err(|why| bad(&why))?;
    let old: Vec<String> = old
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    let names = match sign {
        Sign::Is => names,
        Sign::Plus | Sign::Minus => changed_list(&old, sign, &names.join(",")),
    };
    let names = names.into_iter().map(NodeName::new);
    let names = names
        .collect::<Result<Vec<_>, _>>()
        .map_err(|why| bad(&why))?;
    Ok(Some(names))
}

fn state(value: &str) -> Result<PartitionState, Refusal> {
    let upper = value.to_ascii_uppercase();
    let is = |full: &str| !upper.is_empty() && full.starts_with(&upper);
    match () {
        () if is("INACTIVE") => Ok(PartitionState::Inactive),
        () if upper.len() > 1 && is("DOWN") => Ok(PartitionState::Down),
        () if is("UP") => Ok(PartitionState::Up),
        () if upper.len() > 1 && is("DRAIN") => Ok(PartitionState::Drain),
        () => Err(invalid(format!(
            "Invalid input: State={value}\nAcceptable State values are UP, DOWN, DRAIN and INACTIVE"
        ))),
    }
}

fn limit(value: &str) -> Result<TimeLimit, Refusal> {
    timespec::parse_limit(value).map_err(|_| refuse(RefusalKind::InvalidTimeLimit, value))
}

fn none(value: &str) -> bool {
    value.is_empty() || value.eq_ignore_ascii_case("NONE") || value == "(null)"
}

fn number(name: &str, value: &str) -> Result<u32, Refusal> {
    value
        .parse()
        .map_err(|_| invalid(format!("Invalid {name} value: {value}")))
}

/// A bound of which 0 is none.
fn bound(name: &str, value: &str) -> Result<u32, Refusal> {
    if value.eq_ignore_ascii_case("UNLIMITED") || value.eq_ignore_ascii_case("INFINITE") {
        return Ok(0);
    }
    number(name, value)
}

fn mib(name: &str, value: &str) -> Result<u64, Refusal> {
    if value.eq_ignore_ascii_case("UNLIMITED") {
        return Ok(0);
    }
    value
        .parse()
        .map_err(|_| invalid(format!("Invalid {name} value: {value}")))
}

/// `DefCpuPerGPU=4,DefMemPerGPU=2000`.
fn defaults(new: &mut Partition, value: &str) -> Result<(), Refusal> {
    (new.def_cpu_per_gpu, new.def_mem_per_gpu) = (0, 0);
    for part in value.split(',').filter(|part| !none(part)) {
        match part.split_once('=') {
            Some((word, value)) if word.eq_ignore_ascii_case("DefCpuPerGPU") => {
                new.def_cpu_per_gpu = bound("DefCpuPerGPU", value)?;
            }
            Some((word, value)) if word.eq_ignore_ascii_case("DefMemPerGPU") => {
                new.def_mem_per_gpu = mib("DefMemPerGPU", value)?;
            }
            _ => return Err(invalid(format!("Invalid JobDefaults value: {value}"))),
        }
    }
    Ok(())
}

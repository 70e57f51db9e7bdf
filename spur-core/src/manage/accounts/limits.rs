//! Limits of associations and qualities by Slurm's names: which there are, what their values look like, and which older names
//! stand for a part of one.

use super::super::{Setting, invalid};
use crate::api::Refusal;
use crate::slurm::timespec;
use crate::time::TimeLimit;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number.
    Count,
    /// Amounts of resources: `cpu=10,gres/gpu=4`.
    Tres,
    /// A span, in minutes or as Slurm writes times.
    Wall,
    /// A number with a fraction.
    Real,
    /// How jobs make room for others.
    Preempt,
    /// Anything.
    Text,
}

/// Every limit.
const LIMITS: [(&str, Kind); 36] = [
    ("GraceTime", Kind::Count),
    ("GrpJobs", Kind::Count),
    ("GrpJobsAccrue", Kind::Count),
    ("GrpSubmitJobs", Kind::Count),
    ("GrpTRES", Kind::Tres),
    ("GrpTRESMins", Kind::Tres),
    ("GrpTRESRunMins", Kind::Tres),
    ("GrpWall", Kind::Wall),
    ("LimitFactor", Kind::Real),
    ("MaxJobs", Kind::Count),
    ("MaxJobsAccrue", Kind::Count),
    ("MaxJobsAccruePerAccount", Kind::Count),
    ("MaxJobsAccruePerUser", Kind::Count),
    ("MaxJobsPerAccount", Kind::Count),
    ("MaxJobsPerUser", Kind::Count),
    ("MaxSubmitJobs", Kind::Count),
    ("MaxSubmitJobsPerAccount", Kind::Count),
    ("MaxSubmitJobsPerUser", Kind::Count),
    ("MaxTRES", Kind::Tres),
    ("MaxTRESMins", Kind::Tres),
    ("MaxTRESPerAccount", Kind::Tres),
    ("MaxTRESPerNode", Kind::Tres),
    ("MaxTRESPerUser", Kind::Tres),
    ("MaxTRESRunMinsPerAccount", Kind::Tres),
    ("MaxTRESRunMinsPerUser", Kind::Tres),
    ("MaxWall", Kind::Wall),
    ("MinPrioThresh", Kind::Count),
    ("MinTRES", Kind::Tres),
    ("Preempt", Kind::Text),
    ("PreemptExemptTime", Kind::Wall),
    ("PreemptMode", Kind::Preempt),
    ("Priority", Kind::Count),
    ("QosLevel", Kind::Text),
    ("UsageFactor", Kind::Real),
    ("UsageThreshold", Kind::Real),
    ("WCKeys", Kind::Text),
];

/// Other names, and the amount of a limit that is meant, if it is one.
const OTHERS: [(&str, &str, &str); 36] = [
    ("grpcpumins", "GrpTRESMins", "cpu"),
    ("grpcpurunmins", "GrpTRESRunMins", "cpu"),
    ("grpcpus", "GrpTRES", "cpu"),
    ("grpmem", "GrpTRES", "mem"),
    ("grpmemory", "GrpTRES", "mem"),
    ("grpnodes", "GrpTRES", "node"),
    ("grpsubmit", "GrpSubmitJobs", ""),
    ("maxcpumins", "MaxTRESMins", "cpu"),
    ("maxcpuminsperjob", "MaxTRESMins", "cpu"),
    ("maxcpus", "MaxTRES", "cpu"),
    ("maxcpusperjob", "MaxTRES", "cpu"),
    ("maxcpuspu", "MaxTRESPerUser", "cpu"),
    ("maxcpusperuser", "MaxTRESPerUser", "cpu"),
    ("maxjobsaccruepa", "MaxJobsAccruePerAccount", ""),
    ("maxjobsaccruepu", "MaxJobsAccruePerUser", ""),
    ("maxjobspa", "MaxJobsPerAccount", ""),
    ("maxjobspu", "MaxJobsPerUser", ""),
    ("maxnodes", "MaxTRES", "node"),
    ("maxnodesperjob", "MaxTRES", "node"),
    ("maxnodespu", "MaxTRESPerUser", "node"),
    ("maxnodesperuser", "MaxTRESPerUser", "node"),
    ("maxsubmit", "MaxSubmitJobs", ""),
    ("maxsubmitjobspa", "MaxSubmitJobsPerAccount", ""),
    ("maxsubmitjobspu", "MaxSubmitJobsPerUser", ""),
    ("maxsubmitpa", "MaxSubmitJobsPerAccount", ""),
    ("maxsubmitpu", "MaxSubmitJobsPerUser", ""),
    ("maxtresminsperjob", "MaxTRESMins", ""),
    ("maxtresminspj", "MaxTRESMins", ""),
    ("maxtrespa", "MaxTRESPerAccount", ""),
    ("maxtresperjob", "MaxTRES", ""),
    ("maxtrespj", "MaxTRES", ""),
    ("maxtrespn", "MaxTRESPerNode", ""),
    ("maxtrespu", "MaxTRESPerUser", ""),
    ("maxwalldurationperjob", "MaxWall", ""),
    ("maxwallpj", "MaxWall", ""),
    ("mintresperjob", "MinTRES", ""),
];

/// The name of the limit that a key stands for, and the part of it that is meant; `None` if it is none.
fn named(key: &str) -> Option<(&'static str, Kind, &'static str)> {
    let key = key.to_ascii_lowercase();
    let kind = |name: &str| {
        LIMITS
            .iter()
            .find(|(full, _)| *full == name)
            .map(|(_, kind)| *kind)
    };
    if let Some((full, kind)) = LIMITS
        .iter()
        .find(|(full, _)| full.to_ascii_lowercase() == key)
    {
        return Some((*full, *kind, ""));
    }
    let other = OTHERS.iter().find(|(other, _, _)| *other == key);
    other.and_then(|(_, full, part)| Some((*full, kind(full)?, *part)))
}

/// The full name of the limit that a key stands for.
#[must_use]
pub fn full_name(key: &str) -> Option<&'static str> {
    named(key).map(|(name, _, _)| name)
}

/// The value of a limit by its full name; empty if there is none.
#[must_use]
pub fn value<'l>(limits: &'l [Setting], name: &str) -> &'l str {
    let found = limits.iter().find(|limit| limit.key == name);
    found.map_or("", |limit| limit.value.as_str())
}

/// Sets a limit, if the key names one, and says whether it does. `-1` takes it away.
pub(super) fn set(limits: &mut Vec<Setting>, key: &str, text: &str) -> Result<bool, Refusal> {
    let Some((name, kind, part)) = named(key) else {
        return Ok(false);
    };
    let bad = || invalid(format!(" Bad {name} value: {text}"));
    let new = match kind {
        _ if part.is_empty() && matches!(text, "-1" | "") => String::new(),
        Kind::Text => text.to_owned(),
        Kind::Real => text
            .parse::<f64>()
            .ok()
            .filter(|real| *real >= 0.0)
            .map(|_| text.to_owned())
            .ok_or_else(bad)?,
        Kind::Preempt => {
            modes(text).ok_or_else(|| invalid(format!(" Bad Preempt Mode given: {text}")))?
        }
        Kind::Count => text.parse::<u32>().map_err(|_| bad())?.to_string(),
        Kind::Wall => wall(text).ok_or_else(bad)?,
        Kind::Tres if part.is_empty() && unknown_tres(text).is_some() => {
            let unknown = unknown_tres(text).unwrap_or_default();
            return Err(invalid(format!(" No TRES known by type {unknown}")));
        }
        Kind::Tres if !part.is_empty() => {
            merged(value(limits, name), &format!("{part}={text}")).ok_or_else(bad)?
        }
        Kind::Tres => merged(value(limits, name), text).ok_or_else(bad)?,
    };
    limits.retain(|limit| limit.key != name);
    if !new.is_empty() {
        let at = limits.partition_point(|limit| limit.key.as_str() < name);
        let key = name.to_owned();
        limits.insert(at, Setting { key, value: new });
    }
    Ok(true)
}

/// Modes of preemption as Slurm writes them; `cluster` is the cluster's.
fn modes(text: &str) -> Option<String> {
    const MODES: [&str; 7] = [
        "cancel", "cluster", "gang", "off", "requeue", "suspend", "within",
    ];
    let lower = text.to_ascii_lowercase();
    let known = |word: &str| MODES.contains(&word);
    lower.split(',').all(known).then_some(lower)
}

/// The first name of a list of amounts that is no resource's.
fn unknown_tres(text: &str) -> Option<&str> {
    const TRES: [&str; 9] = [
        "billing", "cpu", "energy", "fs/disk", "gres/gpu", "mem", "node", "pages", "vmem",
    ];
    let mut names = text.split(',').filter_map(|part| part.split_once('='));
    let known = |name: &str| {
        let model = name.strip_prefix("gres/gpu:");
        TRES.contains(&name) || model.is_some_and(|model| !model.is_empty())
    };
    let unknown = names.find(|(name, _)| !known(&name.trim().to_ascii_lowercase()));
    unknown.map(|(name, _)| name)
}

fn wall(text: &str) -> Option<String> {
    match timespec::parse_limit(text).ok()? {
        TimeLimit::Unlimited => Some(String::new()),
        TimeLimit::Secs(secs) => Some(timespec::limit_long(TimeLimit::Secs(secs))),
    }
}

/// Amounts, with some of them changed.
fn merged(old: &str, changes: &str) -> Option<String> {
    let pairs = |text: &str| {
        let parts = text.split(',').filter(|part| !part.is_empty());
        let pair = |part: &str| {
            let (name, amount) = part.split_once('=')?;
            Some((name.to_owned(), amount.to_owned()))
        };
        parts.map(pair).collect::<Option<Vec<_>>>()
    };
    let mut all = pairs(old)?;
    for (name, amount) in pairs(changes)? {
        let digits = amount.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number = digits.parse::<i64>().ok()?;
        all.retain(|(known, _)| *known != name);
        if number >= 0 {
            all.push((name, amount));
        }
    }
    let shown: Vec<String> = all
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    Some(shown.join(","))
}

//! `scontrol update nodename=…`.

use super::{Change, Decision, Manage, NodeChange, Sign, Verb, changed_list, invalid, key, refuse};
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::id::{NodeName, Uid};
use crate::node::{AdminState, Node};
use crate::slurm::constraint;

/// Settings, with the shortest beginning that is taken for each.
const KEYS: [(&str, usize); 16] = [
    ("activefeatures", 7),
    ("availablefeatures", 9),
    ("comment", 2),
    ("cpubind", 7),
    ("extra", 1),
    ("features", 1),
    ("gres", 1),
    ("instanceid", 9),
    ("instancetype", 9),
    ("nodeaddr", 6),
    ("nodehostname", 6),
    ("reason", 2),
    ("resumeafter", 7),
    ("state", 1),
    ("topology", 2),
    ("weight", 1),
];

/// What is asked of nodes.
#[derive(Default)]
struct Wanted {
    admin: Option<AdminState>,
    reason: Option<String>,
    features: Vec<(Sign, String)>,
    weight: Option<u32>,
    comment: Option<String>,
    extra: Option<String>,
}

/// Reads a request for nodes, all of them or none.
pub(super) fn decide(cluster: &Cluster, by: Uid, request: &Manage) -> Result<Decision, Refusal> {
    if request.verb != Verb::Update {
        return Err(invalid(
            "nodes register themselves: start or stop spurd on the machine",
        ));
    }
    let wanted = read(request)?;
    let mut decision = Decision::default();
    for name in &request.names {
        let unknown = || refuse(RefusalKind::InvalidNode, name.clone());
        let name = NodeName::new(name.as_str()).map_err(|_| unknown())?;
        let id = cluster.node_ids.get(&name).ok_or_else(unknown)?;
        let node = cluster.nodes.get(id).ok_or_else(unknown)?;
        decision.events.extend(state(node, by, &wanted)?);
        decision.events.extend(rest(cluster, node, &wanted));
        decision.names.push(name.to_string());
    }
    Ok(decision)
}

fn read(request: &Manage) -> Result<Wanted, Refusal> {
    let mut wanted = Wanted::default();
    for setting in &request.settings {
        let value = setting.value.as_str();
        let known = key(&setting.key, &KEYS);
        let (name, sign) = known.ok_or_else(|| unknown(&setting.key, value))?;
        if sign != Sign::Is && !name.ends_with("features") {
            return Err(unknown(&setting.key, value));
        }
        match name {
            "state" => wanted.admin = Some(admin(value)?),
            "reason" => wanted.reason = Some(value.to_owned()),
            "features" | "availablefeatures" | "activefeatures" => {
                let words = super::list(value);
                words.iter().try_for_each(|word| {
                    constraint::check_name(word).map_err(|why| invalid(format!("{word:?}: {why}")))
                })?;
                wanted.features.push((sign, value.to_owned()));
            }
            "weight" => {
                let weight = value.parse().ok().filter(|weight| *weight > 0);
                let bad = || invalid(format!("Invalid weight: {value} (use at least 1)"));
                wanted.weight = Some(weight.ok_or_else(bad)?);
            }
            "comment" => wanted.comment = Some(value.to_owned()),
            "extra" => wanted.extra = Some(value.to_owned()),
            "gres" => {
                return Err(invalid(
                    "the GPUs of a node are those that spurd finds there",
                ));
            }
            other => return Err(invalid(format!("{other} cannot be changed here"))),
        }
    }
    Ok(wanted)
}

fn unknown(key: &str, value: &str) -> Refusal {
    invalid(format!("Invalid input: {key}={value}\nRequest aborted"))
}

fn admin(text: &str) -> Result<AdminState, Refusal> {
    let state = text.to_ascii_uppercase();
    let is = |full: &str, least: usize| state.len() >= least && full.starts_with(state.as_str());
    if is("DRAIN", 3) || state == "DRAINING" || is("FAIL", 1) {
        return Ok(AdminState::Drain);
    }
    if is("DOWN", 2) {
        return Ok(AdminState::Down);
    }
    if is("RESUME", 1) || is("UNDRAIN", 1) || is("IDLE", 1) {
        return Ok(AdminState::Up);
    }
    if state.starts_with("POWER") || is("FUTURE", 2) || is("NORESP", 1) || is("PLANNED", 2) {
        return Err(invalid(format!(
            "{state}: not available: nodes are not powered, and answer or do not by themselves"
        )));
    }
    Err(invalid(format!(
        "Invalid input: {text}\nRequest aborted\nValid states are: DOWN DRAIN FAIL IDLE RESUME UNDRAIN"
    )))
}

/// State and reason.
fn state(node: &Node, by: Uid, wanted: &Wanted) -> Result<Option<Event>, Refusal> {
    if wanted.admin.is_none() && wanted.reason.is_none() {
        return Ok(None);
    }
    let admin = wanted.admin.unwrap_or(node.admin);
    let reason = match &wanted.reason {
        Some(reason) => reason.clone(),
        None if admin == AdminState::Up => String::new(),
        None => node.reason.clone(),
    };
    if wanted.admin.is_some() && admin != AdminState::Up && reason.is_empty() {
        return Err(invalid(
            "You must specify a reason when DOWNING or DRAINING a node. Request denied",
        ));
    }
    let node = node.id;
    Ok(Some(Event::NodeUpdated {
        node,
        admin,
        reason,
        by,
    }))
}

/// What else is changed.
fn rest(cluster: &Cluster, node: &Node, wanted: &Wanted) -> Option<Event> {
    let old = cluster.managed.nodes.get(&node.name);
    let old = old.cloned().unwrap_or_default();
    let now: Vec<String> = cluster.features(node).map(str::to_owned).collect();
    let changes = wanted.features.iter();
    let features = changes.fold(None, |features: Option<Vec<String>>, (sign, value)| {
        Some(changed_list(
            features.as_ref().unwrap_or(&now),
            *sign,
            value,
        ))
    });
    let new = NodeChange {
        features: features.or_else(|| old.features.clone()),
        weight: wanted.weight.or(old.weight),
        comment: wanted.comment.clone().or_else(|| old.comment.clone()),
        extra: wanted.extra.clone().or_else(|| old.extra.clone()),
    };
    let name = node.name.clone();
    (new != old).then_some(Event::Managed(Change::Node { name, change: new }))
}

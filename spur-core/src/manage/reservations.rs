//! `scontrol create`, `update` and `delete` of reservations.

use super::overlap::{self, Window};
use super::reservation::Reservation;
use super::{
    Change, Changes, Manage, Setting, Sign, Verb, changed_list, invalid, key, list, refuse,
};
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::NodeName;
use crate::slurm::hostlist;
use crate::time::Millis;

/// Most reservations; more are refused until some are over.
const RESERVATIONS_MAX: usize = 1000;
/// How long before now a reservation may begin, in seconds: Slurm's `MAX_RESV_DELAY`.
const BEFORE_NOW_MAX: u64 = 600;
/// What stands for a reservation without an end, in seconds: Slurm's year.
const ENDLESS: u64 = 365 * 86_400;

/// Settings, with the shortest beginning that is taken for each.
const KEYS: [(&str, usize); 22] = [
    ("accounts", 1),
    ("allowedpartitions", 3),
    ("burstbuffer", 2),
    ("comment", 3),
    ("corecnt", 5),
    ("corecount", 5),
    ("cpucnt", 5),
    ("cpucount", 5),
    ("duration", 1),
    ("endtime", 1),
    ("features", 2),
    ("flags", 2),
    ("groups", 1),
    ("licenses", 1),
    ("maxstartdelay", 3),
    ("nodecnt", 5),
    ("nodecount", 5),
    ("nodes", 5),
    ("partitionname", 1),
    ("starttime", 1),
    ("tres", 1),
    ("users", 1),
];

/// Flags as Slurm shows them, and what else they are called.
const FLAGS: [(&str, &str); 23] = [
    ("ALL_NODES", "ALL_NODES"),
    ("ANY_NODES", "ANY_NODES"),
    ("DAILY", "DAILY"),
    ("FLEX", "FLEX"),
    ("FORCE_START", "FORCE_START"),
    ("HOURLY", "HOURLY"),
    ("IGNORE_JOBS", "IGNORE_JOBS"),
    ("LICENSE_ONLY", "ANY_NODES"),
    ("MAGNETIC", "MAGNETIC"),
    ("MAINT", "MAINT"),
    ("MAINTENANCE", "MAINT"),
    ("NO_HOLD_JOBS_AFTER", "NO_HOLD_JOBS_AFTER_END"),
    ("OVERLAP", "OVERLAP"),
    ("PART_NODES", "PART_NODES"),
    ("PURGE_COMP", "PURGE_COMP"),
    ("REPLACE", "REPLACE"),
    ("REPLACE_DOWN", "REPLACE_DOWN"),
    ("STATIC_ALLOC", "STATIC"),
    ("TIME_FLOAT", "TIME_FLOAT"),
    ("USER_DELETE", "USER_DELETE"),
    ("WEEKDAY", "WEEKDAY"),
    ("WEEKEND", "WEEKEND"),
    ("WEEKLY", "WEEKLY"),
];

/// How its nodes are chosen.
#[derive(Default)]
struct Choice {
    nodes: Option<(Sign, String)>,
    count: Option<usize>,
    end: Option<Millis>,
    duration: Option<(Sign, u64)>,
    start: Option<Millis>,
}

/// Reads a request for reservations.
pub(super) fn decide(cluster: &Cluster, at: Millis, request: &Manage) -> Result<Changes, Refusal> {
    match request.verb {
        Verb::Create => create(cluster, at, request),
        Verb::Update => update(cluster, at, request),
        Verb::Delete => delete(cluster, request),
    }
}

fn known<'a>(cluster: &'a Cluster, name: &str) -> Result<&'a Reservation, Refusal> {
    let found = cluster.managed.reservations.get(name);
    found.ok_or_else(|| refuse(RefusalKind::InvalidReservation, name))
}

fn create(cluster: &Cluster, at: Millis, request: &Manage) -> Result<Changes, Refusal> {
    if cluster.managed.reservations.len() >= RESERVATIONS_MAX {
        let text = format!("the cluster has {RESERVATIONS_MAX} reservations");
        return Err(refuse(RefusalKind::Busy, text));
    }
    let mut new = Reservation::default();
    let choice = read(&mut new, &request.settings)?;
    if new.users.is_empty() && new.groups.is_empty() && new.accounts.is_empty() {
        return Err(refuse(RefusalKind::ReservationEmpty, ""));
    }
    let start = choice
        .start
        .ok_or_else(|| refuse(RefusalKind::InvalidTime, "no start time"))?;
    if start.plus_secs(BEFORE_NOW_MAX) < at {
        return Err(refuse(RefusalKind::InvalidTime, "it begins in the past"));
    }
    new.name = match request.names.first() {
        Some(name) if !name.is_empty() => legal(cluster, name)?,
        Some(_) | None => {
            new.numbered = true;
            next_name(cluster, &new)
        }
    };
    settle(cluster, at, &mut new, &choice)?;
    let name = new.name.clone();
    Ok((vec![Change::Reservation(Box::new(new))], vec![name]))
}

fn update(cluster: &Cluster, at: Millis, request: &Manage) -> Result<Changes, Refusal> {
    let name = request.names.first().map_or("", String::as_str);
    let mut new = known(cluster, name)?.clone();
    new.numbered = false;
    let choice = read(&mut new, &request.settings)?;
    settle(cluster, at, &mut new, &choice)?;
    let name = new.name.clone();
    Ok((vec![Change::Reservation(Box::new(new))], vec![name]))
}

fn delete(cluster: &Cluster, request: &Manage) -> Result<Changes, Refusal> {
    let mut changes = Vec::new();
    for name in &request.names {
        known(cluster, name)?;
        let uses = |text: &str| text.split(',').any(|part| part == name);
        let mut jobs = cluster.pending().chain(cluster.running());
        if jobs.any(|job| uses(&job.spec.extras().reservation)) {
            return Err(refuse(RefusalKind::ReservationBusy, name.clone()));
        }
        changes.push(Change::ReservationGone(name.clone()));
    }
    Ok((changes, request.names.clone()))
}

fn legal(cluster: &Cluster, name: &str) -> Result<String, Refusal> {
    if cluster.managed.reservations.contains_key(name) {
        return Err(refuse(RefusalKind::ReservationDuplicate, name));
    }
    let bad = |c: char| c == ',' || c == '=' || c.is_whitespace() || c.is_control();
    if name.contains(bad) {
        let text = format!("reservation name {name:?}: use no blanks, commas and equal signs");
        return Err(invalid(text));
    }
    Ok(name.to_owned())
}

/// `alice_3`, after its first user or account.
fn next_name(cluster: &Cluster, new: &Reservation) -> String {
    let lists = [&new.accounts, &new.users, &new.groups];
    let mut named = lists.into_iter().flatten();
    let first = named
        .next()
        .map_or("resv", |name| name.trim_start_matches('-'));
    let mut number = cluster.managed.named;
    loop {
        number = number.saturating_add(1);
        let name = format!("{first}_{number}");
        if !cluster.managed.reservations.contains_key(&name) {
            return name;
        }
    }
}

/// What the settings say of themselves; what depends on others is chosen in [`settle`].
fn read(new: &mut Reservation, settings: &[Setting]) -> Result<Choice, Refusal> {
    let mut choice = Choice::default();
    for setting in settings {
        let value = setting.value.as_str();
        let unknown = || invalid(format!("Unknown parameter {}.", setting.key));
        let (name, sign) = key(&setting.key, &KEYS).ok_or_else(unknown)?;
        let grows = ["accounts", "users", "groups", "flags", "nodes", "duration"];
        if sign != Sign::Is && !grows.contains(&name) {
            return Err(unknown());
        }
        match name {
            "accounts" => new.accounts = changed_list(&new.accounts, sign, value),
            "users" => new.users = changed_list(&new.users, sign, value),
            "groups" => new.groups = changed_list(&new.groups, sign, value),
            "comment" => value.clone_into(&mut new.comment),
            "features" => value.clone_into(&mut new.features),
            "licenses" => value.clone_into(&mut new.licenses),
            "partitionname" => value.clone_into(&mut new.partition),
            "flags" => flags(new, sign, value)?,
            "starttime" => choice.start = Some(Millis(number(name, value)?)),
            "endtime" => choice.end = Some(Millis(number(name, value)?)),
            "duration" => choice.duration = Some((sign, span(value)?)),
            "maxstartdelay" => new.max_start_delay = number(name, value)?,
            "nodes" => choice.nodes = Some((sign, value.to_owned())),
            "nodecnt" | "nodecount" => {
                let count = value.parse().ok().filter(|count| *count > 0);
                let bad = || invalid(format!("\"{value}\" is not a valid node count"));
                choice.count = Some(count.ok_or_else(bad)?);
            }
            "tres" => choice.count = Some(tres(value)?),
            "burstbuffer" | "allowedpartitions" => {
                return Err(invalid(format!("{name}: not available")));
            }
            _ => {
                return Err(invalid(format!(
                    "{name}: whole nodes are reserved; give Nodes or NodeCnt"
                )));
            }
        }
    }
    Ok(choice)
}

fn number(name: &str, value: &str) -> Result<u64, Refusal> {
    let bad = |_| refuse(RefusalKind::InvalidTime, format!("{name}={value}"));
    value.parse().map_err(bad)
}

fn span(value: &str) -> Result<u64, Refusal> {
    let endless = ["infinite", "unlimited"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word));
    if endless {
        return Ok(ENDLESS);
    }
    match number("duration", value)? {
        0 => Err(refuse(RefusalKind::InvalidTime, "duration 0")),
        secs => Ok(secs),
    }
}

/// `node=2`; nothing else can be reserved by number.
fn tres(value: &str) -> Result<usize, Refusal> {
    let count = value
        .strip_prefix("node=")
        .and_then(|count| count.parse().ok());
    count.filter(|count| *count > 0).ok_or_else(|| {
        invalid(format!(
            "TRES={value}: whole nodes are reserved; give node=N"
        ))
    })
}

fn flags(new: &mut Reservation, sign: Sign, value: &str) -> Result<(), Refusal> {
    if sign == Sign::Is && !value.starts_with(['+', '-']) {
        let chosen = |flag: &String| matches!(flag.as_str(), "SPEC_NODES");
        new.flags.retain(chosen);
    }
    for word in list(value) {
        let (word, minus) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
            (Some(word), _) => (word, true),
            (None, Some(word)) => (word, sign == Sign::Minus),
            (None, None) => (word.as_str(), sign == Sign::Minus),
        };
        let upper = word
            .split('=')
            .next()
            .unwrap_or_default()
            .to_ascii_uppercase();
        let exact = FLAGS.iter().find(|(full, _)| *full == upper);
        let begun = || {
            FLAGS
                .iter()
                .find(|(full, _)| !upper.is_empty() && full.starts_with(&upper))
        };
        let (_, shown) = exact.or_else(begun).ok_or_else(|| {
            invalid(format!(
                "Error parsing flags {value}: there is no flag {word}"
            ))
        })?;
        new.flags.retain(|flag| flag != shown);
        if !minus {
            new.flags.push((*shown).to_owned());
        }
    }
    Ok(())
}

/// Times and nodes, which depend on one another and on the cluster.
fn settle(
    cluster: &Cluster,
    at: Millis,
    new: &mut Reservation,
    choice: &Choice,
) -> Result<(), Refusal> {
    times(new, choice)?;
    if new.end <= at {
        return Err(refuse(RefusalKind::InvalidTime, "it would be over already"));
    }
    if !new.partition.is_empty()
        && !cluster
            .partitions
            .iter()
            .any(|known| known.name == new.partition)
    {
        return Err(refuse(RefusalKind::InvalidPartition, new.partition.clone()));
    }
    let window = Window::of(cluster, new);
    match (&choice.nodes, choice.count) {
        (Some((sign, text)), _) => named(cluster, new, *sign, text)?,
        (None, Some(count)) => new.nodes = window.choose(new, count)?,
        (None, None) if new.nodes.is_empty() && !new.partition.is_empty() => {
            set_flag(new, "PART_NODES");
            new.nodes = overlap::members(cluster, &new.partition);
        }
        (None, None) if new.nodes.is_empty() => {
            return Err(refuse(RefusalKind::InvalidReservation, "it names no nodes"));
        }
        (None, None) => {}
    }
    window.is_free(new)
}

fn times(new: &mut Reservation, choice: &Choice) -> Result<(), Refusal> {
    let length = Millis(new.end.0.saturating_sub(new.start.0));
    if let Some(start) = choice.start {
        new.start = start;
        new.end = Millis(start.0.saturating_add(length.0));
    }
    match (choice.end, choice.duration) {
        (Some(end), _) => new.end = end,
        (None, Some((Sign::Is, secs))) => new.end = new.start.plus_secs(secs),
        (None, Some((Sign::Plus, secs))) => new.end = new.end.plus_secs(secs),
        (None, Some((Sign::Minus, secs))) => {
            new.end = Millis(new.end.0.saturating_sub(secs.saturating_mul(1000)));
        }
        (None, None) => {}
    }
    if new.end <= new.start {
        let text = "it ends before it begins, or has neither an end nor a duration";
        return Err(refuse(RefusalKind::InvalidTime, text));
    }
    Ok(())
}

fn set_flag(new: &mut Reservation, flag: &str) {
    if !new.has(flag) {
        new.flags.push(flag.to_owned());
    }
}

/// The nodes that are named.
fn named(cluster: &Cluster, new: &mut Reservation, sign: Sign, text: &str) -> Result<(), Refusal> {
    if text.eq_ignore_ascii_case("ALL") {
        if !new.partition.is_empty() {
            set_flag(new, "PART_NODES");
            new.nodes = overlap::members(cluster, &new.partition);
        } else {
            set_flag(new, "ALL_NODES");
            new.nodes = overlap::in_order(cluster.nodes.values().map(|node| &node.name));
        }
        return Ok(());
    }
    let bad = |_| refuse(RefusalKind::InvalidNode, text);
    let names = hostlist::parse(text).map_err(bad)?;
    let old: Vec<String> = new.nodes.iter().map(ToString::to_string).collect();
    let names = match sign {
        Sign::Is => names,
        Sign::Plus | Sign::Minus => changed_list(&old, sign, &names.join(",")),
    };
    let mut nodes = Vec::new();
    for name in names {
        let unknown = || refuse(RefusalKind::InvalidNode, name.clone());
        let node = NodeName::new(name.as_str()).map_err(|_| unknown())?;
        if !cluster.node_ids.contains_key(&node) {
            return Err(unknown());
        }
        nodes.push(node);
    }
    if nodes.is_empty() {
        return Err(refuse(RefusalKind::InvalidNode, "no node is left"));
    }
    new.nodes = overlap::in_order(nodes.iter());
    set_flag(new, "SPEC_NODES");
    Ok(())
}

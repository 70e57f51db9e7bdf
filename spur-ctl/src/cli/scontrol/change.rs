//! `scontrol update`, `create` and `delete`: the key that names an entity says what is changed.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::link;
use super::super::output;
use super::{abbreviates, jobs, reservation, worded};
use spur_core::api::{RefusalKind, Reply, Request};
use spur_core::id::NodeName;
use spur_core::manage::{Entity, Manage, Setting, Verb};
use spur_core::slurm::{codes, hostlist};

/// `KEY=VALUE` words in order.
pub(super) type Pairs = Vec<Setting>;

/// What a key names, if it names an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Job,
    Step,
    Node,
    Partition,
    Reservation,
    Controller,
    Frontend,
}

/// How the entities are written in full.
const ENTITIES: [&str; 4] = ["JobId", "NodeName", "PartitionName", "ReservationName"];

/// The entity that a key names, in Slurm's order: a job's name and partition are settings of the job.
fn named(key: &str) -> Option<Named> {
    let is = |full: &str, least: usize| abbreviates(key, full, least);
    match () {
        () if is("nodename", 3) => Some(Named::Node),
        () if is("partitionname", 4) => Some(Named::Partition),
        () if is("jobid", 1) || is("jobname", 4) => Some(Named::Job),
        () if is("stepid", 4) => Some(Named::Step),
        () if is("frontendname", 5) => Some(Named::Frontend),
        () if is("reservationname", 3) => Some(Named::Reservation),
        () if is("slurmctlddebug", 2) || key.to_ascii_lowercase().starts_with("suspendexc") => {
            Some(Named::Controller)
        }
        () => None,
    }
}

/// Reads `KEY=VALUE` words; as in Slurm a key may also stand alone, with its value as the next word. `key+=value` and `key-=value` keep
/// their sign with the key.
fn pairs(words: &[String]) -> Result<Pairs, Failure> {
    let mut words = words.iter();
    let mut pairs = Pairs::new();
    while let Some(word) = words.next() {
        let bad = || Failure::plain(format!("Invalid input: {word}\nRequest aborted"), 1);
        let (key, value) = match word.split_once('=') {
            Some(pair) => pair,
            None => (word.as_str(), words.next().ok_or_else(bad)?.as_str()),
        };
        if key.is_empty() {
            return Err(bad());
        }
        pairs.push(Setting {
            key: key.to_owned(),
            value: unquoted(value).to_owned(),
        });
    }
    Ok(pairs)
}

fn unquoted(value: &str) -> &str {
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(value)
}

/// Takes the pair out that names the entity; of several the first in Slurm's order counts.
fn entity(pairs: &mut Pairs) -> Option<(Named, String)> {
    let order = [
        Named::Job,
        Named::Step,
        Named::Node,
        Named::Reservation,
        Named::Partition,
        Named::Frontend,
        Named::Controller,
    ];
    // A partition that is updated has settings which begin like other entities, and the other way round.
    let first = pairs.first().and_then(|pair| named(&pair.key));
    let has = |which: Named| pairs.iter().any(|pair| named(&pair.key) == Some(which));
    let which = match first {
        // A job's and a reservation's partition is a setting of it.
        Some(Named::Partition) if has(Named::Job) => Named::Job,
        Some(Named::Partition) if has(Named::Reservation) => Named::Reservation,
        Some(first) => first,
        None => *order.iter().find(|which| has(**which))?,
    };
    let at = pairs
        .iter()
        .position(|pair| named(&pair.key) == Some(which))?;
    Some((which, pairs.remove(at).value))
}

/// `update KEY=VALUE…`.
pub fn update(options: &Options, words: &[String]) -> Result<u8, Failure> {
    let mut pairs = pairs(words)?;
    let entity = entity(&mut pairs);
    let changes = [
        Named::Job,
        Named::Node,
        Named::Partition,
        Named::Reservation,
    ];
    if pairs.is_empty()
        && entity
            .as_ref()
            .is_some_and(|(named, _)| changes.contains(named))
    {
        return Err(Failure::plain("No changes specified", 1));
    }
    match entity {
        Some((Named::Job, list)) => jobs::update(options, &list, &pairs),
        Some((Named::Node, list)) => node(options, &list, pairs),
        Some((Named::Partition, name)) => {
            let request = manage(Entity::Partition, Verb::Update, vec![name], pairs);
            changed(options, request).map(|_| 0)
        }
        Some((Named::Reservation, name)) => reservation::update(options, name, pairs),
        Some((Named::Step, _)) => Err(super::unavailable("update of steps", "update the job")),
        Some((Named::Frontend, _)) => {
            Err(super::unavailable("update of front ends", "there are none"))
        }
        Some((Named::Controller, _)) => Err(super::unavailable(
            "update of the controller",
            "set SPUR_LOG for the daemon",
        )),
        None => Err(Failure::plain(
            "No valid entity in update command\nInput line must include \"NodeName\", \"PartitionName\", \"Reservation\", \"JobId\", or \"SlurmctldDebug\"",
            1,
        )
        .nearest(words[0].split('=').next().unwrap_or_default(), ENTITIES)),
    }
}

/// A first word without `=` names the entity too: `create partition …`, `delete reservation NAME`.
fn with_entity(words: &[String]) -> (Option<Named>, &[String]) {
    match words.split_first() {
        Some((first, rest)) if !first.contains('=') => (spelt(first), rest),
        Some(_) | None => (None, words),
    }
}

fn spelt(word: &str) -> Option<Named> {
    let is = |full: &str, least: usize| abbreviates(word, full, least);
    match () {
        () if is("reservation", 1) || is("reservationname", 1) => Some(Named::Reservation),
        () if is("partition", 1) || is("partitionname", 1) => Some(Named::Partition),
        () if is("node", 1) || is("nodename", 1) => Some(Named::Node),
        () => None,
    }
}

/// `create ENTITY KEY=VALUE…`.
pub fn create(options: &Options, words: &[String]) -> Result<u8, Failure> {
    let (spelt, rest) = with_entity(words);
    let bad = || Failure::plain(format!("Invalid creation entity: {}", words[0]), 1);
    if spelt.is_none() && rest.len() < words.len() {
        return Err(bad());
    }
    let mut pairs = pairs(rest)?;
    let which = match spelt {
        Some(which) => which,
        None => {
            let first =
                named(&pairs[0].key).or_else(|| pairs.iter().find_map(|pair| named(&pair.key)));
            first.ok_or_else(bad)?
        }
    };
    let at = pairs
        .iter()
        .position(|pair| named(&pair.key) == Some(which));
    let name = at.map(|at| pairs.remove(at).value);
    match which {
        Named::Reservation => reservation::create(options, name, pairs),
        Named::Partition => {
            let missing = || Failure::error("scontrol", "PartitionName must be given.");
            let request = manage(
                Entity::Partition,
                Verb::Create,
                vec![name.ok_or_else(missing)?],
                pairs,
            );
            asked(options, request, "Error creating the partition").map(|_| 0)
        }
        Named::Node => {
            let request = manage(
                Entity::Node,
                Verb::Create,
                name.into_iter().collect(),
                pairs,
            );
            asked(options, request, "Error creating node(s)").map(|_| 0)
        }
        Named::Job | Named::Step | Named::Controller | Named::Frontend => Err(bad()),
    }
}

/// `delete ENTITY=NAME` or `delete ENTITY NAME`.
pub fn delete(options: &Options, words: &[String]) -> Result<u8, Failure> {
    let form = || {
        Failure::plain(
            "Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'",
            1,
        )
    };
    let (word, name) = match words {
        [both] => {
            let (word, name) = both.split_once('=').ok_or_else(form)?;
            (word.to_owned(), unquoted(name).to_owned())
        }
        [word, name] => (word.clone(), unquoted(name).to_owned()),
        _ => return Err(Failure::plain("too many arguments for delete keyword", 1)),
    };
    let which = spelt(&word).or_else(|| named(&word));
    let (entity, prefix) = match which {
        Some(Named::Reservation) => (Entity::Reservation, "delete_reservation"),
        Some(Named::Partition) => (Entity::Partition, "delete_partition"),
        Some(Named::Node) => (Entity::Node, "delete_node"),
        Some(Named::Job | Named::Step | Named::Controller | Named::Frontend) | None => {
            return Err(Failure::plain(
                format!("Invalid deletion entity: {word}"),
                1,
            ));
        }
    };
    let request = manage(entity, Verb::Delete, vec![name.clone()], Vec::new());
    asked(options, request, &format!("{prefix} {name}")).map(|_| 0)
}

fn node(options: &Options, list: &str, pairs: Pairs) -> Result<u8, Failure> {
    let prefix = "slurm_update error";
    if list.is_empty() {
        let why = codes::message(RefusalKind::InvalidNode);
        return Err(Failure::plain(format!("{prefix}: {why}"), 1));
    }
    let names =
        hostlist::parse(list).map_err(|why| Failure::plain(format!("{prefix}: {why}"), 1))?;
    let resumes = pairs.iter().any(|pair| {
        let upper = pair.value.to_ascii_uppercase();
        pair.key.eq_ignore_ascii_case("state")
            && matches!(upper.as_str(), "RESUME" | "IDLE" | "UNDRAIN")
    });
    changed(
        options,
        manage(Entity::Node, Verb::Update, names.clone(), pairs),
    )?;
    if resumes && !options.on("quiet") {
        still_drained(&names);
    }
    Ok(0)
}

/// Resuming a node does not give it the fence that it lacks: says so, instead of leaving it to be found out.
fn still_drained(resumed: &[String]) {
    let Ok(Reply::Nodes(nodes)) = link::question_once(&Request::Nodes) else {
        return;
    };
    let is = |name: &NodeName| resumed.iter().any(|resumed| resumed == name.as_str());
    let lacking = nodes
        .iter()
        .map(|view| &view.node)
        .filter(|node| is(&node.name) && node.connected && !node.has_required_fence());
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

/// A request of this kind.
pub(super) fn manage(entity: Entity, verb: Verb, names: Vec<String>, settings: Pairs) -> Manage {
    Manage {
        entity,
        verb,
        names,
        scope: Vec::new(),
        settings,
    }
}

/// Asks for a change.
fn changed(options: &Options, request: Manage) -> Result<Vec<String>, Failure> {
    asked(options, request, "slurm_update error")
}

/// Asks, with trouble worded after this. A value that makes no sense is said as it is; who may not is an invalid user to Slurm.
pub(super) fn asked(
    options: &Options,
    request: Manage,
    prefix: &str,
) -> Result<Vec<String>, Failure> {
    let refused = |trouble: link::Trouble| match trouble.kind() {
        Some(RefusalKind::AccessDenied) => Failure::plain(format!("{prefix}: Invalid user id"), 1),
        Some(RefusalKind::Invalid) => Failure::plain(trouble.text(), 1),
        Some(_) | None => worded(prefix, &trouble),
    };
    match link::question(&Request::Manage(Box::new(request))) {
        Ok(Reply::Managed(names)) => Ok(names),
        Ok(_) => Err(worded(prefix, &link::unexpected())),
        Err(trouble) => {
            let failure = refused(trouble);
            let quiet = options.on("quiet");
            Err(if quiet {
                Failure {
                    text: String::new(),
                    ..failure
                }
            } else {
                failure
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_before_their_values_with_or_without_a_sign() {
        let read = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let pairs = pairs(&words).map_err(|failure| failure.text)?;
            let shown = pairs
                .iter()
                .map(|pair| format!("{}:{}", pair.key, pair.value));
            Ok::<_, String>(shown.collect::<Vec<_>>().join(" "))
        };
        for (line, wanted) in [
            ("jobid=7 arraytaskthrottle 2", "jobid:7 arraytaskthrottle:2"),
            ("jobid 7 comment=\"a\"", "jobid:7 comment:a"),
            ("features+=x", "features+:x"),
        ] {
            assert_eq!(read(line).unwrap(), wanted);
        }
        for line in ["jobid=7 comment", "=7"] {
            assert!(read(line).unwrap_err().starts_with("Invalid input: "));
        }
    }
}

//! What operators manage while the controller runs: partitions, nodes, reservations and accounts.
//!
//! A request names an entity and gives settings as Slurm writes them (`KEY=VALUE`); [`decide`] reads them against the cluster and
//! answers with events, or says which setting cannot be met. What the configuration file says is the ground; what is changed here
//! lies over it ([`Managed`]), survives the controller, and is dropped by `scontrol reconfigure`.

pub mod accounts;
mod apply;
mod nodes;
mod overlap;
mod partitions;
pub mod reservation;
mod reservations;

#[cfg(test)]
mod tests;

use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::id::{NodeName, Uid};
use crate::partition::Partition;
use crate::time::Millis;
use accounts::{AccountChange, Accounts};
use reservation::Reservation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Entity {
    /// A partition.
    Partition,
    /// A node.
    Node,
    /// A reservation.
    Reservation,
    /// An account.
    Account,
    /// A user of accounts.
    User,
    /// A quality of service.
    Qos,
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verb {
    /// Make it.
    Create,
    /// Change it.
    Update,
    /// Take it away.
    Delete,
}

/// One `KEY=VALUE`, as a person wrote it. Moments are milliseconds since the epoch and spans seconds: who asks has the clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Key, in any case. An added `+` or `-` changes a list by these values.
    pub key: String,
    /// Value.
    pub value: String,
}

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manage {
    /// What kind of thing.
    pub entity: Entity,
    /// What to do.
    pub verb: Verb,
    /// Which ones.
    pub names: Vec<String>,
    /// Within which account, cluster or partition, where that matters.
    pub scope: Vec<Setting>,
    /// What is to be so.
    pub settings: Vec<Setting>,
}

/// What was changed of a node; `None` is as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChange {
    /// Features instead of the configured ones.
    pub features: Option<Vec<String>>,
    /// Weight, at least 1.
    pub weight: Option<u32>,
    /// A remark.
    pub comment: Option<String>,
    /// Anything.
    pub extra: Option<String>,
}

/// A change that was decided. Persisted: variants and fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A partition is so from now on, whatever the configuration says.
    Partition(Box<Partition>),
    /// A partition is no more, whatever the configuration says.
    PartitionGone(String),
    /// What was changed of a node, all of it.
    Node {
        /// Which.
        name: NodeName,
        /// What.
        change: NodeChange,
    },
    /// The configuration file counts again, for partitions and nodes.
    Reset,
    /// A reservation is so from now on.
    Reservation(Box<Reservation>),
    /// A reservation is no more.
    ReservationGone(String),
    /// A reservation's time is over: the next one of a series follows, or none.
    ReservationOver(String),
    /// Accounts.
    Accounts(AccountChange),
}

/// What lies over the configuration. Persisted: fields are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Managed {
    /// Partitions as the configuration has them.
    pub configured: Vec<Partition>,
    /// Partitions that are otherwise; `None` is gone.
    pub partitions: BTreeMap<String, Option<Partition>>,
    /// Nodes.
    pub nodes: BTreeMap<NodeName, NodeChange>,
    /// Reservations.
    pub reservations: BTreeMap<String, Reservation>,
    /// How many reservations got a name of the controller's; the next gets a greater number.
    pub named: u32,
    /// Accounts.
    pub accounts: Accounts,
}

/// What is to be done for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// In order.
    pub events: Vec<Event>,
    /// Names of what was made or changed.
    pub names: Vec<String>,
}

/// Reads a request against the cluster. `by` is an operator.
pub fn decide(
    cluster: &Cluster,
    at: Millis,
    by: Uid,
    request: &Manage,
) -> Result<Decision, Refusal> {
    let changes = match request.entity {
        Entity::Partition => partitions::decide(cluster, request)?,
        Entity::Node => return nodes::decide(cluster, by, request),
        Entity::Reservation => reservations::decide(cluster, at, request)?,
        Entity::Account | Entity::User | Entity::Qos => accounts::decide(cluster, request)?,
    };
    let (changes, names) = changes;
    let events = changes.into_iter().map(Event::Managed);
    Ok(Decision {
        events: events.collect(),
        names,
    })
}

/// A partition with settings as Slurm writes them, whatever the cluster.
pub fn with_settings(partition: &Partition, settings: &[Setting]) -> Result<Partition, Refusal> {
    partitions::changed(partition, settings)
}

/// Changes and the names that they are about.
type Changes = (Vec<Change>, Vec<String>);

fn refuse(kind: RefusalKind, text: impl Into<String>) -> Refusal {
    Refusal {
        kind,
        text: text.into(),
    }
}

/// A value that makes no sense.
fn invalid(text: impl Into<String>) -> Refusal {
    refuse(RefusalKind::Invalid, text)
}

/// Names of a list with commas, without empty ones; Slurm's words for "none" and "all" are no names.
fn list(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim);
    let words = words
        .filter(|word| !word.is_empty() && !word.eq_ignore_ascii_case("ALL") && *word != "(null)");
    words.map(str::to_owned).collect()
}

/// A list as it is to be: all of it, or with `+` and `-` behind the key some more or less.
fn changed_list(old: &[String], sign: Sign, value: &str) -> Vec<String> {
    let words = list(value);
    match sign {
        Sign::Is => words,
        Sign::Plus => {
            let new = words.into_iter().filter(|word| !old.contains(word));
            old.iter().cloned().chain(new).collect()
        }
        Sign::Minus => {
            let left = old.iter().filter(|word| !words.contains(word));
            left.cloned().collect()
        }
    }
}

/// How a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Is,
    Plus,
    Minus,
}

/// A key in small letters, in full, and how it ends; `None` if it begins none of these or too short a part of one.
fn key(text: &str, known: &[(&'static str, usize)]) -> Option<(&'static str, Sign)> {
    let (word, sign) = match (text.strip_suffix('+'), text.strip_suffix('-')) {
        (Some(word), _) => (word, Sign::Plus),
        (None, Some(word)) => (word, Sign::Minus),
        (None, None) => (text, Sign::Is),
    };
    let word = word.to_ascii_lowercase();
    let exact = known.iter().find(|(full, _)| *full == word);
    let begun = || {
        let begins = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
        known.iter().find(|(full, least)| begins(full, *least))
    };
    exact.or_else(begun).map(|(full, _)| (*full, sign))
}

/// `YES` or `NO`, in any case, as long a beginning of them as one likes.
fn yes_or_no(name: &str, value: &str) -> Result<bool, Refusal> {
    let value = value.to_ascii_uppercase();
    match value.as_str() {
        "" => Err(()),
        _ if "YES".starts_with(&value) => Ok(true),
        _ if "NO".starts_with(&value) => Ok(false),
        _ => Err(()),
    }
    .map_err(|()| {
        invalid(format!(
            "Invalid input: {name}={value}\nAcceptable {name} values are YES and NO"
        ))
    })
}

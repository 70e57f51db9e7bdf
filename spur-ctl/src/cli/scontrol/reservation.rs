//! Reservations: what the command reads with its own clock, and what it refuses by itself, in Slurm's words.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::{output, process};
use super::abbreviates;
use super::change::{Pairs, asked, manage};
use spur_core::manage::{Entity, Setting, Verb};
use spur_core::slurm::timespec::{self, begin};
use spur_core::time::{Millis, TimeLimit};

const CREATED: &str = "No reservation created.";
const UPDATED: &str = "No reservation update.";

/// What was said of its time.
#[derive(Default)]
struct Times {
    start: Option<Millis>,
    end: Option<Millis>,
    /// Seconds; `None` within is without end.
    duration: Option<Option<u64>>,
}

fn error(text: impl std::fmt::Display) -> Failure {
    Failure::error("scontrol", text)
}

/// Turns moments and spans into numbers.
fn read(pairs: Pairs, suffix: &str) -> Result<(Times, Pairs), Failure> {
    let clock = process::clock();
    let (now, offset) = (clock.now, clock.utc_offset(clock.now));
    let mut times = Times::default();
    let mut all: Pairs = Vec::new();
    for pair in pairs {
        let (key, value) = (pair.key.as_str(), pair.value.as_str());
        let is = |full: &str, least: usize| abbreviates(key, full, least);
        // `duration+=` and `duration-=` change the present one.
        let bare = key.trim_end_matches(['+', '-']);
        let again = all.iter().any(|other| other.key.eq_ignore_ascii_case(key));
        if again {
            return Err(error(format!("Parameter {key} specified more than once")));
        }
        let moment = |what: &str| {
            let read = begin::parse_begin(value, now, offset);
            let line = format!("Invalid {what} time {key}={value}.  {suffix}");
            read.map_err(|why| error(line).after_moment(&why))
        };
        let said = if is("starttime", 1) {
            let start = moment("start")?;
            times.start = Some(start);
            start.0.to_string()
        } else if is("endtime", 1) {
            let end = moment("end")?;
            times.end = Some(end);
            end.0.to_string()
        } else if abbreviates(bare, "duration", 1) {
            let bad = || error(format!("Invalid duration {value}.  {suffix}"));
            let span = span(value).ok_or_else(bad)?;
            times.duration = Some(span);
            span.map_or_else(|| "infinite".to_owned(), |secs| secs.to_string())
        } else if is("maxstartdelay", 3) {
            let bad = || error(format!("Invalid duration {value}.  {suffix}"));
            span(value).flatten().ok_or_else(bad)?.to_string()
        } else {
            value.to_owned()
        };
        all.push(Setting {
            key: pair.key,
            value: said,
        });
    }
    Ok((times, all))
}

/// Seconds of a span in minutes or as Slurm writes times; `Some(None)` is without end.
fn span(text: &str) -> Option<Option<u64>> {
    match timespec::parse_limit(text).ok()? {
        TimeLimit::Unlimited => Some(None),
        TimeLimit::Secs(secs) => Some(Some(secs)),
    }
}

/// Whether a key is there, at least so many letters of it.
fn has(pairs: &Pairs, full: &str, least: usize) -> bool {
    pairs.iter().any(|pair| {
        abbreviates(pair.key.trim_end_matches(['+', '-']), full, least) && !pair.value.is_empty()
    })
}

/// `create reservation`.
pub(super) fn create(options: &Options, name: Option<String>, pairs: Pairs) -> Result<u8, Failure> {
    let (times, pairs) = read(pairs, CREATED)?;
    check_times(&times)?;
    check_resources(&pairs)?;
    check_users(&pairs)?;
    let request = manage(
        Entity::Reservation,
        Verb::Create,
        name.into_iter().collect(),
        pairs,
    );
    let made = asked(options, request, "Error creating the reservation")?;
    for name in made {
        output::print(&format!("Reservation created: {name}\n"));
    }
    Ok(0)
}

/// A new reservation begins and ends.
fn check_times(times: &Times) -> Result<(), Failure> {
    let Some(start) = times.start else {
        return Err(error(format!("A start time must be given.  {CREATED}")));
    };
    match (times.end, times.duration) {
        (None, None) => Err(error(format!(
            "An end time or duration must be given.  {CREATED}"
        ))),
        (Some(end), Some(Some(secs))) if start.plus_secs(secs) != end => Err(error(format!(
            "StartTime + Duration does not equal EndTime.  {CREATED}"
        ))),
        (Some(end), _) if start > end => Err(error(format!(
            "Start time cannot be after end time.  {CREATED}"
        ))),
        _ => Ok(()),
    }
}

/// A new reservation holds something.
fn check_resources(pairs: &Pairs) -> Result<(), Failure> {
    let part = |pair: &Setting| {
        abbreviates(&pair.key, "flags", 2) && pair.value.to_ascii_uppercase().contains("PART_NODES")
    };
    let whole = pairs
        .iter()
        .any(|pair| abbreviates(&pair.key, "nodes", 5) && pair.value.eq_ignore_ascii_case("ALL"));
    let partition = has(pairs, "partitionname", 1);
    if pairs.iter().any(part) && !(partition && whole) {
        return Err(error(format!(
            "PART_NODES flag requires specifying a Partition and ALL nodes.  {CREATED}"
        )));
    }
    let amounts = [
        ("nodes", 5),
        ("nodecnt", 5),
        ("nodecount", 5),
        ("corecnt", 5),
        ("tres", 1),
        ("licenses", 1),
        ("burstbuffer", 1),
    ];
    if !partition && !amounts.iter().any(|(full, least)| has(pairs, full, *least)) {
        return Err(error(format!(
            "CoreCnt, Nodes, NodeCnt, TRES or Watts must be specified.  {CREATED}"
        )));
    }
    Ok(())
}

/// A new reservation is for somebody.
fn check_users(pairs: &Pairs) -> Result<(), Failure> {
    let (users, groups) = (has(pairs, "users", 1), has(pairs, "groups", 1));
    if users && groups {
        return Err(error(format!(
            "Users and Groups are mutually exclusive.  You can have one or the other, but not both.  {CREATED}"
        )));
    }
    if !users && !groups && !has(pairs, "accounts", 1) {
        return Err(error(format!(
            "Either Users/Groups and/or Accounts must be specified.  {CREATED}"
        )));
    }
    Ok(())
}

/// `update reservation`.
pub(super) fn update(options: &Options, name: String, pairs: Pairs) -> Result<u8, Failure> {
    let skips = |pair: &Setting| abbreviates(&pair.key, "skip", 2);
    if pairs.iter().any(skips) {
        return Err(super::unavailable(
            "skipping a reservation",
            "delete or change it",
        ));
    }
    let (_, pairs) = read(pairs, UPDATED)?;
    asked(
        options,
        manage(Entity::Reservation, Verb::Update, vec![name], pairs),
        "slurm_update_reservation error",
    )?;
    output::print("Reservation updated.\n");
    Ok(0)
}

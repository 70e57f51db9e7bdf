//! `sinfo -t`: states as Slurm reads them, by their beginnings.

use crate::cli::failure::Failure;
use crate::cli::flags::Command;
use spur_core::api::NodeView;
use spur_core::slurm::codes::node_state::{Base, State};

/// What a word selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Unknown,
    Down,
    Idle,
    Allocated,
    Mixed,
    Drain,
    Drained,
    Draining,
    Reserved,
    Planned,
    Completing,
    NoRespond,
    Maintenance,
    /// A state that no node of ours is ever in.
    Never,
}

/// Every state with its long and short names, in the order in which Slurm tries them.
const STATES: [(&str, &str, Wanted); 25] = [
    ("UNKNOWN", "UNK", Wanted::Unknown),
    ("DOWN", "DOWN", Wanted::Down),
    ("IDLE", "IDLE", Wanted::Idle),
    ("ALLOCATED", "ALLOC", Wanted::Allocated),
    ("ERROR", "ERR", Wanted::Never),
    ("MIXED", "MIX", Wanted::Mixed),
    ("FUTURE", "FUTR", Wanted::Never),
    ("BLOCKED", "BLOCK", Wanted::Never),
    ("PLANNED", "PLND", Wanted::Planned),
    ("DRAIN", "DRAIN", Wanted::Drain),
    ("DRAINED", "DRAINED", Wanted::Drained),
    ("RESERVED", "RESV", Wanted::Reserved),
    ("DRAINING", "DRNG", Wanted::Draining),
    ("COMPLETING", "COMP", Wanted::Completing),
    ("NO_RESPOND", "NO_RESPOND", Wanted::NoRespond),
    ("POWERING_DOWN", "POW_DN", Wanted::Never),
    ("POWERED_DOWN", "POW_DN", Wanted::Never),
    ("POWER_DOWN", "POW_DN", Wanted::Never),
    ("POWERING_UP", "POW_UP", Wanted::Never),
    ("FAIL", "FAIL", Wanted::Never),
    ("MAINT", "MAINT", Wanted::Maintenance),
    ("REBOOT_REQUESTED", "REBOOT", Wanted::Never),
    ("REBOOT_ISSUED", "REBOOT", Wanted::Never),
    ("CLOUD", "CLOUD", Wanted::Never),
    ("INVAL", "INVAL", Wanted::Never),
];

/// The words of `--helpstate` and of error messages.
pub const LISTED: [&str; 25] = [
    "unknown",
    "down",
    "idle",
    "allocated",
    "error",
    "mixed",
    "future",
    "drain",
    "drained",
    "draining",
    "no_respond",
    "reserved",
    "planned",
    "blocked",
    "cloud",
    "completing",
    "powering_down",
    "powered_down",
    "power_down",
    "powering_up",
    "fail",
    "maint",
    "reboot_requested",
    "reboot_issued",
    "inval",
];

/// States that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States {
    wanted: Vec<Wanted>,
    /// All of them at once (`&`), instead of one of them.
    all: bool,
}

/// Reads a list such as `idle,mix` or `idle&drain`; `None` selects every node.
pub fn read(text: &str) -> Result<Option<States>, Failure> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(None);
    }
    let mut states = States {
        wanted: Vec::new(),
        all: text.contains('&'),
    };
    for word in text.split([',', '&']).filter(|word| !word.is_empty()) {
        let begins = |full: &str| {
            let part = full.get(..word.len());
            part.is_some_and(|part| part.eq_ignore_ascii_case(word))
        };
        let known = STATES
            .iter()
            .find(|(long, short, _)| begins(short) || begins(long));
        let Some((.., wanted)) = known else {
            let why = format!(
                "Bad state string: \"{word}\"\nvalid states: {}",
                LISTED.join(",")
            );
            let known = STATES.iter().map(|(long, ..)| *long);
            return Err(Failure::error(Command::Sinfo, why).nearest(word, known));
        };
        states.wanted.push(*wanted);
    }
    Ok(Some(states))
}

/// Nodes that `-R` lists if no states are named: those that take no jobs.
pub fn with_reasons() -> States {
    States {
        wanted: vec![Wanted::Down, Wanted::Drain],
        all: false,
    }
}

impl States {
    /// Whether a node is in them.
    pub fn has(&self, node: &NodeView) -> bool {
        let state = State::of(node);
        let mut each = self
            .wanted
            .iter()
            .map(|wanted| is_in(*wanted, &state, node));
        if self.all {
            each.all(|is| is)
        } else {
            each.any(|is| is)
        }
    }
}

fn is_in(wanted: Wanted, state: &State, node: &NodeView) -> bool {
    let busy = state.completing || matches!(state.base, Base::Allocated | Base::Mixed);
    match wanted {
        Wanted::Unknown | Wanted::Never => false,
        Wanted::Down => state.base == Base::Down,
        Wanted::Idle => state.base == Base::Idle,
        Wanted::Allocated => !node.node.cpus_used.is_empty(),
        Wanted::Mixed => state.base == Base::Mixed,
        Wanted::Drain => state.drain,
        Wanted::Drained => state.drain && !busy,
        Wanted::Draining => state.drain && busy,
        Wanted::Reserved => state.reserved,
        Wanted::Planned => state.planned,
        Wanted::Completing => state.completing,
        Wanted::NoRespond => state.silent,
        Wanted::Maintenance => state.maintenance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_words_will_do() {
        let wanted = |text: &str| read(text).unwrap().unwrap().wanted;
        assert_eq!(wanted("idle,MIX"), [Wanted::Idle, Wanted::Mixed]);
        assert_eq!(wanted("alloc"), [Wanted::Allocated]);
        assert_eq!(wanted("drained"), [Wanted::Drained]);
        assert_eq!(wanted("resv"), [Wanted::Reserved]);
        assert!(read("idle&drain").unwrap().unwrap().all);
        assert_eq!(read("all").unwrap(), None);
        let text = read("NOPE").unwrap_err().text;
        assert!(text.starts_with(
            "sinfo: error: Bad state string: \"NOPE\"\nsinfo: error: valid states: unknown,"
        ));
    }
}

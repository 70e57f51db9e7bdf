//! Programs of the operator that agents run as root: around jobs, and to see whether the node is well.

use serde::{Deserialize, Serialize};

/// What every node of a cluster runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePrograms {
    /// Run before anything of a job starts on the node (`Prolog`), in order; a path that ends in `/*` means every program in that
    /// folder, in order of name.
    pub prolog: Vec<String>,
    /// Run when nothing of a job is left on the node (`Epilog`), in the same way.
    pub epilog: Vec<String>,
    /// Seconds that each may take (`PrologTimeout`); 0: no limit.
    pub prolog_timeout: u64,
    /// Seconds that each may take (`EpilogTimeout`); 0: no limit.
    pub epilog_timeout: u64,
    /// Run again and again.
    pub health: Option<HealthCheck>,
}

/// `HealthCheckProgram`: it drains the node itself if it is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    /// Its path.
    pub program: String,
    /// Seconds from one run to the next (`HealthCheckInterval`); at least 1.
    pub interval: u64,
    /// On which nodes (`HealthCheckNodeState`): any of `IDLE`, `ALLOC`, `MIXED`, or `ANY`; empty is `ANY`.
    pub states: Vec<String>,
}

impl HealthCheck {
    /// Whether it is run on a node of which so many of all CPUs are held by jobs.
    #[must_use]
    pub fn is_for(&self, held: u32, all: u32) -> bool {
        let state = match held {
            0 => "IDLE",
            held if held >= all => "ALLOC",
            _ => "MIXED",
        };
        self.states.is_empty()
            || self
                .states
                .iter()
                .any(|name| name == "ANY" || name == state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_for_nodes_in_its_states() {
        let of = |states: &[&str]| HealthCheck {
            program: "/x".to_owned(),
            interval: 1,
            states: states.iter().map(|name| (*name).to_owned()).collect(),
        };
        for (states, idle, mixed, full) in [
            (&[][..], true, true, true),
            (&["ANY"], true, true, true),
            (&["IDLE"], true, false, false),
            (&["ALLOC", "MIXED"], false, true, true),
        ] {
            let check = of(states);
            assert_eq!(
                (check.is_for(0, 8), check.is_for(3, 8), check.is_for(8, 8)),
                (idle, mixed, full)
            );
        }
    }
}

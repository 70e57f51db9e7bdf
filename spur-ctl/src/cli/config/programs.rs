//! Programs around jobs and for the health of nodes, from Slurm's keys to the table `[programs]`.

use super::import::quoted;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What was said of them.
#[derive(Default)]
pub(super) struct Programs {
    prolog: Vec<String>,
    epilog: Vec<String>,
    controller_prolog: Vec<String>,
    controller_epilog: Vec<String>,
    /// Ours, with seconds.
    timeouts: BTreeMap<&'static str, u64>,
    health: Option<String>,
    interval: u64,
    states: Vec<String>,
}

impl Programs {
    /// Slurm's keys, small.
    pub(super) const KEYS: [&str; 10] = [
        "prolog",
        "epilog",
        "prologslurmctld",
        "epilogslurmctld",
        "prologtimeout",
        "epilogtimeout",
        "prologepilogtimeout",
        "healthcheckprogram",
        "healthcheckinterval",
        "healthchecknodestate",
    ];

    /// Takes one setting; or says why it is not carried over.
    pub(super) fn take(&mut self, (key, value): (&str, &str)) -> Option<&'static str> {
        match key.to_ascii_lowercase().as_str() {
            "prolog" => return added(&mut self.prolog, value),
            "epilog" => return added(&mut self.epilog, value),
            "prologslurmctld" => return added(&mut self.controller_prolog, value),
            "epilogslurmctld" => return added(&mut self.controller_epilog, value),
            "healthcheckprogram" if is_one(value) => self.health = Some(value.to_owned()),
            "healthcheckprogram" => return Some("only the absolute path of one program"),
            "healthchecknodestate" => return self.take_states(value),
            key => {
                let Ok(number) = value.parse::<u64>() else {
                    return Some("not a number");
                };
                match key {
                    "healthcheckinterval" => self.interval = number,
                    "prologtimeout" => drop(self.timeouts.insert("prolog_timeout", number)),
                    "epilogtimeout" => drop(self.timeouts.insert("epilog_timeout", number)),
                    _ => {
                        for ours in ["prolog_timeout", "epilog_timeout"] {
                            self.timeouts.entry(ours).or_insert(number);
                        }
                    }
                }
            }
        }
        None
    }

    fn take_states(&mut self, list: &str) -> Option<&'static str> {
        let words = list.split(',').map(|word| word.trim().to_ascii_uppercase());
        let (known, other): (Vec<String>, Vec<String>) =
            words.partition(|word| ["ANY", "IDLE", "ALLOC", "MIXED"].contains(&word.as_str()));
        self.states = known;
        let others = !other.is_empty();
        others.then_some("only ANY, IDLE, ALLOC and MIXED are told apart; the rest is left out")
    }

    /// The table; nothing if there is nothing in it.
    pub(super) fn write(&self) -> String {
        let mut text = String::new();
        let list = |words: &[String]| {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            format!("[{}]", words.join(", "))
        };
        for (key, programs) in [
            ("prolog", &self.prolog),
            ("epilog", &self.epilog),
            ("controller_prolog", &self.controller_prolog),
            ("controller_epilog", &self.controller_epilog),
        ] {
            if !programs.is_empty() {
                let _written = writeln!(text, "{key} = {}", list(programs));
            }
        }
        for (key, secs) in &self.timeouts {
            let _written = writeln!(text, "{key} = {secs}");
        }
        // As in Slurm, a check without an interval never runs.
        if let (Some(program), 1..) = (&self.health, self.interval) {
            let (program, secs, states) = (quoted(program), self.interval, list(&self.states));
            let _written = writeln!(
                text,
                "health_check = {{ program = {program}, interval = {secs}, states = {states} }}"
            );
        }
        if text.is_empty() {
            return text;
        }
        format!("\n[programs]\n{text}")
    }
}

/// Takes a program, or every one of a folder: nodes would fail with a path that they cannot follow, and be drained.
fn added(programs: &mut Vec<String>, path: &str) -> Option<&'static str> {
    if !is_one(path.strip_suffix("/*").unwrap_or(path)) {
        return Some("only absolute paths, which may end in /* for every program of a folder");
    }
    programs.push(path.to_owned());
    None
}

/// Whether a path is absolute and means one file.
fn is_one(path: &str) -> bool {
    path.starts_with('/') && !path.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> (String, Vec<&'static str>) {
        let mut programs = Programs::default();
        let left = pairs
            .iter()
            .filter_map(|pair| programs.take(*pair))
            .collect();
        (programs.write(), left)
    }

    #[test]
    fn programs_become_a_table() {
        assert_eq!(of(&[]), (String::new(), Vec::new()));
        let (text, left) = of(&[
            ("Prolog", "/etc/slurm/prolog.d/*"),
            ("Prolog", "/b"),
            ("Epilog", "/c"),
            ("PrologTimeout", "10"),
            ("PrologEpilogTimeout", "20"),
            ("HealthCheckProgram", "/usr/sbin/nhc"),
            ("HealthCheckInterval", "300"),
            ("HealthCheckNodeState", "idle,CYCLE"),
            ("EpilogTimeout", "soon"),
        ]);
        assert_eq!(
            text,
            "\n[programs]\nprolog = [\"/etc/slurm/prolog.d/*\", \"/b\"]\nepilog = [\"/c\"]\n\
             epilog_timeout = 20\nprolog_timeout = 10\n\
             health_check = { program = \"/usr/sbin/nhc\", interval = 300, states = [\"IDLE\"] }\n"
        );
        assert_eq!(left.len(), 2, "{left:?}");
        let never = of(&[("HealthCheckProgram", "/usr/sbin/nhc")]);
        assert_eq!(never.0, "");
    }

    #[test]
    fn only_paths_that_nodes_can_follow_are_carried_over() {
        for path in [
            "/etc/slurm/prolog.d/*.sh",
            "/etc/*/prolog",
            "/etc/slurm/prolog.d/?",
            "/etc/slurm/prolog.[ab]",
            "/etc/{a,b}/*",
            "prolog.sh",
            "prolog.d/*",
        ] {
            for key in ["Prolog", "Epilog"] {
                let (text, left) = of(&[(key, path), (key, "/b")]);
                let taken = format!("\n[programs]\n{} = [\"/b\"]\n", key.to_lowercase());
                assert_eq!((text, left.len()), (taken, 1), "{key}={path}");
            }
        }
        for path in ["nhc", "/usr/sbin/nhc*", "/usr/sbin/*"] {
            let health = [("HealthCheckInterval", "300"), ("HealthCheckProgram", path)];
            let (text, left) = of(&health);
            assert_eq!((text.as_str(), left.len()), ("", 1), "{path}");
        }
    }
}

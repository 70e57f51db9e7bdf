//! `--mail-type`: of which events a job's owner wants to hear.

use std::fmt;

/// Every event, in the order in which Slurm shows them, and whether `ALL` means it too.
const EVENTS: [(&str, bool); 11] = [
    ("ARRAY_TASKS", false),
    ("INVALID_DEPEND", true),
    ("BEGIN", true),
    ("END", true),
    ("FAIL", true),
    ("REQUEUE", true),
    ("STAGE_OUT", true),
    ("TIME_LIMIT_50", false),
    ("TIME_LIMIT_80", false),
    ("TIME_LIMIT_90", false),
    ("TIME_LIMIT", false),
];

/// A set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u16);

impl Events {
    /// Those and the ones of a comma list; `NONE` forgets all before it. `None` if a word is no event.
    #[must_use]
    pub fn with(self, list: &str) -> Option<Self> {
        let mut set = self.0;
        for word in list.split(',').filter(|word| !word.is_empty()) {
            if word.eq_ignore_ascii_case("NONE") {
                set = 0;
                continue;
            }
            let all = word.eq_ignore_ascii_case("ALL");
            let before = set;
            for (at, (name, of_all)) in EVENTS.iter().enumerate() {
                if (all && *of_all) || word.eq_ignore_ascii_case(name) {
                    set |= 1 << at;
                }
            }
            if set == before && !all && !EVENTS.iter().any(|(n, _)| word.eq_ignore_ascii_case(n)) {
                return None;
            }
        }
        Some(Self(set))
    }
}

impl fmt::Display for Events {
    /// `BEGIN,END`; nothing for no event.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen = EVENTS
            .iter()
            .enumerate()
            .filter(|(at, _)| self.0 & 1 << at != 0);
        for (nth, (_, (name, _))) in chosen.enumerate() {
            if nth > 0 {
                f.write_str(",")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_add_up_in_slurms_order() {
        let shown = |list: &str| {
            Events::default()
                .with(list)
                .map(|events| events.to_string())
        };
        for (list, text) in [
            ("", Some("")),
            ("NONE", Some("")),
            ("end,BEGIN", Some("BEGIN,END")),
            (
                "ALL",
                Some("INVALID_DEPEND,BEGIN,END,FAIL,REQUEUE,STAGE_OUT"),
            ),
            ("BEGIN,NONE,FAIL,FAIL", Some("FAIL")),
            ("TIME_LIMIT_90", Some("TIME_LIMIT_90")),
            ("NOPE", None),
        ] {
            assert_eq!(shown(list).as_deref(), text, "{list}");
        }
    }
}

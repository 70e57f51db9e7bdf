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

/// Whether this is an address, or several with commas between, that a program for mails can take for nothing else: such programs
/// know addresses that are options, files (`/…`, `.…`) and commands (`|…`).
#[must_use]
pub fn is_address(text: &str) -> bool {
    let sound = |c: char| c.is_ascii_alphanumeric() || "._%+@=-".contains(c);
    let one = |address: &str| {
        address.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && address.chars().all(sound)
    };
    text.split(',').all(one)
}

/// Something that a job's owner may want to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occasion {
    /// What it waits for can never come.
    InvalidDepend,
    /// It started.
    Begin,
    /// It ended.
    End,
    /// It ended, and neither with success nor because somebody cancelled it.
    Fail,
    /// It went back to the queue.
    Requeue,
    /// It reached this share of its time limit, in percent.
    TimeLimit(u8),
}

impl Occasion {
    /// The shares of a limit that may be told before all of it is over.
    pub const SHARES: [u8; 3] = [50, 80, 90];

    /// Whether a job with this `--mail-type` wants to hear of it.
    #[must_use]
    pub fn is_wanted(self, mail_type: &str) -> bool {
        let word = match self {
            Self::InvalidDepend => "INVALID_DEPEND",
            Self::Begin => "BEGIN",
            Self::End => "END",
            Self::Fail => "FAIL",
            Self::Requeue => "REQUEUE",
            Self::TimeLimit(50) => "TIME_LIMIT_50",
            Self::TimeLimit(80) => "TIME_LIMIT_80",
            Self::TimeLimit(90) => "TIME_LIMIT_90",
            Self::TimeLimit(_) => "TIME_LIMIT",
        };
        names(mail_type, word)
    }

    /// What a mail's subject says happened.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::InvalidDepend => "Invalid dependency".to_owned(),
            Self::Begin => "Began".to_owned(),
            Self::End => "Ended".to_owned(),
            Self::Fail => "Failed".to_owned(),
            Self::Requeue => "Requeued".to_owned(),
            Self::TimeLimit(100) => "Reached time limit".to_owned(),
            Self::TimeLimit(share) => format!("Reached {share}% of time limit"),
        }
    }
}

/// Whether each task of an array is told of for itself.
#[must_use]
pub fn each_task(mail_type: &str) -> bool {
    names(mail_type, "ARRAY_TASKS")
}

fn names(mail_type: &str, word: &str) -> bool {
    mail_type.split(',').any(|known| known == word)
}

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
    fn an_address_is_no_option_no_file_and_no_command() {
        for text in ["alice", "_svc", "a.b+c@x-1.example.org", "a@x,b@y"] {
            assert!(is_address(text), "{text}");
        }
        for text in [
            "",
            ",",
            "a,",
            "-oQ/tmp",
            "|sh",
            "/etc/passwd",
            "./x",
            "a b",
            "a@x,|sh",
            "a\n@x",
            "a;b",
            "~!sh",
            "a'@x",
            "ä@x",
        ] {
            assert!(!is_address(text), "{text:?}");
        }
    }

    #[test]
    fn every_occasion_has_a_word_of_its_own() {
        let occasions = [
            Occasion::InvalidDepend,
            Occasion::Begin,
            Occasion::End,
            Occasion::Fail,
            Occasion::Requeue,
            Occasion::TimeLimit(50),
            Occasion::TimeLimit(80),
            Occasion::TimeLimit(90),
            Occasion::TimeLimit(100),
        ];
        let every: Vec<&str> = EVENTS.iter().map(|(name, _)| *name).collect();
        for occasion in occasions {
            let wanted = every.iter().filter(|name| occasion.is_wanted(name));
            assert_eq!(wanted.count(), 1, "{occasion:?}");
            assert!(occasion.is_wanted(&every.join(",")) && !occasion.is_wanted(""));
        }
        assert!(each_task("BEGIN,ARRAY_TASKS") && !each_task("BEGIN"));
    }

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

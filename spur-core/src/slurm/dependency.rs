//! What a job waits for: `afterok:20:21,after:23+5`, `afterany:9_3?afternotok:9_*`, `singleton`. Displays as Slurm shows what is left
//! of it: `afterok:20(unfulfilled)`.

use crate::id::JobId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most terms of one job.
const TERMS_MAX: usize = 1024;

/// When a term is fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum After {
    /// The job has started, or was cancelled, so many minutes ago.
    Start,
    /// It has ended.
    Any,
    /// It has ended without success.
    NotOk,
    /// It has completed with exit code 0.
    Ok,
    /// The task with the same index has.
    Corr,
    /// It has ended (we have no burst buffers to wait for).
    BurstBuffer,
    /// No earlier job of the same user and name is left.
    Singleton,
}

/// Which part of a job is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Of {
    /// The job with that number.
    Job,
    /// All tasks of the array with that number.
    Array,
    /// One task of it.
    Task(u32),
}

/// One thing to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Term {
    /// When it is fulfilled.
    pub after: After,
    /// Which job; 0 for `singleton`.
    pub job: JobId,
    /// Which part of it.
    pub of: Of,
    /// For `after`: minutes since the start.
    pub minutes: u32,
    /// It can never be fulfilled.
    #[serde(default)]
    pub failed: bool,
}

/// All of it. No terms: nothing to wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// One term is enough (`?`); otherwise all are needed.
    pub any: bool,
    /// What is not fulfilled.
    pub terms: Vec<Term>,
}

impl Dependency {
    /// Whether nothing is left to wait for.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether it can never be met.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        let mut terms = self.terms.iter();
        match (self.any, self.terms.is_empty()) {
            (_, true) => false,
            (true, false) => terms.all(|term| term.failed),
            (false, false) => terms.any(|term| term.failed),
        }
    }
}

/// A text that says no dependency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid dependency {0:?}: write TYPE:JOB[:JOB] joined by ',' (all) or '?' (any), with a type of after, afterany, \
     afterburstbuffer, aftercorr, afternotok, afterok or singleton"
)]
pub struct BadDependency(pub String);

/// Reads `-d`. The empty text and `0` are no dependency. A number alone waits for that job's end.
pub fn parse(text: &str) -> Result<Dependency, BadDependency> {
    let bad = || BadDependency(text.to_owned());
    if matches!(text, "" | "0") {
        return Ok(Dependency::default());
    }
    let any = text.contains('?');
    if any && text.contains(',') {
        return Err(bad());
    }
    let mut terms = Vec::new();
    for part in text.split(if any { '?' } else { ',' }) {
        let mut words = part.split(':');
        let kind = words.next().unwrap_or_default();
        if kind.eq_ignore_ascii_case("singleton") {
            if words.next().is_some() {
                return Err(bad());
            }
            terms.push(Term {
                after: After::Singleton,
                job: JobId(0),
                of: Of::Job,
                minutes: 0,
                failed: false,
            });
            continue;
        }
        let named = after(kind);
        let first = (named.is_none()).then_some(kind);
        let kind = named.unwrap_or(After::Any);
        let before = terms.len();
        for word in first.into_iter().chain(words) {
            terms.push(term(kind, word).ok_or_else(bad)?);
        }
        if terms.len() == before || terms.len() > TERMS_MAX {
            return Err(bad());
        }
    }
    Ok(Dependency { any, terms })
}

fn after(word: &str) -> Option<After> {
    let known = [
        ("after", After::Start),
        ("afterany", After::Any),
        ("afternotok", After::NotOk),
        ("afterok", After::Ok),
        ("aftercorr", After::Corr),
        ("afterburstbuffer", After::BurstBuffer),
    ];
    let found = known
        .iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name));
    found.map(|(_, after)| *after)
}

fn word(after: After) -> &'static str {
    match after {
        After::Start => "after",
        After::Any => "afterany",
        After::NotOk => "afternotok",
        After::Ok => "afterok",
        After::Corr => "aftercorr",
        After::BurstBuffer => "afterburstbuffer",
        After::Singleton => "singleton",
    }
}

/// `20`, `20_3`, `20_*`, `20+5`.
fn term(after: After, text: &str) -> Option<Term> {
    let (text, minutes) = match text.split_once('+') {
        Some((text, minutes)) if after == After::Start => (text, number(minutes)?),
        Some(_) => return None,
        None => (text, 0),
    };
    let (job, of) = match text.split_once('_') {
        Some((job, "*")) => (job, Of::Array),
        Some((job, task)) => (job, Of::Task(number(task)?)),
        None => (text, Of::Job),
    };
    let job = number(job).filter(|job| *job > 0).map(JobId)?;
    Some(Term {
        after,
        job,
        of,
        minutes,
        failed: false,
    })
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(self.after))?;
        if self.after != After::Singleton {
            write!(f, ":{}", self.job)?;
            match self.of {
                Of::Job => {}
                Of::Array => f.write_str("_*")?,
                Of::Task(task) => write!(f, "_{task}")?,
            }
            if self.minutes > 0 {
                write!(f, "+{}", self.minutes)?;
            }
        }
        f.write_str(if self.failed {
            "(failed)"
        } else {
            "(unfulfilled)"
        })
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.any { "?" } else { "," };
        for (at, term) in self.terms.iter().enumerate() {
            if at > 0 {
                f.write_str(between)?;
            }
            term.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dependencies_are_read_and_shown() {
        for (text, shown) in [
            ("afterok:1", "afterok:1(unfulfilled)"),
            (
                "afterok:1:2",
                "afterok:1(unfulfilled),afterok:2(unfulfilled)",
            ),
            (
                "AfterAny:1?afternotok:2_3",
                "afterany:1(unfulfilled)?afternotok:2_3(unfulfilled)",
            ),
            ("after:1+5", "after:1+5(unfulfilled)"),
            ("aftercorr:7_*", "aftercorr:7_*(unfulfilled)"),
            ("singleton", "singleton(unfulfilled)"),
            (
                "afterok:1,singleton",
                "afterok:1(unfulfilled),singleton(unfulfilled)",
            ),
            ("12", "afterany:12(unfulfilled)"),
            ("12:13", "afterany:12(unfulfilled),afterany:13(unfulfilled)"),
            ("", ""),
            ("0", ""),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "afterok",
            "afterok:",
            "afterok:abc",
            "afterok:1,afterok:2?afterok:3",
            "later:1",
            "afterok:1+5",
            "after:1+",
            "singleton:1",
            "afterok:1,",
            ",",
            "afterok:0",
            "afterok:1_",
            "afterok:1_x",
            "-1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_failed_term_is_enough_unless_any_will_do() {
        let mut all = parse("afterok:1:2").unwrap();
        assert!(!all.is_hopeless() && !all.is_met());
        all.terms[1].failed = true;
        assert!(all.is_hopeless());
        all.any = true;
        assert!(!all.is_hopeless());
        all.terms[0].failed = true;
        assert!(all.is_hopeless());
        assert!(!Dependency::default().is_hopeless() && Dependency::default().is_met());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*", near in "(after(ok|any|corr)?|singleton|[0-9,?:+_*]){0,8}") {
            for text in [&text, &near] {
                if let Ok(read) = parse(text) {
                    prop_assert!(!read.is_hopeless());
                }
            }
        }
    }
}

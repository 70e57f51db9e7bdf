//! Faults from a script: one a line, in any order, `#` begins a comment.
//!
//! ```text
//! AT          WHAT
//! 12:00:00    node n3 lost            # silent from now on; what ran there is dead
//! 1-00:00:00  node n3 back            # rebooted, empty
//! 6:00:00     node n4 drain           # takes no new jobs
//! 8:00:00     node n4 resume
//! 0:30        gpu n5:2 sick           # the GPU with index 2
//! 2:00:00     gpu n5:2 well
//! 3:00:00     launch n6 fails         # every job that is sent there
//! 4:00:00     launch n6 works         # somebody repaired it and resumed it
//! 0:00        kill n7 takes 10:00     # jobs of that node need so long to die
//! ```
//!
//! `AT` is counted from the first submission. It and the span of `kill` are written as Slurm writes time: `30` is thirty
//! minutes, `0:30` thirty seconds, `1-12` a day and a half.

use spur_core::slurm::timespec::parse_span;
use spur_core::time::TimeLimit;

/// Most faults of one script.
const MOST: usize = 100_000;

/// Something that goes wrong, or right again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Seconds after the first submission.
    pub after_secs: u64,
    /// The node.
    pub node: String,
    /// What happens there.
    pub what: What,
}

/// See [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It falls silent, and what runs there dies.
    Lost,
    /// It is there again, empty.
    Back,
    /// It takes no new jobs.
    Drain,
    /// It takes jobs again.
    Resume,
    /// A GPU must not be granted any more.
    Sick(u32),
    /// It may.
    Well(u32),
    /// Jobs cannot be started there.
    LaunchFails,
    /// They can.
    LaunchWorks,
    /// Jobs there need so many seconds to die.
    KillTakes(u64),
}

/// A line of a script that is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {text:?} {problem}")]
pub struct BadFault {
    /// File as the caller calls it.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The line without its comment, or the part of it that is wrong.
    pub text: String,
    /// What is wrong.
    pub problem: &'static str,
}

/// Reads a script; the faults come in the order of the file.
pub fn read(file: &str, text: &str) -> Result<Vec<Fault>, BadFault> {
    let mut faults = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or("").trim();
        if text.is_empty() {
            continue;
        }
        let bad = |text: &str, problem| BadFault {
            file: file.to_owned(),
            line,
            text: text.to_owned(),
            problem,
        };
        if faults.len() >= MOST {
            return Err(bad(text, "is one fault too many: 100000 are the most"));
        }
        faults.push(fault(text).map_err(|(text, problem)| bad(&text, problem))?);
    }
    Ok(faults)
}

fn fault(text: &str) -> Result<Fault, (String, &'static str)> {
    const GRAMMAR: &str = "is no fault: write AT node NAME lost|back|drain|resume, AT gpu NAME:INDEX sick|well, \
                           AT launch NAME fails|works, or AT kill NAME takes TIME";
    let words: Vec<&str> = text.split_whitespace().collect();
    let span = |text: &str| match parse_span(text) {
        Ok(TimeLimit::Secs(secs)) => Ok(secs),
        Ok(TimeLimit::Unlimited) | Err(_) => {
            Err((text.to_owned(), "is no time such as 1-12:00:00"))
        }
    };
    let grammar = || (text.to_owned(), GRAMMAR);
    let (at, words) = words.split_first().ok_or_else(grammar)?;
    let (node, what) = match words {
        ["node", name, "lost"] => (*name, What::Lost),
        ["node", name, "back"] => (*name, What::Back),
        ["node", name, "drain"] => (*name, What::Drain),
        ["node", name, "resume"] => (*name, What::Resume),
        ["launch", name, "fails"] => (*name, What::LaunchFails),
        ["launch", name, "works"] => (*name, What::LaunchWorks),
        ["kill", name, "takes", time] => (*name, What::KillTakes(span(time)?)),
        ["gpu", gpu, "sick" | "well"] => {
            let parts = gpu
                .split_once(':')
                .and_then(|(name, index)| Some((name, index.parse().ok()?)));
            let (name, index) =
                parts.ok_or_else(|| ((*gpu).to_owned(), "is no GPU: write NODE:INDEX"))?;
            let sick = words.last() == Some(&"sick");
            (
                name,
                if sick {
                    What::Sick(index)
                } else {
                    What::Well(index)
                },
            )
        }
        _ => return Err(grammar()),
    };
    Ok(Fault {
        after_secs: span(at)?,
        node: node.to_owned(),
        what,
    })
}

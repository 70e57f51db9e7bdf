//! Jobs as short lines: what lists of many jobs show, column by column, so that ten thousand of them travel in a few hundred
//! kilobytes. Texts are kept once and named by their place.

mod read;

use super::JobView;
use crate::id::{JobId, NodeName};
use crate::job::state::{JobState, Reason};
use crate::slurm::hostlist;
use crate::time::{Millis, TimeLimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// No task: an array's record that stands for several, or a job that is no part of an array.
const NO_TASK: u32 = u32::MAX;
/// A limit without bound; 0 is none yet.
const UNLIMITED: u64 = u64::MAX;

/// See the module. Every list but `words` has one element for each job, or one for all of them ([`JobLines::fold`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLines {
    /// Texts, each once; the first is empty.
    pub words: Vec<String>,
    /// Numbers.
    pub ids: Vec<u32>,
    /// States.
    pub states: Vec<JobState>,
    /// 1 while completing.
    pub completing: Vec<u32>,
    /// Reasons.
    pub reasons: Vec<Reason>,
    /// Names of nodes that a job waits for, folded; places in `words`, as all that follow are.
    pub unavailable: Vec<u32>,
    /// Names.
    pub names: Vec<u32>,
    /// Partitions.
    pub partitions: Vec<u32>,
    /// Users' names.
    pub users: Vec<u32>,
    /// Accounts.
    pub accounts: Vec<u32>,
    /// Qualities of service.
    pub qos: Vec<u32>,
    /// Nodes that are held, folded.
    pub nodes: Vec<u32>,
    /// Tasks that an array's record stands for.
    pub tasks: Vec<u32>,
    /// Users' numbers; no places any more.
    pub uids: Vec<u32>,
    /// Priorities.
    pub priorities: Vec<u32>,
    /// Least numbers of nodes.
    pub sizes: Vec<u32>,
    /// Arrays' numbers, 0 for other jobs.
    pub arrays: Vec<u32>,
    /// Indices of tasks.
    pub indices: Vec<u32>,
    /// Bounds of arrays.
    pub throttles: Vec<u32>,
    /// Limits in seconds.
    pub limits: Vec<u64>,
    /// Moments in milliseconds, 0 if there is none: submitted.
    pub submitted: Vec<u64>,
    /// Begins (`--begin`).
    pub begins: Vec<u64>,
    /// Started.
    pub started: Vec<u64>,
    /// Ended.
    pub ended: Vec<u64>,
    /// Reserved start.
    pub expected: Vec<u64>,
    /// Stopped since.
    pub suspended: Vec<u64>,
    /// Milliseconds for which it was stopped before.
    pub stopped: Vec<u64>,
    /// Leaders of heterogeneous jobs, 0 for other jobs; older controllers tell none of these three.
    #[serde(default)]
    pub het_leaders: Vec<u32>,
    /// Which component.
    #[serde(default)]
    pub het_offsets: Vec<u32>,
    /// Of how many.
    #[serde(default)]
    pub het_sizes: Vec<u32>,
}

/// Names all columns but `words`: those of places in it, then the others.
macro_rules! columns {
    ($act:ident!($($args:tt)*)) => {
        $act!($($args)*;
            unavailable names partitions users accounts qos nodes tasks;
            ids states completing reasons uids priorities sizes arrays indices throttles limits submitted begins started ended
            expected suspended stopped het_leaders het_offsets het_sizes)
    };
}

/// Fills lines.
#[derive(Debug, Default)]
pub struct LinesMaker {
    lines: JobLines,
    places: BTreeMap<String, u32>,
    /// The last text of each column and its place: mostly the next is the same.
    last: [(String, u32); 8],
}

impl LinesMaker {
    /// No lines.
    pub fn new() -> Self {
        let mut maker = Self::default();
        maker.lines.words.push(String::new());
        maker.places.insert(String::new(), 0);
        maker
    }

    fn place(&mut self, column: usize, text: &str) -> u32 {
        let (last, place) = &self.last[column];
        if last == text {
            return *place;
        }
        let place = self.word(text);
        let (last, known) = &mut self.last[column];
        last.clear();
        last.push_str(text);
        *known = place;
        place
    }

    fn word(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let next = u32::try_from(self.lines.words.len()).unwrap_or(u32::MAX);
        self.lines.words.push(text.to_owned());
        self.places.insert(text.to_owned(), next);
        next
    }

    /// Adds a job. `expected` is the start that is reserved for it.
    pub fn push(&mut self, job: &JobView, expected: Option<Millis>) {
        let spec = &job.spec;
        let places = [
            self.place(0, &spec.name),
            self.place(1, &spec.partition),
            self.place(2, &spec.owner.user),
            self.place(3, &spec.account),
            self.place(4, &spec.qos),
            match job.nodes.as_slice() {
                [] => 0,
                [one] => self.place(5, one.name.as_str()),
                several => {
                    let names: Vec<&str> = several.iter().map(|node| node.name.as_str()).collect();
                    self.place(5, &hostlist::compress(&names))
                }
            },
            match &job.array {
                Some(array) if array.task.is_none() => self.place(6, &array.tasks.to_string()),
                _ => 0,
            },
            self.unavailable(job),
        ];
        self.numbers(job, places, expected);
    }

    fn unavailable(&mut self, job: &JobView) -> u32 {
        if job.unavailable.is_empty() {
            return 0;
        }
        let names: Vec<&str> = job.unavailable.iter().map(NodeName::as_str).collect();
        self.place(7, &hostlist::compress(&names))
    }

    fn numbers(&mut self, job: &JobView, places: [u32; 8], expected: Option<Millis>) {
        let moment = |at: Option<Millis>| at.map_or(0, |at| at.0);
        let (spec, lines) = (&job.spec, &mut self.lines);
        let [
            names,
            partitions,
            users,
            accounts,
            qos,
            nodes,
            tasks,
            unavailable,
        ] = places;
        lines.names.push(names);
        lines.partitions.push(partitions);
        lines.users.push(users);
        lines.accounts.push(accounts);
        lines.qos.push(qos);
        lines.nodes.push(nodes);
        lines.tasks.push(tasks);
        lines.unavailable.push(unavailable);
        lines.ids.push(job.id.0);
        lines.states.push(job.state);
        lines.completing.push(job.completing.into());
        lines.reasons.push(job.reason);
        lines.uids.push(spec.owner.uid.0);
        lines.priorities.push(job.priority);
        lines.sizes.push(spec.nodes_min);
        let array = job.array.as_ref();
        lines.arrays.push(array.map_or(0, |array| array.job.0));
        let index = array.and_then(|array| array.task);
        lines.indices.push(index.unwrap_or(NO_TASK));
        lines
            .throttles
            .push(array.map_or(0, |array| array.throttle));
        lines.limits.push(match spec.time_limit {
            None => 0,
            Some(TimeLimit::Unlimited) => UNLIMITED,
            Some(TimeLimit::Secs(secs)) => secs,
        });
        lines.submitted.push(job.submitted.0);
        lines.begins.push(moment(spec.begin));
        lines.started.push(moment(job.started));
        lines.ended.push(moment(job.ended));
        lines.expected.push(moment(expected));
        lines.suspended.push(moment(job.suspended));
        lines.stopped.push(job.suspended_ms);
        let part = job.het;
        lines.het_leaders.push(part.map_or(0, |part| part.leader.0));
        lines.het_offsets.push(part.map_or(0, |part| part.offset));
        lines.het_sizes.push(part.map_or(0, |part| part.size));
    }

    /// Adds other lines, which may be folded.
    pub fn append(&mut self, others: &JobLines) {
        let places: Vec<u32> = others.words.iter().map(|word| self.word(word)).collect();
        let count = others.len();
        let lines = &mut self.lines;
        let place = |place: u32| {
            let at = usize::try_from(place).unwrap_or(usize::MAX);
            places.get(at).copied().unwrap_or(0)
        };
        macro_rules! add {
            (; $($text:ident)*; $($plain:ident)*) => {
                $(extend(&mut lines.$text, &others.$text, count, place);)*
                $(extend(&mut lines.$plain, &others.$plain, count, |same| same);)*
            };
        }
        columns!(add!());
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The jobs that wait or ended for this reason.
    pub fn with_reason(&self, reason: Reason) -> Vec<JobId> {
        let all = self.lines.ids.iter().zip(&self.lines.reasons);
        let found = all.filter(|(_, of)| **of == reason);
        found.map(|(id, _)| JobId(*id)).collect()
    }

    /// Says of a job that is there, in lines that rise by number, when it is expected to start.
    pub fn expect(&mut self, job: JobId, start: Millis) {
        if let Ok(at) = self.lines.ids.binary_search(&job.0) {
            self.lines.expected[at] = start.0;
        }
    }

    /// Says of a job that is there, in lines that rise by number, which nodes it waits for.
    pub fn note_unavailable(&mut self, job: &JobView) {
        let place = self.unavailable(job);
        if let Ok(at) = self.lines.ids.binary_search(&job.id.0) {
            self.lines.unavailable[at] = place;
        }
    }

    /// The lines.
    pub fn done(self) -> JobLines {
        self.lines
    }
}

/// Adds a column to another; one that is folded counts for all lines.
fn extend<T: Copy>(column: &mut Vec<T>, others: &[T], count: usize, told: impl Fn(T) -> T) {
    match others {
        [only] if count > 1 => column.extend(std::iter::repeat_n(told(*only), count)),
        all => column.extend(all.iter().map(|value| told(*value))),
    }
}

impl JobLines {
    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Keeps of a column that says the same of all lines one value: most of a long list goes away.
    pub fn fold(&mut self) {
        macro_rules! fold {
            (; $($text:ident)*; $($plain:ident)*) => {
                $(shorten(&mut self.$text);)*
                $(shorten(&mut self.$plain);)*
            };
        }
        columns!(fold!());
    }
}

fn shorten<T: PartialEq>(column: &mut Vec<T>) {
    let Some((first, rest)) = column.split_first() else {
        return;
    };
    // Many at a time, without a look at each: nearly all are the same.
    let alike = |few: &[T]| few.iter().fold(true, |all, value| all & (value == first));
    if rest.chunks(64).all(alike) {
        column.truncate(1);
    }
}

#[cfg(test)]
mod tests;

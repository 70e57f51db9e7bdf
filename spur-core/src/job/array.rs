//! Job arrays, as Slurm keeps them: one record stands for all tasks that wait, however many they are. A task that starts, or that
//! somebody changes alone, is split off into a record of its own with a new number; the last one that waits keeps the array's.

use crate::id::JobId;
use crate::job::state::ExitStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

mod target;

pub use target::JobTarget;

/// Slurm's default for `MaxArraySize`: one more than the greatest index of a task.
pub const MAX_ARRAY_SIZE: u32 = 1001;

/// The greatest `MaxArraySize` that can be configured, as in Slurm.
pub const MAX_ARRAY_SIZE_MAX: u32 = 4_000_001;

/// How many bytes of a list of tasks Slurm shows before it cuts it off (`SLURM_BITSTR_LEN`).
pub const SHOWN_DEFAULT: usize = 64;

/// Indices of tasks of an array, kept as a bitmap that copies share. Displays as Slurm does: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskSet {
    words: Arc<Vec<u64>>,
}

impl TaskSet {
    /// No tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From a bitmap, lowest indices first; `None` if it goes beyond what an array can have.
    #[must_use]
    pub fn from_words(words: Vec<u64>) -> Option<Self> {
        let mut set = Self {
            words: Arc::new(words),
        };
        set.trim();
        (set.words.len() <= MAX_ARRAY_SIZE_MAX.div_ceil(64) as usize).then_some(set)
    }

    /// The bitmap, lowest indices first; what is beyond it is not in the set.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds an index; those that no array can have are left out.
    pub fn insert(&mut self, index: u32) {
        self.insert_range(index, index, 1);
    }

    /// Adds `first`, `first + step`, … up to `last`; those that no array can have are left out.
    pub fn insert_range(&mut self, first: u32, last: u32, step: u32) {
        let last = last.min(MAX_ARRAY_SIZE_MAX - 1);
        if first > last {
            return;
        }
        let words = Arc::make_mut(&mut self.words);
        let needed = (last / 64) as usize + 1;
        if words.len() < needed {
            words.resize(needed, 0);
        }
        let mut index = first;
        while index <= last {
            words[(index / 64) as usize] |= 1 << (index % 64);
            index = index.saturating_add(step.max(1));
        }
        self.trim();
    }

    /// Takes an index out.
    pub fn remove(&mut self, index: u32) {
        if self.contains(index) {
            Arc::make_mut(&mut self.words)[(index / 64) as usize] &= !(1 << (index % 64));
            self.trim();
        }
    }

    /// Whether the index is in the set.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let word = self.words.get((index / 64) as usize);
        word.is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// How many tasks.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// No tasks at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest index.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The highest index.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        let (at, word) = (self.words.len().checked_sub(1)?, self.words.last()?);
        let at = u32::try_from(at).ok()?;
        Some(at * 64 + 63 - word.leading_zeros())
    }

    /// The indices in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().zip(0u32..).flat_map(|(word, at)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// Those that are in both.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let both = self.words.iter().zip(other.words.iter());
        Self::of_words(both.map(|(a, b)| a & b).collect())
    }

    /// Those that are not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let theirs = other.words.iter().chain(std::iter::repeat(&0));
        let mine = self.words.iter().zip(theirs);
        Self::of_words(mine.map(|(a, b)| a & !b).collect())
    }

    /// Adds all of the other.
    pub fn extend(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            Arc::make_mut(&mut self.words).resize(other.words.len(), 0);
        }
        for (mine, theirs) in Arc::make_mut(&mut self.words)
            .iter_mut()
            .zip(other.words.iter())
        {
            *mine |= theirs;
        }
    }

    /// Whether all of this are in the other.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let theirs = other.words.iter().chain(std::iter::repeat(&0));
        self.words.iter().zip(theirs).all(|(a, b)| a & !b == 0)
    }

    /// Whether an index is in both.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        let mut both = self.words.iter().zip(other.words.iter());
        both.any(|(a, b)| a & b != 0)
    }

    /// As Slurm writes what waits of an array: `0-20:2` if the steps are even and the list is long; cut off with `...` when it is
    /// longer than `most` bytes allow (0: no limit).
    #[must_use]
    pub fn shown(&self, most: usize) -> String {
        if let Some((first, last, step)) = self.even_steps() {
            return format!("{first}-{last}:{step}");
        }
        let mut text = String::new();
        // What is a few bytes too long is cut off; nobody writes out more.
        let enough = if most == 0 { usize::MAX } else { most };
        self.write_ranges(&mut text, enough)
            .expect("writing to a string cannot fail");
        if most > 0 && text.len() + 1 > most.saturating_sub(3) {
            text.truncate(most.saturating_sub(4));
            text.push_str("...");
        }
        text
    }

    /// First, last and step, if there are enough tasks at even distances of more than one.
    fn even_steps(&self) -> Option<(u32, u32, u32)> {
        let (first, last) = (self.first()?, self.last()?);
        if last - first <= 10 || self.contains(first + 1) || self.len() <= 5 {
            return None;
        }
        let mut all = self.iter();
        let mut before = all.next()?;
        let step = self.iter().nth(1)? - first;
        for index in all {
            if index - before != step {
                return None;
            }
            before = index;
        }
        Some((first, last, step))
    }

    /// Ranges, until the text is `enough` bytes long.
    fn write_ranges(&self, out: &mut impl Text, enough: usize) -> fmt::Result {
        let mut indices = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = indices.next() {
            let mut last = first;
            while indices.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if last == first {
                write!(out, "{separator}{first}")?;
            } else {
                write!(out, "{separator}{first}-{last}")?;
            }
            separator = ",";
            if out.written() > enough {
                break;
            }
        }
        Ok(())
    }

    fn of_words(words: Vec<u64>) -> Self {
        let mut set = Self {
            words: Arc::new(words),
        };
        set.trim();
        set
    }

    /// Trailing zero words are dropped so that equal sets are equal values.
    fn trim(&mut self) {
        if self.words.last() == Some(&0) {
            let words = Arc::make_mut(&mut self.words);
            while words.last() == Some(&0) {
                words.pop();
            }
        }
    }
}

/// Something to write to that may know how much was written.
trait Text: fmt::Write {
    /// Bytes so far; 0 if that is not known.
    fn written(&self) -> usize;
}

impl Text for String {
    fn written(&self) -> usize {
        self.len()
    }
}

impl Text for fmt::Formatter<'_> {
    fn written(&self) -> usize {
        0
    }
}

impl FromIterator<u32> for TaskSet {
    fn from_iter<I: IntoIterator<Item = u32>>(indices: I) -> Self {
        let mut set = Self::new();
        for index in indices {
            set.insert(index);
        }
        set
    }
}

impl fmt::Display for TaskSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_ranges(f, usize::MAX)
    }
}

/// What a record of an array stands for, as queries show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayView {
    /// The array's number (`ArrayJobId`).
    pub job: JobId,
    /// The index, if the record is one task.
    pub task: Option<u32>,
    /// The indices that it stands for otherwise: they wait, or were cancelled together.
    pub tasks: TaskSet,
    /// Most tasks of the array that run at once (`%N`); 0: no limit.
    pub throttle: u32,
}

impl ArrayView {
    /// How many tasks the record stands for.
    #[must_use]
    pub fn len(&self) -> u32 {
        match self.task {
            Some(_) => 1,
            None => self.tasks.len(),
        }
    }

    /// Never: a record stands for at least one task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record stands for one task, if only one is left of it.
    pub(crate) fn settle(&mut self) {
        if self.task.is_none() && self.tasks.len() == 1 {
            self.task = self.tasks.first();
            self.tasks = TaskSet::new();
        }
    }

    /// The indices that it stands for.
    #[must_use]
    pub fn all(&self) -> TaskSet {
        match self.task {
            Some(task) => std::iter::once(task).collect(),
            None => self.tasks.clone(),
        }
    }

    /// Whether it stands for one of these.
    #[must_use]
    pub fn has_any(&self, tasks: &TaskSet) -> bool {
        match self.task {
            Some(task) => tasks.contains(task),
            None => self.tasks.intersects(tasks),
        }
    }

    /// `3`, or `2-19%2` cut off as [`TaskSet::shown`] says.
    #[must_use]
    pub fn tasks_text(&self, most: usize) -> String {
        match (self.task, self.throttle) {
            (Some(task), _) => task.to_string(),
            (None, 0) => self.tasks.shown(most),
            (None, throttle) => format!("{}%{throttle}", self.tasks.shown(most)),
        }
    }

    /// `9_3`, or `9_[2-19%2]`.
    #[must_use]
    pub fn id_text(&self, most: usize) -> String {
        let (job, tasks) = (self.job, self.tasks_text(most));
        match self.task {
            Some(_) => format!("{job}_{tasks}"),
            None => format!("{job}_[{tasks}]"),
        }
    }
}

/// What a record of an array keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayPart {
    /// What it stands for.
    pub view: ArrayView,
    /// As many tasks of the array run as may.
    #[serde(default)]
    pub full: bool,
    /// Those of its tasks that wait for nothing else (`aftercorr`); `None`: all.
    #[serde(default)]
    pub ready: Option<TaskSet>,
}

impl ArrayPart {
    /// Tasks that may start as far as other jobs are concerned.
    #[must_use]
    pub fn startable(&self) -> TaskSet {
        match (&self.ready, self.view.task) {
            (None, _) | (_, Some(_)) => self.view.all(),
            (Some(ready), None) => self.view.tasks.common(ready),
        }
    }
}

/// An array as a whole, from its submission until its last record is forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Number of tasks that were submitted.
    pub count: u32,
    /// Lowest index.
    pub min: u32,
    /// Highest index.
    pub max: u32,
    /// The step of its ranges as written; 1 if none is.
    pub step: u32,
    /// Tasks that have ended.
    pub ended: TaskSet,
    /// Those of them that did not complete with success.
    pub failed: TaskSet,
    /// The worst exit status of any that has ended.
    #[serde(default)]
    pub worst: ExitStatus,
    /// The least and the greatest of these statuses as `wait(2)` writes them; `None` before the first. This and what follows is
    /// kept only of arrays whose owner wants mail.
    #[serde(default)]
    pub exits: Option<(u16, u16)>,
    /// Whether a task has started.
    #[serde(default)]
    pub began: bool,
    /// Whether a task went back to the queue.
    #[serde(default)]
    pub requeued: bool,
}

impl Array {
    /// Whether every task has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended.len() >= self.count
    }
}

/// Where a task is in its array: what its environment tells (`SLURM_ARRAY_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayTask {
    /// The array's number.
    pub job: JobId,
    /// The index.
    pub task: u32,
    /// Number of tasks that were submitted.
    pub count: u32,
    /// Lowest index.
    pub min: u32,
    /// Highest index.
    pub max: u32,
    /// Step.
    pub step: u32,
}

/// Arrays by number.
pub type Arrays = BTreeMap<JobId, Array>;

#[cfg(test)]
mod tests;

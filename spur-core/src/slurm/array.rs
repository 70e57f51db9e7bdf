//! Job arrays as text: `0-15%4`, `1,3,5-9:2`; and jobs as commands name them: `9`, `9_3`, `9_[3-5]`, `9_*`.

use crate::id::JobId;
use crate::job::array::{JobTarget, MAX_ARRAY_SIZE_MAX, TaskSet};
use std::str::FromStr;

/// An array as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// Its tasks; at least one.
    pub tasks: TaskSet,
    /// Most that run at once; 0: no limit.
    pub throttle: u32,
    /// The step of the first range that has one; 1 if none has.
    pub step: u32,
}

/// A text that is no array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadArray {
    /// Not of the form.
    #[error(
        "invalid array {0:?}: write indices and rising ranges, as in 0-15, 1,3,5-9:2 or 0-99%4"
    )]
    Form(String),
    /// An index is not below the limit.
    #[error("array index {0} is above {1}, the greatest that is allowed here (max_array_size)")]
    Index(u32, u32),
}

/// Reads `--array`: indices below `size`, brackets around them allowed.
pub fn parse(text: &str, size: u32) -> Result<ArraySpec, BadArray> {
    let bad = || BadArray::Form(text.to_owned());
    let inner = text.trim();
    let inner = match inner.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(bad)?,
        None => inner,
    };
    let (list, throttle) = match inner.split_once('%') {
        Some((list, most)) => (list, number(most).ok_or_else(bad)?),
        None => (inner, 0),
    };
    let (mut tasks, mut step) = (TaskSet::new(), None);
    for part in list.split(',') {
        let (range, by) = match part.split_once(':') {
            Some((range, by)) => (
                range,
                Some(number(by).filter(|by| *by > 0).ok_or_else(bad)?),
            ),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (first, last),
            None if by.is_some() => return Err(bad()),
            None => (range, range),
        };
        let (first, last) = (
            number(first).ok_or_else(bad)?,
            number(last).ok_or_else(bad)?,
        );
        if last < first {
            return Err(bad());
        }
        if last >= size.min(MAX_ARRAY_SIZE_MAX) {
            return Err(BadArray::Index(last, size.saturating_sub(1)));
        }
        step = step.or(by);
        tasks.insert_range(first, last, by.unwrap_or(1));
    }
    Ok(ArraySpec {
        tasks,
        throttle,
        step: step.unwrap_or(1),
    })
}

/// Digits and nothing else.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// A text that names no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid job id {0:?}: write a number, or a number and tasks of its array, as in 9_3 or 9_[3-5]"
)]
pub struct BadTarget(pub String);

impl FromStr for JobTarget {
    type Err = BadTarget;

    /// Reads `9`, `9_3`, `9_[3-5,8]`, `9+1`; `9_*` and `9_[*]` are the whole array.
    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget(text.to_owned());
        let (job, offset) = match text.split_once('+') {
            Some((job, offset)) => (job, Some(number(offset).ok_or_else(bad)?)),
            None => (text, None),
        };
        let (job, tasks) = match job.split_once('_') {
            Some(_) if offset.is_some() => return Err(bad()),
            Some((job, tasks)) => (job, Some(tasks)),
            None => (job, None),
        };
        let job = number(job).filter(|job| *job > 0).map(JobId);
        let job = job.ok_or_else(bad)?;
        let tasks = match tasks {
            None | Some("*" | "[*]") => None,
            Some(list) if list.contains('%') => return Err(bad()),
            Some(list) if !list.starts_with('[') && number(list).is_none() => return Err(bad()),
            Some(list) => Some(parse(list, MAX_ARRAY_SIZE_MAX).map_err(|_| bad())?.tasks),
        };
        Ok(Self { job, tasks, offset })
    }
}

/// Jobs of one word or comma list: `9,10_3,11_[1,3]`. Commas inside brackets part tasks, not jobs.
pub fn targets(text: &str) -> Result<Vec<JobTarget>, BadTarget> {
    let (mut depth, mut from, mut found) = (0u32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(text[from..at].parse()?);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[from..].parse()?);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arrays_are_read() {
        for (text, tasks, throttle, step) in [
            ("0-3", vec![0, 1, 2, 3], 0, 1),
            ("0-3%2", vec![0, 1, 2, 3], 2, 1),
            ("1,3,5-9:2", vec![1, 3, 5, 7, 9], 0, 2),
            ("[4,2]", vec![2, 4], 0, 1),
            ("7", vec![7], 0, 1),
            ("0-5:4%1", vec![0, 4], 1, 4),
            ("1000", vec![1000], 0, 1),
        ] {
            let spec = parse(text, 1001).unwrap();
            assert_eq!(spec.tasks.iter().collect::<Vec<_>>(), tasks, "{text}");
            assert_eq!((spec.throttle, spec.step), (throttle, step), "{text}");
        }
        for text in [
            "",
            "a",
            "1-",
            "-1",
            "3-1",
            "1,,2",
            "1-3:0",
            "1:2",
            "1-3:",
            "1%",
            "%3",
            "1%2%3",
            "1%x",
            "[1",
            "1]",
            "1001",
            "0-100000",
            "1 2",
            "+1",
            "0x1",
            "99999999999",
        ] {
            assert!(parse(text, 1001).is_err(), "{text}");
        }
    }

    #[test]
    fn jobs_are_named() {
        for (text, shown) in [
            ("9", "9"),
            ("9_3", "9_3"),
            ("9_[3-5]", "9_[3-5]"),
            ("9_[3]", "9_3"),
            ("9_*", "9"),
            ("9_[*]", "9"),
        ] {
            assert_eq!(
                text.parse::<JobTarget>().unwrap().to_string(),
                shown,
                "{text}"
            );
        }
        for text in [
            "", "0", "a", "9_", "_3", "9_a", "9_3-5", "9_[3", "9.1", "9_[3%1]", "-9", "9_-1",
        ] {
            assert!(text.parse::<JobTarget>().is_err(), "{text}");
        }
        let several: Vec<String> = targets("9,10_[1,3],11_2")
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(several, ["9", "10_[1,3]", "11_2"]);
        assert!(targets("9,,10").is_err() && targets("").is_err());
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(tasks in proptest::collection::btree_set(0u32..1000, 1..40)) {
            let tasks: TaskSet = tasks.into_iter().collect();
            prop_assert_eq!(&parse(&tasks.to_string(), 1001).unwrap().tasks, &tasks);
            prop_assert_eq!(&parse(&tasks.shown(0), 1001).unwrap().tasks, &tasks);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*", near in "[0-9,\\-:%\\[\\]_*]{0,14}") {
            for text in [&text, &near] {
                let (_a, _b) = (parse(text, 1001), targets(text));
            }
        }
    }
}

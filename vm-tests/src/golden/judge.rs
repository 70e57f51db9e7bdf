//! Which recordings match, which differ on purpose, and how the rest differs.

use super::mask::{comparable, mask};
use super::play::Played;
use super::record::Record;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Recordings that differ on purpose: `NAME<TAB>REASON`, and comments after `#`.
const INTENDED: &str = include_str!("intended.tsv");

/// Recordings that differ and should not, with what is missing: they count as not matching, and do not fail the test.
const KNOWN: &str = include_str!("known.tsv");

/// At most this part of the recordings may differ on purpose.
const INTENDED_PERCENT: usize = 10;

/// Lines on both sides of a difference.
const CONTEXT: usize = 1;

/// Longest pair of texts that is compared line against line, in pairs of lines.
const PAIRS_MAX: usize = 40_000_000;

/// What became of one recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same.
    Match,
    /// It differs, and should: why.
    Intended(&'static str),
    /// It is said to differ, and does not.
    NeedlesslyIntended,
    /// It differs; the lines, `-` theirs, `+` ours.
    Differs(String),
    /// No step plays it.
    NotPlayed,
}

/// Names and reasons of the recordings that differ on purpose.
pub fn intended() -> BTreeMap<&'static str, &'static str> {
    listed(INTENDED)
}

/// Names and what is missing of those that differ and should not.
pub fn known() -> BTreeMap<&'static str, &'static str> {
    listed(KNOWN)
}

fn listed(text: &'static str) -> BTreeMap<&'static str, &'static str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('\t')).collect()
}

/// Whether the committed list is short enough for so many recordings.
pub fn few_enough(recordings: usize) -> bool {
    intended().len() * 100 <= recordings * INTENDED_PERCENT
}

/// Judges every recording that was to be played.
pub fn judge<'a>(
    records: impl Iterator<Item = (&'a String, &'a Record)>,
    played: &Played,
) -> BTreeMap<String, Verdict> {
    let intended = intended();
    let one = |(name, record): (&String, &Record)| {
        let verdict = match played.get(name) {
            None => Verdict::NotPlayed,
            Some(ours) => {
                let mask = |text: &str| mask(&record.command, text);
                let (theirs, ours) = (mask(&record.text), mask(ours));
                let theirs = comparable(&record.command, &theirs, &ours);
                match (theirs == ours, intended.get(name.as_str())) {
                    (true, None) => Verdict::Match,
                    (true, Some(_)) => Verdict::NeedlesslyIntended,
                    (false, Some(reason)) => Verdict::Intended(reason),
                    (false, None) => Verdict::Differs(difference(&theirs, &ours)),
                }
            }
        };
        (name.clone(), verdict)
    };
    records.map(one).collect()
}

/// The lines that differ, with a little around them.
fn difference(theirs: &str, ours: &str) -> String {
    let left: Vec<&str> = theirs.lines().collect();
    let right: Vec<&str> = ours.lines().collect();
    let head = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[head..], &right[head..]);
    let tail = left.iter().rev().zip(right.iter().rev());
    let tail = tail.take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[..left.len() - tail], &right[..right.len() - tail]);
    let script = if left.len().saturating_mul(right.len()) > PAIRS_MAX {
        let gone = left.iter().map(|line| ('-', *line));
        gone.chain(right.iter().map(|line| ('+', *line))).collect()
    } else {
        edits(left, right)
    };
    shown(&script)
}

/// A shortest way from one to the other, by the longest common subsequence.
fn edits<'a>(left: &[&'a str], right: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = right.len() + 1;
    let mut common = vec![0u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            common[i * width + j] = if left[i] == right[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut script) = (0, 0, Vec::new());
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            script.push((' ', left[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == right.len()
            || (i < left.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            script.push(('-', left[i]));
            i += 1;
        } else {
            script.push(('+', right[j]));
            j += 1;
        }
    }
    script
}

fn shown(script: &[(char, &str)]) -> String {
    let mut text = String::new();
    let changed = |at: usize| script.get(at).is_some_and(|(mark, _)| *mark != ' ');
    let mut gap = false;
    for (at, (mark, line)) in script.iter().enumerate() {
        let near = (at.saturating_sub(CONTEXT)..=at + CONTEXT).any(changed);
        if near {
            let _written = writeln!(text, "  {mark} {line}");
        } else if !gap {
            text.push_str("    …\n");
        }
        gap = !near;
    }
    text
}

//! What `spur fence explain` prints.

use super::advice::Advice;
use super::facts::Facts;
use super::report::{self, JobReport, LineReport};
use super::show::{head, line, totals};
use crate::cli::render::{View, show_job};
use serde::Serialize;

/// Most lines that are shown.
const LINES_SHOWN: usize = 10;

/// The report, with what it means.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Explained<'a> {
    #[serde(flatten)]
    report: JobReport,
    /// The newest lines, oldest first.
    lines: Vec<LineReport>,
    /// What it all means, what matters most first.
    advice: &'a [Advice],
}

/// As an object.
pub(crate) fn report<'a>(facts: &Facts, advice: &'a [Advice]) -> Explained<'a> {
    Explained {
        report: report::report(facts),
        lines: newest(facts).iter().map(report::line).collect(),
        advice,
    }
}

fn newest(facts: &Facts) -> &[spur_core::denial::Denial] {
    &facts.lines[facts.lines.len().saturating_sub(LINES_SHOWN)..]
}

/// As text.
pub(crate) fn text(view: &View, facts: &Facts, advice: &[Advice]) -> String {
    let mut text = head(facts);
    let may = if facts.is_over() { "could" } else { "may" };
    for place in &facts.places {
        line(
            &mut text,
            format_args!("{}: {}; {}", place.node, place.share(), place.condition()),
        );
        // GPUs share control nodes: each is said once.
        let mut files: Vec<_> = place.own().flat_map(|gpu| &gpu.files).collect();
        files.sort();
        files.dedup();
        for file in files {
            line(
                &mut text,
                format_args!(
                    "    {may} open {} ({}:{})",
                    file.path, file.major, file.minor
                ),
            );
        }
    }
    totals(&mut text, facts);
    for denial in newest(facts) {
        line(
            &mut text,
            format_args!("    {}", show_job::denied(view, denial)),
        );
    }
    text.push_str("What this means:\n");
    for advice in advice {
        line(
            &mut text,
            format_args!("  {}: {}", advice.level.word(), advice.text),
        );
    }
    text
}

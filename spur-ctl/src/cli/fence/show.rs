//! The text of `spur fence show`.

use super::facts::{Facts, Place};
use crate::cli::render::job_text::state;
use spur_core::denial::{DenialKey, DenialRow};
use std::fmt::Write as _;

/// What the job may open and what it was refused, by kind.
pub(crate) fn text(facts: &Facts) -> String {
    let mut text = head(facts);
    for place in &facts.places {
        devices(&mut text, place);
    }
    totals(&mut text, facts);
    for (place, row) in facts.rows() {
        line(&mut text, format_args!("    {} {}", place.node, kind(row)));
    }
    if facts.others() > 0 {
        line(
            &mut text,
            format_args!(
                "    {} more, too many or too fast to tell apart",
                facts.others()
            ),
        );
    }
    text
}

/// Writes a line. A string grows, so that it cannot fail.
pub(super) fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string grows");
}

/// Whose job it is and whether it holds anything.
pub(super) fn head(facts: &Facts) -> String {
    let job = &facts.job;
    let mut text = String::new();
    line(
        &mut text,
        format_args!(
            "Job {} ({}) of {}: {}",
            job.id,
            job.spec.name,
            job.spec.owner.user,
            state(job)
        ),
    );
    if facts.places.is_empty() {
        text.push_str("It holds nothing, so no device is open to it.\n");
    } else if facts.is_over() {
        text.push_str("It has ended and holds nothing any more; this is what it had.\n");
    }
    text
}

/// How many refusals there were.
pub(super) fn totals(text: &mut String, facts: &Facts) {
    line(
        text,
        format_args!(
            "Refused: {} in all, {} without a line of their own",
            facts.total(),
            facts.job.denials.suppressed
        ),
    );
}

fn devices(text: &mut String, place: &Place) {
    line(
        text,
        format_args!("{}: {}; {}", place.node, place.share(), place.condition()),
    );
    if let Some((_, note)) = &place.fence
        && !note.is_empty()
    {
        line(text, format_args!("    note: {note}"));
    }
    for gpu in place.own() {
        let identity = [gpu.model.as_str(), &gpu.uuid, &gpu.pci];
        let identity: Vec<&str> = identity
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect();
        line(
            text,
            format_args!("    GPU {} {}", gpu.index, identity.join(" ")),
        );
        for file in &gpu.files {
            line(
                text,
                format_args!("        {} ({}:{})", file.path, file.major, file.minor),
            );
        }
    }
}

/// `/dev/gpu3 (120:3) open-read not-granted: 5`.
fn kind(row: &DenialRow) -> String {
    let DenialKey {
        op,
        reason,
        noted,
        label,
        ..
    } = &row.key;
    let label = label
        .map(|label| format!(" {}", label.word()))
        .unwrap_or_default();
    let noted = if *noted { " (noted only)" } else { "" };
    format!(
        "{}{} {}{label}{noted}: {}",
        device(&row.key),
        op.word(),
        reason.word(),
        row.total
    )
}

/// The device and a blank, or nothing.
fn device(key: &DenialKey) -> String {
    let path = if key.device.is_empty() {
        "unknown device"
    } else {
        &key.device
    };
    match (key.major, key.minor) {
        (0, 0) if key.device.is_empty() => String::new(),
        (0, 0) => format!("{path} "),
        (major, minor) => format!("{path} ({major}:{minor}) "),
    }
}

//! From what was seen of a job to what the controller is told. Pure.

use super::label::{Facts, label};
use super::of_job::{operation, reason};
use super::{Kind, Taken};
use crate::node::millis;
use spur_core::denial::{Denial, DenialKey, DenialLabel, DenialRow, JobRows, ROWS_MAX};
use spur_core::id::{JobId, NodeName, Uid};
use spur_core::time::Millis;
use spur_ebpf::Event;
use std::collections::BTreeMap;

/// A device number.
pub type Number = (u32, u32);

/// What the agent knows of its node and of the job.
pub struct Known<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// When the agent started.
    pub since: Millis,
    /// Whether the job's own fence lets a device pass.
    pub holds: &'a dyn Fn(Number) -> bool,
    /// The device's path, empty if unknown.
    pub path: &'a dyn Fn(Number) -> String,
    /// Whether the device is the render node of an AMD GPU.
    pub is_amd_render_node: &'a dyn Fn(Number) -> bool,
    /// Whether the job holds an AMD GPU.
    pub holds_amd: bool,
}

/// What is to be counted besides what the job's own fence counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// Refused by a step's narrower fence alone, as far as the ring told.
    pub narrower: u64,
    /// Refusals whose line was cut here.
    pub cut: u64,
}

/// What the controller is told of a job.
#[derive(Clone, Debug)]
pub struct Told {
    /// Lines.
    pub lines: Vec<Denial>,
    /// Totals by kind.
    pub rows: JobRows,
    /// For the totals of the job.
    pub extra: Extra,
}

/// Puts it in the controller's words.
pub fn report(taken: Taken, known: &Known<'_>) -> Told {
    let Taken {
        job,
        generation,
        lines,
        kinds,
        others,
    } = taken;
    // A narrower fence and the job's both refuse what the job does not hold: the job's word is enough.
    let counts = |number: Number, narrow: bool| !narrow || (known.holds)(number);
    let mut extra = Extra {
        narrower: 0,
        cut: others.cut,
    };
    let mut rows: BTreeMap<DenialKey, u64> = BTreeMap::new();
    for (kind, tally) in kinds {
        if !counts(kind.number, kind.narrow) {
            continue;
        }
        if kind.narrow {
            extra.narrower += tally.total;
        }
        if !kind.noted {
            extra.cut += tally.cut;
        }
        *rows.entry(key(&kind, known)).or_default() += tally.total;
    }
    let lines = lines
        .iter()
        .filter(|event| {
            let number = (event.device.major, event.device.minor);
            counts(number, event.step != 0 && !event.by_guard)
        })
        .map(|event| line(job, event, known));
    Told {
        lines: lines.collect(),
        rows: JobRows {
            job,
            generation,
            since: known.since,
            rows: largest(rows),
        },
        extra,
    }
}

/// The rows with most refusals, in order of their keys.
fn largest(rows: BTreeMap<DenialKey, u64>) -> Vec<DenialRow> {
    let rows = rows
        .into_iter()
        .map(|(key, total)| DenialRow { key, total });
    let mut rows: Vec<DenialRow> = rows.collect();
    if rows.len() > ROWS_MAX {
        rows.sort_by_key(|row| std::cmp::Reverse(row.total));
        rows.truncate(ROWS_MAX);
        rows.sort();
    }
    rows
}

fn key(kind: &Kind, known: &Known<'_>) -> DenialKey {
    let (major, minor) = kind.number;
    let device = match kind.number {
        (0, 0) if kind.is_dma_buf => "dma-buf".to_owned(),
        (0, 0) => String::new(),
        number => (known.path)(number),
    };
    DenialKey {
        major,
        minor,
        device,
        op: kind.op,
        reason: kind.reason,
        noted: kind.noted,
        label: labelled(kind.number, (kind.op, kind.reason), kind.by_guard, known),
    }
}

fn labelled(
    number: Number,
    (op, reason): (spur_core::denial::DeviceOp, spur_core::denial::DenialReason),
    by_guard: bool,
    known: &Known<'_>,
) -> Option<DenialLabel> {
    label(Facts {
        op,
        reason,
        by_fence: !by_guard,
        amd_render_node: (known.is_amd_render_node)(number),
        holds_amd: known.holds_amd,
    })
}

/// A refusal as the controller keeps it.
fn line(job: JobId, event: &Event, known: &Known<'_>) -> Denial {
    let number = (event.device.major, event.device.minor);
    let (op, reason) = (operation(event.operation), reason(event.reason));
    Denial {
        at: millis(event.at),
        node: known.node.clone(),
        job,
        pid: event.pid,
        uid: Uid(event.uid),
        command: event.command.clone(),
        major: number.0,
        minor: number.1,
        device: (known.path)(number),
        op,
        seq: 0,
        reason,
        target_pid: event.target,
        object: event.object.clone(),
        noted: !event.refused,
        label: labelled(number, (op, reason), event.by_guard, known),
    }
}

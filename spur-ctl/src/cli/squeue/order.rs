//! The order of `squeue`'s lines, exactly as Slurm has it: one stable sort for each letter of `-S`, the last letter first, after a
//! sort by start. What has no start goes behind what has one, each time in reverse.

use crate::cli::render::View;
use crate::cli::render::job_row::JobRow;
use crate::cli::render::job_text as text;
use spur_core::time::{Millis, TimeLimit};
use std::cmp::Ordering;

/// Order of the lines if none is asked for.
pub const DEFAULT: &str = "P,t,-p";
/// The same for `--start`.
pub const START: &str = "S";

type Compare = fn(&View, &JobRow, &JobRow) -> Ordering;

enum How {
    Compare(Compare),
    Start,
    /// A letter that means something and sorts nothing.
    Nothing,
}

/// One sort.
struct Sort {
    how: How,
    descending: bool,
}

/// An order that was asked for.
pub struct Order(Vec<Sort>);

/// Reads a `-S` list. The error names a letter that means nothing.
pub fn read(list: &str) -> Result<Order, String> {
    // There is one cluster: its word sorts nothing.
    let list = list.replace("cluster", "");
    let mut sorts = Vec::new();
    let mut before = ' ';
    for letter in list.chars() {
        if !matches!(letter, ',' | '+' | '-') {
            let how = how(letter).ok_or_else(|| format!("Invalid sort specification: {letter}"))?;
            let descending = before == '-';
            sorts.push(Sort { how, descending });
        }
        before = letter;
    }
    Ok(Order(sorts))
}

fn how(letter: char) -> Option<How> {
    let compare: Compare = match letter {
        'B' => |_, a, b| text::batch_host(&a.job).cmp(&text::batch_host(&b.job)),
        'C' => |_, a, b| text::cpu_count(&a.job).cmp(&text::cpu_count(&b.job)),
        'd' => |_, a, b| {
            let tmp = |row: &JobRow| row.job.spec.extras().tmp_mib;
            tmp(a).cmp(&tmp(b))
        },
        'D' => |_, a, b| text::node_count(&a.job).cmp(&text::node_count(&b.job)),
        'e' => |view, a, b| end(view, a).cmp(&end(view, b)),
        'g' => |_, a, b| a.job.spec.owner.group.cmp(&b.job.spec.owner.group),
        'G' => |_, a, b| a.job.spec.owner.gid.0.cmp(&b.job.spec.owner.gid.0),
        'i' => |_, a, b| by_id(a).cmp(&by_id(b)),
        'j' => |_, a, b| a.job.spec.name.cmp(&b.job.spec.name),
        'l' => |_, a, b| limit(a).cmp(&limit(b)),
        'L' => |view, a, b| left(view, a).cmp(&left(view, b)),
        'm' => |_, a, b| {
            text::memory_request(&a.job)
                .1
                .cmp(&text::memory_request(&b.job).1)
        },
        'M' => |view, a, b| text::run_secs(view, &a.job).cmp(&text::run_secs(view, &b.job)),
        'N' => |_, a, b| by_node(a, b),
        'p' | 'Q' => |_, a, b| (a.tier, a.job.priority).cmp(&(b.tier, b.job.priority)),
        'P' => |_, a, b| a.job.spec.partition.cmp(&b.job.spec.partition),
        't' => |_, a, b| text::state_compact(&a.job).cmp(text::state_compact(&b.job)),
        'T' => |_, a, b| text::state(&a.job).cmp(text::state(&b.job)),
        'u' => |_, a, b| a.job.spec.owner.user.cmp(&b.job.spec.owner.user),
        'U' => |_, a, b| a.job.spec.owner.uid.0.cmp(&b.job.spec.owner.uid.0),
        'v' => |_, a, b| {
            a.job
                .spec
                .extras()
                .reservation
                .cmp(&b.job.spec.extras().reservation)
        },
        'V' => |_, a, b| a.job.submitted.secs().cmp(&b.job.submitted.secs()),
        'H' | 'z' => |_, a, b| {
            a.job
                .spec
                .sockets_per_node
                .cmp(&b.job.spec.sockets_per_node)
        },
        'I' => |_, a, b| {
            let cores = |row: &JobRow| row.job.spec.extras().cores_per_socket;
            cores(a).cmp(&cores(b))
        },
        'J' => |_, a, b| {
            let threads = |row: &JobRow| row.job.spec.extras().threads_per_core;
            threads(a).cmp(&threads(b))
        },
        'S' => return Some(How::Start),
        'b' | 'c' | 'f' | 'h' | 'n' | 'O' => return Some(How::Nothing),
        _ => return None,
    };
    Some(How::Compare(compare))
}

impl Order {
    /// Sorts the lines.
    pub fn sort(&self, view: &View, rows: &mut Vec<JobRow>) {
        by_start(view, rows, true);
        for sort in self.0.iter().rev() {
            match &sort.how {
                How::Start => by_start(view, rows, sort.descending),
                How::Compare(compare) if sort.descending => {
                    rows.sort_by(|a, b| compare(view, b, a));
                }
                How::Compare(compare) => rows.sort_by(|a, b| compare(view, a, b)),
                How::Nothing => {}
            }
        }
    }
}

fn by_start(view: &View, rows: &mut Vec<JobRow>, descending: bool) {
    let all = std::mem::take(rows);
    let mut known: Vec<(u64, JobRow)> = Vec::with_capacity(all.len());
    let mut unknown = Vec::new();
    for row in all {
        match text::start_shown(view, &row.job) {
            Some(at) => known.push((at.secs(), row)),
            None => unknown.push(row),
        }
    }
    known.sort_by(|(a, _), (b, _)| if descending { b.cmp(a) } else { a.cmp(b) });
    rows.extend(known.into_iter().map(|(_, row)| row));
    rows.extend(unknown.into_iter().rev());
}

fn end(view: &View, row: &JobRow) -> Option<Millis> {
    text::end(view, &row.job)
}

fn limit(row: &JobRow) -> u64 {
    match row.job.spec.time_limit {
        Some(TimeLimit::Secs(secs)) => secs,
        Some(TimeLimit::Unlimited) | None => u64::MAX,
    }
}

fn left(view: &View, row: &JobRow) -> i128 {
    i128::from(limit(row)) - i128::from(text::run_secs(view, &row.job))
}

fn by_id(row: &JobRow) -> (u32, u32) {
    match &row.job.array {
        None => match row.job.het {
            Some(part) => (part.leader.0, part.offset),
            None => (row.job.id.0, 0),
        },
        Some(array) => (array.job.0, row.index().unwrap_or(u32::MAX)),
    }
}

/// By the first node, as names are counted: prefix, then number.
fn by_node(a: &JobRow, b: &JobRow) -> Ordering {
    let first = |row: &JobRow| row.job.nodes.first().map(|node| node.name.clone());
    match (first(a), first(b)) {
        (Some(a), Some(b)) => crate::cli::render::node_columns::by_node(&a, &b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

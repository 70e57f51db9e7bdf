//! `squeue -s`.

use super::query::Query;
use crate::cli::failure::Failure;
use crate::cli::flags::Command;
use crate::cli::flags::getopt::Options;
use crate::cli::output;
use crate::cli::render::View;
use crate::cli::render::format::Layout;
use crate::cli::render::step_columns::{self, Row};
use spur_core::api::JobView;
use spur_core::id::StepKind;
use spur_core::job::step::StepState;
use std::cmp::Ordering;
use std::sync::Arc;

/// Order of the lines.
const SORT: &str = "P,i";

/// Prints the lines.
pub fn show(
    options: &Options,
    query: &Query,
    view: &View,
    jobs: &[Arc<JobView>],
) -> Result<(), Failure> {
    let table = &step_columns::TABLE;
    let layout = match output::format(options) {
        Some(output::Format::Names(list)) => Layout::names(&list, table),
        Some(output::Format::Letters(format)) => Layout::letters(&format, table),
        None => Layout::letters(step_columns::DEFAULT, table),
    };
    output::complain(&output::errors("squeue", &layout.errors));
    let mut rows = rows(query, jobs);
    sort(view, &mut rows, options.value("sort").unwrap_or(SORT))?;
    let mut text = output::heading(options, view, &layout.header());
    for row in &rows {
        layout.write(view, row, &mut text);
        text.push('\n');
    }
    output::print(&text);
    Ok(())
}

/// The running steps of the jobs that were asked for.
pub fn rows(query: &Query, jobs: &[Arc<JobView>]) -> Vec<Row> {
    let all = jobs.iter().flat_map(|job| {
        let running = job
            .steps
            .iter()
            .filter(|step| step.state == StepState::Running);
        running.map(|step| Row {
            job: Arc::clone(job),
            step: step.clone(),
        })
    });
    all.filter(|row| wanted(query, row)).collect()
}

fn wanted(query: &Query, row: &Row) -> bool {
    let array = row.job.array.as_ref();
    let named = |named: &super::query::Named| match named.task {
        None => named.is(&row.job) || array.is_some_and(|array| array.job == named.job),
        Some(task) => array.is_some_and(|a| a.job == named.job && a.task == Some(task)),
    };
    let mut steps = query.steps.iter();
    query.steps.is_empty() || steps.any(|(job, step)| *step == row.step.kind && named(job))
}

/// Steps sort by job, the batch script last, as its number is greatest in Slurm.
fn by_id(row: &Row) -> (u32, u32) {
    let step = match row.step.kind {
        StepKind::Batch => u32::MAX,
        StepKind::Numbered(number) => number,
    };
    (row.job.id.0, step)
}

fn sort(view: &View, rows: &mut [Row], list: &str) -> Result<(), Failure> {
    let letters: Vec<char> = list.chars().collect();
    for (at, letter) in letters.iter().enumerate().rev() {
        let compare: fn(&View, &Row, &Row) -> Ordering = match letter {
            ',' | '+' | '-' => continue,
            'i' => |_, a, b| by_id(a).cmp(&by_id(b)),
            'N' => |_, a, b| a.nodes().cmp(&b.nodes()),
            'P' => |_, a, b| a.job.spec.partition.cmp(&b.job.spec.partition),
            'l' => |_, _, _| Ordering::Equal,
            'S' => |_, a, b| a.step.started.cmp(&b.step.started),
            'M' => |view, a, b| a.run_secs(view).cmp(&b.run_secs(view)),
            'u' => |_, a, b| a.job.spec.owner.user.cmp(&b.job.spec.owner.user),
            'U' => |_, a, b| a.job.spec.owner.uid.0.cmp(&b.job.spec.owner.uid.0),
            letter => {
                let why = format!("Invalid sort specification: {letter}");
                return Err(Failure::error(Command::Squeue, why));
            }
        };
        let descending = at > 0 && letters[at - 1] == '-';
        rows.sort_by(|a, b| {
            let order = compare(view, a, b);
            if descending { order.reverse() } else { order }
        });
    }
    Ok(())
}

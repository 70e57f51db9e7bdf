//! Steps in structured output.

use super::{Document, Number};
use crate::cli::render::View;
use crate::cli::render::job_text as text;
use crate::cli::render::step_columns::{Row, distribution, step_word, tres};
use spur_core::id::StepKind;
use spur_core::job::spec::JobKind;

/// What Slurm has for the index of a job that is no task.
const NO_TASK: u32 = 0xffff_fffe;

/// `steps`, `last_update`.
pub fn all(doc: &mut Document, view: &View, steps: &[Row]) {
    doc.list("steps", steps, |doc, row| {
        doc.item(|doc| one(doc, view, row))
    });
    doc.number("last_update", Number::Is(view.clock.now.secs()));
}

fn one(doc: &mut Document, view: &View, row: &Row) {
    let (job, step) = (&row.job, &row.step);
    let batch = step.kind == StepKind::Batch;
    let array = job.array.as_ref();
    doc.map("array", |doc| {
        doc.int("job_id", array.map_or(0, |array| array.job.0));
        doc.int(
            "task_id",
            array.and_then(|array| array.task).unwrap_or(NO_TASK),
        );
    });
    doc.text("cluster", &view.cluster);
    doc.text("container", &job.spec.extras().container);
    doc.text("container_id", &job.spec.extras().container_id);
    doc.map("cpu", |doc| {
        doc.map("frequency", |doc| {
            for key in ["min", "max", "governor"] {
                // Slurm counts them for the batch script, and has none.
                doc.number(key, Number::maybe(batch.then_some(0)));
            }
        });
    });
    resources(doc, view, row);
    doc.text("name", &step.name);
    doc.text("network", &job.spec.extras().network);
    doc.text("nodes", &row.nodes());
    // Slurm counts no CPUs for the batch script.
    doc.int("number_cpus", if batch { 0 } else { row.cpus() });
    doc.count("number_tasks", row.tasks());
    doc.text("partition", &job.spec.partition);
    doc.text("reserved_ports", "");
    doc.map("time", |doc| {
        doc.number("running", Number::Is(row.run_secs(view)));
        doc.number("start", Number::Is(step.started.secs()));
        doc.number("limit", Number::Infinite);
    });
    doc.map("srun", |doc| {
        doc.text("host", if batch { "" } else { &job.spec.submit_host });
        doc.int("pid", 0);
    });
    let running = step.ended.is_none();
    doc.texts("state", [if running { "RUNNING" } else { "COMPLETED" }]);
    doc.text("id", &format!("{}.{}", job.id, step_word(step.kind)));
    // The line of a step within another job is not kept.
    let own = job.spec.kind == JobKind::Run;
    doc.text("submit_line", if own { &job.spec.submit_line } else { "" });
    doc.map("task", |doc| {
        doc.text("distribution", distribution(job, step));
    });
    doc.text("user", &job.spec.owner.user);
}

fn resources(doc: &mut Document, view: &View, row: &Row) {
    let most = row.step.shares.iter().map(|share| share.share.gpus.len());
    let most = most.max().unwrap_or(0);
    let batch = row.step.kind == StepKind::Batch;
    let per_node = text::per_gpu(if batch { 0 } else { most.into() });
    doc.map("tres", |doc| {
        doc.map("per", |doc| {
            for key in ["cpu", "memory", "step"] {
                doc.text(key, "");
            }
            doc.text("node", per_node.as_deref().unwrap_or_default());
            doc.text("socket", "");
            doc.text("task", "");
        });
        doc.text("allocation", &tres(view, row));
        doc.text("binding", "");
        doc.text("frequency", "");
    });
}

//! Steps in structured output.

use super::{Document, Number};
use crate::cli::render::View;
use crate::cli::render::step_columns::Row;

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
                doc.number(key, Number::Is(0));
            }
        });
    });
    tres(doc, row);
    doc.text("name", &step.name);
    doc.text("network", &job.spec.extras().network);
    doc.text("nodes", &row.nodes());
    let batch = step.kind == spur_core::id::StepKind::Batch;
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
    doc.text(
        "id",
        &format!(
            "{}.{}",
            job.id,
            crate::cli::render::step_columns::step_word(step.kind)
        ),
    );
    doc.text(
        "submit_line",
        if batch { "" } else { &job.spec.submit_line },
    );
    doc.map("task", |doc| {
        doc.text("distribution", if batch { "Unknown" } else { "Block" })
    });
    doc.text("user", &job.spec.owner.user);
}

fn tres(doc: &mut Document, row: &Row) {
    let shares = || row.step.shares.iter().map(|share| &share.share);
    let gpus: u64 = shares().map(|share| u64::from(share.gpus.len())).sum();
    let most = shares().map(|share| share.gpus.len()).max().unwrap_or(0);
    doc.map("tres", |doc| {
        doc.map("per", |doc| {
            for key in ["cpu", "memory", "step"] {
                doc.text(key, "");
            }
            let node = if most > 0 {
                format!("gres/gpu:{most}")
            } else {
                String::new()
            };
            let batch = row.step.kind == spur_core::id::StepKind::Batch;
            doc.text("node", if batch { "" } else { &node });
            doc.text("socket", "");
            doc.text("task", "");
        });
        let batch = row.step.kind == spur_core::id::StepKind::Batch;
        let gpu = if gpus > 0 {
            format!(",gres/gpu={gpus}")
        } else {
            String::new()
        };
        let held = format!("cpu={}{gpu}", row.cpus());
        doc.text("allocation", if batch { "" } else { &held });
        doc.text("binding", "");
        doc.text("frequency", "");
    });
}

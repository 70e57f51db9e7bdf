//! The flags of a job.

use super::super::Document;
use crate::cli::render::job_text::backfilled;
use spur_core::api::JobView;

/// Writes them in the order of Slurm's bits.
pub(super) fn write(doc: &mut Document, job: &JobView) {
    let (spec, extras, given) = (&job.spec, job.spec.extras(), job.spec.given);
    let waits = super::waits(job);
    let (tried, tried_last) = backfilled(job);
    let flags = [
        (
            spec.kill_on_invalid_dep == Some(true),
            "KILL_INVALID_DEPENDENCY",
        ),
        (
            spec.kill_on_invalid_dep == Some(false),
            "NO_KILL_INVALID_DEPENDENCY",
        ),
        (spec.gres_flags.enforce_binding, "GRES_BINDING_ENFORCED"),
        (extras.spread_job, "SPREAD_JOB"),
        (extras.use_min_nodes, "PREFER_MINIMUM_NODE_COUNT"),
        (
            spec.tasks_set || spec.tasks_per_node > 0,
            "EXACT_TASK_COUNT_REQUESTED",
        ),
        (spec.cpus_per_task_set, "EXACT_CPU_COUNT_REQUESTED"),
        (spec.gres_flags.disable_binding, "GRES_BINDING_DISABLED"),
        (job.started.is_some(), "JOB_WAS_RUNNING"),
        (given.memory, "EXACT_MEMORY_REQUESTED"),
        (!given.account, "USING_DEFAULT_ACCOUNT"),
        (!given.partition, "USING_DEFAULT_PARTITION"),
        (!given.qos, "USING_DEFAULT_QOS"),
        (extras.wckey.is_empty(), "USING_DEFAULT_WCKEY"),
        (waits && !job.dependency.is_empty(), "DEPENDENT"),
        (!given.partition, "PARTITION_ASSIGNED"),
        (tried, "BACKFILL_ATTEMPTED"),
        (tried_last, "SCHEDULING_ATTEMPTED"),
    ];
    let set = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag);
    doc.texts("flags", set);
}

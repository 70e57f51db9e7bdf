//! The variables that describe the components of a heterogeneous job: those of each, with `_HET_GROUP_` and its offset behind the name,
//! and the same with the older `_PACK_GROUP_`.

use super::facts::Facts;
use super::{Env, folded};
use crate::api::JobView;

/// What comes between a name and an offset.
const MARKS: [&str; 2] = ["_HET_GROUP_", "_PACK_GROUP_"];

/// Whether a variable describes one component.
pub(super) fn of_a_component(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    name.starts_with("SLURM_") && MARKS.iter().any(|mark| name.contains(mark))
}

/// The variables of all components, in order; in a job's own environment they come beside those of its first component.
pub fn components(all: &[JobView], cluster: &str) -> Vec<String> {
    let mut variables = Vec::new();
    for prefix in ["HET", "PACK"] {
        variables.push(format!("SLURM_{prefix}_SIZE={}", all.len()));
    }
    for view in all {
        let offset = view.het.map_or(0, |part| part.offset);
        for (name, value) in one(view, cluster) {
            variables.extend(
                MARKS
                    .iter()
                    .map(|mark| format!("{name}{mark}{offset}={value}")),
            );
        }
    }
    variables
}

/// What is told of one component.
fn one(view: &JobView, cluster: &str) -> Vec<(&'static str, String)> {
    let facts = Facts::of_view(view, cluster);
    let mut told = vec![
        ("SLURM_JOB_ID", view.id.to_string()),
        ("SLURM_JOB_NAME", facts.name.to_owned()),
        ("SLURM_JOB_PARTITION", facts.partition.to_owned()),
        ("SLURM_JOB_NODELIST", facts.nodelist()),
        ("SLURM_JOB_NUM_NODES", facts.nodes.len().to_string()),
        ("SLURM_JOB_CPUS_PER_NODE", folded(facts.cpus())),
        ("SLURM_TASKS_PER_NODE", folded(facts.tasks_here())),
    ];
    let reservation = &view.spec.extras().reservation;
    for (name, value) in [
        ("SLURM_JOB_ACCOUNT", facts.account),
        ("SLURM_JOB_QOS", facts.qos),
        ("SLURM_JOB_RESERVATION", reservation),
    ] {
        if !value.is_empty() {
            told.push((name, value.to_owned()));
        }
    }
    // As the request and the memory are told of a job by itself.
    let mut env = Env::from_base::<&[u8]>(&[]);
    super::of_the_request(&mut env, &facts);
    super::of_memory(&mut env, &facts);
    for name in [
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_CPUS_PER_TASK",
        "SLURM_MEM_PER_CPU",
        "SLURM_MEM_PER_NODE",
    ] {
        if let Some(value) = env.get(name) {
            told.push((name, value.to_owned()));
        }
    }
    told
}

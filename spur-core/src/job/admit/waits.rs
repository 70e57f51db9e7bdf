//! What a request says of arrays and of other jobs.

use super::refuse;
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::JobId;
use crate::job::array::MAX_ARRAY_SIZE;
use crate::job::spec::{JobKind, JobSpec};
use crate::slurm::array;
use crate::slurm::dependency::{self, After, Of, Term};
use std::collections::BTreeSet;

/// Checks `--array`.
pub(super) fn array(cluster: &Cluster, spec: &JobSpec) -> Result<(), Refusal> {
    if spec.array.is_empty() {
        return Ok(());
    }
    if spec.kind != JobKind::Batch {
        return Err(refuse(
            RefusalKind::InvalidArray,
            "only batch jobs can be arrays",
        ));
    }
    let size = match cluster.max_array_size {
        0 => MAX_ARRAY_SIZE,
        size => size,
    };
    let read = array::parse(&spec.array, size);
    read.map_err(|why| refuse(RefusalKind::InvalidArray, why.to_string()))?;
    Ok(())
}

/// Checks `-d`: every job that is named must be known.
pub(super) fn dependency(cluster: &Cluster, spec: &JobSpec) -> Result<(), Refusal> {
    let read = dependency::parse(&spec.dependency);
    let read = read.map_err(|why| refuse(RefusalKind::InvalidDependency, why.to_string()))?;
    let unknown = |term: &&Term| {
        let known = match term.of {
            Of::Job => {
                cluster.jobs.contains_key(&term.job) || cluster.arrays.contains_key(&term.job)
            }
            Of::Array => cluster.arrays.contains_key(&term.job),
            Of::Task(task) => {
                let array = cluster.arrays.get(&term.job);
                array.is_some_and(|array| (array.min..=array.max).contains(&task))
            }
        };
        term.after != After::Singleton && !known
    };
    match read.terms.iter().find(unknown) {
        None => Ok(()),
        Some(term) => Err(refuse(
            RefusalKind::InvalidDependency,
            format!("job {} is not known", term.job),
        )),
    }
}

/// Refuses a job that would wait for itself, straight away or through others.
pub(super) fn circle(cluster: &Cluster, id: JobId, spec: &JobSpec) -> Result<(), Refusal> {
    let own = cluster.jobs.get(&id).and_then(|job| job.array.as_ref());
    let own = own.map(|array| array.view.job);
    let read = dependency::parse(&spec.dependency).unwrap_or_default();
    let (mut seen, mut open) = (BTreeSet::new(), read.terms);
    while let Some(term) = open.pop() {
        if term.after == After::Singleton || !seen.insert(term.job) {
            continue;
        }
        if term.job == id || Some(term.job) == own {
            return Err(refuse(
                RefusalKind::CircularDependency,
                format!("job {id} would wait for itself"),
            ));
        }
        let records = cluster.members(term.job).chain([term.job]);
        let jobs = records.filter_map(|record| cluster.jobs.get(&record));
        open.extend(jobs.flat_map(|job| job.depends.terms.iter().copied()));
    }
    Ok(())
}

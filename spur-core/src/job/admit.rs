//! Admission: fills in defaults and refuses what can never run, in Slurm's words. Pure; decides nothing about who may ask.

mod bounds;
mod check;
mod defaults;
mod features;
mod missing;
mod notices;
mod rights;
mod times;
mod waits;

#[cfg(test)]
mod tests;

use super::change::JobChange;
use super::spec::{Given, JobSpec};
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::JobId;
use crate::partition::{Partition, PartitionState};
use crate::time::Millis;

/// Most jobs that a cluster keeps, ended ones included; more are refused until some are forgotten.
pub const MAX_JOBS: usize = 1_000_000;

/// What admission found out besides the filled-in request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The priority to log with the submission; 0 if it is to be held.
    pub priority: u32,
    /// What whoever submits should know.
    pub notices: Vec<String>,
}

/// Fills in what the request leaves open and checks it against the cluster as it is configured and inventoried, whatever is
/// free or up now. Slurm lets jobs above most limits of a partition wait ([`super::limits`]), and so does this. On refusal
/// `spec` is left half filled in: it is not to be used.
pub fn admit(cluster: &Cluster, spec: &mut JobSpec, at: Millis) -> Result<Admitted, Refusal> {
    let tasks = usize::try_from(cluster.tasks_without_record()).unwrap_or(usize::MAX);
    if cluster.jobs.len().saturating_add(tasks) >= MAX_JOBS {
        return Err(refuse(
            RefusalKind::Busy,
            format!("the cluster holds {MAX_JOBS} jobs"),
        ));
    }
    spec.given = Given::of(spec);
    small_names(spec);
    let partition = defaults::partition(cluster, spec)?;
    open(partition)?;
    defaults::account(cluster, spec);
    rights::partition(partition, spec)?;
    rights::reservations(cluster, spec)?;
    waits::array(cluster, spec)?;
    waits::dependency(cluster, spec)?;
    check::kept(cluster, spec)?;
    times::fill(spec);
    shape(cluster, spec, partition, at)?;
    times::check(spec, at)?;
    Ok(Admitted {
        priority: starting_priority(spec),
        notices: notices::of(cluster, spec, partition),
    })
}

/// Fills in and checks what is asked for of the partition.
fn shape(
    cluster: &Cluster,
    spec: &mut JobSpec,
    partition: &Partition,
    at: Millis,
) -> Result<(), Refusal> {
    defaults::fill(cluster, spec, partition, at)?;
    features::check(cluster, spec)?;
    check::names(cluster, partition, spec)?;
    if let Err(never) = check::satisfiable(cluster, partition, spec) {
        if !defaults::spread(spec) {
            return Err(never);
        }
        check::satisfiable(cluster, partition, spec)?;
    }
    Ok(())
}

/// Accounts and keys of accounting have no capitals, however they are written: as Slurm has it, and as accounts are kept.
pub fn small_names(spec: &mut JobSpec) {
    let small = |text: &str| {
        text.chars()
            .any(char::is_uppercase)
            .then(|| text.to_lowercase())
    };
    if let Some(account) = small(&spec.account) {
        spec.account = account;
    }
    if let Some(key) = small(&spec.extras().wckey) {
        spec.extras_mut().wckey = key;
    }
}

/// Checks a request that was admitted before and has been changed, and fills in what follows from it, as [`admit`] does.
pub fn readmit(cluster: &Cluster, spec: &mut JobSpec, at: Millis) -> Result<(), Refusal> {
    let partition = defaults::partition(cluster, spec)?;
    open(partition)?;
    shape(cluster, spec, partition, at)
}

/// A changed deadline is not over, and a changed least limit is no longer than the limit.
pub fn in_time(spec: &JobSpec, change: &JobChange, at: Millis) -> Result<(), Refusal> {
    times::changed(spec, change, at)
}

/// Notes the association that a job is charged to, which follows from its account, its partition and its owner.
pub fn charge(cluster: &Cluster, spec: &mut JobSpec) {
    defaults::charge(cluster, spec);
}

/// What a change asks for that stands beside the shape of the job: reservations that are there and that the job may use, nothing that
/// no cluster has, and a partition that is for the job, unless an operator puts it there. What was so before the change is left alone,
/// so that it stands in the way of no other.
pub fn beside(
    cluster: &Cluster,
    old: &JobSpec,
    new: &JobSpec,
    operator: bool,
) -> Result<(), Refusal> {
    let (before, after) = (old.extras(), new.extras());
    if before.reservation != after.reservation {
        rights::reservations(cluster, new)?;
    }
    if before.licenses != after.licenses || before.tmp_mib != after.tmp_mib {
        check::kept(cluster, new)?;
    }
    let place = |spec: &JobSpec| {
        (
            spec.partition.clone(),
            spec.account.clone(),
            spec.qos.clone(),
        )
    };
    let mut known = cluster.partitions.iter();
    match known.find(|known| known.name == new.partition) {
        Some(partition) if !operator && place(old) != place(new) => {
            rights::partition(partition, new)
        }
        Some(_) | None => Ok(()),
    }
}

/// What a changed job is to wait for: jobs that are known, and that do not wait for it.
pub fn dependency(cluster: &Cluster, job: JobId, spec: &JobSpec) -> Result<(), Refusal> {
    waits::dependency(cluster, spec)?;
    waits::circle(cluster, job, spec)
}

/// The priority of a job that nobody has changed: as real Slurm's default plugin with no weights gives it, 1 less niceness.
/// 0 if the job is submitted held. `--nice` above 0 orders jobs of equal priority.
pub fn starting_priority(spec: &JobSpec) -> u32 {
    if spec.hold {
        return 0;
    }
    if let Some(priority) = spec.extras().priority {
        return priority;
    }
    u32::try_from(1i64.saturating_sub(i64::from(spec.nice)).max(1)).unwrap_or(u32::MAX)
}

fn open(partition: &Partition) -> Result<(), Refusal> {
    match partition.state {
        PartitionState::Up | PartitionState::Down => Ok(()),
        PartitionState::Drain | PartitionState::Inactive => {
            Err(refuse(RefusalKind::PartitionUnavailable, String::new()))
        }
    }
}

fn refuse(kind: RefusalKind, text: impl Into<String>) -> Refusal {
    Refusal {
        kind,
        text: text.into(),
    }
}

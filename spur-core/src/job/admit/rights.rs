//! Who may use what: partitions that are not for everybody, and reservations. Groups are settled by the shell, which can look them up.

use super::refuse;
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::Uid;
use crate::job::spec::JobSpec;
use crate::manage::reservation::Reservation;
use crate::partition::Partition;

/// Whether the job may be in the partition.
pub(super) fn partition(partition: &Partition, spec: &JobSpec) -> Result<(), Refusal> {
    let root = spec.owner.uid == Uid(0);
    let denied = |why: &str| {
        let text = format!("partition {}: {why}", partition.name);
        Err(refuse(RefusalKind::AccessDenied, text))
    };
    if partition.root_only && !root {
        return denied("only root may use it");
    }
    if partition.disable_root_jobs && root {
        return denied("root's jobs may not use it");
    }
    if partition.require_reservation && spec.extras().reservation.is_empty() {
        return denied("jobs need a reservation there");
    }
    let fits = |allowed: &[String], refused: &[String], name: &String| {
        if allowed.is_empty() {
            !refused.contains(name)
        } else {
            allowed.contains(name)
        }
    };
    if !fits(
        &partition.allow_accounts,
        &partition.deny_accounts,
        &spec.account,
    ) {
        let text = format!(
            "account {:?} may not use partition {}",
            spec.account, partition.name
        );
        return Err(refuse(RefusalKind::InvalidAccount, text));
    }
    if !fits(&partition.allow_qos, &partition.deny_qos, &spec.qos) {
        let text = format!(
            "quality of service {:?} may not use partition {}",
            spec.qos, partition.name
        );
        return Err(refuse(RefusalKind::InvalidQos, text));
    }
    Ok(())
}

/// Whether the job may use the reservations that it names.
pub(super) fn reservations(cluster: &Cluster, spec: &JobSpec) -> Result<(), Refusal> {
    let named = &spec.extras().reservation;
    if named.is_empty() {
        return Ok(());
    }
    for name in named.split(',') {
        let known = cluster.managed.reservations.get(name);
        let unknown = || refuse(RefusalKind::InvalidReservation, name);
        let known: &Reservation = known.ok_or_else(unknown)?;
        if !known.admits(spec) {
            return Err(refuse(RefusalKind::ReservationAccess, name));
        }
    }
    Ok(())
}

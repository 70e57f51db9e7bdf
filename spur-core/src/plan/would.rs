//! When and where a job would start that is not submitted (`--test-only`): asked of a copy of the cluster.

use super::outlook::{Asked, Basis};
use super::{Budget, plan};
use crate::api::{Refusal, RefusalKind, WouldStart};
use crate::cluster::Cluster;
use crate::event::Event;
use crate::id::NodeId;
use crate::job::admit::admit;
use crate::job::spec::JobSpec;
use crate::resources::NodeShare;
use crate::time::Millis;
use std::sync::Arc;

/// Submits the job to this copy and plans once. Refusals are those of a submission, and one if the job cannot be told to start at all.
pub fn would_start(
    cluster: &mut Cluster,
    mut spec: JobSpec,
    at: Millis,
) -> Result<WouldStart, Refusal> {
    // A held job is asked about as if it were not.
    spec.hold = false;
    let admitted = admit(cluster, &mut spec, at)?;
    let numbers = || refuse(RefusalKind::Busy, "every job number was used");
    let job = cluster.next_job_id().ok_or_else(numbers)?;
    let submitted = Event::Submitted {
        job,
        spec: Arc::new(spec),
        priority: admitted.priority,
    };
    if let Some(why) = cluster.apply(at, &submitted).ignored {
        return Err(refuse(RefusalKind::Invalid, why));
    }
    let found = plan(cluster, at, Budget::default());
    let Some(record) = cluster.jobs.get(&job) else {
        return Err(refuse(RefusalKind::Invalid, "the job is not there"));
    };
    let spec = &record.spec;
    let asked = spec
        .placed_tasks()
        .saturating_mul(spec.cpus_per_task.max(1));
    let names = |nodes: &mut dyn Iterator<Item = NodeId>| {
        let node = |id| cluster.nodes.get(&id).map(|node| node.name.clone());
        nodes.filter_map(node).collect()
    };
    let answer = |start: Millis, cpus: u32, nodes| WouldStart {
        job,
        start,
        cpus,
        nodes,
        partition: spec.partition.clone(),
    };
    let cpus_of = |shares: &[NodeShare]| shares.iter().map(|share| share.cpus.len()).sum();
    if let Some(placed) = found.placements.iter().find(|placed| placed.job == job) {
        let nodes = names(&mut placed.shares.iter().map(|share| share.node));
        return Ok(answer(at, cpus_of(&placed.shares), nodes));
    }
    if let Some(reserved) = found.outlook.reserved.get(&job) {
        let nodes = names(&mut reserved.shares.iter().map(|share| share.node));
        let start = reserved.known_start().ok_or_else(nobody_knows)?;
        return Ok(answer(start, cpus_of(&reserved.shares), nodes));
    }
    let expected = found.outlook.expected(&Asked {
        job,
        spec,
        priority: record.priority,
        eligible: record.eligible,
        due: super::policy::due(record),
        rank: None,
    });
    match (expected.start, expected.basis) {
        (Some(start), Basis::Estimated | Basis::Reserved) => {
            let nodes = names(&mut expected.nodes.into_iter());
            Ok(answer(start.max(record.eligible), asked, nodes))
        }
        (_, _) => Err(nobody_knows()),
    }
}

fn refuse(kind: RefusalKind, text: &str) -> Refusal {
    Refusal {
        kind,
        text: text.to_owned(),
    }
}

fn nobody_knows() -> Refusal {
    let text = "nothing that is known to end lets it start";
    refuse(RefusalKind::NodesBusy, text)
}

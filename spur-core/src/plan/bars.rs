//! What keeps all jobs of a class waiting however much is free: seen once for each class and pass.

use super::class::Class;
use super::wait::Wait;
use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::job::limits::Size;
use crate::job::state::Reason;
use crate::node::Node;
use crate::partition::{Partition, PartitionState};
use crate::slurm::constraint;
use crate::time::TimeLimit;

/// The reason, and a sentence; `None` where room decides.
pub(super) fn of_class(
    cluster: &Cluster,
    partition: &Partition,
    class: &Class,
) -> Option<(Reason, String)> {
    let name = &partition.name;
    if let Some(node) = still_ends(cluster, class) {
        let text = format!("its last run is not cleaned up on {}", node.name);
        return Some((Reason::Cleaning, text));
    }
    let wanted = class.ask().nodes_min as usize;
    // Counting stops where it is enough: this is asked for every class in every pass.
    if members(cluster, partition).take(wanted).count() < wanted {
        let there = members(cluster, partition).count();
        let text = format!("it asks for {wanted} nodes, and partition {name} has {there}");
        return Some((Reason::PartitionNodeLimit, text));
    }
    if !class.constraint.is_empty() {
        let parsed = constraint::parse(&class.constraint).unwrap_or_default();
        let fits = |node: &&Node| {
            let features: Vec<&str> = cluster.features(node).collect();
            parsed.matches(&features)
        };
        let fitting = members(cluster, partition).filter(fits);
        let fitting = fitting.take(wanted).count();
        if fitting < wanted {
            let there = members(cluster, partition).count();
            let text = format!(
                "{fitting} of {there} nodes of partition {name} have the features {}, and it asks for {wanted}",
                class.constraint
            );
            return Some((Reason::BadConstraints, text));
        }
    }
    let named = class.nodelist.iter();
    let mut named = named.filter_map(|name| node(cluster, name));
    let unclean = named.find(|id| class.shunned.contains(id))?;
    let name = &cluster.nodes.get(&unclean)?.name;
    Some((
        Reason::Cleaning,
        format!("its last run is not cleaned up on {name}, which it names"),
    ))
}

/// A node where the job's last run may still go on: it never runs twice at once. A node that is lost keeps no job from running
/// elsewhere: what it had has ended by then, or is ended when it comes back.
fn still_ends<'a>(cluster: &'a Cluster, class: &Class) -> Option<&'a Node> {
    let nodes = class.unclean.iter();
    let mut nodes = nodes.filter_map(|id| cluster.nodes.get(id));
    nodes.find(|node| !node.lost)
}

/// Nodes of a partition that have registered.
fn members<'a>(cluster: &'a Cluster, partition: &'a Partition) -> impl Iterator<Item = &'a Node> {
    let named = partition.nodes.iter().flatten();
    let named = named.filter_map(|name| cluster.nodes.get(cluster.node_ids.get(name)?));
    let every = partition.nodes.is_none().then(|| cluster.nodes.values());
    named.chain(every.into_iter().flatten())
}

fn node(cluster: &Cluster, name: &str) -> Option<NodeId> {
    let name = crate::id::NodeName::new(name).ok()?;
    cluster.node_ids.get(&name).copied()
}

/// What keeps a job from being considered at all.
pub(super) fn of_job(limit: TimeLimit, size: Size, partition: &Partition) -> Result<(), Wait> {
    match partition.state {
        PartitionState::Up | PartitionState::Drain => {}
        PartitionState::Down => return Err(Wait::bare(Reason::PartitionDown)),
        PartitionState::Inactive => return Err(Wait::bare(Reason::PartitionInactive)),
    }
    if limit > partition.max_time {
        return Err(Wait::bare(Reason::PartitionTimeLimit));
    }
    size.above(partition)
        .map_or(Ok(()), |above| Err(above.into()))
}

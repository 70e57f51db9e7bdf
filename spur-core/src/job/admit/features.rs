//! Features that a request names, and nodes by what they have.

use super::refuse;
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::job::spec::JobSpec;
use crate::node::Node;
use crate::plan::bits::Bits;
use crate::slurm::constraint::{self, Constraint};

/// Checks `-C` and `--prefer`, written as Slurm keeps them: with `&` for commas.
pub(super) fn check(cluster: &Cluster, spec: &mut JobSpec) -> Result<(), Refusal> {
    known(cluster, &mut spec.constraint, RefusalKind::InvalidFeature)?;
    known(cluster, &mut spec.prefer, RefusalKind::InvalidPrefer)
}

fn known(cluster: &Cluster, text: &mut String, kind: RefusalKind) -> Result<(), Refusal> {
    if text.is_empty() {
        return Ok(());
    }
    if text.contains(',') {
        *text = text.replace(',', "&");
    }
    let constraint = constraint::parse(text).map_err(|why| refuse(kind, why.to_string()))?;
    match constraint.names().find(|name| !exists(cluster, name)) {
        Some(name) => Err(refuse(kind, format!("no node has feature {name:?}"))),
        None => Ok(()),
    }
}

/// Whether any node has it, registered or only configured.
fn exists(cluster: &Cluster, name: &str) -> bool {
    let has = |features: &[String]| features.iter().any(|feature| feature == name);
    let mut configured = cluster.node_config.values();
    let mut own = cluster.nodes.values();
    configured.any(|config| has(&config.features)) || own.any(|node| has(&node.inventory.features))
}

/// Sets of nodes of which the job may have one: all with the same one of several alternatives, if there are any. The
/// constraint was checked.
pub(super) fn sets<'a>(
    cluster: &Cluster,
    constraint: &Constraint,
    nodes: &[&'a Node],
) -> Vec<Vec<&'a Node>> {
    let having = |test: &dyn Fn(&[&str]) -> bool| -> Vec<&'a Node> {
        let fits = |node: &&&'a Node| test(&cluster.features(node).collect::<Vec<_>>());
        nodes.iter().filter(fits).copied().collect()
    };
    if constraint.alternatives().is_empty() {
        return vec![having(&|features| constraint.matches(features))];
    }
    let choice = constraint.alternatives().iter();
    let of = |group: &constraint::Group| {
        having(&|features| {
            constraint.matches(features) && group.matches(|name| features.contains(&name))
        })
    };
    choice.map(of).collect()
}

/// Whether these nodes are enough of each kind for the counts of the constraint, and the job's nodes for their sum.
pub(super) fn enough(
    cluster: &Cluster,
    constraint: &Constraint,
    nodes: &[&Node],
    spec: &JobSpec,
) -> bool {
    let kinds = kinds(cluster, constraint, nodes);
    let sum = kinds.iter().map(|(_, count)| *count as u64).sum::<u64>();
    let each = kinds.iter().all(|(nodes, count)| nodes.len() >= *count);
    each && sum <= u64::from(spec.nodes_max.max(spec.nodes_min))
}

/// Positions of the nodes of each kind of which the constraint wants a number, with that number.
pub(super) fn kinds(
    cluster: &Cluster,
    constraint: &Constraint,
    nodes: &[&Node],
) -> Vec<(Bits, usize)> {
    let kind = |(group, count): &(constraint::Group, u32)| {
        let mut bits = Bits::none(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let features: Vec<&str> = cluster.features(node).collect();
            if group.matches(|name| features.contains(&name)) {
                bits.set(at);
            }
        }
        (bits, *count as usize)
    };
    constraint.counts().iter().map(kind).collect()
}

#[cfg(test)]
mod tests;

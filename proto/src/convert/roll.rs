//! Lists that all orders of a job or of a step have. Short ones are written out. A long one is encoded once for all orders, and
//! without what its entries repeat: names as a host list, and every share that differs once.

use super::{BadMessage, Wire, repeated};
use crate::wire;
use prost::Message as _;
use spur_core::agent::order::AllocatedNode;
use spur_core::agent::roll::Roll;
use spur_core::id::{NodeId, NodeName};
use spur_core::resources::NodeShare;
use spur_core::slurm::hostlist;
use std::collections::HashMap;

/// Most entries that are written out, so that what is short stays as it always was.
const PLAIN_MAX: usize = 16;

/// What such a list holds.
pub(super) trait Entry: Wire {
    /// Many of them.
    fn pack(entries: &[Self]) -> Vec<u8>;
    /// The same again.
    fn unpack(bytes: &[u8]) -> Result<Vec<Self>, BadMessage>;
}

/// The list as two fields of an order, of which one is empty.
pub(super) fn write<T: Entry>(roll: &Roll<T>) -> (Vec<T::Pb>, Option<Vec<u8>>) {
    if roll.len() <= PLAIN_MAX {
        return (roll.iter().map(Wire::to_pb).collect(), None);
    }
    (Vec::new(), Some(roll.written(T::pack).to_vec()))
}

/// The list from both.
pub(super) fn read<T: Entry>(
    plain: Vec<T::Pb>,
    packed: Option<Vec<u8>>,
) -> Result<Roll<T>, BadMessage> {
    match packed {
        None => repeated(plain, "nodes"),
        Some(_) if !plain.is_empty() => Err(BadMessage::new("is there twice").at("roll")),
        Some(bytes) => Ok(T::unpack(&bytes).map_err(|e| e.at("roll"))?.into()),
    }
}

impl Entry for AllocatedNode {
    fn pack(entries: &[Self]) -> Vec<u8> {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let mut shares = Vec::new();
        let mut known = HashMap::new();
        let mut which = Vec::with_capacity(entries.len());
        for share in entries.iter().map(|entry| &entry.share) {
            let NodeShare {
                node: _,
                cpus,
                memory_mib,
                gpus,
                tasks,
            } = share;
            let fresh = u32::try_from(shares.len()).unwrap_or(u32::MAX);
            which.push(
                *known
                    .entry((cpus, memory_mib, gpus, tasks))
                    .or_insert_with(|| {
                        let nowhere = NodeShare {
                            node: NodeId(0),
                            ..share.clone()
                        };
                        shares.push(nowhere.to_pb());
                        fresh
                    }),
            );
        }
        let roll = wire::JobRoll {
            names: Some(hostlist::compress(&names)),
            nodes: entries.iter().map(|entry| entry.share.node.0).collect(),
            shares,
            which,
        };
        roll.encode_to_vec()
    }

    fn unpack(bytes: &[u8]) -> Result<Vec<Self>, BadMessage> {
        let roll = wire::JobRoll::decode(bytes).map_err(|e| BadMessage::new(e.to_string()))?;
        let wire::JobRoll {
            names,
            nodes,
            shares,
            which,
        } = roll;
        let names = read_names(names, [nodes.len(), which.len()])?;
        let shares: Vec<NodeShare> = repeated(shares, "shares")?;
        let entries = names.into_iter().zip(nodes.into_iter().zip(which));
        let entries = entries.map(|(name, (node, which))| {
            let share = shares.get(which as usize);
            let share = share.ok_or_else(|| BadMessage::new("names no share").at("which"))?;
            let node = NodeId(node);
            let share = NodeShare {
                node,
                ..share.clone()
            };
            Ok(Self { name, share })
        });
        entries.collect()
    }
}

impl Entry for (NodeName, u32) {
    fn pack(entries: &[Self]) -> Vec<u8> {
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        let roll = wire::StepRoll {
            names: Some(hostlist::compress(&names)),
            tasks: entries.iter().map(|(_, tasks)| *tasks).collect(),
        };
        roll.encode_to_vec()
    }

    fn unpack(bytes: &[u8]) -> Result<Vec<Self>, BadMessage> {
        let roll = wire::StepRoll::decode(bytes).map_err(|e| BadMessage::new(e.to_string()))?;
        let wire::StepRoll { names, tasks } = roll;
        let names = read_names(names, [tasks.len()])?;
        Ok(names.into_iter().zip(tasks).collect())
    }
}

/// The names of a host list, as many as there are of all else.
fn read_names<const N: usize>(
    list: Option<String>,
    others: [usize; N],
) -> Result<Vec<NodeName>, BadMessage> {
    let bad = |problem: String| BadMessage::new(problem).at("names");
    let list = list.ok_or_else(|| bad("is missing".to_owned()))?;
    let names = hostlist::parse(&list).map_err(|e| bad(e.to_string()))?;
    if others.iter().any(|others| *others != names.len()) {
        return Err(bad("are not as many as what belongs to them".to_owned()));
    }
    let names = names.into_iter();
    let names = names.map(|name| NodeName::new(name).map_err(|e| bad(e.to_string())));
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::resources::IdSet;

    /// So many nodes, every third of which gives less; the names do not rise.
    fn nodes(count: u32) -> Roll<AllocatedNode> {
        let node = |at: u32| AllocatedNode {
            name: NodeName::new(format!("r{}-n{:03}", at % 2, count - at)).unwrap(),
            share: NodeShare {
                node: NodeId(at * 7),
                cpus: IdSet::first(if at.is_multiple_of(3) { 64 } else { 128 }),
                memory_mib: 1024,
                gpus: IdSet::first(8),
                tasks: 1,
            },
        };
        (0..count).map(node).collect()
    }

    fn tasks(count: u32) -> Roll<(NodeName, u32)> {
        let entry = |at: u32| (NodeName::new(format!("n{at}")).unwrap(), at % 5);
        (0..count).map(entry).collect()
    }

    #[test]
    fn a_list_comes_back_as_it_was() {
        for count in [0, 1, 16, 17, 1000] {
            let (plain, packed) = write(&nodes(count));
            assert_eq!(packed.is_some(), count > 16, "{count}");
            assert_eq!(read(plain, packed).unwrap(), nodes(count));
            let (plain, packed) = write(&tasks(count));
            assert_eq!(packed.is_some(), count > 16, "{count}");
            assert_eq!(read(plain, packed).unwrap(), tasks(count));
        }
    }

    #[test]
    fn what_repeats_is_written_once_and_for_all_orders() {
        let roll = Roll::from(
            (0..10_000)
                .map(|at| AllocatedNode {
                    name: NodeName::new(format!("n{at}")).unwrap(),
                    share: NodeShare {
                        node: NodeId(at),
                        ..nodes(1)[0].share.clone()
                    },
                })
                .collect::<Vec<_>>(),
        );
        let (_, packed) = write(&roll);
        let len = packed.unwrap().len();
        assert!(len < 32_000, "{len} bytes: a node takes a few");
        let of_copy = roll
            .clone()
            .written(|_| unreachable!("written before"))
            .len();
        assert_eq!(of_copy, len);
    }

    #[test]
    fn lists_that_do_not_fit_together_are_refused() {
        let of = |roll: wire::JobRoll| {
            read::<AllocatedNode>(Vec::new(), Some(roll.encode_to_vec())).unwrap_err()
        };
        let names = |names: &str| wire::JobRoll {
            names: Some(names.to_owned()),
            ..wire::JobRoll::default()
        };
        for (roll, text) in [
            (
                wire::JobRoll::default(),
                "bad message: roll.names: is missing",
            ),
            (
                names("n[1-2]"),
                "bad message: roll.names: are not as many as what belongs to them",
            ),
            (
                wire::JobRoll {
                    nodes: vec![0],
                    which: vec![0],
                    ..names("n1")
                },
                "bad message: roll.which: names no share",
            ),
        ] {
            assert_eq!(of(roll).to_string(), text);
        }
        let both = read::<AllocatedNode>(write(&nodes(1)).0, write(&nodes(17)).1).unwrap_err();
        assert_eq!(both.to_string(), "bad message: roll: is there twice");
        assert!(read::<AllocatedNode>(Vec::new(), Some(vec![255])).is_err());
    }
}

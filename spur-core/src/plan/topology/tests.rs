//! Which nodes a job on several nodes gets, by switches, blocks and order.

use super::spread::{Candidate, Wish, choose};
use super::{Fabric, in_a_row};
use crate::event::Event;
use crate::fixture::{World, batch, gang, partition};
use crate::id::{NodeId, NodeName, Uid};
use crate::job::spec::{JobSpec, Switches};
use crate::node::NodeConfig;
use crate::resources::MemoryRequest;
use crate::topology::{Switch, Topology, TopologyPlugin};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// `s0:1-4` is a leaf with n1 to n4, `top:s0,s1` a switch of switches.
fn topology(plugin: TopologyPlugin, lines: &[&str], block_sizes: &[u32]) -> Topology {
    let switch = |line: &&str| {
        let (name, below) = line.split_once(':').unwrap();
        let range = below.split_once('-').filter(|_| !below.contains('s'));
        let nodes = range.map_or(0..0, |(low, high)| {
            low.parse::<u32>().unwrap()..high.parse::<u32>().unwrap() + 1
        });
        let switches = below.split(',').filter(|_| range.is_none());
        Switch {
            name: name.to_owned(),
            nodes: nodes
                .map(|n| NodeName::new(format!("n{n}")).unwrap())
                .collect(),
            switches: switches.map(str::to_owned).collect(),
        }
    };
    Topology {
        plugin,
        switches: lines.iter().map(switch).collect(),
        block_sizes: block_sizes.to_vec(),
    }
}

fn tree(lines: &[&str]) -> Topology {
    topology(TopologyPlugin::Tree, lines, &[])
}

fn configure(world: &mut World, topology: Topology, weights: &[(&str, u32)]) {
    let config = |(name, weight): &(&str, u32)| {
        let config = NodeConfig {
            weight: *weight,
            ..NodeConfig::default()
        };
        (NodeName::new(*name).unwrap(), config)
    };
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![partition("gpu")],
        min_job_age: 300,
        node_timeout: 60,
        node_config: weights.iter().map(config).collect(),
        topology,
    });
}

/// Where it starts; a job that does not is cancelled, so that nothing is kept for it.
fn names(world: &mut World, spec: JobSpec) -> String {
    let job = world.submit(spec);
    world.plan();
    if world.job(job).allocation.is_empty() {
        // What waits keeps devices from those behind it, which is not what is tested here.
        world.does(Event::Cancelled { job, by: Uid(0) });
    }
    let names = world.job(job).allocation.iter();
    let names = names.map(|share| world.cluster.nodes[&share.node].name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

fn on(nodes: &[&str], gpus: u32) -> JobSpec {
    JobSpec {
        nodelist: nodes.iter().map(|name| (*name).to_owned()).collect(),
        ..gang(u32::try_from(nodes.len()).unwrap(), gpus)
    }
}

#[test]
fn the_smallest_switch_that_holds_the_job() {
    let mut world = World::new(12, 8);
    let lines = ["s0:1-4", "s1:5-8", "s2:9-12", "s3:s0,s1", "s4:s3,s2"];
    configure(&mut world, tree(&lines), &[]);
    assert_eq!(names(&mut world, on(&["n1"], 8)), "n1");
    assert_eq!(names(&mut world, on(&["n9", "n10"], 8)), "n9 n10");
    assert_eq!(
        names(&mut world, gang(2, 8)),
        "n11 n12",
        "where least stays behind"
    );
    assert_eq!(
        names(&mut world, gang(4, 8)),
        "n5 n6 n7 n8",
        "on one switch"
    );
    assert_eq!(names(&mut world, gang(4, 8)), "", "three are left");
    assert_eq!(names(&mut world, gang(3, 8)), "n2 n3 n4");
}

#[test]
fn as_few_switches_as_possible_when_one_does_not_do() {
    let mut world = World::new(16, 8);
    let lines = ["s0:1-4", "s1:5-8", "s2:9-12", "s3:13-16", "s4:s0,s1,s2,s3"];
    configure(&mut world, tree(&lines), &[]);
    for node in ["n1", "n5", "n6", "n9", "n10", "n11"] {
        world.start(on(&[node], 8));
    }
    // 3, 2, 1 and 4 are free: four of one switch and one of the smallest that has one.
    assert_eq!(names(&mut world, gang(5, 8)), "n12 n13 n14 n15 n16");
    assert_eq!(names(&mut world, gang(4, 8)), "n2 n3 n4 n7");
}

#[test]
fn no_job_spans_switches_without_a_common_one() {
    let mut world = World::new(6, 8);
    configure(&mut world, tree(&["s0:1-2", "s1:3-4"]), &[]);
    let wide = world.submit(gang(2, 8));
    assert_eq!(names(&mut world, gang(2, 1)), "n3 n4");
    assert_eq!(world.places(wide), "n1:c0:g0-7:t1 n2:c0:g0-7:t1");
    assert_eq!(
        names(&mut world, gang(2, 8)),
        "",
        "n5 and n6 hang on no switch"
    );
    assert_eq!(names(&mut world, gang(1, 8)), "n5");
}

#[test]
fn required_nodes_lead_to_their_switch() {
    let mut world = World::new(8, 8);
    configure(&mut world, tree(&["s0:1-4", "s1:5-8", "s2:s0,s1"]), &[]);
    let with = |node: &str, nodes| JobSpec {
        nodelist: vec![node.to_owned()],
        ..gang(nodes, 4)
    };
    assert_eq!(names(&mut world, with("n6", 2)), "n5 n6");
    assert_eq!(names(&mut world, with("n6", 6)), "n1 n2 n5 n6 n7 n8");
}

#[test]
fn at_most_so_many_switches() {
    let mut world = World::new(8, 8);
    configure(
        &mut world,
        tree(&["s0:1-2", "s1:3-4", "s2:5-8", "s3:s0,s1", "s4:s3,s2"]),
        &[],
    );
    let switches = |nodes, count| JobSpec {
        switches: Some(Switches {
            count,
            max_wait_secs: None,
        }),
        ..gang(nodes, 8)
    };
    assert_eq!(names(&mut world, on(&["n5"], 1)), "n5");
    // s3 holds four nodes on two switches; of s2 only three are free.
    assert_eq!(names(&mut world, switches(4, 1)), "");
    assert_eq!(names(&mut world, switches(3, 1)), "n6 n7 n8");
    assert_eq!(names(&mut world, switches(4, 2)), "n1 n2 n3 n4");
}

#[test]
fn whoever_waited_long_enough_takes_any_number_of_switches() {
    let mut world = World::new(4, 8);
    configure(&mut world, tree(&["s0:1-2", "s1:3-4", "s2:s0,s1"]), &[]);
    let wants = |max_wait_secs| JobSpec {
        switches: Some(Switches {
            count: 1,
            max_wait_secs,
        }),
        ..gang(3, 8)
    };
    let (soon, later) = (wants(Some(60)), wants(None));
    let first = world.submit(later.clone());
    let job = world.submit(soon);
    let submitted = world.now;
    world.plan();
    assert!(world.job(job).allocation.is_empty());
    assert_eq!(
        world.cluster.next_deadline(world.now).unwrap().0,
        submitted.plus_secs(60)
    );
    world.now = submitted.plus_secs(59);
    world.plan();
    assert!(world.job(job).allocation.is_empty());
    assert!(
        world
            .cluster
            .begins_within(submitted.plus_secs(59), submitted.plus_secs(60))
    );
    world.now = submitted.plus_secs(60);
    world.plan();
    assert_eq!(
        world.job(job).allocation.len(),
        3,
        "rather than wait longer"
    );
    assert!(
        world.job(first).allocation.is_empty(),
        "its wait is Slurm's longest, 300 s"
    );
    world.does(Event::Cancelled { job, by: Uid(0) });
    world.clean_all(job);
    world.now = submitted.plus_secs(298);
    world.plan();
    assert!(world.job(first).allocation.is_empty());
    world.now = submitted.plus_secs(299);
    world.plan();
    assert_eq!(world.job(first).allocation.len(), 3);
    assert!(
        !world
            .cluster
            .begins_within(submitted, submitted.plus_secs(1_000))
    );
}

#[test]
fn blocks_and_segments() {
    let block = |sizes: &[u32]| {
        let lines = ["b0:1-4", "b1:5-8", "b2:9-12", "b3:13-16"];
        topology(TopologyPlugin::Block, &lines, sizes)
    };
    let mut world = World::new(16, 8);
    configure(&mut world, block(&[4, 8]), &[]);
    world.start(on(&["n1", "n2"], 8));
    world.start(on(&["n9"], 8));
    // b0 and b1 have six free, b2 and b3 seven.
    assert_eq!(names(&mut world, gang(6, 8)), "n3 n4 n5 n6 n7 n8");
    world.start(on(&["n13"], 8));
    let segments = |nodes, segment| JobSpec {
        segment,
        ..gang(nodes, 8)
    };
    assert_eq!(names(&mut world, segments(4, 4)), "", "no block has four");
    assert_eq!(names(&mut world, segments(4, 2)), "n10 n11 n14 n15");
}

#[test]
fn light_nodes_come_before_near_ones() {
    let mut world = World::new(4, 8);
    let weights = [("n1", 5), ("n2", 5), ("n3", 5)];
    configure(
        &mut world,
        tree(&["s0:1-2", "s1:3-4", "s2:s0,s1"]),
        &weights,
    );
    configure(
        &mut world,
        tree(&["s0:1-2", "s1:3-4", "s2:s0,s1"]),
        &[("n1", 5), ("n3", 5)],
    );
    assert_eq!(names(&mut world, gang(2, 1)), "n2 n4");
    assert_eq!(names(&mut world, gang(3, 1)), "n1 n2 n4");
}

#[test]
fn nodes_that_follow_one_another() {
    let mut world = World::new(9, 8);
    for node in ["n2", "n7"] {
        world.start(on(&[node], 8));
    }
    let row = |nodes| JobSpec {
        contiguous: true,
        ..gang(nodes, 8)
    };
    assert_eq!(names(&mut world, row(2)), "n8 n9", "the shortest run");
    let with = JobSpec {
        nodelist: vec!["n5".to_owned()],
        ..row(3)
    };
    assert_eq!(names(&mut world, with), "n4 n5 n6");
    assert_eq!(
        names(&mut world, row(2)),
        "",
        "n1 and n3 do not follow one another"
    );
    let tasks = JobSpec {
        tasks: 14,
        tasks_set: true,
        contiguous: true,
        memory: MemoryRequest::PerNode(1),
        ..batch()
    };
    assert_eq!(names(&mut world, tasks), "n1 n2");
}

#[test]
fn different_parts_stay_in_a_domain() {
    let mut world = World::new(6, 8);
    configure(&mut world, tree(&["s0:1-3", "s1:4-6", "s2:s0,s1"]), &[]);
    world.start(on(&["n1", "n2"], 6));
    let tasks = |tasks| JobSpec {
        tasks,
        tasks_set: true,
        memory: MemoryRequest::PerNode(1),
        ..batch()
    };
    // 7, 7 and 8 CPUs are free on s0, thrice 8 on s1.
    assert_eq!(names(&mut world, tasks(22)), "n1 n2 n3");
    assert_eq!(names(&mut world, tasks(20)), "n4 n5 n6");
}

#[test]
fn switches_in_any_order_and_drawn_twice() {
    let top = ["s9:s0,s1", "s0:1-2", "s8:s0,s1", "s1:3-4"];
    let mut fabric = Fabric::of(&tree(&top));
    for n in 1..=4 {
        fabric.see(NodeId(n), &NodeName::new(format!("n{n}")).unwrap());
    }
    let all: Vec<Candidate> = (1..=4).map(|n| candidate(&fabric, n)).collect();
    assert_eq!(choose(&fabric, &all, wish(4)), Some(vec![1, 2, 3, 4]));
    assert_eq!(choose(&fabric, &all, wish(5)), None);
}

fn candidate(fabric: &Fabric, node: u32) -> Candidate {
    Candidate {
        position: node as usize,
        leaf: fabric.leaf(NodeId(node)),
        required: false,
    }
}

fn wish(nodes: usize) -> Wish {
    Wish {
        nodes,
        switches: 0,
        segment: 0,
    }
}

/// Leaves of 1 to 4 nodes under switches of 1 to 3 leaves under one.
fn any_tree() -> impl Strategy<Value = (Topology, u32)> {
    let leaves = proptest::collection::vec(1u32..5, 1..4);
    proptest::collection::vec(leaves, 1..4).prop_map(|groups| {
        let (mut lines, mut tops, mut leaf, mut node) = (Vec::new(), Vec::new(), 0, 1);
        for (at, group) in groups.iter().enumerate() {
            let first = leaf;
            for size in group {
                lines.push(format!("s{leaf}:{node}-{}", node + size - 1));
                (leaf, node) = (leaf + 1, node + size);
            }
            let below: Vec<String> = (first..leaf).map(|leaf| format!("s{leaf}")).collect();
            lines.push(format!("g{at}s:{}", below.join(",")));
            tops.push(format!("g{at}s"));
        }
        lines.push(format!("top:{}", tops.join(",")));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        (tree(&lines), node - 1)
    })
}

proptest! {
    #[test]
    fn what_is_chosen_is_enough_and_in_the_lowest_domain(
        (topology, nodes) in any_tree(), free: u64, fixed: u64, count in 1usize..12,
    ) {
        let mut fabric = Fabric::of(&topology);
        for n in 1..=nodes {
            fabric.see(NodeId(n), &NodeName::new(format!("n{n}")).unwrap());
        }
        let bit = |set: u64, n: u32| set & 1 << (n % 64) != 0;
        let all: Vec<Candidate> = (1..=nodes)
            .filter(|n| bit(free, *n))
            .map(|n| Candidate { required: bit(fixed & fixed >> 7 & fixed >> 13, n), ..candidate(&fabric, n) })
            .collect();
        let required: BTreeSet<usize> = all.iter().filter(|one| one.required).map(|one| one.position).collect();
        let chosen = choose(&fabric, &all, wish(count));
        let Some(chosen) = chosen else {
            prop_assert!(all.len() < count || required.len() > count);
            return Ok(());
        };
        let set: BTreeSet<usize> = chosen.iter().copied().collect();
        prop_assert_eq!((chosen.len(), set.len()), (count, count));
        prop_assert!(required.is_subset(&set));
        prop_assert!(set.iter().all(|position| all.iter().any(|one| one.position == *position)));
        // No leaf, and no group of leaves, holds the job unless the job is in one.
        let leaf = |position: usize| fabric.leaf(NodeId(u32::try_from(position).unwrap())).unwrap();
        let group = |position: usize| fabric.domains[leaf(position)].parent.unwrap();
        for by in [&leaf as &dyn Fn(usize) -> usize, &group] {
            let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
            for one in &all {
                *counts.entry(by(one.position)).or_default() += 1;
            }
            let home = |domain: &usize| required.iter().all(|one| by(*one) == *domain);
            let one_would_do = counts.iter().any(|(domain, room)| *room >= count && home(domain));
            let used: BTreeSet<usize> = set.iter().map(|one| by(*one)).collect();
            prop_assert!(!one_would_do || used.len() == 1, "{used:?}");
        }
    }

    #[test]
    fn rows_follow_one_another(free: u32, required: u32, count in 1usize..8) {
        let all: Vec<Candidate> = (0..32)
            .filter(|at| free & 1 << at != 0)
            .map(|position| Candidate {
                position,
                leaf: None,
                required: required & required >> 11 & required >> 17 & 1 << position != 0,
            })
            .collect();
        let wanted: BTreeSet<usize> = all.iter().filter(|one| one.required).map(|one| one.position).collect();
        let windows = (0..32).map(|start| start..start + count);
        let fits = |window: &std::ops::Range<usize>| {
            window.clone().all(|at| all.iter().any(|one| one.position == at))
                && wanted.iter().all(|at| window.contains(at))
        };
        let possible = windows.clone().any(|window| fits(&window));
        let chosen = in_a_row(&all, |at| at, count);
        prop_assert_eq!(chosen.is_some(), possible);
        if let Some(chosen) = chosen {
            prop_assert!(windows.into_iter().any(|window| fits(&window) && window.eq(chosen.iter().copied())));
        }
    }
}

//! Which nodes a job may use, by what it says of features and names.

use super::{Features, choices};
use crate::event::Event;
use crate::fixture::{World, gang, partition};
use crate::id::NodeName;
use crate::job::admit::admit;
use crate::job::spec::JobSpec;
use crate::node::{Node, NodeConfig};
use crate::plan::bits::Bits;
use std::rc::Rc;
use std::sync::Arc;

fn bits(len: usize, set: impl IntoIterator<Item = usize>) -> Bits {
    let mut bits = Bits::none(len);
    set.into_iter().for_each(|at| bits.set(at));
    bits
}

/// Nodes `n1`… with these features.
fn world(features: &[&str]) -> World {
    let mut world = World::new(u32::try_from(features.len()).unwrap(), 8);
    let config = |(at, features): (usize, &&str)| {
        let config = NodeConfig {
            features: features.split_whitespace().map(str::to_owned).collect(),
            ..NodeConfig::default()
        };
        (NodeName::new(format!("n{}", at + 1)).unwrap(), config)
    };
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![partition("gpu")],
        min_job_age: 300,
        node_timeout: 60,
        node_config: features.iter().enumerate().map(config).collect(),
        topology: Default::default(),
    });
    world
}

fn names(world: &mut World, spec: JobSpec) -> String {
    let job = world.cluster.next_job_id().unwrap();
    // What admission says of features is not what is tested here.
    let mut admitted = JobSpec {
        constraint: String::new(),
        prefer: String::new(),
        ..spec.clone()
    };
    let priority = admit(&world.cluster, &mut admitted, world.now)
        .unwrap()
        .priority;
    let spec = Arc::new(JobSpec {
        constraint: spec.constraint,
        prefer: spec.prefer,
        ..admitted
    });
    world.does(Event::Submitted {
        job,
        spec,
        priority,
    });
    world.plan();
    let names = world.job(job).allocation.iter();
    let names = names.map(|share| world.cluster.nodes[&share.node].name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

fn with(constraint: &str, nodes: u32) -> JobSpec {
    JobSpec {
        constraint: constraint.to_owned(),
        ..gang(nodes, 1)
    }
}

#[test]
fn sets_of_nodes_by_constraint() {
    let world = world(&["a ib", "a", "b ib", "", "b"]);
    let nodes: Vec<&Node> = world.cluster.nodes.values().collect();
    let mut features = Features::of(&world.cluster, nodes.into_iter());
    for (constraint, prefer, expected) in [
        ("", "", "0,1,2,3"),
        ("a", "", "0,1"),
        ("a&ib", "", "0"),
        ("a|b", "", "0,1,2"),
        ("[a|b]", "", "0,1 2"),
        ("ib&[a|b]", "", "0 2"),
        ("", "ib", "0,2 0,1,2,3"),
        ("[a|b]", "ib", "0 2 0,1 2"),
        ("[a*1&b*1]", "", "0,1,2,3"),
    ] {
        let members = Rc::new(bits(5, 0..4));
        let (sets, preferred) = choices(&mut features, members, (constraint, prefer));
        assert_eq!(
            preferred,
            if prefer.is_empty() { 0 } else { sets.len() / 2 }
        );
        let show = |set: &Rc<Bits>| {
            let at: Vec<String> = set.iter().map(|at| at.to_string()).collect();
            at.join(",")
        };
        let sets: Vec<String> = sets.iter().map(show).collect();
        assert_eq!(sets.join(" "), expected, "{constraint} {prefer}");
    }
}

#[test]
fn jobs_go_where_their_features_are() {
    let mut world = world(&["", "a", "b", "a", "b", "a b"]);
    assert_eq!(names(&mut world, with("b", 1)), "n3");
    assert_eq!(names(&mut world, with("a&b", 1)), "n6");
    assert_eq!(names(&mut world, with("[a|b]", 3)), "n2 n4 n6");
    assert_eq!(names(&mut world, with("a|b", 4)), "n2 n3 n4 n6");
    let prefers = |prefer: &str, nodes| JobSpec {
        prefer: prefer.to_owned(),
        ..gang(nodes, 1)
    };
    assert_eq!(names(&mut world, prefers("b", 2)), "n3 n6");
    assert_eq!(
        names(&mut world, prefers("b", 4)),
        "n2 n3 n4 n6",
        "rather than wait"
    );
}

#[test]
fn so_many_nodes_of_each_kind() {
    let mut world = world(&["a", "a", "a", "b", "b", ""]);
    assert_eq!(names(&mut world, with("[a*1&b*2]", 3)), "n1 n4 n5");
    assert_eq!(
        names(&mut world, with("[a*2&b*1]", 4)),
        "n1 n2 n4 n5",
        "the fourth may be any"
    );
    assert_eq!(names(&mut world, with("b*2", 2)), "n4 n5");
}

#[test]
fn a_partitions_jobs_have_so_many_cpus_of_a_node_together() {
    let mut world = World::new(2, 8);
    let mut capped = partition("gpu");
    capped.max_cpus_per_node = 4;
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![capped, partition("other")],
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    });
    let cpus = |cpus_per_task| JobSpec {
        cpus_per_task,
        ..gang(1, 1)
    };
    assert_eq!(names(&mut world, cpus(3)), "n1");
    assert_eq!(names(&mut world, cpus(2)), "n2");
    assert_eq!(names(&mut world, cpus(2)), "n2");
    assert_eq!(names(&mut world, cpus(2)), "", "two of n1's would be five");
    assert_eq!(names(&mut world, cpus(1)), "n1");
    let (a, b) = (world.submit(cpus(1)), world.submit(cpus(1)));
    world.plan();
    assert!(world.job(a).allocation.is_empty() && world.job(b).allocation.is_empty());
    let other = JobSpec {
        partition: "other".to_owned(),
        ..cpus(4)
    };
    assert_eq!(names(&mut world, other), "n1", "others have their own");
}

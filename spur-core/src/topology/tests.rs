use super::{BadTopology as Bad, Switch, Topology, TopologyPlugin};
use crate::id::NodeName;
use crate::slurm::hostlist;

fn nodes(list: &str) -> Vec<NodeName> {
    let names = hostlist::parse(list).unwrap();
    names
        .into_iter()
        .map(|n| NodeName::new(n).unwrap())
        .collect()
}

fn switch(name: &str, on: &str, below: &str) -> Switch {
    Switch {
        name: name.to_owned(),
        nodes: nodes(on),
        switches: hostlist::parse(below).unwrap(),
    }
}

fn tree(switches: &[(&str, &str, &str)]) -> Topology {
    Topology {
        plugin: TopologyPlugin::Tree,
        switches: switches.iter().map(|(a, b, c)| switch(a, b, c)).collect(),
        block_sizes: Vec::new(),
    }
}

#[test]
fn a_tree_knows_its_levels_and_nodes() {
    let tree = tree(&[
        ("s1", "n[1-2]", ""),
        ("s2", "n3", ""),
        ("mid", "", "s[1-2]"),
        ("s3", "n4", ""),
        ("top", "", "mid,s3"),
    ]);
    assert_eq!(tree.check(), Ok(()));
    let levels = ["s1", "mid", "top", "none"].map(|name| tree.level(name));
    assert_eq!(levels, [Some(0), Some(1), Some(2), None]);
    let below = |name| {
        tree.nodes_below(name)
            .into_iter()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(below("top"), nodes("n[1-4]"));
    assert_eq!(below("s2"), nodes("n3"));
    assert!(below("none").is_empty());
    assert_eq!(Topology::default().check(), Ok(()));
}

#[test]
fn what_no_network_is_like_is_refused() {
    let name = |text: &str| text.to_owned();
    let table = [
        (
            tree(&[("s", "n1", ""), ("s", "n2", "")]),
            Bad::Twice(name("s")),
        ),
        (tree(&[("s", "", "")]), Bad::Kind(name("s"))),
        (
            tree(&[("s", "n1", ""), ("t", "n2", "s")]),
            Bad::Kind(name("t")),
        ),
        (tree(&[("t", "", "s")]), Bad::Unknown(name("t"), name("s"))),
        (
            tree(&[("s", "n1", ""), ("t", "", "s"), ("u", "", "s")]),
            Bad::SeveralAbove(name("s")),
        ),
        (
            tree(&[("a", "", "b"), ("b", "", "a")]),
            Bad::Circle(name("a")),
        ),
        (tree(&[("a", "", "a")]), Bad::Circle(name("a"))),
        (
            tree(&[("s", "n1", ""), ("t", "n[1-2]", "")]),
            Bad::NodeTwice(nodes("n1").remove(0), name("s"), name("t")),
        ),
    ];
    for (topology, why) in table {
        assert_eq!(topology.check(), Err(why), "{topology:?}");
    }
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    let mut deep = tree(&[("s0", "n1", "")]);
    for pair in names.windows(2) {
        deep.switches.push(switch(&pair[1], "", &pair[0]));
    }
    assert_eq!(deep.check(), Err(Bad::Deep));
}

#[test]
fn blocks_have_nodes_and_sizes_that_double() {
    let blocks = |sizes: &[u32]| Topology {
        plugin: TopologyPlugin::Block,
        switches: vec![switch("b1", "n[1-4]", ""), switch("b2", "n[5-10]", "")],
        block_sizes: sizes.to_vec(),
    };
    for sizes in [&[][..], &[4], &[2, 4, 16], &[3]] {
        assert_eq!(blocks(sizes).check(), Ok(()), "{sizes:?}");
    }
    for sizes in [&[5][..], &[0], &[4, 4], &[2, 6], &[4, 2]] {
        let why = Bad::Sizes(sizes.to_vec(), 4);
        assert_eq!(blocks(sizes).check(), Err(why), "{sizes:?}");
    }
    let mut nested = blocks(&[]);
    nested.switches.push(switch("b3", "", "b1"));
    let why = Bad::BlockOfSwitches("b3".to_owned());
    assert_eq!(nested.check(), Err(why));
}

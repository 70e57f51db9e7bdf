//! The same for jobs that care how their nodes and devices lie to one another.

use super::{Machine, Op, Stream, job, machine, op};
use crate::event::Event;
use crate::fixture::partition;
use crate::id::NodeName;
use crate::job::spec::{JobSpec, Switches};
use crate::node::NodeConfig;
use crate::topology::{Switch, Topology, TopologyPlugin};
use proptest::prelude::*;

/// What a job may say beside its size.
#[derive(Clone, Debug)]
enum Wish {
    Nothing,
    Enforce,
    Anywhere,
    CpusPerGpu(u32),
    MinCpus(u32),
    TasksPerSocket(u32),
    TasksPerGpu(u32),
    Sockets,
    Switches(u64),
    Row,
    Constraint(&'static str),
    Prefer(&'static str),
}

fn wish() -> impl Strategy<Value = Wish> {
    let features = || {
        prop_oneof![
            Just("a"),
            Just("b"),
            Just("a|b"),
            Just("[a|b]"),
            Just("[a*1&b*1]")
        ]
    };
    prop_oneof![
        2 => Just(Wish::Nothing),
        2 => Just(Wish::Enforce),
        1 => Just(Wish::Anywhere),
        1 => (1u32..4).prop_map(Wish::CpusPerGpu),
        1 => (1u32..6).prop_map(Wish::MinCpus),
        1 => (1u32..3).prop_map(Wish::TasksPerSocket),
        1 => (1u32..3).prop_map(Wish::TasksPerGpu),
        1 => Just(Wish::Sockets),
        2 => (0u64..300).prop_map(Wish::Switches),
        1 => Just(Wish::Row),
        2 => features().prop_map(Wish::Constraint),
        1 => features().prop_map(Wish::Prefer),
    ]
}

fn wishful((spec, wish): (Box<JobSpec>, Wish)) -> Box<JobSpec> {
    let mut spec = spec;
    match wish {
        Wish::Nothing => {}
        Wish::Enforce => spec.gres_flags.enforce_binding = true,
        Wish::Anywhere => spec.gres_flags.disable_binding = true,
        Wish::CpusPerGpu(cpus) => (spec.cpus_per_gpu, spec.cpus_per_task) = (cpus, 1),
        Wish::MinCpus(cpus) => spec.mincpus = cpus,
        Wish::TasksPerSocket(tasks) => spec.tasks_per_socket = tasks,
        Wish::TasksPerGpu(tasks) => {
            (spec.tasks_per_gpu, spec.cpus_per_task, spec.tasks_set) = (tasks, 1, false);
        }
        Wish::Sockets => spec.sockets_per_node = 2,
        Wish::Switches(wait) => {
            spec.switches = Some(Switches {
                count: 1,
                max_wait_secs: Some(wait),
            });
        }
        Wish::Row => spec.contiguous = true,
        Wish::Constraint(text) => spec.constraint = text.to_owned(),
        Wish::Prefer(text) => spec.prefer = text.to_owned(),
    }
    spec
}

/// Nodes `n1` to `n5`, of which the odd ones have feature `a` and those above two `b`; two switches under one, or none.
fn configure(stream: &mut Stream, switches: bool, weights: bool) {
    let name = |n: u32| NodeName::new(format!("n{n}")).unwrap();
    let config = |n: u32| {
        let has = |wanted: bool, feature: &str| wanted.then(|| feature.to_owned());
        let features = has(n % 2 == 1, "a").into_iter().chain(has(n > 2, "b"));
        let config = NodeConfig {
            features: features.collect(),
            weight: if weights { n % 2 + 1 } else { 1 },
        };
        (name(n), config)
    };
    let leaf = |at: &str, nodes: std::ops::Range<u32>| Switch {
        name: at.to_owned(),
        nodes: nodes.map(name).collect(),
        switches: Vec::new(),
    };
    let top = Switch {
        name: "top".to_owned(),
        nodes: Vec::new(),
        switches: vec!["s0".to_owned(), "s1".to_owned()],
    };
    let topology = Topology {
        plugin: TopologyPlugin::Tree,
        switches: vec![leaf("s0", 1..3), leaf("s1", 3..6), top],
        block_sizes: Vec::new(),
    };
    stream.apply(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![partition("gpu")],
        min_job_age: 300,
        node_timeout: 60,
        node_config: (1..6).map(config).collect(),
        topology: if switches {
            topology
        } else {
            Topology::default()
        },
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn wishes_change_nothing_of_that(
        machines in prop::collection::vec(machine(), 1..6),
        ops in prop::collection::vec(prop_oneof![
            1 => op(),
            1 => (job(), wish()).prop_map(|both| Op::Submit(wishful(both))),
        ], 1..60),
        (switches, weights) in any::<(bool, bool)>(),
        depth in prop_oneof![2 => Just(None), 1 => (1u32..5).prop_map(Some), 1 => Just(Some(100))],
    ) {
        let machines: Vec<Machine> = machines;
        let mut stream = Stream::of(&machines, depth);
        configure(&mut stream, switches, weights);
        for op in ops {
            stream.run(op);
        }
        stream.drain();
    }
}

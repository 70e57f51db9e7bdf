use crate::api::{Refusal, RefusalKind};
use crate::event::Event;
use crate::fixture::{World, batch, gang, gpus, hello, inventory, partition};
use crate::id::NodeName;
use crate::job::admit::admit;
use crate::job::spec::JobSpec;
use crate::node::NodeConfig;
use crate::partition::Partition;
use crate::topology::{Switch, Topology, TopologyPlugin};

/// Nodes 1 and 2 have `a` and `ib`, 3 has `b` by configuration, 4 says itself that it has `c`; partition `small` has 4 only.
fn world(limit: impl FnOnce(&mut Partition)) -> World {
    let mut world = World::new(3, 8);
    let features = |list: &[&str]| NodeConfig {
        features: list.iter().map(|name| (*name).to_owned()).collect(),
        weight: 1,
    };
    let name = |name: &str| NodeName::new(name).unwrap();
    let mut gpu = partition("gpu");
    limit(&mut gpu);
    let small = Partition {
        nodes: Some(vec![name("n4")]),
        ..partition("small")
    };
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![gpu, small],
        min_job_age: 300,
        node_timeout: 60,
        node_config: [
            (name("n1"), features(&["a", "ib"])),
            (name("n2"), features(&["a", "ib"])),
            (name("n3"), features(&["b"])),
        ]
        .into(),
        topology: Topology {
            plugin: TopologyPlugin::Block,
            switches: vec![
                Switch {
                    name: "b1".to_owned(),
                    nodes: vec![name("n1"), name("n2")],
                    switches: Vec::new(),
                },
                Switch {
                    name: "b2".to_owned(),
                    nodes: vec![name("n3"), name("n4")],
                    switches: Vec::new(),
                },
            ],
            block_sizes: vec![2],
        },
    });
    let mut own = inventory(8, 16_384, 4);
    own.features = vec!["c".to_owned()];
    world.does(Event::NodeConnected(hello("n4", own)));
    world
}

fn asked(world: &World, mut spec: JobSpec) -> Result<JobSpec, (RefusalKind, String)> {
    match admit(&world.cluster, &mut spec, world.now) {
        Ok(_) => Ok(spec),
        Err(Refusal { kind, text }) => Err((kind, text)),
    }
}

fn constrained(nodes: u32, constraint: &str) -> JobSpec {
    JobSpec {
        constraint: constraint.to_owned(),
        ..gang(nodes, 0)
    }
}

const NEVER: RefusalKind = RefusalKind::NodeConfigUnavailable;

#[test]
fn what_nodes_can_have_is_taken() {
    let world = world(|_| {});
    for (nodes, constraint) in [
        (2, "a"),
        (2, "a&ib"),
        (3, "a|b"),
        (1, "c"),
        (2, "[a|b]"),
        (1, "[a|b]"),
        (3, "[a*2&b*1]"),
        (4, "b*1"),
        (4, "a|b|c"),
    ] {
        let taken = asked(&world, constrained(nodes, constraint));
        assert!(taken.is_ok(), "{nodes} {constraint}: {taken:?}");
    }
    let comma = asked(&world, constrained(1, "a,ib")).unwrap();
    assert_eq!(comma.constraint, "a&ib", "as Slurm keeps it");
}

#[test]
fn unknown_features_and_bad_grammar_are_refused_before_anything_else() {
    let world = world(|_| {});
    let feature = RefusalKind::InvalidFeature;
    let table = [
        ("nope", "no node has feature \"nope\""),
        ("a&nope", "no node has feature \"nope\""),
        (
            "[a&b]",
            "features that are joined by '&' between brackets need counts, as in [a*2&b*1]",
        ),
        ("&a", "constraint has '&' without a feature before it"),
    ];
    for (constraint, text) in table {
        let refused = asked(&world, constrained(1, constraint)).unwrap_err();
        assert_eq!(refused, (feature, text.to_owned()), "{constraint}");
    }
    let prefer = JobSpec {
        prefer: "nope".to_owned(),
        ..batch()
    };
    let refused = asked(&world, prefer).unwrap_err();
    assert_eq!(refused.0, RefusalKind::InvalidPrefer);
    let prefer = JobSpec {
        prefer: "a".to_owned(),
        ..batch()
    };
    assert!(asked(&world, prefer).is_ok());
}

#[test]
fn what_no_state_of_the_cluster_could_satisfy_is_refused_with_what_is_missing_where() {
    let world = world(|_| {});
    let on_all = "partition gpu";
    let table = [
        (
            constrained(3, "a"),
            "partition gpu has 2 nodes that a allows, and the job needs 3",
        ),
        (
            constrained(1, "a&b"),
            "partition gpu has no node that a&b allows, and the job needs 1",
        ),
        (
            constrained(3, "[a|b]"),
            "partition gpu has 2 nodes that [a|b] allows, and the job needs 3",
        ),
        (gang(5, 0), "partition gpu has 4 nodes, not 5"),
        (
            gang(1, 9),
            "no node of partition gpu has 9 GPUs; the most is 8, on node n1",
        ),
        (
            gang(4, 8),
            "partition gpu has 3 nodes with 8 GPUs, and the job needs 4",
        ),
        (
            JobSpec {
                constraint: "c".to_owned(),
                ..gang(1, 8)
            },
            "no node of partition gpu has 8 GPUs; the most is 4, on node n4",
        ),
        (
            JobSpec {
                cpus_per_task: 9,
                ..batch()
            },
            "CPU count per node can not be satisfied\nno node of partition gpu has 9 CPUs; the most is 8, on node n1",
        ),
        (
            JobSpec {
                gpus_total: gpus(40),
                ..batch()
            },
            "4 nodes of partition gpu have 28 GPUs at most, and the job needs 40",
        ),
        (
            JobSpec {
                sockets_per_node: 2,
                ..batch()
            },
            "Socket, core and/or thread specification can not be satisfied\nno node of partition gpu has 2 sockets; the most is 1, on node n1",
        ),
        (
            JobSpec {
                exclude: vec!["n1".to_owned()],
                ..gang(3, 8)
            },
            "partition gpu without the excluded nodes has 2 nodes with 8 GPUs, and the job needs 3",
        ),
    ];
    for (spec, text) in table {
        let what = format!("{spec:?}");
        let refused = asked(&world, spec).unwrap_err();
        assert_eq!(refused, (NEVER, text.to_owned()), "{on_all} {what}");
    }
}

#[test]
fn gpus_that_no_single_node_has_may_be_on_several() {
    let mut world = world(|_| {});
    let asked_for = |count| JobSpec {
        gpus_total: gpus(count),
        ..batch()
    };
    let one = asked(&world, asked_for(8)).unwrap();
    assert_eq!((one.nodes_min, one.nodes_max), (1, 1));
    let several = asked(&world, asked_for(20)).unwrap();
    assert_eq!((several.nodes_min, several.nodes_max), (1, 20));
    let job = world.start(asked_for(20));
    let shares = &world.job(job).allocation;
    let held: u32 = shares.iter().map(|share| share.gpus.len()).sum();
    assert_eq!((shares.len(), held), (3, 20));
    assert!(shares.iter().all(|share| share.tasks == 1));
}

#[test]
fn limits_of_partitions_let_jobs_wait_or_refuse_them_as_slurm_does() {
    let nodes = world(|p| p.max_nodes = 2);
    assert!(asked(&nodes, gang(3, 1)).is_ok(), "waits");
    let memory = world(|p| p.max_mem_per_node = 100);
    let much = JobSpec {
        memory: crate::resources::MemoryRequest::PerNode(200),
        ..batch()
    };
    assert!(asked(&memory, much).is_ok(), "waits");
    let cpus = world(|p| p.max_cpus_per_node = 4);
    let five = JobSpec {
        cpus_per_task: 5,
        ..batch()
    };
    let text = "5 CPUs on a node, and partition gpu gives at most 4".to_owned();
    assert_eq!(asked(&cpus, five).unwrap_err(), (NEVER, text));
    let least = world(|p| p.min_nodes = 2);
    assert_eq!(asked(&least, batch()).unwrap().nodes_min, 2);
    let per_gpu = world(|p| (p.def_cpu_per_gpu, p.def_mem_per_gpu) = (2, 1000));
    let spec = asked(&per_gpu, gang(1, 2)).unwrap();
    assert_eq!(spec.cpus_per_gpu, 2);
    assert_eq!(spec.memory, crate::resources::MemoryRequest::PerGpu(1000));
}

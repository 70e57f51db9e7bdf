use crate::api::RefusalKind;
use crate::event::Event;
use crate::fixture::{World, batch, gang, gpus, partition};
use crate::id::NodeName;
use crate::job::admit::admit;
use crate::job::spec::JobSpec;
use crate::job::state::JobState;
use crate::node::NodeConfig;
use crate::partition::Partition;
use std::sync::Arc;

/// `n1` and `n2` are there and have 8 GPUs, `n3` and `n4` are to come; all have `a` by configuration, `n1` has `b` too. Partition
/// `one` has `n4` only.
fn world(there: u32) -> World {
    let mut world = World::new(there, 8);
    let name = |at: u32| NodeName::new(format!("n{at}")).unwrap();
    let features = |at| NodeConfig {
        features: [&["a".to_owned()][..], &["b".to_owned()][..(at == 1).into()]].concat(),
        weight: 1,
    };
    let nodes = |nodes: &[u32]| Some(nodes.iter().map(|at| name(*at)).collect());
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![
            Partition {
                nodes: nodes(&[1, 2, 3, 4]),
                ..partition("gpu")
            },
            Partition {
                nodes: nodes(&[4]),
                ..partition("one")
            },
            partition("open"),
        ],
        min_job_age: 300,
        node_timeout: 60,
        node_config: (1..=4).map(|at| (name(at), features(at))).collect(),
        topology: Default::default(),
    });
    world
}

fn with(nodes: u32, constraint: &str) -> JobSpec {
    JobSpec {
        constraint: constraint.to_owned(),
        ..gang(nodes, 0)
    }
}

fn tasks(tasks: u32) -> JobSpec {
    JobSpec {
        tasks,
        tasks_set: true,
        ..batch()
    }
}

fn within(partition: &str, spec: JobSpec) -> JobSpec {
    JobSpec {
        partition: partition.to_owned(),
        ..spec
    }
}

#[test]
fn what_nodes_to_come_might_hold_is_taken() {
    for spec in [
        gang(4, 9),
        gang(1, 1024),
        with(4, "a*4"),
        with(4, "b*3"),
        with(4, "[a*1&b*3]"),
        tasks(100_000),
        JobSpec {
            gpus_total: gpus(2_000),
            ..batch()
        },
        within("one", gang(1, 9)),
    ] {
        let mut spec = spec;
        let asked = format!("{spec:?}");
        assert!(
            admit(&world(2).cluster, &mut spec, world(2).now).is_ok(),
            "{asked}"
        );
    }
    for spec in [gang(4, 9), with(300, "a*200"), tasks(100_000)] {
        let mut spec = within("open", spec);
        let empty = world(0);
        assert!(
            admit(&empty.cluster, &mut spec, empty.now).is_ok(),
            "{spec:?}"
        );
    }
}

#[test]
fn what_no_nodes_can_hold_is_refused() {
    let most = i32::MAX.cast_unsigned();
    let cases = [
        (gang(5, 0), "partition gpu has 4 nodes at most, not 5"),
        (
            gang(2_000_000_000, 0),
            "partition gpu has 4 nodes at most, not 2000000000",
        ),
        (
            with(4, "a*5"),
            "[a*5] takes 5 nodes, and the job has 4 of partition gpu at most",
        ),
        (
            with(1, "a*2"),
            "[a*2] takes 2 nodes, and the job has 1 of partition gpu at most",
        ),
        (
            with(4, "a*4000000000"),
            "[a*4000000000] takes 4000000000 nodes, and the job has 4 of partition gpu at most",
        ),
        (
            JobSpec {
                exclude: vec!["n4".to_owned()],
                ..with(3, "b*3")
            },
            "[b*3] takes 3 nodes, and the job has 3 of partition gpu at most",
        ),
        (
            tasks(most),
            "partition gpu has 131086 CPUs at most, not 2147483647",
        ),
        (
            gang(1, 1025),
            "partition gpu has 1024 GPUs at most, not 1025",
        ),
        (
            JobSpec {
                gpus_total: gpus(most),
                ..batch()
            },
            "partition gpu has 2064 GPUs at most, not 2147483647",
        ),
        (
            within("one", gang(2, 0)),
            "partition one has 1 nodes at most, not 2",
        ),
    ];
    let world = world(2);
    for (mut spec, text) in cases {
        let asked = format!("{spec:?}");
        let refusal = admit(&world.cluster, &mut spec, world.now).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NodeConfigUnavailable, "{asked}");
        assert_eq!(refusal.text, text, "{asked}");
    }
}

#[test]
fn a_cluster_without_any_node_has_bounds_too() {
    let world = world(0);
    for spec in [
        gang(65_537, 0),
        with(65_536, "a*4000000000"),
        JobSpec {
            cpus_per_task: u32::MAX,
            ..batch()
        },
    ] {
        let mut spec = within("open", spec);
        let refusal = admit(&world.cluster, &mut spec, world.now).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NodeConfigUnavailable);
    }
}

#[test]
fn a_job_that_an_old_log_holds_waits_and_harms_nobody() {
    let mut world = world(2);
    for constraint in ["a*4000000000", "[a*4294967295&b*4294967295]"] {
        let mut taken = gang(1, 1);
        let priority = admit(&world.cluster, &mut taken, world.now)
            .unwrap()
            .priority;
        let job = world.cluster.next_job_id().unwrap();
        let spec = JobSpec {
            constraint: constraint.to_owned(),
            ..taken
        };
        world.does(Event::Submitted {
            job,
            spec: Arc::new(spec),
            priority,
        });
        world.plan();
        assert_eq!(world.job(job).state, JobState::Pending);
    }
    let other = world.submit(gang(2, 8));
    world.plan();
    assert_eq!(world.job(other).state, JobState::Running);
}

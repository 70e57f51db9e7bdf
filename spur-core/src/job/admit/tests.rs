use super::*;
use crate::event::Event;
use crate::fixture::{World, batch, gang, gpus, inventory, partition};
use crate::id::NodeName;
use crate::job::state::Reason;
use crate::resources::{GpuCount, MemoryRequest};
use crate::time::TimeLimit;

/// As in the recorded Slurm: 4 nodes of 64 CPUs, 1,000,000 MiB, 8 GPUs.
fn world() -> World {
    World::of(4, &inventory(64, 1_000_000, 8))
}

fn admitted(world: &World, mut spec: JobSpec) -> JobSpec {
    admit(&world.cluster, &mut spec, world.now).unwrap();
    spec
}

fn refused(world: &World, mut spec: JobSpec) -> (RefusalKind, String) {
    let refusal = admit(&world.cluster, &mut spec, world.now).unwrap_err();
    (refusal.kind, refusal.text)
}

const NEVER: RefusalKind = RefusalKind::NodeConfigUnavailable;

#[test]
fn defaults_come_from_the_partition() {
    let spec = admitted(&world(), batch());
    assert_eq!(spec.partition, "gpu");
    assert_eq!(spec.time_limit, Some(TimeLimit::Secs(3_600)));
    assert_eq!(spec.memory, MemoryRequest::PerCpu(1024));
    assert_eq!((spec.nodes_min, spec.nodes_max, spec.tasks), (1, 1, 1));
}

#[test]
fn accounts_and_keys_have_no_capitals_however_they_are_written() {
    let mut spec = batch();
    spec.account = "Physics_A".to_owned();
    spec.extras_mut().wckey = "*Key".to_owned();
    let spec = admitted(&world(), spec);
    assert_eq!(
        (spec.account.as_str(), spec.extras().wckey.as_str()),
        ("physics_a", "*key")
    );
    // One that has none of it goes on having nothing of what few have.
    assert_eq!(admitted(&world(), batch()).extras, None);
}

#[test]
fn without_defaults_a_job_gets_the_longest_time_and_all_memory() {
    let mut world = world();
    let bare = Partition {
        default_time: None,
        default_mem_per_cpu: 0,
        ..partition("gpu")
    };
    let cluster = "test".to_owned();
    let partitions = vec![bare];
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster,
        partitions,
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    });
    let spec = admitted(&world, batch());
    assert_eq!(spec.time_limit, Some(TimeLimit::Secs(86_400)));
    assert_eq!(spec.memory, MemoryRequest::PerNode(0));
}

#[test]
fn a_partition_without_a_default_of_memory_has_the_clusters() {
    use MemoryRequest::{Default, PerCpu, PerNode};
    for (own, cluster, wanted) in [
        ((0, 0), Default, PerNode(0)),
        ((0, 0), PerCpu(512), PerCpu(512)),
        ((0, 0), PerNode(4096), PerNode(4096)),
        ((1024, 0), PerNode(4096), PerCpu(1024)),
        ((0, 2048), PerCpu(512), PerNode(2048)),
    ] {
        let mut world = world();
        world.cluster.default_memory = cluster;
        let partition = &mut world.cluster.partitions[0];
        (
            partition.default_mem_per_cpu,
            partition.default_mem_per_node,
        ) = own;
        assert_eq!(
            admitted(&world, batch()).memory,
            wanted,
            "{own:?}, {cluster:?}"
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn slurms_refusals() {
    let world = world();
    let model = Some(GpuCount {
        model: "a100".to_owned(),
        count: 1,
    });
    let list = |name: &str| vec![name.to_owned()];
    let cases = [
        (
            JobSpec {
                partition: "nope".into(),
                ..batch()
            },
            RefusalKind::InvalidPartition,
            "invalid partition specified: nope",
        ),
        (
            JobSpec {
                cpus_per_task: 1000,
                ..batch()
            },
            NEVER,
            "CPU count per node can not be satisfied",
        ),
        (gang(1, 9), NEVER, ""),
        (gang(100, 0), NEVER, ""),
        (
            JobSpec {
                gpus_per_node: model,
                ..batch()
            },
            NEVER,
            "",
        ),
        (
            JobSpec {
                memory: MemoryRequest::PerNode(2_000_000),
                ..batch()
            },
            NEVER,
            "Memory specification can not be satisfied",
        ),
        (
            JobSpec {
                nodelist: list("nope01"),
                ..batch()
            },
            RefusalKind::InvalidNode,
            "no node is named nope01",
        ),
        (
            JobSpec {
                exclude: list("nope01"),
                ..batch()
            },
            RefusalKind::InvalidNode,
            "no node is named nope01",
        ),
        (
            JobSpec {
                constraint: "nope".into(),
                ..batch()
            },
            RefusalKind::InvalidFeature,
            "",
        ),
        (
            JobSpec {
                gpus_total: gpus(33),
                ..batch()
            },
            NEVER,
            "",
        ),
        (
            JobSpec {
                gpus_total: gpus(9),
                ..gang(1, 0)
            },
            NEVER,
            "",
        ),
        (
            JobSpec {
                gpus_per_task: gpus(1),
                tasks: 33,
                tasks_set: true,
                ..batch()
            },
            NEVER,
            "",
        ),
        (
            JobSpec {
                tasks: 257,
                tasks_set: true,
                ..batch()
            },
            NEVER,
            "",
        ),
    ];
    for (spec, kind, text) in cases {
        let asked = format!("{spec:?}");
        // What Slurm says comes first; a sentence of our own follows.
        let (found, said) = refused(&world, spec);
        let first = said.lines().next().unwrap_or_default();
        assert_eq!(found, kind, "{asked}");
        assert!(text.is_empty() || first == text, "{asked}: {said}");
        assert!(!said.is_empty(), "{asked}");
    }
}

#[test]
fn what_fits_an_empty_cluster_is_taken() {
    let world = world();
    let list = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    for spec in [
        gang(4, 8),
        JobSpec {
            gpus_total: gpus(32),
            ..gang(4, 0)
        },
        JobSpec {
            gpus_per_task: gpus(1),
            tasks: 32,
            tasks_set: true,
            ..batch()
        },
        JobSpec {
            tasks: 256,
            tasks_set: true,
            ..batch()
        },
        JobSpec {
            memory: MemoryRequest::PerNode(1_000_000),
            ..batch()
        },
        JobSpec {
            memory: MemoryRequest::PerNode(0),
            ..batch()
        },
        JobSpec {
            memory: MemoryRequest::PerGpu(125_000),
            ..gang(1, 8)
        },
        JobSpec {
            nodelist: list(&["n4"]),
            exclude: list(&["n1"]),
            ..gang(2, 8)
        },
        JobSpec {
            exclusive: true,
            ..batch()
        },
        JobSpec {
            exclude: list(&["n1", "n2", "n3"]),
            ..batch()
        },
    ] {
        admitted(&world, spec);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn nodes_and_tasks_follow_from_one_another() {
    let world = world();
    let counts = |spec: &JobSpec| (spec.nodes_min, spec.nodes_max, spec.tasks);
    let nodes = |min, max| JobSpec {
        nodes_min: min,
        nodes_max: max,
        nodes_set: true,
        ..batch()
    };
    let tasks = |tasks| JobSpec {
        tasks,
        tasks_set: true,
        ..batch()
    };
    for (spec, expected) in [
        (nodes(2, 2), (2, 2, 2)),
        (
            JobSpec {
                tasks_per_node: 3,
                ..nodes(2, 2)
            },
            (2, 2, 6),
        ),
        (
            JobSpec {
                tasks_per_node: 2,
                ..tasks(8)
            },
            (4, 8, 8),
        ),
        (tasks(8), (1, 8, 8)),
        (
            JobSpec {
                tasks: 2,
                tasks_set: true,
                ..nodes(4, 4)
            },
            (2, 2, 2),
        ),
        (
            JobSpec {
                nodelist: vec!["n1".into(), "n2".into()],
                ..batch()
            },
            (2, 2, 2),
        ),
        (
            JobSpec {
                gpus_total: gpus(16),
                gpus_per_node: gpus(8),
                ..batch()
            },
            (2, 2, 2),
        ),
        (
            JobSpec {
                gpus_total: gpus(16),
                gpus_per_task: gpus(2),
                ..batch()
            },
            (1, 8, 8),
        ),
    ] {
        let asked = format!("{spec:?}");
        assert_eq!(counts(&admitted(&world, spec)), expected, "{asked}");
    }
    let two = vec!["n1".to_owned(), "n2".to_owned()];
    let kind = RefusalKind::InvalidNodeCount;
    assert_eq!(
        refused(
            &world,
            JobSpec {
                nodelist: two,
                ..nodes(1, 1)
            }
        )
        .0,
        kind
    );
    assert_eq!(refused(&world, nodes(3, 2)).0, kind);
}

#[test]
fn contradicting_gpu_requests_are_refused() {
    let world = world();
    let odd = JobSpec {
        gpus_total: gpus(5),
        gpus_per_task: gpus(2),
        ..batch()
    };
    assert_eq!(refused(&world, odd).0, RefusalKind::InvalidGres);
    let nodes = JobSpec {
        gpus_total: gpus(16),
        ..gang(1, 8)
    };
    let (kind, text) = refused(&world, nodes);
    assert_eq!(kind, RefusalKind::InvalidGres);
    assert!(text.contains("required nodes (2) doesn't fall"), "{text}");
}

#[test]
fn a_limit_above_the_partitions_waits() {
    let mut world = world();
    let job = world.submit(JobSpec {
        time_limit: Some(TimeLimit::Unlimited),
        ..batch()
    });
    world.plan();
    assert_eq!(world.job(job).reason, Reason::PartitionTimeLimit);
}

#[test]
fn partitions_that_are_closed_take_no_jobs_but_one_that_is_down_does() {
    let mut world = world();
    for (state, taken) in [
        (PartitionState::Drain, false),
        (PartitionState::Inactive, false),
        (PartitionState::Down, true),
    ] {
        world.does(Event::PartitionUpdated {
            name: "gpu".to_owned(),
            state,
        });
        let mut spec = batch();
        let answer = admit(&world.cluster, &mut spec, world.now);
        let unavailable = refuse(RefusalKind::PartitionUnavailable, "");
        assert_eq!(answer.err(), (!taken).then_some(unavailable));
    }
}

#[test]
fn a_partition_whose_nodes_have_not_all_registered_is_trusted() {
    let mut world = world();
    let nodes = ["n1", "n5"].map(|name| NodeName::new(name).unwrap());
    let cluster = "test".to_owned();
    let partitions = vec![Partition {
        nodes: Some(nodes.to_vec()),
        ..partition("gpu")
    }];
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster,
        partitions,
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    });
    admitted(&world, gang(1, 9));
    admitted(
        &world,
        JobSpec {
            nodelist: vec!["n5".to_owned()],
            ..batch()
        },
    );
    let outside = JobSpec {
        nodelist: vec!["n2".to_owned()],
        ..batch()
    };
    assert_eq!(refused(&world, outside).0, NEVER);
    admitted(&World::new(0, 0), gang(1, 9));
}

#[test]
fn priorities_are_those_of_slurm_without_weights() {
    for (hold, nice, priority) in [
        (false, 0, 1),
        (true, 0, 0),
        (false, 100, 1),
        (false, -100, 101),
    ] {
        assert_eq!(
            starting_priority(&JobSpec {
                hold,
                nice,
                ..batch()
            }),
            priority
        );
    }
}

/// Whatever numbers a client sends, admission answers.
#[test]
fn extreme_numbers_do_no_harm() {
    let world = world();
    let most = u32::MAX;
    for spec in [
        JobSpec {
            tasks: most,
            tasks_set: true,
            cpus_per_task: most,
            ..batch()
        },
        JobSpec {
            tasks_per_node: most,
            ..gang(most, most)
        },
        JobSpec {
            gpus_total: gpus(most),
            gpus_per_task: gpus(most),
            ..batch()
        },
        JobSpec {
            memory: MemoryRequest::PerCpu(u64::MAX),
            cpus_per_task: 64,
            ..batch()
        },
        JobSpec {
            memory: MemoryRequest::PerGpu(u64::MAX),
            ..gang(2, 8)
        },
        JobSpec {
            gpus_total: gpus(most),
            nodes_min: 0,
            nodes_max: most,
            nodes_set: true,
            ..batch()
        },
    ] {
        assert_eq!(refused(&world, spec).0, NEVER);
    }
}

#[test]
fn what_cannot_end_by_its_deadline_is_refused() {
    let world = World::new(1, 8);
    let at = world.now;
    let secs = |secs| Some(TimeLimit::Secs(secs));
    let kind = |(limit, min, deadline): (Option<TimeLimit>, Option<TimeLimit>, Millis)| {
        let mut spec = JobSpec {
            time_limit: limit,
            ..batch()
        };
        spec.extras_mut().time_min = min;
        spec.extras_mut().deadline = Some(deadline);
        let admitted = admit(&world.cluster, &mut spec, at);
        admitted.map(|_| spec).map_err(|refusal| refusal.kind)
    };
    let after = |secs| at.plus_secs(secs);
    for (case, refused) in [
        (
            (secs(600), None, Millis(at.0 - 1)),
            Some(RefusalKind::InvalidTimeLimit),
        ),
        ((secs(600), None, at), Some(RefusalKind::InvalidTimeLimit)),
        ((None, None, at), Some(RefusalKind::InvalidTimeMin)),
        (
            (secs(600), None, after(599)),
            Some(RefusalKind::InvalidTimeLimit),
        ),
        (
            (secs(600), secs(300), after(299)),
            Some(RefusalKind::InvalidTimeMin),
        ),
        (
            (secs(600), secs(601), after(9_999)),
            Some(RefusalKind::InvalidTimeMin),
        ),
        (
            (Some(TimeLimit::Unlimited), None, after(9_999)),
            Some(RefusalKind::InvalidTimeLimit),
        ),
        ((Some(TimeLimit::Unlimited), secs(60), after(9_999)), None),
        ((secs(600), None, after(600)), None),
        ((secs(600), secs(300), after(300)), None),
        ((None, None, after(60)), None),
    ] {
        assert_eq!(kind(case).err(), refused, "{case:?}");
    }
    let open = kind((None, None, after(600))).unwrap();
    assert_eq!(
        open.extras().time_min,
        secs(60),
        "as short as a minute, if it says nothing"
    );
    let mut later = JobSpec {
        time_limit: secs(600),
        begin: Some(after(100)),
        ..batch()
    };
    later.extras_mut().deadline = Some(after(650));
    let refused = admit(&world.cluster, &mut later, at).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::InvalidTimeLimit);
}

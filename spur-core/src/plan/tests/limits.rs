//! What partitions give of a node, and what a job that cannot have a place keeps from others: nothing.

use crate::event::Event;
use crate::fixture::{World, batch, gang, gpus, inventory, partition};
use crate::id::{JobId, NodeName, Uid};
use crate::job::admit::admit;
use crate::job::spec::{JobSpec, Switches};
use crate::job::state::{JobState, Reason};
use crate::partition::Partition;
use crate::plan::{Budget, plan};
use crate::resources::MemoryRequest;
use crate::time::{Millis, TimeLimit};
use crate::topology::{Switch, Topology, TopologyPlugin};
use proptest::prelude::*;

/// So many nodes of 8 CPUs, 8 GPUs and 16 GiB in partitions `lim`, with these limits, and `gpu`.
fn world(nodes: u32, edit: impl FnOnce(&mut Partition), topology: Topology) -> World {
    let mut world = World::of(nodes, &inventory(8, 16_384, 8));
    let mut lim = partition("lim");
    edit(&mut lim);
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![lim, partition("gpu")],
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology,
    });
    world
}

fn capped(nodes: u32, most: u32) -> World {
    world(nodes, |p| p.max_cpus_per_node = most, Topology::default())
}

/// Two nodes to a switch or block.
fn pairs(plugin: TopologyPlugin, nodes: u32) -> Topology {
    let name = |n: u32| NodeName::new(format!("n{n}")).unwrap();
    let leaf = |at: u32| Switch {
        name: format!("s{at}"),
        nodes: vec![name(2 * at + 1), name(2 * at + 2)],
        switches: Vec::new(),
    };
    let mut switches: Vec<Switch> = (0..nodes / 2).map(leaf).collect();
    if plugin == TopologyPlugin::Tree {
        let below = switches.iter().map(|leaf| leaf.name.clone()).collect();
        switches.push(Switch {
            name: "top".to_owned(),
            nodes: Vec::new(),
            switches: below,
        });
    }
    Topology {
        plugin,
        switches,
        block_sizes: Vec::new(),
    }
}

fn lim(spec: JobSpec) -> JobSpec {
    JobSpec {
        partition: "lim".to_owned(),
        ..spec
    }
}

fn tasks(tasks: u32) -> JobSpec {
    lim(JobSpec {
        tasks,
        tasks_set: true,
        memory: MemoryRequest::PerNode(1),
        ..batch()
    })
}

fn cpus(count: u32, secs: u64) -> JobSpec {
    lim(JobSpec {
        cpus_per_task: count,
        memory: MemoryRequest::PerNode(1),
        time_limit: Some(TimeLimit::Secs(secs)),
        ..batch()
    })
}

fn refusal(world: &World, mut spec: JobSpec) -> Option<String> {
    let refused = admit(&world.cluster, &mut spec, world.now).err();
    refused.map(|refusal| refusal.text)
}

fn reserved(world: &World, job: JobId) -> Option<Millis> {
    let found = plan(&world.cluster, world.now, Budget::default());
    found.outlook.reserved.get(&job).map(|kept| kept.start)
}

#[test]
fn what_a_partition_never_gives_is_refused_and_says_why() {
    let one = world(
        2,
        |p| (p.max_cpus_per_node, p.max_nodes) = (4, 1),
        Topology::default(),
    );
    let two = capped(2, 4);
    let by_gpu = |gpus_total, cpus_per_gpu| JobSpec {
        gpus_total: gpus(gpus_total),
        cpus_per_gpu,
        ..lim(batch())
    };
    let whole = JobSpec {
        exclusive: true,
        ..lim(batch())
    };
    let table = [
        (
            &one,
            tasks(5),
            Some("partition lim gives at most 4 CPUs of a node, 4 of 1 node, and the job needs 5"),
        ),
        (
            &one,
            by_gpu(3, 2),
            Some("partition lim gives at most 4 CPUs of a node, 4 of 1 node, and the job needs 6"),
        ),
        (
            &one,
            whole.clone(),
            Some("a whole node has 8 CPUs, and partition lim gives at most 4 of one"),
        ),
        (
            &two,
            tasks(9),
            Some("partition lim gives at most 4 CPUs of a node, 8 of 2 nodes, and the job needs 9"),
        ),
        (
            &two,
            by_gpu(2, 5),
            Some(
                "partition lim gives at most 4 CPUs of a node, 8 of 2 nodes, and the job needs 10",
            ),
        ),
        (
            &two,
            cpus(5, 60),
            Some("5 CPUs on a node, and partition lim gives at most 4"),
        ),
        (&one, tasks(4), None),
        (&two, tasks(8), None),
        (&two, by_gpu(2, 4), None),
    ];
    for (world, spec, text) in table {
        assert_eq!(refusal(world, spec.clone()).as_deref(), text, "{spec:?}");
    }
}

#[test]
fn parts_are_as_large_as_the_partition_gives() {
    let mut world = capped(2, 4);
    let job = world.start(tasks(6));
    let held: Vec<u32> = world
        .job(job)
        .allocation
        .iter()
        .map(|share| share.cpus.len())
        .collect();
    assert_eq!(held.iter().sum::<u32>(), 6);
    assert!(held.iter().all(|cpus| *cpus <= 4), "{held:?}");
    let most = world_of_max_nodes();
    assert_eq!(refusal(&most, tasks(8)), None);
    assert!(refusal(&most, tasks(9)).is_some(), "on one node only");
}

fn world_of_max_nodes() -> World {
    world(2, |p| p.max_nodes = 1, Topology::default())
}

#[test]
fn no_job_gets_more_nodes_or_fewer_than_the_partition_gives() {
    let mut most = world_of_max_nodes();
    let range = |spec| JobSpec {
        nodes_min: 1,
        nodes_max: 4,
        nodes_set: true,
        ..lim(spec)
    };
    let job = most.start(range(batch()));
    assert_eq!(most.job(job).allocation.len(), 1);
    let mut least = world(2, |p| p.min_nodes = 2, Topology::default());
    let job = least.submit(tasks(1));
    least.plan();
    assert_eq!(least.job(job).reason, Reason::PartitionNodeLimit);
}

#[test]
fn no_job_gets_more_memory_of_a_node_than_the_partition_gives() {
    let mut world = world(2, |p| p.max_mem_per_node = 3_000, Topology::default());
    let per_gpu = lim(JobSpec {
        gpus_total: gpus(2),
        memory: MemoryRequest::PerGpu(2_000),
        ..batch()
    });
    let per_cpu = JobSpec {
        memory: MemoryRequest::PerCpu(1_400),
        ..tasks(3)
    };
    for spec in [per_gpu, per_cpu] {
        let job = world.start(spec);
        let shares = &world.job(job).allocation;
        assert_eq!(shares.len(), 2);
        assert!(
            shares.iter().all(|share| share.memory_mib <= 3_000),
            "{shares:?}"
        );
    }
}

#[test]
fn what_a_partition_gave_away_is_waited_for_and_kept() {
    let mut world = capped(1, 4);
    let first = world.start(cpus(3, 1_000));
    let end = world.job(first).ended.unwrap();
    let two = world.submit(cpus(2, 500));
    world.plan();
    assert_eq!(
        reserved(&world, two),
        Some(end),
        "not before, whatever is free"
    );
    let long = world.submit(cpus(1, 5_000));
    world.plan();
    let state = |world: &World, job| world.job(job).state;
    assert_eq!(
        state(&world, long),
        JobState::Running,
        "two and one are three of four"
    );
    let more = world.submit(cpus(1, 5_000));
    world.plan();
    assert_eq!(
        state(&world, more),
        JobState::Pending,
        "no room is left now"
    );
    assert_eq!(reserved(&world, two), Some(end));
    world.does(Event::Cancelled {
        job: first,
        by: Uid(0),
    });
    world.clean_all(first);
    world.plan();
    assert_eq!(state(&world, two), JobState::Running);

    let mut world = capped(1, 4);
    let first = world.start(cpus(2, 1_000));
    let four = world.submit(cpus(4, 500));
    world.plan();
    let (long, short) = (world.submit(cpus(1, 5_000)), world.submit(cpus(1, 100)));
    world.plan();
    assert_eq!(state(&world, short), JobState::Running, "it ends in time");
    assert_eq!(
        state(&world, long),
        JobState::Pending,
        "all four are kept then"
    );
    assert_eq!(reserved(&world, four), world.job(first).ended);
}

#[test]
fn jobs_that_never_have_a_place_keep_nothing_from_others() {
    // The partition's limit comes after the jobs, so that admission did not see it.
    let mut world = world(2, |_| {}, Topology::default());
    let stuck: Vec<JobId> = (1..6).map(|n| world.submit(cpus(8, 60 * n))).collect();
    let mut capped = partition("lim");
    capped.max_cpus_per_node = 4;
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![capped, partition("gpu")],
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Topology::default(),
    });
    let long = JobSpec {
        time_limit: Some(TimeLimit::Secs(36_000)),
        ..gang(1, 8)
    };
    let others = [world.submit(long.clone()), world.submit(long)];
    let fits = world.submit(cpus(4, 60));
    world.plan();
    assert!(
        stuck
            .iter()
            .all(|job| world.job(*job).state == JobState::Pending)
    );
    for job in others.into_iter().chain([fits]) {
        assert_eq!(world.job(job).state, JobState::Running);
    }
}

#[test]
fn what_was_granted_in_vain_is_for_others() {
    let mut world = world(4, |_| {}, pairs(TopologyPlugin::Tree, 4));
    let busy = world.start(JobSpec {
        time_limit: Some(TimeLimit::Secs(1_000)),
        ..gang(4, 8)
    });
    let end = world.job(busy).ended.unwrap();
    let vain: Vec<JobId> = (1..10).map(|n| world.submit(cpus(8, 60 * n))).collect();
    // Nothing that ends gives these a place any more.
    world.cluster.partitions[0].max_cpus_per_node = 4;
    let other = world.submit(lim(JobSpec {
        time_limit: Some(TimeLimit::Secs(500)),
        ..gang(1, 8)
    }));
    assert!(vain.iter().all(|job| reserved(&world, *job).is_none()));
    assert_eq!(reserved(&world, other), Some(end));
}

#[test]
fn few_switches_are_waited_for_and_then_any_are_taken() {
    let mut world = world(4, |_| {}, pairs(TopologyPlugin::Tree, 4));
    let few = |count, secs| JobSpec {
        switches: Some(Switches {
            count: 1,
            max_wait_secs: Some(secs),
        }),
        ..gang(count, 8)
    };
    let job = world.submit(few(3, 200));
    world.plan();
    let eligible = world.job(job).eligible;
    assert_eq!(reserved(&world, job), None, "no switch has three nodes");
    world.now = eligible.plus_secs(200);
    world.plan();
    assert_eq!(world.job(job).state, JobState::Running);
}

#[test]
fn a_segment_is_within_one_block() {
    let world = world(4, |_| {}, pairs(TopologyPlugin::Block, 4));
    let segment = |nodes, segment| JobSpec {
        segment,
        ..gang(nodes, 8)
    };
    assert_eq!(refusal(&world, segment(4, 2)), None);
    assert_eq!(
        refusal(&world, segment(3, 3)).as_deref(),
        Some("partition gpu has no 3 nodes in blocks of 3 each")
    );
}

proptest! {
    /// What admission takes starts on a cluster that is empty, and keeps to the partition's limits.
    #[test]
    fn what_is_taken_starts_on_an_empty_cluster(
        (cap, most_nodes, memory) in (0u32..9, 0u32..4, prop_oneof![Just(0u64), 500u64..9_000]),
        (count, each, nodes) in (1u32..20, 1u32..10, prop_oneof![Just(None), (1u32..4).prop_map(Some)]),
        (total, per_gpu, per_node) in (0u32..12, 0u32..5, any::<bool>()),
        (mib, by_gpu, exclusive) in (1u64..3_000, any::<bool>(), proptest::bool::weighted(0.1)),
    ) {
        let mut world = world(
            3,
            |p| (p.max_cpus_per_node, p.max_nodes, p.max_mem_per_node) = (cap, most_nodes, memory),
            Topology::default(),
        );
        let spec = lim(JobSpec {
            tasks: count,
            tasks_set: nodes.is_none() || count % 2 == 0,
            cpus_per_task: each,
            nodes_min: nodes.unwrap_or(1),
            nodes_max: nodes.unwrap_or(1),
            nodes_set: nodes.is_some(),
            gpus_total: if per_node { None } else { gpus(total).filter(|gpus| gpus.count > 0) },
            gpus_per_node: if per_node { gpus(total).filter(|gpus| gpus.count > 0) } else { None },
            cpus_per_gpu: if total > 0 { per_gpu } else { 0 },
            memory: match (by_gpu, total) {
                (true, 1..) => MemoryRequest::PerGpu(mib),
                _ => MemoryRequest::PerCpu(mib),
            },
            exclusive,
            ..batch()
        });
        if refusal(&world, spec.clone()).is_some() {
            return Ok(());
        }
        let job = world.submit(spec.clone());
        world.plan();
        let job = world.job(job);
        let waits = [Reason::PartitionNodeLimit, Reason::MaxMemPerLimit].contains(&job.reason);
        prop_assert!(job.state == JobState::Running || waits, "{:?} {:?}", job.reason, spec);
        if job.state == JobState::Running {
            let within = |most: u64, has: u64| most == 0 || has <= most;
            prop_assert!(within(most_nodes.into(), job.allocation.len() as u64));
            for share in &job.allocation {
                prop_assert!(within(cap.into(), share.cpus.len().into()), "{share:?}");
                prop_assert!(within(memory, share.memory_mib), "{share:?}");
            }
        }
    }
}

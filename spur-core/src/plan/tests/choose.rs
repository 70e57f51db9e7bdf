//! Which nodes and devices a job gets.

use crate::event::Event;
use crate::fixture::{World, batch, gang, gpus, hello, inventory};
use crate::job::spec::JobSpec;
use crate::job::state::Reason;
use crate::node::FenceState;
use crate::plan::fit::deal;
use crate::plan::rooms::natural;
use crate::resources::{GpuCount, GpuLink, Inventory, MemoryRequest};
use std::cmp::Ordering;

fn placed(world: &mut World, spec: JobSpec) -> String {
    let job = world.start(spec);
    world.places(job)
}

#[test]
fn whole_devices_by_index_lowest_first() {
    let mut world = World::new(2, 8);
    assert_eq!(placed(&mut world, gang(1, 2)), "n1:c0:g0-1:t1");
    assert_eq!(
        placed(&mut world, gang(2, 4)),
        "n1:c1:g2-5:t1 n2:c0:g0-3:t1"
    );
    assert_eq!(placed(&mut world, gang(1, 4)), "n2:c1:g4-7:t1");
    assert_eq!(
        placed(&mut world, batch()),
        "n2:c2:g:t1",
        "where no GPU waits for CPUs"
    );
}

#[test]
fn gpus_by_task_and_in_all() {
    let mut world = World::new(3, 4);
    let tasks = |tasks| JobSpec {
        tasks,
        tasks_set: true,
        ..batch()
    };
    let each = JobSpec {
        gpus_per_task: gpus(1),
        ..tasks(6)
    };
    assert_eq!(placed(&mut world, each), "n1:c0-2:g0-2:t3 n2:c0-2:g0-2:t3");
    let all = JobSpec {
        gpus_total: gpus(5),
        ..tasks(2)
    };
    assert_eq!(placed(&mut world, all), "n1:c3:g3:t1 n3:c0:g0-3:t1");
}

#[test]
fn a_job_without_a_node_count_takes_the_fewest_nodes() {
    let mut world = World::new(3, 0);
    let tasks = |tasks| JobSpec {
        tasks,
        tasks_set: true,
        memory: MemoryRequest::PerNode(1),
        ..batch()
    };
    assert_eq!(placed(&mut world, tasks(6)), "n1:c0-5:g:t6");
    assert_eq!(placed(&mut world, tasks(12)), "n2:c0-5:g:t6 n3:c0-5:g:t6");
    assert_eq!(
        placed(&mut world, tasks(5)),
        "n1:c6-7:g:t2 n2:c6-7:g:t2 n3:c6:g:t1"
    );
}

#[test]
fn a_node_range_takes_what_is_there() {
    let mut world = World::new(3, 8);
    world.start(JobSpec {
        exclusive: true,
        ..batch()
    });
    let range = JobSpec {
        nodes_min: 1,
        nodes_max: 4,
        nodes_set: true,
        gpus_per_node: gpus(8),
        ..batch()
    };
    assert_eq!(
        placed(&mut world, range.clone()),
        "n2:c0:g0-7:t1 n3:c0:g0-7:t1"
    );

    // --use-min-nodes: no more than it needs.
    let mut world = World::new(3, 8);
    let mut least = range;
    least.extras_mut().use_min_nodes = true;
    assert_eq!(placed(&mut world, least), "n1:c0:g0-7:t1");
}

#[test]
fn tasks_per_node_and_cpus_per_task() {
    let mut world = World::new(2, 0);
    let spec = JobSpec {
        tasks_per_node: 2,
        cpus_per_task: 3,
        ..gang(2, 0)
    };
    assert_eq!(placed(&mut world, spec), "n1:c0-5:g:t2 n2:c0-5:g:t2");
}

#[test]
fn named_nodes_are_all_taken_and_excluded_ones_are_not() {
    let mut world = World::new(4, 0);
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let spec = JobSpec {
        nodelist: names(&["n3"]),
        exclude: names(&["n1"]),
        ..gang(2, 0)
    };
    assert_eq!(placed(&mut world, spec), "n2:c0:g:t1 n3:c0:g:t1");
    let both = JobSpec {
        nodelist: names(&["n4", "n1"]),
        ..batch()
    };
    assert_eq!(placed(&mut world, both), "n1:c0:g:t1 n4:c0:g:t1");
}

#[test]
fn an_exclusive_job_gets_the_whole_node_and_waits_for_one() {
    let mut world = World::new(1, 2);
    let small = world.start(batch());
    let job = world.submit(JobSpec {
        exclusive: true,
        ..batch()
    });
    assert!(world.plan().placements.is_empty());
    world.does(Event::Cancelled {
        job: small,
        by: crate::id::Uid(0),
    });
    world.clean_all(small);
    world.plan();
    assert_eq!(world.places(job), "n1:c0-7:g0-1:t1");
    assert_eq!(world.node(0).memory_used, 8 * 1024);
}

#[test]
fn memory_is_counted() {
    let mut world = World::new(1, 4);
    let with = |memory| JobSpec {
        memory,
        ..gang(1, 1)
    };
    world.start(with(MemoryRequest::PerNode(10_000)));
    let big = world.submit(with(MemoryRequest::PerNode(10_000)));
    let all = world.submit(with(MemoryRequest::PerNode(0)));
    let per_gpu = world.start(with(MemoryRequest::PerGpu(6_000)));
    assert_eq!(world.job(per_gpu).allocation[0].memory_mib, 6_000);
    assert_eq!(world.node(0).memory_used, 16_000);
    assert_eq!(world.job(big).reason, Reason::Resources);
    assert_eq!(world.job(all).reason, Reason::Priority);
}

#[test]
fn models_are_told_apart() {
    let mut world = World::new(0, 0);
    let mut mixed = inventory(8, 16_384, 4);
    for gpu in mixed.gpus.iter_mut().skip(2) {
        gpu.model = "a100".to_owned();
    }
    world.does(Event::NodeConnected(hello("n1", mixed)));
    let model = |model: &str, count| {
        let gpus_per_node = Some(GpuCount {
            model: model.to_owned(),
            count,
        });
        JobSpec {
            gpus_per_node,
            ..batch()
        }
    };
    assert_eq!(placed(&mut world, model("a100", 1)), "n1:c0:g2:t1");
    assert_eq!(placed(&mut world, model("h200", 2)), "n1:c1:g0-1:t1");
    let job = world.submit(model("h200", 1));
    world.plan();
    assert!(world.job(job).allocation.is_empty());
}

/// Two sockets of four CPUs and four GPUs each.
fn two_sockets(links: impl Fn(u32) -> Vec<(u32, GpuLink)>) -> Inventory {
    let mut inventory = inventory(8, 16_384, 8);
    (inventory.sockets, inventory.cores_per_socket) = (2, 4);
    for gpu in &mut inventory.gpus {
        gpu.numa = Some(gpu.index / 4);
        gpu.links = links(gpu.index);
    }
    inventory
}

#[test]
fn gpus_of_one_numa_node_with_cpus_near_them() {
    let mut world = World::of(1, &two_sockets(|_| Vec::new()));
    assert_eq!(placed(&mut world, gang(1, 2)), "n1:c0:g0-1:t1");
    assert_eq!(
        placed(&mut world, gang(1, 3)),
        "n1:c4:g4-6:t1",
        "two are left on the first"
    );
    assert_eq!(
        placed(&mut world, gang(1, 1)),
        "n1:c5:g7:t1",
        "the tightest fit"
    );
    assert_eq!(placed(&mut world, gang(1, 2)), "n1:c1:g2-3:t1");
}

#[test]
fn a_big_job_spans_numa_nodes() {
    let mut world = World::of(1, &two_sockets(|_| Vec::new()));
    assert_eq!(
        placed(
            &mut world,
            JobSpec {
                cpus_per_task: 6,
                ..gang(1, 6)
            }
        ),
        "n1:c0-5:g0-5:t1"
    );
}

#[test]
fn linked_gpus_go_together() {
    let pairs = |index: u32| vec![(index ^ 2, GpuLink::NvLink)];
    let mut world = World::of(1, &two_sockets(pairs));
    assert_eq!(placed(&mut world, gang(1, 2)), "n1:c0:g0,2:t1");
    assert_eq!(placed(&mut world, gang(1, 2)), "n1:c1:g1,3:t1");
}

#[test]
fn sick_gpus_are_not_granted() {
    let mut world = World::new(1, 4);
    world.does(Event::FenceChanged {
        node: crate::id::NodeId(0),
        fence: FenceState::Guarded,
        note: String::new(),
        suffices: None,
        gpus_sick: Some([0].into_iter().collect()),
        gpu_notes: Vec::new(),
        stuck: Vec::new(),
    });
    assert_eq!(placed(&mut world, gang(1, 2)), "n1:c0:g1-2:t1");
    let all = world.submit(gang(1, 4));
    world.plan();
    assert!(world.job(all).allocation.is_empty());
}

#[test]
fn nodes_are_taken_in_the_order_that_people_count() {
    let mut world = World::new(0, 0);
    for name in ["n10", "n9", "n1"] {
        world.does(Event::NodeConnected(hello(name, inventory(1, 16_384, 0))));
    }
    let names: Vec<String> = (0..3).map(|_| placed(&mut world, batch())).collect();
    assert_eq!(names, ["n1:c0:g:t1", "n9:c0:g:t1", "n10:c0:g:t1"]);
    assert_eq!(natural("n2", "n10"), Ordering::Less);
    assert_eq!(natural("a10", "n2"), Ordering::Less);
    assert_eq!(natural("n01", "n1"), Ordering::Less);
    assert_eq!(natural("n1", "n1"), Ordering::Equal);
    assert_eq!(natural("n", "n1"), Ordering::Less);
}

#[test]
fn dealing_goes_round_and_round() {
    for (total, room, expected) in [
        (0, vec![1, 1], Some(vec![0, 0])),
        (3, vec![9, 9], Some(vec![2, 1])),
        (8, vec![1, 9, 2], Some(vec![1, 5, 2])),
        (13, vec![1, 9, 2], None),
        (1, vec![], None),
        (
            u32::MAX,
            vec![u32::MAX, u32::MAX],
            Some(vec![1 << 31, (1 << 31) - 1]),
        ),
    ] {
        assert_eq!(deal(total, &room), expected, "{total} over {room:?}");
    }
}

//! Nodes that come, go, reboot and change.

use crate::effect::Effect;
use crate::event::{Event, NodeHello};
use crate::fixture::{World, batch, gang, gpu, hello, inventory, spec};
use crate::id::{Generation, JobId, NodeId, StepKind, Uid};
use crate::job::spec::{JobKind, JobSpec};
use crate::job::state::{JobState, Reason};
use crate::job::step::{StepShare, StepState};
use crate::node::{AdminState, FenceState};

fn back(jobs: &[(JobId, u64)]) -> NodeHello {
    let jobs = jobs
        .iter()
        .map(|(job, generation)| (*job, Generation(*generation)))
        .collect();
    NodeHello {
        jobs,
        ..hello("n1", inventory(8, 16_384, 8))
    }
}

fn lose(world: &mut World, node: u32) {
    world.does(Event::NodeDisconnected { node: NodeId(node) });
    let (due, what) = world.cluster.next_deadline(world.now).unwrap();
    assert_eq!(what, "silent node");
    for event in world.cluster.expired(due) {
        world.does(event);
    }
    assert!(world.node(node).lost);
}

#[test]
fn a_silent_node_keeps_its_jobs_until_it_is_lost_and_its_devices_until_it_is_clean() {
    let mut world = World::new(2, 8);
    let fails = world.start(JobSpec {
        requeue: false,
        ..gang(1, 2)
    });
    let again = world.start(JobSpec {
        requeue: true,
        ..gang(1, 2)
    });
    world.does(Event::NodeDisconnected { node: NodeId(0) });
    assert_eq!(world.job(fails).state, JobState::Running);
    world.does(Event::NodeConnected(back(&[(fails, 1), (again, 2)])));
    lose(&mut world, 0);
    assert_eq!(
        (world.job(fails).state, world.job(fails).reason),
        (JobState::NodeFail, Reason::NodeDown)
    );
    assert_eq!(
        (world.job(again).state, world.job(again).restarts),
        (JobState::Pending, 1)
    );
    world.plan();
    assert_eq!(world.places(again), "n2:c0:g0-1:t1");
    assert_eq!(world.node(0).gpus_used.len(), 4);
    let fx = world.does(Event::NodeConnected(back(&[(fails, 1)])));
    let generation = Generation(1);
    assert_eq!(
        fx.effects,
        [
            Effect::Notify { job: again },
            Effect::Revoke {
                node: NodeId(0),
                job: fails,
                generation
            },
        ]
    );
    assert_eq!(
        world.node(0).gpus_used.len(),
        2,
        "what it does not name is gone there"
    );
    world.clean(fails, 0);
    assert!(world.node(0).jobs.is_empty() && !world.node(0).lost);
}

#[test]
fn a_reboot_frees_everything_at_once() {
    let mut world = World::new(2, 8);
    let fails = world.start(JobSpec {
        kind: JobKind::Run,
        ..gang(2, 2)
    });
    let again = world.start(JobSpec {
        requeue: true,
        ..gang(1, 2)
    });
    let ended = world.start(gang(1, 2));
    world.does(Event::Cancelled {
        job: ended,
        by: Uid(0),
    });
    let fx = world.does(Event::NodeConnected(NodeHello {
        boot_id: "boot-2".to_owned(),
        ..back(&[])
    }));
    assert!(world.node(0).jobs.is_empty() && world.node(0).gpus_used.is_empty());
    assert_eq!(world.job(fails).state, JobState::NodeFail);
    assert_eq!(
        world
            .job(fails)
            .uncleaned
            .iter()
            .copied()
            .collect::<Vec<_>>(),
        [NodeId(1)]
    );
    assert!(fx.effects.contains(&Effect::Revoke {
        node: NodeId(1),
        job: fails,
        generation: Generation(1)
    }));
    assert_eq!(world.job(again).state, JobState::Pending);
    assert!(world.job(again).uncleaned.is_empty());
}

#[test]
fn what_a_node_does_not_know_is_ordered_again() {
    let mut world = World::new(1, 8);
    let knows = world.start(gang(1, 2));
    let misses = world.start(gang(1, 2));
    let fx = world.does(Event::NodeConnected(back(&[(knows, 1), (JobId(99), 40)])));
    let (node, step) = (NodeId(0), StepKind::Batch);
    assert_eq!(
        fx.effects,
        [
            Effect::Revoke {
                node,
                job: JobId(99),
                generation: Generation(40)
            },
            Effect::Assign { node, job: misses },
            Effect::Launch {
                node,
                job: misses,
                step
            },
        ]
    );
    assert_eq!(
        world.cluster.generation,
        Generation(40),
        "an agent would refuse anything older"
    );
    let (jobs, steps) = world.cluster.welcome(node, &mut Default::default());
    assert_eq!(
        jobs.iter().map(|order| order.job).collect::<Vec<_>>(),
        [knows, misses]
    );
    assert_eq!(steps.len(), 2);
}

#[test]
fn a_running_job_that_a_node_reports_clean_is_lost_there() {
    let mut world = World::new(1, 8);
    let job = world.start(spec(JobKind::Run));
    world.clean(job, 0);
    assert_eq!(world.job(job).state, JobState::NodeFail);
    assert!(world.node(0).jobs.is_empty());
}

#[test]
fn nodes_that_take_no_jobs_get_none() {
    let mut world = World::new(4, 8);
    let admin = AdminState::Drain;
    world.does(Event::NodeUpdated {
        node: NodeId(0),
        admin,
        reason: "x".into(),
        by: Uid(0),
    });
    let note = "no bpf".to_owned();
    world.does(Event::FenceChanged {
        node: NodeId(1),
        fence: FenceState::Unfenced,
        note,
        suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        stuck: Vec::new(),
    });
    world.does(Event::NodeDisconnected { node: NodeId(2) });
    let job = world.start(batch());
    assert_eq!(world.places(job), "n4:c0:g:t1");
}

#[test]
fn gpus_that_the_agent_says_are_gone_are_not_granted_until_they_are_back() {
    let mut world = World::new(1, 8);
    let tell = |sick: &[u32]| Event::FenceChanged {
        node: NodeId(0),
        fence: FenceState::Fenced,
        note: String::new(),
        suffices: Some(true),
        gpus_sick: Some(sick.iter().copied().collect()),
        gpu_notes: Vec::new(),
        stuck: Vec::new(),
    };
    world.does(tell(&[0, 99]));
    assert_eq!(
        world.node(0).gpus_sick.to_string(),
        "0",
        "that it has at all"
    );
    let job = world.start(gang(1, 2));
    assert!(!world.places(job).contains(":g0"), "{}", world.places(job));
    world.does(tell(&[]));
    let all = world.start(gang(1, 6));
    assert!(world.places(all).contains(":g0"), "{}", world.places(all));
    world.does(Event::NodeDisconnected { node: NodeId(0) });
    world.does(Event::NodeConnected(NodeHello {
        gpus_sick: Some([7].into_iter().collect()),
        gpu_notes: Vec::new(),
        stuck: Vec::new(),
        ..back(&[])
    }));
    assert_eq!(world.node(0).gpus_sick.to_string(), "7");
}

#[test]
fn a_nodes_own_word_decides_whether_its_fence_suffices() {
    let mut world = World::new(3, 8);
    for (node, fence, suffices) in [
        (0, FenceState::Fenced, Some(false)),
        (1, FenceState::Unfenced, Some(true)),
        (2, FenceState::Unfenced, Some(false)),
    ] {
        world.does(Event::FenceChanged {
            node: NodeId(node),
            fence,
            note: String::new(),
            suffices,
            gpus_sick: None,
            gpu_notes: Vec::new(),
            stuck: Vec::new(),
        });
    }
    let job = world.start(batch());
    assert_eq!(world.places(job), "n2:c0:g:t1");
    let hello = NodeHello {
        fence_suffices: None,
        ..back(&[])
    };
    world.does(Event::NodeDisconnected { node: NodeId(0) });
    world.does(Event::NodeConnected(hello));
    assert!(world.node(0).has_required_fence(), "an older agent");
}

#[test]
fn an_operator_who_downs_a_node_ends_its_jobs() {
    let mut world = World::new(1, 8);
    let job = world.start(gang(1, 2));
    let admin = AdminState::Down;
    world.does(Event::NodeUpdated {
        node: NodeId(0),
        admin,
        reason: "x".into(),
        by: Uid(0),
    });
    assert_eq!(world.job(job).state, JobState::NodeFail);
    assert_eq!(world.node(0).gpus_used.len(), 2, "held until clean");
}

#[test]
fn an_inventory_that_lacks_what_jobs_hold_waits_until_they_are_gone() {
    let mut world = World::new(1, 8);
    let job = world.start(gang(1, 2));
    let mut smaller = back(&[(job, 1)]);
    smaller.inventory.gpus = (1..8)
        .map(|n| crate::resources::Gpu {
            index: n - 1,
            ..gpu(n)
        })
        .collect();
    world.does(Event::NodeConnected(smaller.clone()));
    assert_eq!(
        world.node(0).inventory.gpus.len(),
        8,
        "index 0 would be another GPU"
    );
    assert_eq!(world.node(0).admin, AdminState::Drain);
    assert_eq!(
        world.node(0).reason,
        "jobs hold GPU 0, which the node has no more"
    );
    world.does(Event::Cancelled { job, by: Uid(0) });
    world.clean(job, 0);
    assert_eq!(world.node(0).inventory, smaller.inventory);
}

#[test]
fn a_node_keeps_its_number_and_an_operators_partition_state_outlives_a_reconfiguration() {
    let mut world = World::new(2, 8);
    world.does(Event::NodeConnected(back(&[])));
    assert_eq!(world.cluster.nodes.len(), 2);
    let state = crate::partition::PartitionState::Down;
    world.does(Event::PartitionUpdated {
        name: "gpu".to_owned(),
        state,
    });
    let partitions = vec![
        crate::fixture::partition("gpu"),
        crate::fixture::partition("new"),
    ];
    let cluster = "test".to_owned();
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster,
        partitions,
        min_job_age: 1,
        node_timeout: 1,
        node_config: Default::default(),
        topology: Default::default(),
    });
    assert_eq!(world.cluster.partitions[0].state, state);
    assert_eq!(
        world.cluster.partitions[1].state,
        crate::partition::PartitionState::Up
    );
}

fn stays(mut spec: JobSpec) -> JobSpec {
    spec.extras_mut().no_kill = true;
    spec
}

/// Grants a step of one task on each of these nodes, with a GPU each.
fn step_on(world: &mut World, job: JobId, nodes: &[u32]) -> StepKind {
    let step = StepKind::Numbered(world.job(job).next_step);
    let share = |node: &u32| {
        let shares = &world.job(job).allocation;
        let share = shares.iter().find(|share| share.node == NodeId(*node));
        StepShare {
            share: share.unwrap().clone(),
            task_ids: vec![*node],
        }
    };
    let shares = nodes.iter().map(share).collect();
    world.does(Event::StepGranted {
        job,
        step,
        name: "s".into(),
        uid: Uid(1000),
        shares,
        cpus_per_task: 1,
        with: vec![],
        request_id: 0,
        sharing: Default::default(),
    });
    step
}

#[test]
fn a_job_that_stays_goes_on_without_the_node_that_it_loses() {
    let mut world = World::new(3, 8);
    let job = world.start(stays(JobSpec {
        requeue: true,
        ..gang(3, 2)
    }));
    let (wide, ours) = (
        step_on(&mut world, job, &[0, 2]),
        step_on(&mut world, job, &[1]),
    );
    lose(&mut world, 2);
    let left = world.job(job);
    assert_eq!((left.state, left.restarts), (JobState::Running, 0));
    assert_eq!(world.places(job), "n1:c0:g0-1:t1 n2:c0:g0-1:t1");
    assert_eq!(
        world.node(2).gpus_used.len(),
        2,
        "until it is known to be clean"
    );
    let killed = crate::job::state::ExitStatus { code: 0, signal: 9 };
    assert_eq!(left.steps[&wide].reported[&NodeId(2)], killed);
    assert!(left.steps[&ours].reported.is_empty());
    // Its other part is told to end, and does; the script, and steps after it, go on.
    world.step_ended(job, wide, 0, killed);
    assert_eq!(world.job(job).steps[&wide].state, StepState::Ended);
    let fx = world.does(Event::NodeConnected(NodeHello {
        jobs: vec![(job, Generation(1))],
        ..hello("n3", inventory(8, 16_384, 8))
    }));
    let revoke = Effect::Revoke {
        node: NodeId(2),
        job,
        generation: Generation(1),
    };
    assert!(fx.effects.contains(&revoke), "{:?}", fx.effects);
    world.clean(job, 2);
    assert_eq!(world.node(2).gpus_used.len(), 0);
    assert_eq!(world.job(job).state, JobState::Running);
    step_on(&mut world, job, &[0, 1]);
    let again = world.start(gang(1, 7));
    assert_eq!(world.places(again), "n3:c0:g0-6:t1");
}

#[test]
fn the_rest_of_a_step_is_killed_and_of_a_job_that_is_a_step_it_is_not() {
    for (kind, signalled) in [(JobKind::Alloc, true), (JobKind::Run, false)] {
        let mut world = World::new(2, 8);
        let job = world.start(stays(JobSpec { kind, ..gang(2, 1) }));
        let step = match kind {
            JobKind::Run => StepKind::Numbered(0),
            JobKind::Alloc | JobKind::Batch => StepKind::Numbered(world.job(job).next_step),
        };
        if !world.job(job).steps.contains_key(&step) {
            step_on(&mut world, job, &[0, 1]);
        }
        world.does(Event::NodeDisconnected { node: NodeId(1) });
        let fx = world.does(Event::NodeLost { node: NodeId(1) });
        let signal = Effect::Signal {
            node: NodeId(0),
            job,
            step: Some(step),
            signal: 9,
        };
        assert_eq!(fx.effects.contains(&signal), signalled, "{:?}", fx.effects);
        assert_eq!(world.job(job).state, JobState::Running);
    }
}

#[test]
fn a_job_that_stays_ends_with_its_last_node_and_with_that_of_its_script() {
    let mut world = World::new(2, 8);
    let alone = world.start(stays(JobSpec {
        requeue: false,
        ..gang(1, 1)
    }));
    let script = world.start(stays(JobSpec {
        requeue: false,
        ..gang(2, 1)
    }));
    lose(&mut world, 0);
    for job in [alone, script] {
        assert_eq!(world.job(job).state, JobState::NodeFail);
    }
}

//! The lives of jobs.

use crate::agent::order::{JobOrder, StepOrder};
use crate::effect::Effect;
use crate::event::Event;
use crate::fixture::{OK, World, batch, gang, spec};
use crate::id::{Generation, JobId, NodeId, StepKind, Uid};
use crate::job::spec::{JobKind, JobSpec};
use crate::job::state::{ExitStatus, JobState, Reason};
use crate::job::step::{StepShare, StepState};
use crate::node::AdminState;
use crate::resources::NodeShare;
use crate::time::Millis;
use std::sync::Arc;

fn whole_step(world: &World, job: JobId) -> Vec<StepShare> {
    let part = |share: &NodeShare| StepShare {
        share: share.clone(),
        task_ids: vec![share.node.0],
    };
    world.job(job).allocation.iter().map(part).collect()
}

fn grant(world: &mut World, job: JobId, number: u32) {
    let shares = whole_step(world, job);
    world.does(Event::StepGranted {
        job,
        step: StepKind::Numbered(number),
        name: "true".to_owned(),
        uid: Uid(1000),
        shares,
        cpus_per_task: 0,
        with: Vec::new(),
        request_id: 0,
        sharing: Default::default(),
    });
}

fn job_order(world: &World, job: JobId, node: NodeId) -> Option<JobOrder> {
    let orders = &mut Default::default();
    world.cluster.job_order(job, node, orders)
}

fn step_order(world: &World, step: (JobId, StepKind), node: NodeId) -> Option<StepOrder> {
    let orders = &mut Default::default();
    world.cluster.step_order(step, node, orders)
}

#[test]
fn a_batch_job_runs_on_its_first_node_and_frees_devices_only_when_clean() {
    let mut world = World::new(2, 8);
    let job = world.submit(gang(2, 4));
    let found = crate::plan::plan(&world.cluster, world.now, crate::plan::Budget::default());
    let mut placed = world.cluster.plan_events(found);
    let fx = world.does(placed.remove(0));
    let step = StepKind::Batch;
    let expected = [
        Effect::Assign {
            node: NodeId(0),
            job,
        },
        Effect::Assign {
            node: NodeId(1),
            job,
        },
        Effect::Launch {
            node: NodeId(0),
            job,
            step,
        },
        Effect::Notify { job },
    ];
    assert_eq!(fx.effects, expected);
    let order = job_order(&world, job, NodeId(1)).unwrap();
    assert_eq!(
        (order.index, order.nodes.len(), order.generation),
        (1, 2, Generation(1))
    );
    let step_order = step_order(&world, (job, step), NodeId(0)).unwrap();
    assert_eq!(
        (step_order.task_ids.as_slice(), step_order.tasks),
        ([0].as_slice(), 1)
    );
    assert_eq!(self::step_order(&world, (job, step), NodeId(1)), None);

    let fx = world.step_ended(job, step, 0, OK);
    let generation = Generation(1);
    assert!(fx.effects.contains(&Effect::Revoke {
        node: NodeId(1),
        job,
        generation
    }));
    assert_eq!(world.job(job).state, JobState::Completed);
    assert_eq!(world.node(0).gpus_used.len(), 4, "held until clean");
    assert_eq!(job_order(&world, job, NodeId(0)), None);

    assert!(world.clean(job, 0).replan);
    assert_eq!(
        (world.node(0).gpus_used.len(), world.node(1).gpus_used.len()),
        (0, 4)
    );
    world.clean(job, 1);
    assert!(world.node(1).gpus_used.is_empty() && world.job(job).uncleaned.is_empty());
    assert_eq!(
        world.ignores(Event::Cleaned {
            job,
            node: NodeId(1),
            generation
        }),
        "nothing is held there"
    );
}

#[test]
fn an_srun_job_ends_with_its_only_step_on_all_nodes() {
    let mut world = World::new(2, 8);
    let job = world.start(JobSpec {
        kind: JobKind::Run,
        ..gang(2, 1)
    });
    grant(&mut world, job, 0);
    world.step_ended(
        job,
        StepKind::Numbered(0),
        1,
        ExitStatus { code: 3, signal: 0 },
    );
    assert_eq!(world.job(job).state, JobState::Running);
    world.step_ended(job, StepKind::Numbered(0), 0, OK);
    let ended = world.job(job);
    assert_eq!(
        (ended.state, ended.reason, ended.exit.code),
        (JobState::Failed, Reason::NonZeroExitCode, 3)
    );
    assert_eq!(ended.derived_exit.code, 3);
}

#[test]
fn an_allocation_ends_when_its_client_gives_it_back() {
    let mut world = World::new(1, 8);
    let job = world.start(spec(JobKind::Alloc));
    grant(&mut world, job, 0);
    world.step_ended(job, StepKind::Numbered(0), 0, OK);
    assert_eq!(world.job(job).state, JobState::Running);
    grant(&mut world, job, 1);
    world.does(Event::Finished { job, exit: OK });
    assert_eq!(world.job(job).state, JobState::Completed);
    world.clean_all(job);
    let open = world
        .job(job)
        .steps
        .values()
        .filter(|step| step.state == StepState::Running);
    assert_eq!(open.count(), 0, "nobody will report it any more");
}

#[test]
fn a_step_stays_within_its_job_and_numbers_are_not_used_twice() {
    let mut world = World::new(2, 8);
    let job = world.start(JobSpec {
        kind: JobKind::Alloc,
        ..gang(1, 2)
    });
    let shares = whole_step(&world, job);
    let event = |number, shares: Vec<StepShare>| Event::StepGranted {
        job,
        step: StepKind::Numbered(number),
        name: String::new(),
        uid: Uid(1000),
        shares,
        cpus_per_task: 0,
        with: Vec::new(),
        request_id: 0,
        sharing: Default::default(),
    };
    let mut wide = shares.clone();
    wide[0].share.gpus.insert(7);
    let mut elsewhere = shares.clone();
    elsewhere[0].share.node = NodeId(1);
    let twice = [shares.clone(), shares.clone()].concat();
    for wrong in [wide, elsewhere, twice, Vec::new()] {
        world.ignores(event(0, wrong));
    }
    world.does(event(0, shares.clone()));
    world.ignores(event(0, shares));
}

#[test]
fn a_cancelled_job_is_revoked_everywhere() {
    let mut world = World::new(2, 8);
    let job = world.start(gang(2, 8));
    let waiting = world.submit(gang(1, 8));
    let by = Uid(1000);
    let fx = world.does(Event::Cancelled { job, by });
    let revoked = fx
        .effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Revoke { .. }));
    assert_eq!(revoked.count(), 2);
    assert_eq!(
        world.job(job).exit,
        ExitStatus {
            code: 0,
            signal: 15
        }
    );
    world.ignores(Event::Cancelled { job, by });
    assert!(
        world.plan().placements.is_empty(),
        "a device is not granted before it is clean"
    );
    world.does(Event::Cancelled { job: waiting, by });
    assert_eq!(world.job(waiting).exit, OK);
}

#[test]
fn a_job_that_is_taken_out_of_the_queue_keeps_what_it_waited_for() {
    let mut world = World::new(1, 8);
    let by = Uid(1000);
    let [running, held] = [world.start(gang(1, 8)), world.submit(gang(1, 8))];
    world.does(Event::Held {
        job: held,
        by_admin: false,
    });
    for job in [running, held] {
        world.does(Event::Cancelled { job, by });
    }
    assert_eq!(world.job(running).reason, Reason::None);
    assert_eq!(world.job(held).reason, Reason::JobHeldUser);
    assert_eq!(world.job(held).reason_text, "cancelled by user 1000");
}

#[test]
fn logs_from_before_nodes_rested_drain_the_node_and_hold_the_job() {
    let mut world = World::new(2, 8);
    let job = world.start(gang(1, 8));
    let generation = world.job(job).generation;
    let failed = |node_fault| Event::LaunchFailed {
        job,
        node: NodeId(0),
        generation,
        why: "canary was not refused".to_owned(),
        node_fault,
        rests: false,
    };
    world.does(failed(true));
    let held = world.job(job);
    assert_eq!(
        (held.state, held.priority, held.reason),
        (JobState::Pending, 0, Reason::LaunchFailedHeld)
    );
    assert_eq!(held.reason_text, "n1: canary was not refused");
    assert_eq!(world.node(0).admin, AdminState::Drain);
    assert!(world.node(0).reason.contains("canary was not refused"));
    world.ignores(failed(true));
    world.plan();
    assert_eq!(
        world.job(job).reason,
        Reason::LaunchFailedHeld,
        "the planner leaves held jobs alone"
    );
    world.does(Event::Released { job });
    world.clean(job, 0);
    world.plan();
    assert_eq!(world.places(job), "n2:c0:g0-7:t1");
    let late = Event::StepEnded {
        job,
        step: StepKind::Batch,
        node: NodeId(1),
        generation,
        exit: OK,
        oom: false,
    };
    assert_eq!(world.ignores(late), "stale generation");
}

#[test]
fn an_srun_job_that_cannot_be_started_fails() {
    let mut world = World::new(1, 8);
    let job = world.start(spec(JobKind::Run));
    let generation = world.job(job).generation;
    let why = "no such directory".to_owned();
    world.does(Event::LaunchFailed {
        job,
        node: NodeId(0),
        generation,
        why,
        node_fault: false,
        rests: true,
    });
    assert_eq!(world.job(job).reason, Reason::JobLaunchFailure);
    assert_eq!(world.node(0).admin, AdminState::Up);
}

#[test]
fn a_batch_job_whose_files_cannot_be_opened_fails_and_the_node_goes_on() {
    let mut world = World::new(1, 8);
    let job = world.start(batch());
    world.does(Event::LaunchFailed {
        job,
        node: NodeId(0),
        generation: world.job(job).generation,
        why: "could not open stdout file".to_owned(),
        node_fault: false,
        rests: true,
    });
    let job = world.job(job);
    assert_eq!(
        (job.state, job.reason),
        (JobState::Failed, Reason::JobLaunchFailure)
    );
    assert_eq!(
        job.exit,
        ExitStatus {
            code: 0,
            signal: 53
        }
    );
    assert_eq!(world.node(0).admin, AdminState::Up);
}

#[test]
fn a_requeued_job_starts_once_nothing_of_its_last_run_can_go_on() {
    let requeued = || {
        let mut world = World::new(2, 8);
        let job = world.start(gang(1, 8));
        world.does(Event::Requeued { job });
        world.plan();
        assert_eq!(world.places(job), "", "it would run twice at once");
        let said = world.job(job);
        assert_eq!(said.reason, Reason::Cleaning);
        assert_eq!(said.reason_text, "its last run is not cleaned up on n1");
        (world, job)
    };
    let (mut world, job) = requeued();
    world.clean(job, 0);
    world.plan();
    assert_eq!(world.places(job), "n1:c0:g0-7:t1");

    // A node that is given up keeps it from nothing but itself, and is told to end it when it comes back.
    let (mut world, job) = requeued();
    let node = NodeId(0);
    world.does(Event::NodeDisconnected { node });
    world.plan();
    assert_eq!(world.places(job), "");
    world.does(Event::NodeLost { node });
    world.plan();
    assert_eq!(world.places(job), "n2:c0:g0-7:t1");
    assert_eq!(
        (world.job(job).restarts, world.job(job).generation),
        (1, Generation(2))
    );
    assert_eq!(world.node(0).gpus_used.len(), 8);
    world.does(Event::Cleaned {
        job,
        node,
        generation: Generation(1),
    });
    assert!(world.node(0).gpus_used.is_empty());
    assert_eq!(world.job(job).state, JobState::Running);
}

#[test]
fn a_late_word_of_an_earlier_placement_frees_nothing() {
    let mut world = World::new(1, 8);
    let job = world.start(gang(1, 8));
    world.does(Event::Requeued { job });
    let cleaned = |generation| Event::Cleaned {
        job,
        node: NodeId(0),
        generation: Generation(generation),
    };
    world.does(cleaned(1));
    world.plan();
    assert_eq!(world.job(job).generation, Generation(2));
    assert_eq!(world.ignores(cleaned(1)), "nothing is held there");
    world.does(Event::Cancelled { job, by: Uid(0) });
    assert_eq!(world.ignores(cleaned(1)), "stale generation");
    assert_eq!(world.node(0).gpus_used.len(), 8);
    world.does(cleaned(2));
    assert!(world.node(0).gpus_used.is_empty());
}

#[test]
fn an_ended_job_can_be_requeued_and_leaves_its_steps_behind() {
    let mut world = World::new(1, 8);
    let job = world.start(batch());
    world.step_ended(job, StepKind::Batch, 0, ExitStatus { code: 1, signal: 0 });
    world.does(Event::Requeued { job });
    assert!(world.plan().placements.is_empty(), "its node is not clean");
    world.clean_all(job);
    assert_eq!(world.plan().placements.len(), 1);
    assert_eq!(world.job(job).exit, OK);
}

#[test]
fn whatever_proposes_it_a_placement_never_grants_twice() {
    let mut world = World::new(2, 8);
    world.start(gang(1, 4));
    let job = world.submit(gang(1, 4));
    let share = |node, gpus: &[u32], cpus: &[u32], memory_mib| NodeShare {
        node: NodeId(node),
        cpus: cpus.iter().copied().collect(),
        memory_mib,
        gpus: gpus.iter().copied().collect(),
        tasks: 1,
    };
    let place = |shares: Vec<NodeShare>, generation| Event::Placed {
        job,
        shares,
        generation: Generation(generation),
        backfilled: false,
        time_limit: None,
    };
    for (shares, why) in [
        (vec![share(0, &[3], &[5], 1)], "a device is not free"),
        (vec![share(0, &[5], &[0], 1)], "a device is not free"),
        (
            vec![share(0, &[5], &[5], 16_000)],
            "not enough memory is free",
        ),
        (vec![share(0, &[8], &[5], 1)], "the node has no such device"),
        (vec![share(0, &[5], &[8], 1)], "the node has no such device"),
        (
            vec![share(1, &[5], &[5], 1), share(1, &[6], &[6], 1)],
            "a node is named twice",
        ),
        (vec![share(2, &[5], &[5], 1)], "no such node"),
        (vec![], "the placement is empty"),
    ] {
        assert_eq!(world.ignores(place(shares, 2)), why);
    }
    let good = || vec![share(0, &[5], &[5], 1)];
    assert_eq!(world.ignores(place(good(), 1)), "the generation is not new");
    world.does(place(good(), 2));
    assert_eq!(world.ignores(place(good(), 3)), "the job does not wait");
}

#[test]
fn time_alone_ends_jobs_and_forgets_them() {
    let mut world = World::new(1, 8);
    let job = world.start(batch());
    let limit = world.job(job).ended.unwrap();
    assert_eq!(limit.secs_since(world.job(job).started.unwrap()), 3_600);
    assert_eq!(
        world.cluster.next_deadline(world.now),
        Some((limit, "time limit"))
    );
    assert!(world.cluster.expired(world.now).is_empty());
    assert_eq!(world.cluster.expired(limit), [Event::TimedOut { job }]);
    world.does(Event::TimedOut { job });
    assert_eq!(
        (world.job(job).state, world.job(job).reason),
        (JobState::Timeout, Reason::TimeLimit)
    );
    assert_eq!(
        world.cluster.next_deadline(world.now),
        None,
        "not forgotten before it is clean"
    );
    world.clean_all(job);
    let ended = world.job(job).ended.unwrap();
    let age = ended.plus_secs(300);
    assert_eq!(
        world.cluster.next_deadline(world.now),
        Some((age, "ended job"))
    );
    let purge = world.cluster.expired(age);
    assert_eq!(purge, [Event::Purged { jobs: vec![job] }]);
    let fx = world.does(purge[0].clone());
    assert_eq!(fx.effects, [Effect::DropPayload { job }]);
    assert!(fx.touched_jobs.contains(&job) && world.cluster.jobs.is_empty());
    assert_eq!(
        world.cluster.next_job_id(),
        Some(JobId(2)),
        "numbers are not used again"
    );
}

#[test]
fn a_job_that_is_not_over_is_not_forgotten() {
    let mut world = World::new(1, 8);
    let job = world.start(batch());
    world.does(Event::Purged {
        jobs: vec![job, JobId(77)],
    });
    assert_eq!(world.cluster.jobs.len(), 1);
}

#[test]
fn a_begin_time_wakes_the_planner_once() {
    let mut world = World::new(1, 8);
    let begin = world.now.plus_secs(100);
    world.submit(JobSpec {
        begin: Some(begin),
        ..batch()
    });
    assert_eq!(
        world.cluster.next_deadline(world.now),
        Some((begin, "begin time"))
    );
    assert_eq!(world.cluster.next_deadline(begin), None);
    assert!(world.cluster.expired(begin).is_empty());
    let before = Millis(begin.0 - 1);
    assert!(world.cluster.begins_within(before, begin));
    assert!(!world.cluster.begins_within(begin, begin.plus_secs(9)));
    assert!(!world.cluster.begins_within(world.now, before));
    assert!(!world.cluster.begins_within(begin, before));
}

#[test]
fn numbers_run_out_without_a_panic() {
    let mut world = World::new(1, 8);
    world.cluster.next_job = JobId(u32::MAX - 1);
    let spec = Arc::new(batch());
    let submit = |job| Event::Submitted {
        job: JobId(job),
        spec: Arc::clone(&spec),
        priority: 1,
    };
    world.does(submit(u32::MAX - 1));
    assert_eq!(world.cluster.next_job_id(), None);
    assert_eq!(world.ignores(submit(5)), "the job number was used before");
}

#[test]
fn holds_updates_and_releases() {
    let mut world = World::new(1, 8);
    let job = world.submit(JobSpec {
        hold: true,
        ..batch()
    });
    assert_eq!(world.job(job).reason, Reason::JobHeldUser);
    assert!(world.plan().placements.is_empty());
    world.does(Event::Held {
        job,
        by_admin: true,
    });
    assert_eq!(world.job(job).reason, Reason::JobHeldAdmin);
    let update = Event::JobUpdated {
        job,
        time_limit: Some(crate::time::TimeLimit::Secs(60)),
        name: Some("new".to_owned()),
        comment: None,
        partition: None,
        priority: None,
    };
    world.does(update);
    world.does(Event::Released { job });
    world.plan();
    let running = world.job(job);
    assert_eq!(
        (running.state, running.spec.name.as_str()),
        (JobState::Running, "new")
    );
    assert_eq!(running.ended, Some(running.started.unwrap().plus_secs(60)));
    world.ignores(Event::Held {
        job,
        by_admin: false,
    });
}

#[test]
fn the_out_of_memory_killer_has_a_state_of_its_own() {
    let mut world = World::new(1, 8);
    let job = world.start(batch());
    let generation = world.job(job).generation;
    let exit = ExitStatus { code: 0, signal: 9 };
    let node = NodeId(0);
    world.does(Event::StepEnded {
        job,
        step: StepKind::Batch,
        node,
        generation,
        exit,
        oom: true,
    });
    assert_eq!(world.job(job).state, JobState::OutOfMemory);
}

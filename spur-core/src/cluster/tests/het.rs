//! Heterogeneous jobs: all components start together or none does, and they share their fate.

use crate::effect::Effect;
use crate::event::Event;
use crate::fixture::{OK, World, batch, gang, spec};
use crate::id::{Generation, JobId, NodeId, StepKind, Uid};
use crate::job::spec::{JobKind, JobSpec};
use crate::job::state::{ExitStatus, JobState, Reason};
use crate::node::AdminState;
use crate::time::TimeLimit;

const USER: Uid = Uid(1000);

fn table(world: &World) -> Vec<String> {
    let row = |job: &crate::job::Job| {
        let part = job.het.map(|part| part.to_string()).unwrap_or_default();
        format!("{} {} {} {part}", job.id, job.state, job.reason)
    };
    world.cluster.jobs.values().map(row).collect()
}

fn states(world: &World) -> Vec<JobState> {
    world.cluster.jobs.values().map(|job| job.state).collect()
}

/// Two nodes of eight GPUs; a running job with a component on each.
fn running() -> World {
    let mut world = World::new(2, 8);
    world.submit_het(vec![gang(1, 5), gang(1, 4)]);
    world.plan();
    assert_eq!(states(&world), [JobState::Running, JobState::Running]);
    world
}

#[test]
fn all_components_start_together_and_the_leader_runs_the_script() {
    let mut world = World::new(2, 8);
    let leader = world.submit_het(vec![gang(1, 2), gang(2, 3)]);
    let found = world.plan();
    assert_eq!(found.placements.len(), 2);
    assert_eq!(table(&world), ["1 RUNNING None 1+0", "2 RUNNING None 1+1"]);
    let second = JobId(2);
    assert_eq!(world.job(leader).started, world.job(second).started);
    assert!(world.job(leader).generation < world.job(second).generation);
    assert!(world.job(leader).steps.contains_key(&StepKind::Batch));
    assert!(world.job(second).steps.is_empty());
    assert_eq!(world.job(second).allocation.len(), 2);
    let next = world.submit(batch());
    assert_eq!(next, JobId(3), "numbers go on behind the last component");
}

#[test]
fn none_starts_while_one_has_no_room() {
    let mut world = World::new(2, 8);
    let blocker = world.start(gang(1, 8));
    let leader = world.submit_het(vec![gang(1, 5), gang(1, 4)]);
    let found = world.plan();
    assert_eq!(found.placements, []);
    assert_eq!(
        table(&world)[1..],
        ["2 PENDING Resources 2+0", "3 PENDING Resources 2+1"]
    );
    // Both are kept from the same moment on, when the first job is over.
    let reserved = &found.outlook.reserved;
    let start = world.job(blocker).ended.unwrap();
    assert_eq!(reserved[&leader].start, start);
    assert_eq!(reserved[&JobId(3)].start, start);
    let nodes = |job: JobId| reserved[&job].shares[0].node;
    assert_ne!(nodes(leader), nodes(JobId(3)));
    // What would still run then does not fit; what is over by then does.
    let long = world.submit(JobSpec {
        time_limit: Some(TimeLimit::Secs(86_000)),
        ..gang(1, 8)
    });
    let short = world.submit(JobSpec {
        time_limit: Some(TimeLimit::Secs(60)),
        ..gang(1, 8)
    });
    world.plan();
    assert_eq!(world.job(long).state, JobState::Pending);
    assert_eq!(world.job(short).state, JobState::Running);
    for job in [short, blocker] {
        world.does(Event::Cancelled { job, by: USER });
        world.clean_all(job);
    }
    world.plan();
    assert_eq!(world.job(leader).state, JobState::Running);
    assert_eq!(world.job(JobId(3)).state, JobState::Running);
}

#[test]
fn what_a_pass_tried_for_a_job_is_free_for_the_next() {
    let mut world = World::new(1, 8);
    world.submit_het(vec![gang(1, 5), gang(1, 4)]);
    let small = world.submit(JobSpec {
        time_limit: Some(TimeLimit::Secs(60)),
        ..gang(1, 8)
    });
    world.plan();
    // The components never fit together, so nothing is kept for them.
    assert_eq!(world.job(small).state, JobState::Running);
    assert_eq!(world.job(JobId(1)).state, JobState::Pending);
    assert_eq!(world.plan().placements, []);
}

#[test]
fn a_component_is_not_placed_alone_and_not_twice_in_one_place() {
    let mut world = World::new(1, 8);
    let leader = world.submit_het(vec![gang(1, 4), gang(1, 4)]);
    let found = world.plan_only();
    let shares: Vec<_> = found
        .placements
        .iter()
        .map(|one| one.shares.clone())
        .collect();
    let generation = Generation(9);
    let alone = Event::Placed {
        job: leader,
        shares: shares[0].clone(),
        generation,
        backfilled: false,
        time_limit: None,
    };
    let together = "components of a heterogeneous job start together";
    assert_eq!(world.ignores(alone), together);
    let one = |parts: Vec<(JobId, Vec<_>)>| Event::HetPlaced { parts, generation };
    let first = (leader, shares[0].clone());
    assert_eq!(world.ignores(one(vec![first.clone()])), together);
    let same = one(vec![first.clone(), (JobId(2), shares[0].clone())]);
    assert_eq!(world.ignores(same), "a device is not free");
    world.does(one(vec![first, (JobId(2), shares[1].clone())]));
    assert_eq!(world.job(JobId(2)).generation, Generation(10));
    assert_eq!(world.cluster.generation, Generation(10));
}

#[test]
fn the_end_of_the_script_is_the_end_of_all() {
    let mut world = running();
    let exit = ExitStatus { code: 3, signal: 0 };
    let node = world.job(JobId(1)).allocation[0].node.0;
    let fx = world.step_ended(JobId(1), StepKind::Batch, node, exit);
    assert_eq!(states(&world), [JobState::Failed, JobState::Failed]);
    assert_eq!(world.job(JobId(2)).exit, exit);
    let revoked = fx
        .effects
        .iter()
        .filter(|fx| matches!(fx, Effect::Revoke { .. }));
    assert_eq!(revoked.count(), 2);
}

#[test]
fn a_limit_a_lost_node_and_a_failed_launch_end_all() {
    let mut world = running();
    world.does(Event::TimedOut { job: JobId(2) });
    assert_eq!(states(&world), [JobState::Timeout, JobState::Timeout]);

    let mut world = running();
    let node = world.job(JobId(2)).allocation[0].node;
    world.does(Event::NodeUpdated {
        node,
        admin: AdminState::Down,
        reason: "x".to_owned(),
        by: Uid(0),
    });
    assert_eq!(states(&world), [JobState::NodeFail, JobState::NodeFail]);

    let mut world = running();
    let job = world.job(JobId(2));
    let (node, generation) = (job.allocation[0].node, job.generation);
    world.does(Event::LaunchFailed {
        job: JobId(2),
        node,
        generation,
        why: "no".to_owned(),
        node_fault: true,
        rests: true,
    });
    let waiting = [JobState::Pending, JobState::Pending];
    assert_eq!(states(&world), waiting, "it is tried elsewhere");
    assert!(world.job(JobId(2)).avoid.contains(&node));
    assert!(world.job(JobId(1)).avoid.is_empty());
}

#[test]
fn a_lost_node_puts_all_back_if_they_may_be_requeued() {
    let mut world = World::new(2, 8);
    let may = |spec: JobSpec| JobSpec {
        requeue: true,
        ..spec
    };
    world.submit_het(vec![may(gang(1, 5)), may(gang(1, 4))]);
    world.plan();
    let node = world.job(JobId(1)).allocation[0].node;
    world.does(Event::NodeUpdated {
        node,
        admin: AdminState::Down,
        reason: "x".to_owned(),
        by: Uid(0),
    });
    assert_eq!(states(&world), [JobState::Pending, JobState::Pending]);
    assert_eq!(world.job(JobId(2)).restarts, 1);
    world.clean_all(JobId(1));
    world.clean_all(JobId(2));
    world.plan();
    assert_eq!(states(&world), [JobState::Pending, JobState::Pending]);
    world.does(Event::NodeUpdated {
        node,
        admin: AdminState::Up,
        reason: String::new(),
        by: Uid(0),
    });
    world.plan();
    assert_eq!(states(&world), [JobState::Running, JobState::Running]);
}

#[test]
fn a_reboot_of_a_node_with_several_components_frees_all() {
    let mut world = World::new(1, 8);
    world.submit_het(vec![gang(1, 2), gang(1, 2), gang(1, 2)]);
    world.plan();
    let hello = crate::fixture::hello("n1", crate::fixture::inventory(8, 16_384, 8));
    world.does(Event::NodeConnected(crate::event::NodeHello {
        boot_id: "boot-2".to_owned(),
        ..hello
    }));
    assert_eq!(states(&world), [JobState::NodeFail; 3]);
    assert!(world.node(0).jobs.is_empty());
}

#[test]
fn waiting_components_are_cancelled_together_running_ones_alone_too() {
    let mut world = World::new(1, 2);
    let leader = world.submit_het(vec![gang(1, 1), gang(1, 1)]);
    let all = world.cluster.clone();
    world.does(Event::Cancelled {
        job: JobId(2),
        by: USER,
    });
    assert_eq!(states(&world), [JobState::Cancelled; 2]);
    assert_eq!(world.job(leader).cancelled_by, Some(USER));

    world.cluster = all;
    world.plan();
    world.does(Event::Cancelled {
        job: JobId(2),
        by: USER,
    });
    assert_eq!(states(&world), [JobState::Running, JobState::Cancelled]);
    world.does(Event::Cancelled {
        job: leader,
        by: USER,
    });
    assert_eq!(states(&world), [JobState::Cancelled; 2]);
    assert_eq!(world.job(leader).cancelled_by, Some(USER));
}

#[test]
fn a_component_that_was_cancelled_alone_comes_back_with_the_others() {
    let mut world = running();
    world.does(Event::Cancelled {
        job: JobId(2),
        by: USER,
    });
    world.clean_all(JobId(2));
    world.does(Event::Requeued { job: JobId(1) });
    assert_eq!(states(&world), [JobState::Pending; 2]);
    assert_eq!(world.plan().placements, [], "the leader is not clean");
    world.clean_all(JobId(1));
    world.plan();
    assert_eq!(states(&world), [JobState::Running; 2]);
}

#[test]
fn all_are_held_released_and_stopped_together() {
    let mut world = World::new(1, 8);
    let leader = world.submit_het(vec![gang(1, 1), gang(1, 1)]);
    world.does(Event::Held {
        job: leader,
        by_admin: false,
    });
    assert_eq!(world.plan().placements, []);
    assert_eq!(world.job(JobId(2)).reason, Reason::JobHeldUser);
    world.does(Event::Released { job: JobId(2) });
    world.plan();
    assert_eq!(states(&world), [JobState::Running; 2]);
    world.does(Event::Suspended { job: leader });
    assert!(world.job(JobId(2)).suspended.is_some());
    world.does(Event::Resumed { job: leader });
    assert!(world.job(JobId(2)).suspended.is_none());
}

#[test]
fn a_component_that_waits_for_another_job_keeps_all() {
    let mut world = World::new(1, 8);
    let first = world.start(gang(1, 1));
    let after = JobSpec {
        dependency: format!("afterok:{first}"),
        ..gang(1, 1)
    };
    world.submit_het(vec![gang(1, 1), after]);
    world.plan();
    assert_eq!(
        table(&world)[1..],
        ["2 PENDING Priority 2+0", "3 PENDING Dependency 2+1"]
    );
    assert_eq!(world.plan().reasons, []);
    world.step_ended(first, StepKind::Batch, 0, OK);
    world.clean_all(first);
    world.plan();
    assert_eq!(states(&world)[1..], [JobState::Running; 2]);
}

#[test]
fn a_hopeless_component_takes_the_others_with_it() {
    let mut world = World::new(1, 8);
    let first = world.start(gang(1, 1));
    let after = JobSpec {
        dependency: format!("afternotok:{first}"),
        kill_on_invalid_dep: Some(true),
        ..gang(1, 1)
    };
    world.submit_het(vec![gang(1, 1), after]);
    world.step_ended(first, StepKind::Batch, 0, OK);
    world.clean_all(first);
    assert_eq!(states(&world)[1..], [JobState::Cancelled; 2]);
}

#[test]
fn a_job_of_srun_ends_with_its_last_step() {
    let mut world = World::new(1, 8);
    let run = || spec(JobKind::Run);
    let leader = world.submit_het(vec![run(), run()]);
    world.plan();
    for job in [leader, JobId(2)] {
        let asked = crate::job::step::StepSpec {
            name: "s".to_owned(),
            tasks: 0,
            nodes: 0,
            cpus_per_task: 0,
            tasks_per_node: 0,
            gpus_per_node: None,
            gpus_per_task: None,
            nodelist: Vec::new(),
            ..crate::job::step::StepSpec::default()
        };
        let shares = crate::job::step::grant(&world.cluster, world.job(job), &asked).unwrap();
        world.does(Event::StepGranted {
            job,
            step: StepKind::Numbered(0),
            name: "s".to_owned(),
            uid: USER,
            shares,
            cpus_per_task: 0,
            with: vec![leader, JobId(2)],
            request_id: 0,
            sharing: Default::default(),
        });
    }
    let order = |job, world: &World| {
        let step = (job, StepKind::Numbered(0));
        let order = world
            .cluster
            .step_order(step, NodeId(0), &mut Default::default());
        order.unwrap()
    };
    // To the tasks it is one step.
    let second = order(JobId(2), &world);
    assert_eq!((second.tasks, second.index, second.nodes.len()), (2, 1, 2));
    let bad = ExitStatus { code: 2, signal: 0 };
    let apart = world.cluster.clone();
    world.step_ended(leader, StepKind::Numbered(0), 0, bad);
    assert_eq!(states(&world), [JobState::Running; 2]);
    world.step_ended(JobId(2), StepKind::Numbered(0), 0, OK);
    assert_eq!(states(&world), [JobState::Failed, JobState::Completed]);
    world.cluster = apart;
    world.step_ended(leader, StepKind::Numbered(0), 0, bad);
    world.does(Event::Cancelled {
        job: JobId(2),
        by: USER,
    });
    assert_eq!(states(&world), [JobState::Failed, JobState::Cancelled]);
}

#[test]
fn a_forgotten_leader_leaves_nothing_to_put_back() {
    let mut world = running();
    world.does(Event::Cancelled {
        job: JobId(1),
        by: USER,
    });
    world.clean_all(JobId(1));
    world.clean_all(JobId(2));
    world.does(Event::Purged {
        jobs: vec![JobId(1)],
    });
    let again = world.ignores(Event::Requeued { job: JobId(2) });
    assert_eq!(again, "the leader of the heterogeneous job is forgotten");
    world.does(Event::Purged {
        jobs: vec![JobId(2)],
    });
    assert!(world.cluster.jobs.is_empty());
}

#[test]
fn submissions_that_make_no_sense_are_ignored() {
    let mut world = World::new(1, 8);
    let spec = |spec: JobSpec| (std::sync::Arc::new(spec), 1);
    let submit = |job: u32, parts| Event::HetSubmitted {
        job: JobId(job),
        parts,
    };
    world.ignores(submit(1, vec![spec(batch())]));
    let array = JobSpec {
        array: "0-3".to_owned(),
        ..batch()
    };
    world.ignores(submit(1, vec![spec(batch()), spec(array)]));
    let other = crate::fixture::spec(JobKind::Run);
    world.ignores(submit(1, vec![spec(batch()), spec(other)]));
    world.submit(batch());
    world.ignores(submit(1, vec![spec(batch()), spec(batch())]));
    world.ignores(submit(u32::MAX, vec![spec(batch()), spec(batch())]));
    world.does(submit(2, vec![spec(batch()), spec(batch())]));
    assert_eq!(world.cluster.next_job_id(), Some(JobId(4)));
    assert_eq!(world.node(0).id, NodeId(0));
}

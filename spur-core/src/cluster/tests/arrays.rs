//! Arrays, jobs that wait for others, jobs that are stopped and changed.

use crate::event::Event;
use crate::fixture::{OK, World, batch, gang};
use crate::id::{JobId, StepKind, Uid};
use crate::job::array::{SHOWN_DEFAULT, TaskSet};
use crate::job::spec::JobSpec;
use crate::job::state::{ExitStatus, JobState, Reason};
use crate::time::{Millis, TimeLimit};
use crate::view::job_view;
use std::sync::Arc;

fn array(text: &str) -> JobSpec {
    JobSpec {
        array: text.to_owned(),
        ..gang(1, 1)
    }
}

fn after(text: &str) -> JobSpec {
    JobSpec {
        dependency: text.to_owned(),
        ..gang(1, 1)
    }
}

fn named(world: &World, job: JobId) -> String {
    let view = job_view(&world.cluster, world.job(job));
    view.array.unwrap().id_text(SHOWN_DEFAULT)
}

/// Every job as `NUMBER STATE REASON NAME`.
fn table(world: &World) -> Vec<String> {
    let row = |id: &JobId| {
        let job = world.job(*id);
        let name = job.array.as_ref().map(|_| named(world, *id));
        format!(
            "{id} {} {} {}",
            job.state,
            job.reason,
            name.unwrap_or_default()
        )
    };
    world.cluster.jobs.keys().map(row).collect()
}

fn end(world: &mut World, job: JobId, code: u8) {
    let node = world.job(job).allocation[0].node.0;
    world.step_ended(job, StepKind::Batch, node, ExitStatus { code, signal: 0 });
    world.clean_all(job);
}

fn cancel(world: &mut World, job: JobId) {
    world.does(Event::Cancelled { job, by: Uid(1000) });
}

#[test]
fn tasks_start_with_numbers_of_their_own_and_the_last_keeps_the_array_s() {
    let mut world = World::new(1, 8);
    let head = world.submit(array("0-3"));
    let other = world.submit(batch());
    world.plan();
    assert_eq!(
        table(&world),
        [
            "1 RUNNING None 1_3",
            "2 RUNNING None ",
            "3 RUNNING None 1_0",
            "4 RUNNING None 1_1",
            "5 RUNNING None 1_2"
        ]
    );
    let order = world
        .cluster
        .job_order(JobId(4), world.node(0).id, &mut Default::default())
        .unwrap();
    let task = order.array.unwrap();
    assert_eq!((task.job, task.task, task.count), (head, 1, 4));
    assert_eq!((task.min, task.max, task.step), (0, 3, 1));
    assert_eq!(world.job(JobId(4)).payload(), head);
    assert_eq!(world.job(other).payload(), other);
}

#[test]
fn no_more_tasks_run_at_once_than_may() {
    let mut world = World::new(1, 8);
    let head = world.submit(array("0-19%2"));
    let next = world.submit(gang(1, 1));
    world.plan();
    assert_eq!(
        table(&world),
        [
            "1 PENDING JobArrayTaskLimit 1_[2-19%2]",
            "2 RUNNING None ",
            "3 RUNNING None 1_0",
            "4 RUNNING None 1_1"
        ]
    );
    assert!(world.plan().placements.is_empty());
    end(&mut world, JobId(3), 0);
    assert_eq!(world.job(head).reason, Reason::None);
    world.plan();
    assert_eq!(named(&world, head), "1_[3-19%2]");
    assert_eq!(world.job(head).reason, Reason::JobArrayTaskLimit);
    let spec = world.job(head).spec.clone();
    world.does(Event::JobChanged {
        job: head,
        spec,
        priority: None,
        throttle: Some(0),
    });
    world.plan();
    assert_eq!(world.cluster.counts().1, 8, "as many as there are GPUs");
    assert_eq!(world.job(next).state, JobState::Running);
}

#[test]
fn tasks_are_cancelled_and_held_alone() {
    let mut world = World::new(1, 1);
    let blocker = world.start(gang(1, 1));
    let head = world.submit(array("0-9"));
    let tasks: TaskSet = [3, 4].into_iter().collect();
    world.does(Event::ArraySplit {
        job: head,
        tasks,
        new: JobId(3),
    });
    cancel(&mut world, JobId(3));
    world.does(Event::TaskSplit {
        job: head,
        task: 7,
        new: JobId(4),
    });
    world.does(Event::Held {
        job: JobId(4),
        by_admin: false,
    });
    assert_eq!(
        table(&world)[1..],
        [
            "2 PENDING None 2_[0-2,5-6,8-9]",
            "3 CANCELLED None 2_[3-4]",
            "4 PENDING JobHeldUser 2_7"
        ]
    );
    let again = Event::TaskSplit {
        job: head,
        task: 7,
        new: JobId(5),
    };
    assert_eq!(
        world.ignores(again),
        "the record does not stand for these tasks"
    );
    let all = Event::ArraySplit {
        job: head,
        tasks: [0, 1, 2, 5, 6, 8, 9].into_iter().collect(),
        new: JobId(5),
    };
    assert_eq!(world.ignores(all), "no task is left for the record");
    cancel(&mut world, head);
    assert_eq!(world.cluster.arrays[&head].ended.len(), 9);
    end(&mut world, blocker, 0);
    world.plan();
    world.does(Event::Released { job: JobId(4) });
    world.plan();
    end(&mut world, JobId(4), 3);
    let over = &world.cluster.arrays[&head];
    assert!(over.is_over());
    assert_eq!(over.worst, ExitStatus { code: 3, signal: 0 });
}

#[test]
fn an_array_of_a_hundred_thousand_is_one_record() {
    let mut world = World::new(1, 8);
    let (mut many, mut few) = (array("0-99999"), array("0-99999"));
    world.cluster.max_array_size = 100_001;
    many.array = "0-99999%3".to_owned();
    few.array = "5".to_owned();
    let head = world.submit(many);
    world.submit(few);
    assert_eq!(world.cluster.jobs.len(), 2);
    assert_eq!(named(&world, head), "1_[0-99999%3]");
    world.plan();
    assert_eq!(named(&world, head), "1_[3-99999%3]");
    assert_eq!(world.cluster.counts(), (1, 4));
}

#[test]
fn an_array_is_forgotten_with_its_last_record() {
    let mut world = World::new(1, 8);
    let head = world.start(array("0-1"));
    let other = JobId(2);
    end(&mut world, head, 0);
    let fx = world.does(Event::Purged { jobs: vec![head] });
    assert!(fx.effects.is_empty(), "its script is needed yet");
    assert!(world.cluster.arrays.contains_key(&head));
    end(&mut world, other, 0);
    let fx = world.does(Event::Purged { jobs: vec![other] });
    assert_eq!(
        fx.effects,
        [crate::effect::Effect::DropPayload { job: head }]
    );
    assert!(world.cluster.arrays.is_empty());
}

#[test]
fn a_task_that_is_requeued_waits_alone() {
    let mut world = World::new(1, 1);
    let head = world.submit(array("0-2%1"));
    world.plan();
    let task = JobId(2);
    world.does(Event::Requeued { job: task });
    assert_eq!(named(&world, task), "1_0");
    assert!(world.cluster.arrays[&head].ended.is_empty());
    world.clean_all(task);
    world.plan();
    let running = world.cluster.running().count();
    assert_eq!(running, 1, "{:?}", table(&world));
}

#[test]
fn jobs_wait_for_others() {
    let cases = [
        ("afterok", 0, Some(true)),
        ("afterok", 1, Some(false)),
        ("afternotok", 0, Some(false)),
        ("afternotok", 1, Some(true)),
        ("afterany", 1, Some(true)),
    ];
    for (kind, code, met) in cases {
        let mut world = World::new(1, 2);
        let first = world.start(gang(1, 1));
        let second = world.submit(after(&format!("{kind}:{first}")));
        world.plan();
        assert_eq!(world.job(second).reason, Reason::Dependency, "{kind}");
        let view = job_view(&world.cluster, world.job(second));
        assert_eq!(view.dependency, format!("{kind}:1(unfulfilled)"));
        world.step_ended(first, StepKind::Batch, 0, ExitStatus { code, signal: 0 });
        assert!(!world.job(second).depends.is_met(), "it is not cleaned up");
        world.clean_all(first);
        world.plan();
        let job = world.job(second);
        match met {
            Some(true) => assert_eq!(job.state, JobState::Running, "{kind} {code}"),
            _ => {
                assert_eq!(
                    job.reason,
                    Reason::DependencyNeverSatisfied,
                    "{kind} {code}"
                );
                assert!(job.depends.to_string().ends_with("(failed)"));
                world.does(Event::Purged { jobs: vec![first] });
                let job = world.job(second);
                assert_eq!(job.reason, Reason::DependencyNeverSatisfied, "{kind}");
            }
        }
    }
}

#[test]
fn any_of_several_is_enough_and_hopeless_ones_go_if_their_owner_says_so() {
    let mut world = World::new(1, 8);
    let (one, two) = (world.start(gang(1, 1)), world.start(gang(1, 1)));
    let any = world.submit(after("afterok:1?afterok:2"));
    let all = world.submit(JobSpec {
        kill_on_invalid_dep: Some(true),
        ..after("afterok:1,afterok:2")
    });
    let chained = world.submit(JobSpec {
        kill_on_invalid_dep: Some(true),
        ..after(&format!("afterok:{all}"))
    });
    end(&mut world, one, 1);
    assert_eq!(world.job(any).reason, Reason::Dependency);
    for job in [all, chained] {
        let job = world.job(job);
        assert_eq!(
            (job.state, job.reason),
            (JobState::Cancelled, Reason::DependencyNeverSatisfied)
        );
    }
    end(&mut world, two, 0);
    world.plan();
    assert_eq!(world.job(any).state, JobState::Running);
}

#[test]
fn after_the_start_and_some_minutes() {
    let mut world = World::new(1, 8);
    let first = world.submit(JobSpec {
        hold: true,
        ..gang(1, 1)
    });
    let at_once = world.submit(after("after:1"));
    let later = world.submit(after("after:1+5"));
    world.plan();
    assert_eq!(world.job(at_once).reason, Reason::Dependency);
    world.does(Event::Released { job: first });
    world.plan();
    let started = world.job(first).started.unwrap();
    world.plan();
    assert_eq!(world.job(at_once).state, JobState::Running);
    let job = world.job(later);
    assert_eq!(
        (job.state, job.reason),
        (JobState::Pending, Reason::BeginTime)
    );
    assert_eq!(job.eligible, started.plus_secs(300));
    world.now = started.plus_secs(301);
    world.plan();
    assert_eq!(world.job(later).state, JobState::Running);
}

#[test]
fn arrays_are_waited_for_as_a_whole_or_task_by_task() {
    let mut world = World::new(1, 8);
    let head = world.start(array("0-2"));
    let whole = world.submit(after("afterok:1"));
    let task = world.submit(after("afterok:1_1"));
    let pairs = world.submit(JobSpec {
        dependency: "aftercorr:1".to_owned(),
        ..array("0-2")
    });
    let lines = |world: &World, job| world.job(job).depends.to_string();
    assert_eq!(lines(&world, whole), "afterok:1_*(unfulfilled)");
    assert_eq!(lines(&world, task), "afterok:1_1(unfulfilled)");
    assert_eq!(world.job(pairs).reason, Reason::Dependency);
    let record = |world: &World, task: u32| {
        let is_it = |id: &JobId| named(world, *id) == format!("{head}_{task}");
        world.cluster.members(head).find(is_it).unwrap()
    };
    let one = record(&world, 1);
    end(&mut world, one, 0);
    world.plan();
    assert_eq!(world.job(task).state, JobState::Running);
    assert_eq!(named(&world, pairs), format!("{pairs}_[0,2]"));
    let two = record(&world, 2);
    end(&mut world, two, 1);
    world.plan();
    assert_eq!(world.job(whole).reason, Reason::Dependency, "not over yet");
    assert_eq!(named(&world, pairs), format!("{pairs}_[0,2]"));
    let zero = record(&world, 0);
    end(&mut world, zero, 0);
    world.plan();
    assert_eq!(world.job(whole).reason, Reason::DependencyNeverSatisfied);
    assert_eq!(named(&world, pairs), format!("{pairs}_[2]"));
    assert_eq!(world.job(pairs).reason, Reason::DependencyNeverSatisfied);
}

#[test]
fn one_of_a_name_at_a_time() {
    let mut world = World::new(1, 8);
    let single = || JobSpec {
        name: "one".to_owned(),
        ..after("singleton")
    };
    let (first, second, third) = (
        world.submit(single()),
        world.submit(single()),
        world.submit(single()),
    );
    world.plan();
    let states = |world: &World| [first, second, third].map(|job| world.job(job).state);
    use JobState::{Cancelled, Completed, Pending, Running};
    assert_eq!(states(&world), [Running, Pending, Pending]);
    assert_eq!(world.job(second).reason, Reason::Dependency);
    cancel(&mut world, second);
    end(&mut world, first, 0);
    world.plan();
    assert_eq!(states(&world), [Completed, Cancelled, Running]);
}

#[test]
fn a_stopped_job_keeps_what_it_holds_and_its_limit_waits() {
    let mut world = World::new(1, 1);
    let job = world.start(JobSpec {
        time_limit: Some(TimeLimit::Secs(100)),
        ..gang(1, 1)
    });
    let end = world.job(job).ended.unwrap();
    world.does(Event::Suspended { job });
    assert_eq!(
        world.ignores(Event::Suspended { job }),
        "the job is suspended already"
    );
    let view = job_view(&world.cluster, world.job(job));
    assert_eq!((view.state, view.ended), (JobState::Suspended, None));
    let other = world.submit(gang(1, 1));
    world.plan();
    let other = job_view(&world.cluster, world.job(other));
    assert_eq!(other.state, JobState::Pending, "its GPU is kept");
    world.now = end.plus_secs(50);
    assert!(world.cluster.expired(world.now).is_empty());
    world.does(Event::Resumed { job });
    let stopped = world.job(job).suspended_ms;
    assert!(stopped > 50_000);
    assert_eq!(world.job(job).ended, Some(Millis(end.0 + stopped)));
    assert_eq!(
        world.ignores(Event::Resumed { job }),
        "the job is not suspended"
    );
    world.now = Millis(end.0 + stopped);
    assert_eq!(world.cluster.expired(world.now), [Event::TimedOut { job }]);
    world.does(Event::Suspended { job });
    cancel(&mut world, job);
    assert_eq!(world.job(job).suspended, None);
}

#[test]
fn how_long_a_job_and_its_steps_stood_still_is_told() {
    let mut world = World::new(1, 1);
    let job = world.start(batch());
    let begun = world.job(job).started.unwrap();
    let view = |world: &World| job_view(&world.cluster, world.job(job));
    let told = |world: &World| {
        let job = view(world);
        (
            job.turned,
            job.ran_before_ms,
            job.stopped_ms(world.now),
            job.step_stopped_ms(&job.steps[0], world.now),
        )
    };
    assert_eq!(told(&world), (None, 0, 0, 0));
    let first = begun.plus_secs(10);
    let at = |world: &mut World, at: Millis, event| {
        world.now = Millis(at.0 - 1000);
        world.does(event);
        assert_eq!(world.now, at);
    };
    at(&mut world, first, Event::Suspended { job });
    world.now = first.plus_secs(3);
    assert_eq!(told(&world), (Some(first), 10_000, 3_000, 3_000));
    let again = first.plus_secs(20);
    at(&mut world, again, Event::Resumed { job });
    assert_eq!(told(&world), (Some(again), 10_000, 20_000, 20_000));
    let second = again.plus_secs(5);
    at(&mut world, second, Event::Suspended { job });
    world.now = second.plus_secs(7);
    assert_eq!(told(&world), (Some(second), 15_000, 27_000, 27_000));
    // What ends while it stands still ran no longer than until then.
    world.now = second.plus_secs(8);
    cancel(&mut world, job);
    let stopped = 20_000 + world.now.0 - second.0;
    let ended = (Some(second), 15_000, stopped, stopped);
    assert_eq!(told(&world), ended);
    world.now = second.plus_secs(70);
    assert_eq!(told(&world).2, stopped);
}

#[test]
fn a_job_is_as_if_something_else_had_been_asked_for() {
    let mut world = World::new(2, 1);
    let blocker = world.start(gang(2, 1));
    let job = world.submit(after("afterok:1"));
    let mut spec = JobSpec::clone(&world.job(job).spec);
    spec.dependency = String::new();
    spec.nice = 5;
    spec.nodelist = vec!["n2".to_owned()];
    world.does(Event::JobChanged {
        job,
        spec: Arc::new(spec),
        priority: None,
        throttle: None,
    });
    assert_eq!(world.job(job).reason, Reason::None);
    // With the dependency it would never start.
    end(&mut world, blocker, 1);
    world.plan();
    assert_eq!(world.places(job), "n2:c0:g0:t1");
    let stolen = Event::JobChanged {
        job,
        spec: Arc::new(array("0-1")),
        priority: None,
        throttle: None,
    };
    assert_eq!(
        world.ignores(stolen),
        "a job's owner, kind and array cannot be changed"
    );
    assert_eq!(OK, world.job(job).exit);
}

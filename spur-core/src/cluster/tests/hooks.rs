//! Programs of the operator on the controller's host around allocations.

use super::super::hooks::{EACH_MAX, HookKind, Hooks};
use crate::effect::{Effect, Effects};
use crate::event::Event;
use crate::fixture::{OK, World, batch, gang, spec};
use crate::id::{JobId, NodeId, StepKind, Uid};
use crate::job::spec::{JobKind, JobSpec};
use crate::job::state::{JobState, Reason};
use proptest::prelude::*;

fn world(nodes: u32, prolog: bool, epilog: bool) -> World {
    let mut world = World::new(nodes, 8);
    let hooks = Hooks { prolog, epilog };
    world.does(Event::HooksConfigured { hooks });
    world
}

fn ended(world: &mut World, job: JobId, trouble: Option<&str>) -> Effects {
    let hook = world.cluster.hook_of(job).expect("one is due").clone();
    world.does(Event::HookEnded {
        job,
        generation: hook.generation,
        kind: hook.kind,
        trouble: trouble.map(str::to_owned),
    })
}

fn kinds(world: &World, job: JobId) -> Vec<HookKind> {
    let due = world.cluster.hooks_due().find(|(id, _)| *id == job);
    due.map(|(_, due)| due.iter().map(|hook| hook.kind).collect())
        .unwrap_or_default()
}

fn is_leader(world: &World, job: JobId) -> bool {
    world.cluster.together(job).first() == Some(&job)
}

/// Whether a node is told of the job by the present state.
fn is_ordered(world: &World, job: JobId) -> bool {
    let mut rolls = Default::default();
    let assigned = world
        .cluster
        .job_order(job, NodeId(0), &mut rolls)
        .is_some();
    let launched = world
        .cluster
        .step_order((job, StepKind::Batch), NodeId(0), &mut rolls);
    let (welcome, _) = world.cluster.welcome(NodeId(0), &mut rolls);
    assert_eq!(assigned, launched.is_some());
    assert_eq!(assigned, welcome.iter().any(|order| order.job == job));
    assigned
}

#[test]
fn nothing_of_a_job_starts_before_its_prolog_is_over() {
    let mut world = world(1, true, false);
    let job = world.start(batch());
    let placed = world.job(job);
    assert_eq!(
        (placed.state, placed.reason),
        (JobState::Running, Reason::Prolog)
    );
    assert!(world.cluster.is_preparing(job) && !is_ordered(&world, job));
    let hook = world.cluster.hook_of(job).unwrap();
    let told = |name: &str| {
        hook.env
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(told("SLURM_JOB_ID"), Some(job.to_string().as_str()));
    assert_eq!(told("SLURM_JOB_NODELIST"), Some("n1"));
    assert_eq!(told("SLURM_SCRIPT_CONTEXT"), Some("prolog_slurmctld"));
    assert_eq!(
        world.ignores(Event::Suspended { job }),
        "the controller's prolog for the job still runs"
    );
    let begun = ended(&mut world, job, None);
    for effect in [
        Effect::Assign {
            node: NodeId(0),
            job,
        },
        Effect::Launch {
            node: NodeId(0),
            job,
            step: StepKind::Batch,
        },
        Effect::Notify { job },
    ] {
        assert!(begun.effects.contains(&effect), "{effect:?}");
    }
    assert!(is_ordered(&world, job));
    assert_eq!(world.job(job).reason, Reason::None);
    assert!(world.cluster.hook_of(job).is_none());
}

#[test]
fn a_prolog_that_fails_puts_a_batch_job_back_for_a_while() {
    let mut world = world(1, true, true);
    let job = world.start(JobSpec {
        requeue: true,
        ..batch()
    });
    ended(&mut world, job, Some("/p: exit status: 3"));
    let back = world.job(job);
    assert_eq!(
        (back.state, back.reason),
        (JobState::Pending, Reason::BeginTime)
    );
    assert_eq!(
        back.reason_text,
        "PrologSlurmctld failed: /p: exit status: 3"
    );
    assert_eq!(back.restarts, 1);
    world.clean_all(job);
    world.plan();
    assert_eq!(world.job(job).state, JobState::Pending, "not at once");
    assert_eq!(
        kinds(&world, job),
        [HookKind::Epilog],
        "it had left an allocation"
    );
    world.now = world.now.plus_secs(121);
    world.plan();
    assert!(world.cluster.is_preparing(job));
    assert_eq!(
        kinds(&world, job),
        [HookKind::Epilog, HookKind::Prolog],
        "one after the other"
    );
    let next = ended(&mut world, job, Some("an epilog's trouble is the log's"));
    assert!(next.effects.contains(&Effect::Hook { job }));
    assert!(world.cluster.is_preparing(job));
    ended(&mut world, job, None);
    assert!(is_ordered(&world, job));
}

#[test]
fn a_prolog_that_fails_ends_what_cannot_be_put_back() {
    for spec in [
        JobSpec {
            requeue: false,
            ..batch()
        },
        spec(JobKind::Run),
        spec(JobKind::Alloc),
    ] {
        let mut world = world(1, true, false);
        let job = world.start(spec);
        ended(&mut world, job, Some("/p: exit status: 3"));
        let over = world.job(job);
        assert_eq!(
            (over.state, over.cancelled_by),
            (JobState::Cancelled, Some(Uid(0)))
        );
        assert_eq!(
            over.reason_text,
            "PrologSlurmctld failed: /p: exit status: 3"
        );
    }
}

#[test]
fn what_a_prolog_says_of_a_job_that_is_over_means_nothing() {
    let mut world = world(1, true, true);
    let job = world.start(batch());
    world.does(Event::Cancelled { job, by: Uid(0) });
    assert_eq!(kinds(&world, job), [HookKind::Prolog, HookKind::Epilog]);
    ended(&mut world, job, Some("too late"));
    assert_eq!(world.job(job).state, JobState::Cancelled);
    let hook = world.cluster.hook_of(job).unwrap().clone();
    ended(&mut world, job, None);
    let again = Event::HookEnded {
        job,
        generation: hook.generation,
        kind: hook.kind,
        trouble: None,
    };
    assert_eq!(world.ignores(again), "no program is due for the job");
}

#[test]
fn an_epilog_is_told_how_the_job_ended_and_holds_nothing_up() {
    let mut world = world(1, false, true);
    let job = world.start(batch());
    assert!(is_ordered(&world, job));
    world.step_ended(
        job,
        StepKind::Batch,
        0,
        crate::job::state::ExitStatus { code: 3, signal: 0 },
    );
    let hook = world.cluster.hook_of(job).unwrap();
    let told = |name: &str| {
        hook.env
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(told("SLURM_JOB_EXIT_CODE2"), Some("3:0"));
    assert_eq!(told("SLURM_JOB_EXIT_CODE"), Some("768"));
    assert_eq!(told("SLURM_JOB_NODELIST"), Some("n1"));
    world.clean_all(job);
    let next = world.start(batch());
    assert_eq!(world.job(next).state, JobState::Running);
    ended(&mut world, job, Some("nobody is hurt"));
    assert_eq!(world.job(job).state, JobState::Failed);
}

#[test]
fn a_job_that_never_started_has_no_epilog() {
    let mut world = world(2, true, true);
    let job = world.submit(gang(2, 8));
    world.does(Event::Cancelled { job, by: Uid(0) });
    assert!(world.cluster.hook_of(job).is_none());
}

#[test]
fn a_heterogeneous_job_waits_for_the_prologs_of_all_its_components() {
    let mut world = world(2, true, false);
    let job = world.submit_het(vec![batch(), batch()]);
    world.plan();
    let all = world.cluster.together(job);
    let first = ended(&mut world, all[0], None);
    assert!(world.cluster.is_preparing(job), "the other one's runs");
    assert_eq!(first.effects, [], "and nothing of the first one starts");
    assert!(!is_ordered(&world, job), "nor by what a node is told anew");
    let last = ended(&mut world, all[1], None);
    assert!(!world.cluster.is_preparing(job) && is_ordered(&world, job));
    for job in all {
        let node = world.job(job).allocation[0].node;
        let launch = Effect::Launch {
            node,
            job,
            step: StepKind::Batch,
        };
        let assign = Effect::Assign { node, job };
        assert!(last.effects.contains(&assign));
        assert_eq!(last.effects.contains(&launch), is_leader(&world, job));
    }
    assert!(
        last.effects.contains(&Effect::Notify { job }),
        "who waits for the whole hears of it"
    );
}

#[test]
fn a_component_that_is_cancelled_alone_does_not_keep_the_others_waiting() {
    for prolog_ends_first in [false, true] {
        let mut world = world(2, true, false);
        let leader = world.submit_het(vec![spec(JobKind::Alloc), spec(JobKind::Alloc)]);
        world.plan();
        let other = world.cluster.together(leader)[1];
        if prolog_ends_first {
            ended(&mut world, leader, None);
        }
        let gone = world.does(Event::Cancelled {
            job: other,
            by: Uid(0),
        });
        assert!(world.job(other).state.is_terminal());
        let begun = match prolog_ends_first {
            true => gone,
            false => {
                assert!(world.cluster.is_preparing(leader), "its own runs");
                ended(&mut world, leader, None)
            }
        };
        let node = world.job(leader).allocation[0].node;
        let assign = Effect::Assign { node, job: leader };
        assert!(begun.effects.contains(&assign));
        assert!(!world.cluster.is_preparing(leader));
    }
}

#[test]
fn a_job_that_is_put_back_for_ever_does_not_collect_epilogs() {
    let mut world = world(1, false, true);
    let job = world.start(batch());
    for _ in 0..EACH_MAX + 5 {
        world.does(Event::Requeued { job });
        world.clean_all(job);
        world.now = world.now.plus_secs(200);
        world.plan();
        assert_eq!(world.job(job).state, JobState::Running);
    }
    assert_eq!(kinds(&world, job).len(), EACH_MAX);
}

proptest! {
    /// Whatever ends when: each placement has one prolog and one epilog, in this order, and nothing is due for ever.
    #[test]
    fn every_placement_has_one_of_each(acts in proptest::collection::vec((0usize..4, 0u8..5), 1..60)) {
        let mut world = world(2, true, true);
        let jobs: Vec<JobId> = (0..4).map(|_| world.submit(batch())).collect();
        let mut seen = std::collections::BTreeMap::<_, Vec<HookKind>>::new();
        for (at, act) in acts {
            let job = jobs[at];
            match act {
                0 => drop(world.plan()),
                1 => drop(world.cluster.apply(world.now, &Event::Cancelled { job, by: Uid(0) })),
                2 => drop(world.cluster.apply(world.now, &Event::Requeued { job })),
                3 => {
                    if is_ordered(&world, job) || world.job(job).allocation.iter().any(|s| s.node == NodeId(1)) && !world.cluster.is_preparing(job) {
                        world.step_ended(job, StepKind::Batch, world.job(job).allocation[0].node.0, OK);
                    }
                }
                _ => {
                    if let Some(hook) = world.cluster.hook_of(job).cloned() {
                        seen.entry((job, hook.generation)).or_default().push(hook.kind);
                        ended(&mut world, job, None);
                    }
                }
            }
            if world.job(job).allocation.is_empty() {
                world.clean_all(job);
            }
        }
        for job in jobs {
            while let Some(hook) = world.cluster.hook_of(job).cloned() {
                seen.entry((job, hook.generation)).or_default().push(hook.kind);
                ended(&mut world, job, None);
            }
        }
        for kinds in seen.values() {
            prop_assert!(kinds == &[HookKind::Prolog] || kinds == &[HookKind::Prolog, HookKind::Epilog], "{kinds:?}");
        }
    }
}

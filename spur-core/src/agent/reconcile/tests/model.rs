//! A node that carries actions out, under any sequence of messages, ends, failures and restarts of the agent.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What may happen.
#[expect(clippy::large_enum_variant, reason = "stories are short")]
#[derive(Clone)]
enum Happens {
    Message(ToAgent),
    /// The last process of every ending job is gone.
    Emptied,
    /// The oldest living step ends.
    StepEnds,
    /// The next set-up fails.
    SetUpFails,
    /// The next prolog fails.
    PrologFails,
    /// The agent dies and starts again with its journal.
    Restart,
}

impl std::fmt::Debug for Happens {
    /// Short, so that a failing story can be read.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let job = |order: &JobOrder| format!("{}@{}", order.job, order.generation);
        let step = |order: &StepOrder| format!("{}.{}@{}", order.job, order.step, order.generation);
        match self {
            Self::Message(ToAgent::Welcome { jobs, steps, .. }) => {
                let jobs: Vec<_> = jobs.iter().map(job).collect();
                let steps: Vec<_> = steps.iter().map(step).collect();
                write!(f, "Welcome({jobs:?}, {steps:?})")
            }
            Self::Message(ToAgent::Assign(order)) => write!(f, "Assign({})", job(order)),
            Self::Message(ToAgent::Launch(order)) => write!(f, "Launch({})", step(order)),
            Self::Message(other) => write!(f, "{other:?}"),
            Self::Emptied => f.write_str("Emptied"),
            Self::StepEnds => f.write_str("StepEnds"),
            Self::SetUpFails => f.write_str("SetUpFails"),
            Self::PrologFails => f.write_str("PrologFails"),
            Self::Restart => f.write_str("Restart"),
        }
    }
}

#[derive(Default)]
struct Node {
    desired: Desired,
    observed: Observed,
    set_up_fails: bool,
    prolog_fails: bool,
    /// Reported as cleaned, per job: the highest generation.
    cleaned: BTreeMap<JobId, Generation>,
    /// Every set-up and launch that ever was, with its generation.
    prepared: BTreeSet<(JobId, Generation)>,
    launched: BTreeSet<(JobId, StepKind, Generation)>,
}

impl Node {
    /// Carries out one action as the agent does.
    fn act(&mut self, action: &Action) {
        match action {
            Action::Prepare(order) => self.prepare(order),
            Action::Prolog { job, generation } => {
                let held = self.observed.jobs.get_mut(job).expect("it is set up");
                assert_eq!(*held, (*generation, JobPhase::Prepared));
                if std::mem::take(&mut self.prolog_fails) {
                    self.observed.failed.insert(*job, *generation);
                } else {
                    held.1 = JobPhase::Ready;
                }
            }
            Action::Launch(order) | Action::Expect(order) => {
                let phase = if order.batch.is_some() {
                    StepPhase::Running
                } else {
                    StepPhase::Waiting
                };
                assert_eq!(
                    self.observed.jobs.get(&order.job),
                    Some(&(order.generation, JobPhase::Ready))
                );
                assert!(
                    self.observed
                        .steps
                        .insert((order.job, order.step), phase)
                        .is_none()
                );
                assert!(
                    self.launched
                        .insert((order.job, order.step, order.generation)),
                    "a step runs once"
                );
            }
            Action::Kill { job } => {
                let (_, phase) = self
                    .observed
                    .jobs
                    .get_mut(job)
                    .expect("only what is here is killed");
                assert!(matches!(phase, JobPhase::Prepared | JobPhase::Ready));
                *phase = JobPhase::Ending;
            }
            Action::Clean { job, generation } => {
                let held = self
                    .observed
                    .jobs
                    .remove(job)
                    .expect("only what is here is cleaned");
                assert_eq!(held.1, JobPhase::Gone);
                assert!(held.0 <= *generation);
                self.observed.shares.remove(job);
                self.observed.steps.retain(|(of, _), _| of != job);
                self.report(*job, *generation);
            }
            Action::ReportCleaned { job, generation } => self.report(*job, *generation),
        }
    }

    fn prepare(&mut self, order: &JobOrder) {
        assert!(!self.observed.jobs.contains_key(&order.job));
        assert!(
            self.prepared.insert((order.job, order.generation)),
            "a placement is set up once"
        );
        if std::mem::take(&mut self.set_up_fails) {
            self.observed.failed.insert(order.job, order.generation);
            return;
        }
        let mine = &order.here().unwrap().share;
        for (job, (_, phase)) in &self.observed.jobs {
            let other = &self.observed.shares[job];
            assert!(
                *phase == JobPhase::Gone || !other.gpus.intersects(&mine.gpus),
                "a GPU granted twice"
            );
        }
        self.observed
            .jobs
            .insert(order.job, (order.generation, JobPhase::Prepared));
        self.observed.shares.insert(order.job, mine.clone());
    }

    fn report(&mut self, job: JobId, generation: Generation) {
        let last = self.cleaned.entry(job).or_default();
        *last = generation.max(*last);
        self.desired.cleaned(job, generation);
    }

    fn happens(&mut self, happens: &Happens) {
        match happens {
            Happens::Message(message) => {
                self.desired.absorb(message);
            }
            Happens::Emptied => {
                for (_, phase) in self.observed.jobs.values_mut() {
                    if *phase == JobPhase::Ending {
                        *phase = JobPhase::Gone;
                    }
                }
            }
            Happens::StepEnds => {
                let living = self
                    .observed
                    .steps
                    .iter_mut()
                    .find(|(_, phase)| **phase != StepPhase::Ended);
                if let Some(((job, step), phase)) = living {
                    *phase = StepPhase::Ended;
                    self.desired.step_ended(*job, *step);
                }
            }
            Happens::SetUpFails => self.set_up_fails = true,
            Happens::PrologFails => self.prolog_fails = true,
            Happens::Restart => {
                self.desired = Desired::default();
                let journal = &self.observed;
                let held = journal
                    .jobs
                    .iter()
                    .map(|(job, (generation, _))| (job, generation));
                for (job, generation) in held.chain(&journal.failed) {
                    self.desired.remember(*job, *generation);
                }
                for (job, generation) in &self.cleaned {
                    self.desired.cleaned(*job, *generation);
                }
            }
        }
    }

    /// Reconciles until nothing is left to do.
    fn settle(&mut self) {
        let mut left = ROUNDS;
        loop {
            let actions = reconcile(&self.desired, &self.observed);
            if actions.is_empty() {
                return;
            }
            let begins = |action: &Action| {
                matches!(
                    action,
                    Action::Prepare(_)
                        | Action::Prolog { .. }
                        | Action::Launch(_)
                        | Action::Expect(_)
                )
            };
            assert!(actions.is_sorted_by_key(begins), "ends come first");
            assert!(self.desired.synced);
            let failures = self.observed.failed.clone();
            for action in &actions {
                self.act(action);
            }
            // A failed set-up is news: what waited for its devices begins anew.
            left = if self.observed.failed == failures {
                left - 1
            } else {
                ROUNDS
            };
            assert!(left > 0, "still something to do: {actions:?}");
        }
    }
}

fn kinds() -> impl Strategy<Value = StepKind> {
    prop_oneof![
        Just(StepKind::Batch),
        (0u32..2).prop_map(StepKind::Numbered)
    ]
}

fn orders() -> impl Strategy<Value = JobOrder> {
    // The share follows from job and generation, as the controller never changes it within a placement.
    (1u32..4, 1u64..7).prop_map(|(id, generation)| {
        let gpu = (id + u32::try_from(generation).unwrap()) % 3;
        job(id, generation, &[gpu, gpu + 1])
    })
}

fn steps() -> impl Strategy<Value = StepOrder> {
    (1u32..4, 1u64..7, kinds()).prop_map(|(id, generation, kind)| step(id, generation, kind))
}

fn anything() -> impl Strategy<Value = Happens> {
    let listed = (
        proptest::collection::vec(orders(), 0..3),
        proptest::collection::vec(steps(), 0..3),
    );
    prop_oneof![
        4 => orders().prop_map(|order| Happens::Message(ToAgent::Assign(order))),
        4 => steps().prop_map(|order| Happens::Message(ToAgent::Launch(order))),
        3 => (1u32..4, 1u64..7).prop_map(|(id, generation)| Happens::Message(revoke(id, generation))),
        2 => listed.prop_map(|(jobs, steps)| Happens::Message(welcome(jobs, steps))),
        3 => Just(Happens::Emptied),
        2 => Just(Happens::StepEnds),
        1 => Just(Happens::SetUpFails),
        1 => Just(Happens::PrologFails),
        1 => Just(Happens::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_rules_hold(story in proptest::collection::vec(anything(), 0..40)) {
        let mut node = Node::default();
        node.happens(&Happens::Message(welcome(vec![], vec![])));
        for happens in &story {
            let cleaned = node.cleaned.clone();
            let prepared = node.prepared.clone();
            node.happens(happens);
            node.settle();
            for (job, generation) in node.prepared.difference(&prepared) {
                let last = cleaned.get(job).copied().unwrap_or_default();
                prop_assert!(*generation > last, "generation {generation} of job {job} ran after it was reported clean");
            }
        }
    }

    #[test]
    fn a_revoked_generation_never_starts(story in proptest::collection::vec(anything(), 0..40)) {
        let mut node = Node::default();
        let mut revoked: BTreeMap<JobId, Generation> = BTreeMap::new();
        node.happens(&Happens::Message(welcome(vec![], vec![])));
        for happens in story.iter().filter(|happens| !matches!(happens, Happens::Restart)) {
            let before = node.prepared.clone();
            node.happens(happens);
            if let Happens::Message(ToAgent::Revoke { job, generation }) = happens {
                let last = revoked.entry(*job).or_default();
                // A revocation of what a newer placement replaced already says nothing new.
                *last = (*last).max(*generation);
            }
            node.settle();
            for (job, generation) in node.prepared.difference(&before) {
                let last = revoked.get(job).copied().unwrap_or_default();
                prop_assert!(*generation > last, "generation {generation} of job {job} started after its end was ordered");
            }
        }
    }

    #[test]
    fn a_node_becomes_what_it_should_be(story in proptest::collection::vec(anything(), 0..20)) {
        let mut node = Node::default();
        node.happens(&Happens::Message(welcome(vec![], vec![])));
        for happens in &story {
            node.happens(happens);
            node.settle();
        }
        // A controller that gives only new generations, and no device twice.
        let jobs = vec![job(1, 100, &[0]), job(2, 101, &[1, 2])];
        let steps = vec![step(1, 100, StepKind::Batch), step(2, 101, StepKind::Numbered(0))];
        node.set_up_fails = false;
        node.prolog_fails = false;
        node.happens(&Happens::Message(welcome(jobs, steps)));
        for _ in 0..2 {
            node.settle();
            node.happens(&Happens::Emptied);
        }
        node.settle();
        let held: Vec<_> = node.observed.jobs.iter().map(|(job, state)| (job.0, *state)).collect();
        prop_assert_eq!(held, vec![(1, (Generation(100), JobPhase::Ready)), (2, (Generation(101), JobPhase::Ready))]);
        prop_assert_eq!(node.observed.steps.len(), 2);
        prop_assert!(node.desired.revoked.is_empty());
    }
}

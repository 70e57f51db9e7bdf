mod model;

use super::*;
use crate::agent::fixtures::{job, revoke, share, step, welcome};
use crate::agent::order::ToAgent;

const BATCH: StepKind = StepKind::Batch;

fn desired(messages: &[ToAgent]) -> Desired {
    let mut desired = Desired::default();
    desired.absorb(&welcome(vec![], vec![]));
    for message in messages {
        desired.absorb(message);
    }
    desired
}

fn observed(jobs: &[(u32, u64, JobPhase, &[u32])]) -> Observed {
    let mut observed = Observed::default();
    for (id, generation, phase, gpus) in jobs {
        observed
            .jobs
            .insert(JobId(*id), (Generation(*generation), *phase));
        observed.shares.insert(JobId(*id), share(gpus));
    }
    observed
}

/// Actions as short words.
fn words(desired: &Desired, observed: &Observed) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Prepare(order) => format!("prepare {}@{}", order.job, order.generation),
        Action::Prolog { job, generation } => format!("prolog {job}@{generation}"),
        Action::Launch(order) => format!("launch {}.{}", order.job, order.step),
        Action::Expect(order) => format!("expect {}.{}", order.job, order.step),
        Action::Kill { job } => format!("kill {job}"),
        Action::Clean { job, generation } => format!("clean {job}@{generation}"),
        Action::ReportCleaned { job, generation } => format!("cleaned {job}@{generation}"),
    };
    reconcile(desired, observed).iter().map(word).collect()
}

#[test]
fn before_the_welcome_nothing_is_touched() {
    let leftovers = observed(&[(1, 1, JobPhase::Ready, &[0]), (2, 1, JobPhase::Gone, &[1])]);
    assert!(reconcile(&Desired::default(), &leftovers).is_empty());
}

#[test]
fn a_job_is_prepared_and_then_its_steps_are_started() {
    let wanted = desired(&[
        ToAgent::Assign(job(1, 1, &[0])),
        ToAgent::Launch(step(1, 1, BATCH)),
        ToAgent::Launch(step(1, 1, StepKind::Numbered(0))),
    ]);
    assert_eq!(words(&wanted, &Observed::default()), ["prepare 1@1"]);
    let here = observed(&[(1, 1, JobPhase::Prepared, &[0])]);
    assert_eq!(words(&wanted, &here), ["prolog 1@1"]);
    let mut here = observed(&[(1, 1, JobPhase::Ready, &[0])]);
    assert_eq!(words(&wanted, &here), ["launch 1.batch", "expect 1.0"]);
    here.steps.insert((JobId(1), BATCH), StepPhase::Ended);
    here.steps
        .insert((JobId(1), StepKind::Numbered(0)), StepPhase::Waiting);
    assert!(words(&wanted, &here).is_empty());
}

#[test]
fn a_job_ends_in_three_moves() {
    let wanted = desired(&[ToAgent::Assign(job(1, 1, &[0])), revoke(1, 3)]);
    for (phase, action) in [
        (JobPhase::Prepared, &["kill 1"][..]),
        (JobPhase::Ready, &["kill 1"]),
        (JobPhase::Ending, &[]),
        (JobPhase::Gone, &["clean 1@3"]),
    ] {
        assert_eq!(words(&wanted, &observed(&[(1, 1, phase, &[0])])), action);
    }
    assert_eq!(words(&wanted, &Observed::default()), ["cleaned 1@3"]);
}

#[test]
fn what_the_welcome_leaves_out_goes() {
    let mut wanted = desired(&[]);
    wanted.absorb(&welcome(vec![job(2, 2, &[1])], vec![]));
    let here = observed(&[
        (1, 1, JobPhase::Ready, &[0]),
        (2, 2, JobPhase::Ready, &[1]),
        (3, 1, JobPhase::Gone, &[2]),
    ]);
    assert_eq!(words(&wanted, &here), ["kill 1", "clean 3@1"]);
}

#[test]
fn ends_come_before_beginnings() {
    let wanted = desired(&[ToAgent::Assign(job(1, 9, &[5])), revoke(2, 1), revoke(3, 1)]);
    let here = observed(&[(2, 1, JobPhase::Ready, &[1]), (4, 1, JobPhase::Gone, &[5])]);
    assert_eq!(
        words(&wanted, &here),
        ["kill 2", "clean 4@1", "cleaned 3@1", "prepare 1@9"]
    );
}

#[test]
fn a_device_is_waited_for_until_its_holder_is_gone() {
    let wanted = desired(&[
        ToAgent::Assign(job(2, 2, &[0, 1])),
        ToAgent::Assign(job(3, 3, &[2])),
    ]);
    for phase in [JobPhase::Prepared, JobPhase::Ready, JobPhase::Ending] {
        let here = observed(&[(1, 1, phase, &[1])]);
        let starts: Vec<_> = words(&wanted, &here)
            .into_iter()
            .filter(|word| word.starts_with("prepare"))
            .collect();
        assert_eq!(starts, ["prepare 3@3"]);
    }
    let here = observed(&[(1, 1, JobPhase::Gone, &[1])]);
    assert_eq!(
        words(&wanted, &here),
        ["clean 1@1", "prepare 2@2", "prepare 3@3"]
    );
}

#[test]
fn a_cpu_is_waited_for_as_well() {
    let mut order = job(2, 2, &[]);
    let mut nodes = order.nodes.to_vec();
    nodes[0].share.cpus = [3].into_iter().collect();
    order.nodes = nodes.into();
    let wanted = desired(&[ToAgent::Assign(order)]);
    assert_eq!(
        words(&wanted, &observed(&[(1, 1, JobPhase::Ending, &[3])])),
        [""; 0]
    );
    assert_eq!(
        words(&wanted, &observed(&[(1, 1, JobPhase::Ending, &[4])])),
        ["prepare 2@2"]
    );
}

#[test]
fn a_leftover_of_unknown_share_holds_everything() {
    let wanted = desired(&[ToAgent::Assign(job(2, 2, &[0]))]);
    let mut here = observed(&[(1, 1, JobPhase::Ending, &[7])]);
    here.shares.clear();
    assert_eq!(words(&wanted, &here), [""; 0]);
    let both = desired(&[
        ToAgent::Assign(job(1, 1, &[7])),
        ToAgent::Assign(job(2, 2, &[0])),
    ]);
    here.jobs.insert(JobId(1), (Generation(1), JobPhase::Ready));
    assert_eq!(
        words(&both, &here),
        ["prepare 2@2"],
        "its order tells its share"
    );
}

#[test]
fn of_two_orders_for_one_device_the_older_wins() {
    let wanted = desired(&[
        ToAgent::Assign(job(1, 8, &[0])),
        ToAgent::Assign(job(2, 7, &[0])),
    ]);
    assert_eq!(words(&wanted, &Observed::default()), ["prepare 2@7"]);
}

#[test]
fn a_newer_placement_waits_until_the_older_is_cleaned() {
    let wanted = desired(&[
        ToAgent::Assign(job(1, 1, &[0])),
        ToAgent::Assign(job(1, 2, &[0])),
        ToAgent::Launch(step(1, 2, BATCH)),
    ]);
    for (phase, action) in [
        (JobPhase::Ready, &["kill 1"][..]),
        (JobPhase::Ending, &[]),
        (JobPhase::Gone, &["clean 1@1"]),
    ] {
        assert_eq!(words(&wanted, &observed(&[(1, 1, phase, &[0])])), action);
    }
    assert_eq!(words(&wanted, &Observed::default()), ["prepare 1@2"]);
}

#[test]
fn a_failed_set_up_is_not_tried_again() {
    let wanted = desired(&[ToAgent::Assign(job(1, 2, &[0]))]);
    let mut here = Observed::default();
    here.failed.insert(JobId(1), Generation(2));
    assert_eq!(words(&wanted, &here), [""; 0]);
    for phase in [JobPhase::Prepared, JobPhase::Ready] {
        here.jobs.insert(JobId(1), (Generation(2), phase));
        assert_eq!(words(&wanted, &here), ["kill 1"], "what is left of it goes");
    }
    here = Observed::default();
    here.failed.insert(JobId(1), Generation(1));
    assert_eq!(words(&wanted, &here), ["prepare 1@2"]);
}

#[test]
fn what_began_to_end_is_not_saved_by_an_order() {
    let mut wanted = desired(&[ToAgent::Assign(job(1, 1, &[0]))]);
    assert_eq!(
        words(&wanted, &observed(&[(1, 1, JobPhase::Ending, &[0])])),
        [""; 0]
    );
    assert_eq!(
        words(&wanted, &observed(&[(1, 1, JobPhase::Gone, &[0])])),
        ["clean 1@1"]
    );
    wanted.cleaned(JobId(1), Generation(1));
    assert_eq!(words(&wanted, &Observed::default()), [""; 0]);
}

#[test]
fn a_generation_that_is_newer_than_wanted_goes() {
    let wanted = desired(&[
        ToAgent::Assign(job(1, 1, &[0])),
        ToAgent::Launch(step(1, 1, BATCH)),
    ]);
    assert_eq!(
        words(&wanted, &observed(&[(1, 2, JobPhase::Ready, &[0])])),
        ["kill 1"]
    );
}

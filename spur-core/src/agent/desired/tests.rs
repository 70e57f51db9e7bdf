use super::*;
use crate::agent::fixtures::{job, revoke, step, welcome};
use crate::id::NodeId;

const BATCH: StepKind = StepKind::Batch;

fn synced() -> Desired {
    let mut desired = Desired::default();
    desired.absorb(&welcome(vec![], vec![]));
    desired
}

/// What one message came to: changed, or the reason for which it was refused.
fn told(desired: &mut Desired, message: ToAgent) -> Result<bool, WhyRefused> {
    let Absorbed { changed, refused } = desired.absorb(&message);
    match refused[..] {
        [] => Ok(changed),
        [Refused { why, .. }] => {
            assert!(!changed, "a refused order changes nothing");
            Err(why)
        }
        _ => panic!("one order, several refusals"),
    }
}

fn assign(desired: &mut Desired, id: u32, generation: u64) -> Result<bool, WhyRefused> {
    told(desired, ToAgent::Assign(job(id, generation, &[])))
}

fn launch(desired: &mut Desired, id: u32, generation: u64) -> Result<bool, WhyRefused> {
    told(desired, ToAgent::Launch(step(id, generation, BATCH)))
}

fn held(desired: &Desired) -> Vec<(u32, u64)> {
    desired
        .jobs
        .values()
        .map(|order| (order.job.0, order.generation.0))
        .collect()
}

#[test]
fn nothing_counts_before_the_welcome() {
    let mut desired = Desired::default();
    assert_eq!(assign(&mut desired, 1, 1), Err(WhyRefused::NotWelcomed));
    assert_eq!(launch(&mut desired, 1, 1), Err(WhyRefused::NotWelcomed));
    assert_eq!(
        told(&mut desired, revoke(1, 1)),
        Err(WhyRefused::NotWelcomed)
    );
    assert_eq!(desired, Desired::default());
}

#[test]
fn orders_may_be_repeated() {
    let mut desired = synced();
    assert_eq!(assign(&mut desired, 1, 5), Ok(true));
    assert_eq!(launch(&mut desired, 1, 5), Ok(true));
    let once = desired.clone();
    assert_eq!(assign(&mut desired, 1, 5), Ok(false));
    assert_eq!(launch(&mut desired, 1, 5), Ok(false));
    assert_eq!(desired, once);
    assert_eq!(told(&mut desired, revoke(1, 5)), Ok(true));
    assert_eq!(told(&mut desired, revoke(1, 5)), Ok(false));
    assert!(desired.jobs.is_empty() && desired.steps.is_empty());
}

#[test]
fn older_generations_are_refused() {
    let stale = |generation| Err(WhyRefused::Stale(Generation(generation)));
    let mut desired = synced();
    assert_eq!(assign(&mut desired, 1, 5), Ok(true));
    assert_eq!(assign(&mut desired, 1, 4), stale(5));
    assert_eq!(launch(&mut desired, 1, 4), stale(5));
    assert_eq!(launch(&mut desired, 1, 6), Err(WhyRefused::NoJob));
    assert_eq!(launch(&mut desired, 2, 1), Err(WhyRefused::NoJob));
    assert_eq!(told(&mut desired, revoke(1, 4)), stale(5));
    assert_eq!(held(&desired), [(1, 5)]);
}

#[test]
fn a_revoked_generation_never_comes_back() {
    let mut desired = synced();
    assign(&mut desired, 1, 5).unwrap();
    told(&mut desired, revoke(1, 7)).unwrap();
    for generation in [5, 6, 7] {
        assert_eq!(
            assign(&mut desired, 1, generation),
            Err(WhyRefused::Stale(Generation(7)))
        );
        assert_eq!(
            launch(&mut desired, 1, generation),
            Err(WhyRefused::Stale(Generation(7)))
        );
    }
    desired.cleaned(JobId(1), Generation(7));
    assert_eq!(
        assign(&mut desired, 1, 7),
        Err(WhyRefused::Stale(Generation(7)))
    );
    assert!(desired.revoked.is_empty());
    assert_eq!(assign(&mut desired, 1, 8), Ok(true));
}

#[test]
fn a_newer_generation_takes_the_place_of_the_older_and_of_its_steps() {
    let mut desired = synced();
    assign(&mut desired, 1, 5).unwrap();
    launch(&mut desired, 1, 5).unwrap();
    assert_eq!(assign(&mut desired, 1, 6), Ok(true));
    assert_eq!(held(&desired), [(1, 6)]);
    assert!(desired.steps.is_empty());
    assert_eq!(
        assign(&mut desired, 1, 5),
        Err(WhyRefused::Stale(Generation(6)))
    );
}

#[test]
fn a_welcome_replaces_everything() {
    let mut desired = synced();
    for id in 1..=3 {
        assign(&mut desired, id, u64::from(id)).unwrap();
        launch(&mut desired, id, u64::from(id)).unwrap();
    }
    told(&mut desired, revoke(9, 9)).unwrap();
    let list = vec![
        job(2, 2, &[]),
        job(3, 8, &[]),
        job(4, 9, &[]),
        job(9, 9, &[]),
    ];
    let Absorbed { changed, refused } =
        desired.absorb(&welcome(list, vec![step(4, 9, BATCH), step(5, 1, BATCH)]));
    assert!(changed);
    assert_eq!(held(&desired), [(2, 2), (3, 8), (4, 9)]);
    assert_eq!(
        desired.steps.keys().collect::<Vec<_>>(),
        [&(JobId(4), BATCH)]
    );
    let why: Vec<_> = refused
        .iter()
        .map(|refused| (refused.job.0, refused.why))
        .collect();
    assert_eq!(
        why,
        [
            (9, WhyRefused::Stale(Generation(9))),
            (5, WhyRefused::NoJob)
        ]
    );
    assert_eq!(
        assign(&mut desired, 1, 1),
        Err(WhyRefused::Stale(Generation(1))),
        "the welcome left it out"
    );
    assert_eq!(
        desired.revoked.get(&JobId(9)),
        Some(&Generation(9)),
        "it still owes an answer"
    );
}

#[test]
fn a_repeated_welcome_changes_nothing() {
    let mut desired = Desired::default();
    let message = welcome(vec![job(2, 2, &[])], vec![step(2, 2, BATCH)]);
    assert!(desired.absorb(&message).changed);
    assert_eq!(desired.absorb(&message), Absorbed::default());
}

#[test]
fn a_welcome_with_an_older_generation_keeps_neither() {
    let mut desired = synced();
    assign(&mut desired, 1, 5).unwrap();
    let absorbed = desired.absorb(&welcome(vec![job(1, 4, &[])], vec![]));
    assert_eq!(absorbed.refused[0].why, WhyRefused::Stale(Generation(5)));
    assert!(desired.jobs.is_empty());
}

#[test]
fn the_journal_is_remembered_over_a_restart() {
    let mut desired = Desired::default();
    desired.remember(JobId(1), Generation(5));
    desired.cleaned(JobId(2), Generation(5));
    let absorbed = desired.absorb(&welcome(
        vec![job(1, 5, &[]), job(2, 5, &[]), job(3, 5, &[])],
        vec![],
    ));
    assert_eq!(held(&desired), [(1, 5), (3, 5)]);
    assert_eq!(absorbed.refused.len(), 1);
    let mut desired = Desired::default();
    desired.remember(JobId(1), Generation(5));
    desired.absorb(&welcome(vec![job(1, 4, &[])], vec![]));
    assert!(desired.jobs.is_empty());
}

#[test]
fn malformed_orders_are_refused() {
    let mut order = job(1, 1, &[]);
    order.index = 1;
    assert_eq!(
        told(&mut synced(), ToAgent::Assign(order)),
        Err(WhyRefused::Malformed)
    );
}

#[test]
fn signals_and_acknowledgements_pass_by() {
    let mut desired = synced();
    let before = desired.clone();
    assert_eq!(told(&mut desired, ToAgent::Ack { report: 1 }), Ok(false));
    assert_eq!(
        told(
            &mut desired,
            ToAgent::Signal {
                job: JobId(1),
                step: None,
                signal: 9,
                group: false
            }
        ),
        Ok(false)
    );
    assert_eq!(desired, before);
}

#[test]
fn an_ended_step_is_wanted_no_more() {
    let mut desired = synced();
    assign(&mut desired, 1, 1).unwrap();
    launch(&mut desired, 1, 1).unwrap();
    desired.step_ended(JobId(1), BATCH);
    assert!(desired.steps.is_empty());
    assert_eq!(held(&desired), [(1, 1)]);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut desired = synced();
    assign(&mut desired, 0, 1).unwrap();
    let most = u32::try_from(RECALL).unwrap();
    for id in 1..=most + 10 {
        told(&mut desired, revoke(id, u64::from(id) + 10)).unwrap();
        desired.cleaned(JobId(id), Generation(u64::from(id) + 10));
    }
    assert!(desired.ended.len() <= RECALL);
    for id in [1, most / 2, most, most + 10] {
        assert!(
            matches!(
                assign(&mut desired, id, u64::from(id) + 10),
                Err(WhyRefused::Stale(_))
            ),
            "{id}"
        );
    }
    assert_eq!(
        assign(&mut desired, 0, 1),
        Ok(false),
        "what is held does not fall under the floor"
    );
    assert_eq!(assign(&mut desired, 1, u64::from(most) + 100), Ok(true));
    let absorbed = desired.absorb(&ToAgent::Welcome {
        node: NodeId(0),
        generation: Generation(0),
        jobs: vec![job(0, 1, &[])],
        steps: vec![],
        programs: None,
        ticket_key: None,
    });
    assert!(absorbed.refused.is_empty());
    assert_eq!(held(&desired), [(0, 1)]);
}

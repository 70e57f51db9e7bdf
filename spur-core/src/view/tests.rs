use super::*;
use crate::event::Event;
use crate::fixture::{World, batch, gang};
use crate::id::{JobId, NodeId, NodeName, Uid};
use crate::job::spec::JobSpec;

fn view(world: &World, job: JobId) -> JobView {
    job_view(&world.cluster, world.job(job))
}

#[test]
fn a_row_shows_what_a_job_holds_and_what_it_held() {
    let mut world = World::new(2, 8);
    let job = world.start(gang(2, 2));
    let running = view(&world, job);
    let names: Vec<&str> = running
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(
        (names, running.gpu_models),
        (vec!["n1", "n2"], vec!["h200".to_owned(); 2])
    );
    assert_eq!(running.steps.len(), 1);
    world.does(Event::Denials {
        job,
        node: NodeId(1),
        count: DenialCount {
            total: 5,
            suppressed: 2,
        },
    });
    world.does(Event::Cancelled { job, by: Uid(0) });
    let ended = view(&world, job);
    assert!(ended.completing);
    assert_eq!(ended.nodes.len(), 2);
    assert_eq!(ended.denials.total, 5);
    assert!(node_view(&world.cluster, world.node(0)).completing);
    world.clean_all(job);
    assert!(!view(&world, job).completing);
    assert!(!node_view(&world.cluster, world.node(0)).completing);
    world.does(Event::Requeued { job });
    assert!(view(&world, job).nodes.is_empty());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn filters() {
    let mut world = World::new(2, 8);
    let running = world.start(gang(1, 8));
    let waiting = world.submit(JobSpec {
        name: "other".to_owned(),
        ..gang(2, 8)
    });
    let done = world.start(batch());
    world.does(Event::Cancelled {
        job: done,
        by: Uid(0),
    });
    let matching = |filter: JobFilter| -> Vec<u32> {
        let all = [running, waiting, done].map(|job| view(&world, job));
        all.iter()
            .filter(|view| filter.matches(view))
            .map(|view| view.id.0)
            .collect()
    };
    let any = JobFilter::default;
    assert_eq!(matching(any()), [1, 2, 3], "a completing job is shown");
    assert_eq!(
        matching(JobFilter {
            ids: vec![waiting],
            ..any()
        }),
        [2]
    );
    assert_eq!(
        matching(JobFilter {
            users: vec![Uid(7)],
            ..any()
        }),
        [0; 0]
    );
    assert_eq!(
        matching(JobFilter {
            names: vec!["other".into()],
            ..any()
        }),
        [2]
    );
    assert_eq!(
        matching(JobFilter {
            partitions: vec!["x".into()],
            ..any()
        }),
        [0; 0]
    );
    assert_eq!(
        matching(JobFilter {
            accounts: vec!["x".into()],
            ..any()
        }),
        [0; 0]
    );
    assert_eq!(
        matching(JobFilter {
            states: vec![JobState::Running],
            ..any()
        }),
        [1]
    );
    let nodes = vec![NodeName::new("n1").unwrap()];
    assert_eq!(matching(JobFilter { nodes, ..any() }), [1, 3]);
    world.clean_all(done);
    let all = [running, waiting, done].map(|job| view(&world, job));
    let matching = |filter: JobFilter| all.iter().filter(|view| filter.matches(view)).count();
    assert_eq!(matching(any()), 2);
    assert_eq!(
        matching(JobFilter {
            all_states: true,
            ..any()
        }),
        3
    );
    assert_eq!(
        matching(JobFilter {
            ids: vec![done],
            ..any()
        }),
        1,
        "named ones are always shown"
    );
}

#[test]
fn a_node_that_was_silent_for_too_long_says_so_and_an_operators_reason_stays() {
    let mut world = World::new(2, 8);
    let mut lost = |node: u32, reason: &str| {
        let node = NodeId(node);
        let entry = world.cluster.nodes.get_mut(&node).unwrap();
        (entry.lost, entry.connected) = (true, false);
        entry.reason = reason.to_owned();
        node_view(&world.cluster, &world.cluster.nodes[&node]).node
    };
    let silent = lost(0, "");
    assert_eq!(silent.reason, "Not responding");
    assert_eq!(silent.reason_by, Some((Uid(0), silent.last_seen)));
    assert_eq!(lost(1, "bad fan").reason, "bad fan");
}

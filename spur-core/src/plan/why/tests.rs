//! Each reason that a waiting job can have: made, and what is then said of it.

mod causes;

use super::*;
use crate::api::Release;
use crate::event::Event;
use crate::fixture::{World, batch, gang, gpus};
use crate::id::{NodeId, Uid};
use crate::job::spec::JobSpec;
use crate::node::{AdminState, FenceState};
use crate::partition::PartitionState;
use crate::resources::GpuCount;
use crate::time::TimeLimit;
use crate::view::{job_view, node_view};

/// Everything published, and a question.
fn ask(world: &World, job: JobId, expected: Option<StartEstimate>) -> Explanation {
    let jobs: Vec<JobView> = world
        .cluster
        .jobs
        .values()
        .map(|job| job_view(&world.cluster, job))
        .collect();
    let nodes: Vec<NodeView> = world
        .cluster
        .nodes
        .values()
        .map(|node| node_view(&world.cluster, node))
        .collect();
    let nodes: Vec<&NodeView> = nodes.iter().collect();
    let row = |id: JobId| jobs.iter().find(|row| row.id == id);
    let mut asked = row(job).unwrap().clone();
    let named = |name: &NodeName| nodes.iter().copied().find(|view| view.node.name == *name);
    if asked.reason == Reason::ReqNodeNotAvail {
        asked.unavailable = unavailable(&asked, named);
    }
    let ahead = jobs
        .iter()
        .filter(|row| row.state == JobState::Pending && row.priority > 0 && row.id < job);
    let known = Known {
        at: world.now,
        partition: world
            .cluster
            .partitions
            .iter()
            .find(|partition| partition.name == asked.spec.partition),
        nodes: &nodes,
        job: &row,
        ahead: u32::try_from(ahead.count()).unwrap(),
        expected,
        held_back: &|view| view.planned,
        network: world.cluster.topology.plugin != crate::topology::TopologyPlugin::None,
    };
    explain(&asked, &known).expect("it waits")
}

/// Moments as seconds after the world began.
fn said(why: &Explanation) -> String {
    sentence(why, &|at| format!("+{}s", at.secs() - 1000))
}

fn h200(count: u32) -> Option<GpuCount> {
    Some(GpuCount {
        model: "h200".to_owned(),
        count,
    })
}

fn groups(why: &Explanation) -> Vec<(Stop, u32, &str)> {
    why.stopped
        .iter()
        .map(|group| (group.by, group.nodes, group.detail.as_str()))
        .collect()
}

/// A cluster of three nodes: six GPUs of the first two are held, all of the third.
fn crowded() -> (World, [JobId; 3]) {
    let mut world = World::new(3, 8);
    let limit = |secs| JobSpec {
        time_limit: Some(TimeLimit::Secs(secs)),
        ..gang(1, 6)
    };
    let one = world.start(JobSpec {
        nodelist: vec!["n1".to_owned()],
        ..limit(7200)
    });
    let two = world.start(JobSpec {
        nodelist: vec!["n2".to_owned()],
        ..limit(3600)
    });
    let three = world.start(JobSpec {
        nodelist: vec!["n3".to_owned()],
        gpus_per_node: gpus(8),
        ..limit(600)
    });
    (world, [one, two, three])
}

#[test]
fn resources_says_what_is_missing_where_and_until_when() {
    let (mut world, [_, _, three]) = crowded();
    let job = world.submit(JobSpec {
        gpus_per_node: h200(4),
        ..gang(1, 4)
    });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(why.reason, Reason::Resources);
    assert_eq!(
        groups(&why),
        [
            (Stop::Busy, 2, "2 of 8 h200 free"),
            (Stop::Busy, 1, "0 of 8 h200 free"),
        ]
    );
    let end = world.job(three).ended.unwrap();
    assert_eq!(why.by_limits, Some(end));
    assert_eq!(
        why.releases,
        [Release {
            node: NodeName::new("n3").unwrap(),
            job: three,
            user: "alice".to_owned(),
            gives: "8 h200".to_owned(),
            until: Some(end),
            cleaning: false,
        }]
    );
    let at = end.secs() - 1000;
    assert_eq!(
        said(&why),
        format!(
            "needs 4 h200 and 1 GiB on one node; n1 and n2: 2 of 8 h200 free; n3: 0 of 8 h200 free; job 3 of alice gives 8 h200 back \
             on n3 by +{at}s at the latest"
        )
    );
    assert_eq!(
        why.advice,
        ["2 h200 are free on n2 now, if it can do with that"]
    );
}

#[test]
fn an_expected_start_is_said_with_what_it_rests_on() {
    let (mut world, _) = crowded();
    let job = world.submit(gang(1, 4));
    world.plan();
    let start = Some(Millis(1_900_000));
    let estimate = |start, basis| {
        Some(StartEstimate {
            start,
            basis,
            nodes: vec![NodeName::new("n3").unwrap()],
        })
    };
    for (expected, end) in [
        (
            estimate(start, StartBasis::Reserved),
            "; what it needs is reserved from +900s on n3",
        ),
        (
            estimate(start, StartBasis::Estimated),
            "; expected to start about +900s",
        ),
        (
            estimate(None, StartBasis::Never),
            "; nothing that is known to end lets it start",
        ),
    ] {
        let text = said(&ask(&world, job, expected));
        assert!(text.ends_with(end), "{text}");
    }
}

#[test]
fn priority_says_how_many_are_before_it() {
    let (mut world, _) = crowded();
    world.submit(gang(1, 4));
    let job = world.submit(gang(1, 4));
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!((why.reason, why.ahead), (Reason::Priority, 1));
    assert!(
        said(&why).starts_with("1 job is before it in partition gpu; needs 4 GPUs"),
        "{}",
        said(&why)
    );
}

#[test]
fn begin_time_says_when() {
    let mut world = World::new(1, 8);
    let begin = Some(world.now.plus_secs(600));
    let job = world.submit(JobSpec { begin, ..batch() });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(why.reason, Reason::BeginTime);
    assert_eq!(
        said(&why),
        "it may not start before +602s; expected to start about +602s"
    );
    let expected = why.expected.unwrap();
    assert_eq!(
        (expected.start, expected.basis),
        (begin, StartBasis::Estimated)
    );
}

#[test]
fn holds_say_whose_they_are_and_how_they_end() {
    for (by_admin, reason, text, advice) in [
        (
            false,
            Reason::JobHeldUser,
            "held by its owner",
            "`scontrol release 1` lets it go",
        ),
        (
            true,
            Reason::JobHeldAdmin,
            "held by an operator",
            "an operator can let it go: `scontrol release 1`",
        ),
    ] {
        let mut world = World::new(1, 8);
        let job = world.submit(batch());
        world.does(Event::Held { job, by_admin });
        world.plan();
        let why = ask(&world, job, None);
        assert_eq!((why.reason, said(&why).as_str()), (reason, text));
        assert_eq!(why.advice, [advice]);
        let expected = why.expected.unwrap();
        assert_eq!(
            (expected.start, expected.basis),
            (None, StartBasis::Never),
            "nobody releases it by itself"
        );
    }
}

#[test]
fn partitions_say_what_they_do_not_start() {
    for (state, reason, word) in [
        (PartitionState::Down, Reason::PartitionDown, "down"),
        (
            PartitionState::Inactive,
            Reason::PartitionInactive,
            "inactive",
        ),
    ] {
        let mut world = World::new(1, 8);
        let job = world.submit(batch());
        let name = "gpu".to_owned();
        world.does(Event::PartitionUpdated { name, state });
        world.plan();
        let why = ask(&world, job, None);
        assert_eq!(why.reason, reason);
        let text = said(&why);
        assert!(
            text.starts_with(&format!("partition gpu is {word}: it ")),
            "{text}"
        );
    }
}

#[test]
fn a_time_limit_above_the_partitions_names_both() {
    let mut world = World::new(1, 8);
    let job = world.submit(batch());
    world.does(Event::JobUpdated {
        job,
        time_limit: Some(TimeLimit::Secs(200_000)),
        name: None,
        comment: None,
        partition: None,
        priority: None,
    });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(why.reason, Reason::PartitionTimeLimit);
    assert_eq!(
        said(&why),
        "its time limit of 2-07:33:20 is above the 1-00:00:00 of partition gpu"
    );
    assert!(
        why.advice[0].contains("TimeLimit=1-00:00:00"),
        "{:?}",
        why.advice
    );
}

#[test]
fn a_node_that_is_named_and_takes_no_jobs_is_named_as_slurm_does() {
    let mut world = World::new(3, 8);
    world.does(Event::NodeUpdated {
        node: NodeId(2),
        admin: AdminState::Drain,
        reason: "bad fan".to_owned(),
        by: Uid(0),
    });
    let job = world.submit(JobSpec {
        nodelist: vec!["n3".to_owned()],
        ..batch()
    });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(why.reason, Reason::ReqNodeNotAvail);
    assert_eq!(why.words, "ReqNodeNotAvail, UnavailableNodes:n3");
    assert_eq!(
        said(&why),
        "needs 1 CPU and 1 GiB on one node; n3 is drained (bad fan)"
    );
}

#[test]
fn a_job_whose_launch_failed_says_where_and_why() {
    let mut world = World::new(1, 8);
    let job = world.start(batch());
    world.does(Event::LaunchFailed {
        job,
        node: NodeId(0),
        generation: world.job(job).generation,
        why: "no space left on device".to_owned(),
        node_fault: true,
        rests: true,
    });
    let why = ask(&world, job, None);
    assert_eq!(
        (why.reason, why.words.as_str()),
        (Reason::LaunchFailedHeld, "launch failed requeued held")
    );
    assert_eq!(said(&why), "n1: no space left on device");
    assert!(
        why.advice[0].starts_with("`scontrol release 1`"),
        "{:?}",
        why.advice
    );
}

#[test]
fn every_condition_of_a_node_is_told_apart() {
    let mut world = World::new(8, 8);
    let drain = |node: u32, admin| Event::NodeUpdated {
        node: NodeId(node),
        admin,
        reason: "x".to_owned(),
        by: Uid(0),
    };
    let fence = |node: u32, state, sick: &[u32]| Event::FenceChanged {
        node: NodeId(node),
        fence: state,
        note: "no bpf".to_owned(),
        suffices: None,
        gpus_sick: Some(sick.iter().copied().collect()),
        gpu_notes: vec![crate::node::GpuNote {
            gpu: 3,
            why: "not found".to_owned(),
        }],
        stuck: Vec::new(),
    };
    let failed = world.start(JobSpec {
        nodelist: vec!["n1".to_owned()],
        ..batch()
    });
    world.does(Event::LaunchFailed {
        job: failed,
        node: NodeId(0),
        generation: world.job(failed).generation,
        why: "no space".to_owned(),
        node_fault: true,
        rests: true,
    });
    world.does(drain(1, AdminState::Drain));
    world.does(drain(2, AdminState::Down));
    world.does(Event::NodeDisconnected { node: NodeId(3) });
    world.does(fence(4, FenceState::Unfenced, &[]));
    world.does(fence(5, FenceState::Fenced, &[3]));
    world.start(JobSpec {
        nodelist: vec!["n7".to_owned()],
        ..gang(1, 1)
    });
    let job = world.submit(JobSpec {
        exclude: vec!["n8".to_owned()],
        ..gang(1, 8)
    });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(
        groups(&why),
        [
            (Stop::Excluded, 1, ""),
            (Stop::Down, 1, "x"),
            (Stop::Silent, 1, ""),
            (Stop::Drained, 1, "x"),
            (Stop::Unfenced, 1, "no bpf"),
            (Stop::Resting, 1, "no space"),
            (Stop::SickGpus, 1, "GPU 3 out of order: not found"),
            (Stop::Busy, 1, "7 of 8 GPUs free"),
        ]
    );
    // The node that rests is free before.
    let rest = world.node(0).trouble.as_ref().unwrap().until;
    assert_eq!((why.by_limits, why.releases.len()), (rest, 0));
    assert!(
        why.advice
            .iter()
            .any(|advice| advice.contains("scontrol show node n6")),
        "{:?}",
        why.advice
    );
    let held = ask(&world, failed, None);
    assert_eq!(held.stopped[0].by, Stop::NotNamed);
}

#[test]
fn what_is_being_cleaned_up_and_what_has_no_limit_is_said_so() {
    let mut world = World::new(2, 8);
    let unlimited = JobSpec {
        nodelist: vec!["n1".to_owned()],
        ..gang(1, 8)
    };
    let endless = world.start(unlimited);
    world.does(Event::JobUpdated {
        job: endless,
        time_limit: Some(TimeLimit::Unlimited),
        name: None,
        comment: None,
        partition: None,
        priority: None,
    });
    let ended = world.start(gang(1, 8));
    world.does(Event::Cancelled {
        job: ended,
        by: Uid(0),
    });
    let job = world.submit(gang(1, 8));
    world.plan();
    let why = ask(&world, job, None);
    let text = said(&why);
    assert!(
        text.contains("job 2 of alice has ended and is being cleaned up on n2 (8 GPUs)")
            || text.contains("job 1 of alice holds 8 GPUs on n1 without a time limit"),
        "{text}"
    );
    assert_eq!(why.by_limits, None);
}

#[test]
fn a_job_of_several_nodes_counts_those_that_are_ready() {
    let (mut world, [_, two, three]) = crowded();
    let job = world.submit(gang(2, 4));
    world.plan();
    let why = ask(&world, job, None);
    let end = |job| world.job(job).ended.unwrap();
    assert_eq!(why.by_limits, Some(end(two).max(end(three))));
    assert_eq!(
        why.releases
            .iter()
            .map(|release| release.job)
            .collect::<Vec<_>>(),
        [three, two]
    );
    assert_eq!(why.need, "4 GPUs and 1 GiB on each of 2 nodes");
}

#[test]
fn running_jobs_have_nothing_to_explain() {
    let mut world = World::new(1, 8);
    let job = world.start(batch());
    let row = job_view(&world.cluster, world.job(job));
    let known = Known {
        at: world.now,
        partition: None,
        nodes: &[],
        job: &|_| None,
        ahead: 0,
        expected: None,
        held_back: &|_| false,
        network: false,
    };
    assert_eq!(explain(&row, &known), None);
}

#[test]
fn features_that_no_node_has_and_nodes_that_are_not_there_are_named() {
    let mut world = World::new(3, 8);
    let config = |names: &[&str]| -> BTreeMap<NodeName, crate::node::NodeConfig> {
        let node = |name: &&str| {
            let features = vec!["a100".to_owned()];
            let config = crate::node::NodeConfig {
                features,
                weight: 1,
            };
            (NodeName::new(*name).unwrap(), config)
        };
        names.iter().map(node).collect()
    };
    world.cluster.node_config = config(&["n1", "n2"]);
    let job = world.submit(JobSpec {
        constraint: "a100".to_owned(),
        ..gang(2, 8)
    });
    world.cluster.node_config = config(&["n2"]);
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(why.reason, Reason::BadConstraints);
    assert_eq!(
        said(&why),
        "1 of 3 nodes of partition gpu have the features a100, and it asks for 2"
    );
    assert!(
        why.stopped
            .iter()
            .any(|group| group.by == Stop::Feature && group.nodes == 2),
        "{:?}",
        why.stopped
    );

    let mut world = World::new(3, 8);
    let job = world.submit(gang(3, 8));
    let only = vec![NodeName::new("n1").unwrap(), NodeName::new("n2").unwrap()];
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![Partition {
            nodes: Some(only),
            ..crate::fixture::partition("gpu")
        }],
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(why.reason, Reason::PartitionNodeLimit);
    assert_eq!(said(&why), "it asks for 3 nodes, and partition gpu has 2");
}

#[test]
fn a_requeued_job_waits_for_its_last_node_to_be_clean() {
    let mut world = World::new(2, 8);
    let job = world.start(JobSpec {
        nodelist: vec!["n1".to_owned()],
        ..batch()
    });
    world.does(Event::Requeued { job });
    world.plan();
    let why = ask(&world, job, None);
    assert_eq!(why.reason, Reason::Cleaning);
    assert_eq!(said(&why), "its last run is not cleaned up on n1");
    world.clean_all(job);
    assert_eq!(world.plan().placements.len(), 1);
}

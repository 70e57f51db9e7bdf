use super::*;
use crate::workload::{open_partition, plain};
use spur_core::event::Event;
use spur_core::id::Generation;
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::plan::{Budget, plan};
use spur_core::resources::GpuCount;
use spur_core::topology::{Switch, Topology, TopologyPlugin};
use std::sync::Arc;

const NOW: Millis = Millis(1_000_000_000);

fn wants(nodes: u32, gpus: u32, secs: u64) -> JobSpec {
    JobSpec {
        nodes_min: nodes,
        nodes_max: nodes,
        nodes_set: true,
        gpus_per_node: Some(GpuCount {
            model: String::new(),
            count: gpus,
        }),
        time_limit: Some(TimeLimit::Secs(secs)),
        ..plain(JobKind::Batch)
    }
}

/// Two nodes of 8 GPUs with these jobs: what starts, runs since `NOW`.
fn cluster(jobs: &[JobSpec]) -> Cluster {
    let mut cluster = Cluster::default();
    let apply = |cluster: &mut Cluster, event: Event| {
        assert_eq!(cluster.apply(NOW, &event).ignored, None, "{event:?}");
    };
    for mut event in setup::events(&Setup::new(2, 8), &trace(&[(0, 1, 1, "a")])) {
        if let Event::Configured { partitions, .. } = &mut event {
            *partitions = vec![open_partition("all", 1)];
        }
        apply(&mut cluster, event);
    }
    for spec in jobs {
        let mut spec = spec.clone();
        let admitted = admit(&cluster, &mut spec, NOW).unwrap();
        let job = cluster.next_job_id().unwrap();
        let priority = admitted.priority;
        let spec = Arc::new(spec);
        apply(
            &mut cluster,
            Event::Submitted {
                job,
                spec,
                priority,
            },
        );
        for event in cluster.plan_events(plan(&cluster, NOW, Budget::default())) {
            apply(&mut cluster, event);
        }
    }
    cluster
}

fn asked(cluster: &Cluster, wanted: Wanted, add_nodes: u32) -> Result<Vec<Answer>, NoAnswer> {
    let until = NOW.plus_secs(1_000_000);
    ask(
        cluster,
        NOW,
        &Question {
            wanted,
            add_nodes,
            until,
        },
    )
}

fn secs(start: &Start) -> Option<u64> {
    start.at.map(|at| at.secs_since(NOW))
}

#[test]
fn a_waiting_job_starts_when_the_others_reach_their_limits_or_with_more_nodes_at_once() {
    let cluster = cluster(&[
        wants(1, 8, 500),
        wants(1, 8, 900),
        wants(2, 8, 100),
        wants(1, 8, 50),
    ]);
    let answers = asked(&cluster, Wanted::Job(JobId(3)), 0).unwrap();
    let [answer] = answers.as_slice() else {
        panic!("{answers:?}")
    };
    assert_eq!(
        (secs(&answer.expected), secs(&answer.at_worst)),
        (Some(900), Some(900))
    );
    assert_eq!(answer.expected.nodes, ["n1", "n2"]);
    let more = asked(&cluster, Wanted::Job(JobId(3)), 2).unwrap().remove(0);
    assert_eq!(secs(&more.expected), Some(0));
    assert_eq!(more.expected.nodes, ["added-1", "added-2"]);
    let all = asked(&cluster, Wanted::All, 0).unwrap();
    assert_eq!(all.len(), 2);
}

#[test]
fn predictions_come_first_and_limits_are_the_worst_case() {
    let mut cluster = cluster(&[wants(2, 8, 5000), wants(2, 8, 5000)]);
    cluster.jobs.get_mut(&JobId(1)).unwrap().expected = Some(600);
    let answer = asked(&cluster, Wanted::Job(JobId(2)), 0).unwrap().remove(0);
    assert_eq!(
        (secs(&answer.expected), secs(&answer.at_worst)),
        (Some(600), Some(5000))
    );
    let cluster = self::cluster(&[wants(2, 8, 5000), wants(2, 8, 5000)]);
    let new = Wanted::Request(Box::new(wants(1, 1, 60)));
    let answer = asked(&cluster, new, 0).unwrap().remove(0);
    assert_eq!((answer.job, secs(&answer.at_worst)), (JobId(3), Some(5000)));
}

#[test]
fn jobs_without_a_limit_and_questions_without_an_answer() {
    let endless = JobSpec {
        time_limit: Some(TimeLimit::Unlimited),
        ..wants(2, 8, 1)
    };
    let mut cluster = cluster(&[endless, wants(1, 1, 60)]);
    let answer = asked(&cluster, Wanted::Job(JobId(2)), 0).unwrap().remove(0);
    assert_eq!(
        (answer.expected, answer.at_worst),
        (Start::default(), Start::default())
    );
    let no = |wanted, nodes| asked(&cluster, wanted, nodes).unwrap_err().to_string();
    assert_eq!(no(Wanted::Job(JobId(9)), 0), "job 9 is not known");
    assert!(no(Wanted::Job(JobId(1)), 0).starts_with("job 1 does not wait"));
    let huge = Wanted::Request(Box::new(wants(5, 8, 60)));
    assert!(no(huge, 0).starts_with("such a job would be refused"));
    assert!(no(Wanted::All, MOST_ADDED + 1).contains("too many"));
    cluster.nodes.clear();
    cluster.node_ids.clear();
    let empty = Cluster::default();
    assert_eq!(asked(&empty, Wanted::All, 1), Err(NoAnswer::NoModel));
    assert_eq!(Generation::default().0, 0);
}

#[test]
fn added_nodes_hang_on_the_network_that_is_there() {
    for plugin in [TopologyPlugin::Tree, TopologyPlugin::Block] {
        let mut cluster = cluster(&[]);
        let nodes = cluster.node_ids.keys().cloned().collect();
        cluster.rewire(Topology {
            plugin,
            switches: vec![Switch {
                name: "s0".to_owned(),
                nodes,
                switches: Vec::new(),
            }],
            block_sizes: Vec::new(),
        });
        let new = || Wanted::Request(Box::new(wants(5, 8, 60)));
        let answer = asked(&cluster, new(), 3).unwrap().remove(0);
        assert_eq!(secs(&answer.expected), Some(0), "{plugin:?}");
        assert_eq!(answer.expected.nodes.len(), 5);
        assert!(matches!(
            asked(&cluster, new(), 2),
            Err(NoAnswer::Refused(_))
        ));
    }
}

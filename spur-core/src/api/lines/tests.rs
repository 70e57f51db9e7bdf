use super::*;
use crate::agent::order::AllocatedNode;
use crate::api::{StartBasis, StartEstimate};
use crate::id::{NodeId, Uid};
use crate::job::array::{ArrayView, TaskSet};
use crate::job::het::HetPart;
use crate::job::spec::JobSpec;
use crate::resources::{IdSet, NodeShare};
use std::sync::Arc;

/// As much of a job as lines tell.
fn told(id: u32, spec: JobSpec) -> JobView {
    JobView {
        id: JobId(id),
        spec: Arc::new(spec),
        reason: Reason::Priority,
        ..read::nothing()
    }
}

fn spec(name: &str, user: &str, limit: Option<TimeLimit>) -> JobSpec {
    let mut spec = JobSpec {
        name: name.to_owned(),
        partition: "gpu".to_owned(),
        nodes_min: 2,
        time_limit: limit,
        ..JobSpec::default()
    };
    spec.owner.user = user.to_owned();
    spec.owner.uid = Uid(1000);
    spec
}

fn node(name: &str) -> AllocatedNode {
    AllocatedNode {
        name: NodeName::new(name).unwrap(),
        share: NodeShare {
            node: NodeId(0),
            cpus: IdSet::new(),
            memory_mib: 0,
            gpus: IdSet::new(),
            tasks: 0,
        },
    }
}

/// Jobs that differ in everything that lines tell.
fn jobs() -> Vec<JobView> {
    let at = |secs: u64| Some(Millis(secs * 1000));
    let held = TimeLimit::Secs(60);
    let plain = told(7, spec("a", "ann", Some(held)));
    let mut running = told(8, spec("a", "ann", Some(held)));
    running.state = JobState::Running;
    running.reason = Reason::None;
    running.started = at(100);
    running.nodes = vec![node("n1"), node("n2"), node("n7")];
    let mut array = told(9, spec("b", "ben", None));
    array.array = Some(ArrayView {
        job: JobId(9),
        task: None,
        tasks: (2..6).collect::<TaskSet>(),
        throttle: 3,
    });
    let mut task = told(10, spec("b", "ben", Some(TimeLimit::Unlimited)));
    task.array = Some(ArrayView {
        job: JobId(9),
        task: Some(1),
        tasks: TaskSet::new(),
        throttle: 3,
    });
    task.state = JobState::Suspended;
    task.suspended = at(170);
    task.suspended_ms = 5;
    task.nodes = vec![node("n3")];
    let mut part = told(11, spec("b", "", None));
    part.het = Some(HetPart {
        leader: JobId(11),
        offset: 0,
        size: 2,
    });
    part.completing = true;
    part.state = JobState::Failed;
    part.ended = at(200);
    let mut waits = told(12, spec("c", "ann", Some(held)));
    waits.reason = Reason::ReqNodeNotAvail;
    waits.unavailable = vec![NodeName::new("n4").unwrap()];
    waits.priority = 17;
    waits.submitted = Millis(5);
    waits.eligible = Millis(5);
    waits.expected = Some(StartEstimate {
        start: at(900),
        basis: StartBasis::Reserved,
        nodes: Vec::new(),
    });
    vec![plain, running, array, task, part, waits]
}

fn lines(jobs: &[JobView]) -> JobLines {
    let mut maker = LinesMaker::new();
    for job in jobs {
        maker.push(
            job,
            job.expected.as_ref().and_then(|expected| expected.start),
        );
    }
    maker.done()
}

/// Every line, read one after another into the same job.
fn in_turn(lines: &JobLines, order: impl Iterator<Item = usize>) -> Vec<JobView> {
    let (mut job, mut before) = (read::nothing(), None);
    let each = order.map(|at| {
        assert!(lines.read(at, before, &mut job), "line {at}");
        before = Some(at);
        job.clone()
    });
    each.collect()
}

#[test]
fn lines_tell_what_they_were_made_from() {
    let jobs = jobs();
    let mut lines = lines(&jobs);
    for folded in [false, true] {
        for (at, job) in jobs.iter().enumerate() {
            assert_eq!(lines.job(at).as_ref(), Some(job), "folded: {folded}");
        }
        assert_eq!(in_turn(&lines, 0..jobs.len()), jobs);
        let mut back = in_turn(&lines, (0..jobs.len()).rev());
        back.reverse();
        assert_eq!(back, jobs);
        assert!(lines.job(jobs.len()).is_none());
        lines.fold();
        assert_eq!(lines.partitions.len(), 1, "all are in one partition");
    }
}

#[test]
fn lines_of_lines_are_those_of_all() {
    let jobs = jobs();
    for cut in 0..jobs.len() {
        let mut maker = LinesMaker::new();
        for part in [&jobs[..cut], &jobs[cut..]] {
            let mut part = lines(part);
            part.fold();
            maker.append(&part);
        }
        assert_eq!(maker.len(), jobs.len());
        let all = maker.done();
        assert_eq!(in_turn(&all, 0..jobs.len()), jobs, "cut at {cut}");
    }
}

#[test]
fn what_is_known_later_is_put_where_it_belongs() {
    let jobs = jobs();
    let mut plain = jobs.clone();
    plain[5].expected = None;
    plain[5].unavailable = Vec::new();
    let mut maker = LinesMaker::new();
    maker.append(&lines(&plain));
    maker.expect(JobId(12), Millis(900_000));
    maker.expect(JobId(99), Millis(1));
    maker.note_unavailable(&jobs[5]);
    assert_eq!(maker.done(), lines(&jobs));
}

#[test]
fn lists_that_are_too_short_and_places_that_are_not_there_are_seen() {
    let whole = lines(&jobs());
    let mut short = whole.clone();
    short.ended.truncate(3);
    assert!(short.job(2).is_some() && short.job(3).is_none());
    let mut astray = whole.clone();
    astray.names[1] = 1000;
    assert!(astray.job(0).is_some() && astray.job(1).is_none());
    let older = JobLines {
        het_leaders: Vec::new(),
        het_offsets: Vec::new(),
        het_sizes: Vec::new(),
        ..whole
    };
    assert_eq!(
        older.job(4).unwrap().het,
        None,
        "told by no older controller"
    );
}

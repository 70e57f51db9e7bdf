use super::*;
use crate::cli::render::tests::samples::{at, ids, job, running, spec, view};
use spur_core::api::JobView;
use std::sync::Arc;

/// Waits in a partition, with a priority.
fn waits(id: u32, name: &str, partition: &str, priority: u32) -> JobView {
    let mut spec = spec(name);
    spec.partition = partition.to_owned();
    let mut job = job(id, spec);
    job.priority = priority;
    job
}

fn runs(id: u32, node: &str, started: u64) -> JobView {
    let mut job = running(
        waits(id, "run", "gpu", 1),
        &[(node, ids(&[(0, 0)]), 1024, ids(&[]))],
    );
    job.started = Some(at(started));
    job
}

/// Numbers of jobs in an order.
fn sorted(order: &Order, jobs: &[JobView]) -> Vec<u32> {
    let mut keys = Keys::default();
    for job in jobs {
        let row = JobRow::new(Arc::new(job.clone()));
        order.note(&view(at(100)), &row, &mut keys);
    }
    let rows = order.arranged(keys);
    rows.into_iter().map(|row| jobs[row].id.0).collect()
}

fn by(list: &str, jobs: &[JobView]) -> Vec<u32> {
    sorted(&read(list).unwrap(), jobs)
}

fn some() -> Vec<JobView> {
    vec![
        waits(1, "b", "gpu", 7),
        waits(2, "a", "cpu", 7),
        runs(3, "n10", 9),
        waits(4, "a", "gpu", 9),
        runs(5, "n9", 5),
        waits(6, "c", "gpu", 7),
    ]
}

#[test]
fn rows_are_sorted_letter_by_letter_and_what_has_no_start_comes_last_in_reverse() {
    assert_eq!(by(DEFAULT, &some()), [2, 4, 6, 1, 3, 5]);
    assert_eq!(by("", &some()), [3, 5, 6, 4, 2, 1]);
    assert_eq!(by("S", &some()), [5, 3, 1, 2, 4, 6]);
    assert_eq!(by("-S", &some()), [3, 5, 1, 2, 4, 6]);
    assert_eq!(by("i", &some()), [1, 2, 3, 4, 5, 6]);
    assert_eq!(by("-i", &some()), [6, 5, 4, 3, 2, 1]);
    assert_eq!(by("-j,p", &some()), [3, 5, 6, 1, 2, 4]);
}

#[test]
fn nodes_are_counted_and_jobs_without_any_come_first() {
    assert_eq!(by("N", &some()), [6, 4, 2, 1, 5, 3]);
    assert_eq!(by("-N", &some()), [3, 5, 6, 4, 2, 1]);
    assert_eq!(by("B", &some()), [6, 4, 2, 1, 3, 5]);
}

#[test]
fn by_state_the_newest_come_first() {
    assert_eq!(sorted(&by_state(), &some()), [6, 4, 2, 1, 5, 3]);
}

#[test]
fn a_letter_that_means_nothing_is_named() {
    assert_eq!(read("P,X").err().unwrap(), "Invalid sort specification: X");
    assert!(read("cluster,b").is_ok());
}

#[test]
fn equal_rows_stay_as_they_lie() {
    let jobs: Vec<JobView> = (1..40).map(|id| waits(id, "same", "gpu", id % 3)).collect();
    let back: Vec<u32> = (1..40).rev().collect();
    let with = |rest: u32| back.iter().copied().filter(move |id| id % 3 == rest);
    let falling: Vec<u32> = with(2).chain(with(1)).chain(with(0)).collect();
    assert_eq!(by("j", &jobs), back);
    assert_eq!(by("-j,-p", &jobs), falling);
}

//! Many jobs, slow readers, many at once. What is timed here is printed, and judged only by order.

use crate::agent::Agent;
use crate::process::{Controller, spec};
use spur_core::api::{JobFilter, Reply, Request};
use spur_core::job::spec::JobKind;
use spur_core::job::state::JobState;
use spur_proto::client::unix_path;
use std::time::{Duration, Instant};

/// As many as the product must bear; fewer in builds that check everything.
const PENDING: usize = if cfg!(debug_assertions) {
    2_000
} else {
    10_000
};

async fn submit_many(controller: &Controller, clients: usize, each: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let client = controller.client().await;
        tasks.spawn(async move {
            for _ in 0..each {
                client.submit(spec(JobKind::Batch, 8)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pending_jobs_are_listed_while_others_submit() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    client.submit(spec(JobKind::Batch, 8)).await.unwrap();
    agent.assigned().await;
    let begun = Instant::now();
    submit_many(&controller, 16, PENDING / 16).await;
    let took = begun.elapsed();
    let pending = JobFilter {
        states: vec![JobState::Pending],
        ..JobFilter::default()
    };
    let mut lists = Vec::new();
    let writing = tokio::spawn({
        let client = controller.client().await;
        async move {
            let mut times = Vec::new();
            for _ in 0..50 {
                let begun = Instant::now();
                client.submit(spec(JobKind::Batch, 1)).await.unwrap();
                times.push(begun.elapsed());
            }
            times
        }
    });
    for _ in 0..5 {
        let begun = Instant::now();
        let jobs = client.jobs(pending.clone()).await;
        lists.push(begun.elapsed());
        assert!(jobs.len() >= PENDING);
        assert!(jobs.is_sorted_by_key(|job| job.id));
    }
    let acks = writing.await.unwrap();
    let Reply::Stats(stats) = client.ask(&Request::Stats).await.unwrap() else {
        panic!("no stats")
    };
    println!(
        "{PENDING} submissions in {took:?}; list {:?}; ack among them {:?}; {} batches, pass {} us (max {}), {} KiB",
        median(lists),
        median(acks),
        stats.log_batches,
        stats.last_pass_us,
        stats.max_pass_us,
        stats.rss_kib
    );
    assert!(
        stats.log_batches < PENDING as u64,
        "submissions at once share a commit"
    );
    assert!(
        stats.log_entries < 25 * PENDING as u64 / 10,
        "explanations do not dominate the log: {stats:?}"
    );
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_up_nobody() {
    let controller = Controller::start();
    let client = controller.client().await;
    submit_many(&controller, 8, 250).await;
    let path = unix_path(&controller.address()).unwrap().to_owned();
    // Connections that ask for nothing, and calls whose answers nobody takes.
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(tokio::net::UnixStream::connect(&path).await.unwrap());
    }
    let mut unread = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = controller.client().await;
        unread.spawn(async move { client.jobs(JobFilter::default()).await.len() });
    }
    unread.abort_all();
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    assert_eq!(client.job(job).await.state, JobState::Pending);
    drop(idle);
}

#[tokio::test]
async fn questions_that_do_not_come_hold_up_nobody_and_are_cut_off() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let controller = Controller::start();
    let path = unix_path(&controller.address()).unwrap().to_owned();
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        // Four MiB are announced, and some of them come.
        stream.write_all(&(4u32 << 20).to_be_bytes()).await.unwrap();
        stream.write_all(&[0; 1000]).await.unwrap();
        slow.push(stream);
    }
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    assert_eq!(client.job(job).await.state, JobState::Pending);
    let mut ended = tokio::task::JoinSet::new();
    for mut stream in slow {
        ended.spawn(async move { stream.read(&mut [0]).await });
    }
    let cut = tokio::time::timeout(Duration::from_secs(60), ended.join_next()).await;
    let cut = cut.expect("it is not waited for them for ever");
    assert!(matches!(cut.unwrap().unwrap(), Ok(0) | Err(_)), "closed");
}

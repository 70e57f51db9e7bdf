//! What nodes say of use: taken once, bounded, shown to those whom it concerns, kept through kills.

use crate::agent::Agent;
use crate::process::{Asker, Controller, PATIENCE, TOKEN, spec};
use spur_core::agent::order::JobOrder;
use spur_core::api::{AccountFilter, AccountedJob, RefusalKind, Reply, Request, UsageReport};
use spur_core::id::{JobId, NodeName, StepKind};
use spur_core::job::spec::JobKind;
use spur_core::job::state::JobState;
use spur_core::time::Millis;
use spur_core::usage::codec::Encoder;
use spur_core::usage::idle::Idle;
use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Subject, Value};
use spur_core::usage::summary::{JobUsage, Processes};
use spur_core::usage::words::{Batch, FromMeter, ToMeter, UsageEvent, UsageEventKind, UsageRecord};
use spur_proto::client::channel_over;
use spur_proto::wire::meter_client::MeterClient;
use spur_proto::wire::{MeterAnswer, MeterMessage};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// A node's meter.
struct Meter {
    out: mpsc::Sender<MeterMessage>,
    answers: Streaming<MeterAnswer>,
    encoder: Encoder,
    sequence: u64,
}

/// What an acknowledgement says: live, record, credit.
type Acked = (u64, u64, u32);

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

impl Meter {
    async fn connect(
        controller: &Controller,
        token: &str,
        node: &str,
        epoch: u64,
    ) -> Result<Self, Status> {
        let stream = UnixStream::connect(controller.dir.join("agent.sock"))
            .await
            .unwrap();
        let channel = channel_over(stream).await.unwrap();
        let (out, messages) = mpsc::channel(1024);
        let hello = FromMeter::Hello {
            token: token.into(),
            node: NodeName::new(node).unwrap(),
            boot_id: "boot".into(),
            epoch: Millis(epoch),
        };
        out.send(MeterMessage::from(&hello)).await.unwrap();
        let mut client = MeterClient::new(channel);
        let answers = client
            .report(ReceiverStream::new(messages))
            .await?
            .into_inner();
        Ok(Self {
            out,
            answers,
            encoder: Encoder::default(),
            sequence: 0,
        })
    }

    async fn say(&self, word: &FromMeter) {
        self.out.send(MeterMessage::from(word)).await.unwrap();
    }

    /// A batch of one second.
    fn batch(&mut self, values: &BTreeMap<SeriesKey, Value>) -> Batch {
        self.sequence += 1;
        let keyframe = self.sequence == 1;
        let (encoded, _) = self.encoder.encode(values, keyframe);
        Batch {
            sequence: self.sequence,
            late: false,
            at: Millis(now()),
            uptime: self.sequence * 1000,
            span: 1000,
            keyframe,
            names: encoded.names,
            ended: encoded.ended,
            body: encoded.body,
        }
    }

    async fn record(&self, number: u64, record: UsageRecord) {
        let spool = "spool".to_owned();
        self.say(&FromMeter::Record {
            number,
            spool,
            record,
        })
        .await;
    }

    async fn next(&mut self) -> Result<Option<ToMeter>, Status> {
        let answer = tokio::time::timeout(PATIENCE, self.answers.message());
        let answer = answer.await.expect("an answer in time")?;
        Ok(answer.map(|answer| answer.try_into().unwrap()))
    }

    /// The first acknowledgement that says this.
    async fn acked(&mut self, holds: impl Fn(Acked) -> bool) -> Acked {
        loop {
            match self.next().await.unwrap().expect("the stream goes on") {
                ToMeter::Ack {
                    live,
                    record,
                    credit,
                    ..
                } if holds((live, record, credit)) => return (live, record, credit),
                ToMeter::Ack { .. } | ToMeter::Watch { .. } => {}
            }
        }
    }

    /// How the stream ends.
    async fn end(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended without a word"),
                Err(status) => return status,
            }
        }
    }
}

fn used(order: &JobOrder, cpu_us: u64) -> UsageRecord {
    UsageRecord::Job(JobUsage {
        job: order.job,
        generation: order.generation,
        node: NodeName::new("liar").unwrap(),
        started: order.started,
        ended: order.started.plus_secs(10),
        cpus: 1,
        memory_mib: 10,
        used: Processes {
            cpu_us,
            ..Processes::default()
        },
        gpus: Vec::new(),
        coverage: 1000,
    })
}

fn verdict(job: JobId, gpu: u32, what: UsageEventKind) -> UsageRecord {
    UsageRecord::Event(UsageEvent {
        at: Millis(now()),
        job: Some(job),
        gpu: Some(gpu),
        what,
    })
}

fn idle() -> UsageEventKind {
    UsageEventKind::Idle(Idle {
        since: Millis(now() - 60_000),
        millis: 60_000,
        held: 90_000,
        opened: Some(false),
        open_now: Some(false),
        busy: Some(0),
        memory: None,
    })
}

async fn report(client: &Asker, job: JobId, watch: bool) -> UsageReport {
    let request = Request::Usage {
        job,
        watch,
        details: true,
    };
    match client.ask(&request).await.unwrap() {
        Reply::Usage(report) => *report,
        other => panic!("{other:?}"),
    }
}

async fn accounting(client: &Asker) -> Vec<AccountedJob> {
    let request = Request::Accounting {
        filter: Box::new(AccountFilter::default()),
        after: None,
        limit: 1000,
    };
    match client.ask(&request).await.unwrap() {
        Reply::Accounting(runs) => runs,
        other => panic!("{other:?}"),
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn step_values(job: JobId, cpu_us: u64) -> BTreeMap<SeriesKey, Value> {
    let key = SeriesKey {
        subject: Subject::Step(job, StepKind::Batch),
        metric: Metric::CpuTime,
        source: Source::Bpf,
        quality: Quality::Exact,
    };
    [(key, Value::Count(cpu_us))].into()
}

#[tokio::test]
async fn readings_are_seen_at_once_and_records_are_kept_through_a_kill() {
    let mut controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 2)).await.unwrap();
    let order = agent.assigned().await;
    let mut meter = Meter::connect(&controller, TOKEN, "n1", 1).await.unwrap();
    let (_, _, credit) = meter.acked(|_| true).await;
    assert!(credit > 0, "a fresh stream may send");
    for second in 1..=3 {
        let batch = meter.batch(&step_values(job, second * 500_000));
        meter.say(&FromMeter::Batch(batch.clone())).await;
        meter.say(&FromMeter::Batch(batch)).await;
    }
    meter.acked(|(live, ..)| live == 3).await;
    let told = report(&client, job, true).await;
    assert_eq!(told.record.nodes[0].used.cpu_us, 1_500_000);
    assert!(told.record.live);
    loop {
        // Somebody looks: the node is asked to measure more often.
        if let Some(ToMeter::Watch { interval, .. }) = meter.next().await.unwrap() {
            assert_eq!(interval, 100);
            break;
        }
    }
    meter.record(1, used(&order, 2_000_000)).await;
    meter.record(1, used(&order, 7)).await;
    meter.acked(|(_, record, _)| record == 1).await;
    agent
        .step_ended(job, StepKind::Batch, order.generation, 0)
        .await;
    client.state_until(job, JobState::Completed).await;
    controller.kill();
    controller.run();
    let client = controller.client().await;
    let runs = accounting(&client).await;
    assert_eq!((runs.len(), runs[0].job.state), (1, JobState::Completed));
    assert_eq!(runs[0].nodes[0].used.cpu_us, 2_000_000);
    assert_eq!(
        runs[0].nodes[0].node.as_str(),
        "n1",
        "a node speaks for itself"
    );
    let told = report(&client, job, false).await;
    assert!(!told.record.live);
    // What was acknowledged before the kill is acknowledged again, and not taken twice.
    let mut meter = Meter::connect(&controller, TOKEN, "n1", 2).await.unwrap();
    meter.record(1, used(&order, 9)).await;
    meter.acked(|(_, record, _)| record == 1).await;
    assert_eq!(accounting(&client).await[0].nodes[0].used.cpu_us, 2_000_000);
}

#[tokio::test]
async fn an_idle_gpu_is_named_with_its_owner_until_it_is_used_or_given_back() {
    let mut controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 2)).await.unwrap();
    let order = agent.assigned().await;
    let gpu = order.here().unwrap().share.gpus.iter().next().unwrap();
    let mut meter = Meter::connect(&controller, TOKEN, "n1", 1).await.unwrap();
    let named = async |client: &Asker| match client.ask(&Request::IdleGpus).await.unwrap() {
        Reply::Jobs(jobs) => jobs,
        other => panic!("{other:?}"),
    };
    meter.record(1, verdict(job, gpu, idle())).await;
    meter.record(2, verdict(job, 77, idle())).await;
    meter.record(3, verdict(JobId(999), gpu, idle())).await;
    meter.acked(|(_, record, _)| record == 3).await;
    let jobs = named(&client).await;
    assert_eq!((jobs.len(), jobs[0].id, jobs[0].idle.len()), (1, job, 1));
    assert_eq!(
        (jobs[0].idle[0].gpu, jobs[0].idle[0].node.as_str()),
        (gpu, "n1")
    );
    // It is part of the state: durable.
    controller.kill();
    controller.run();
    let client = controller.client().await;
    assert_eq!(named(&client).await.len(), 1);
    let mut meter = Meter::connect(&controller, TOKEN, "n1", 2).await.unwrap();
    meter
        .record(4, verdict(job, gpu, UsageEventKind::Busy))
        .await;
    meter.acked(|(_, record, _)| record == 4).await;
    assert!(named(&client).await.is_empty());
    let events = report(&client, job, false).await.events;
    assert_eq!(events.len(), 3, "{events:?}");
    meter.record(5, verdict(job, gpu, idle())).await;
    meter.acked(|(_, record, _)| record == 5).await;
    client.cancel(job).await;
    until("the verdict goes with the job", async || {
        named(&client).await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_meter_without_the_token_or_with_nonsense_is_told_why() {
    let controller = Controller::start();
    let (_agent, _) = Agent::connect(&controller, "n1").await;
    let wrong = Meter::connect(&controller, "wrong", "n1", 1)
        .await
        .err()
        .unwrap();
    assert_eq!(wrong.code(), tonic::Code::Unauthenticated);
    let mut meter = Meter::connect(&controller, TOKEN, "n1", 1).await.unwrap();
    let mut batch = meter.batch(&step_values(JobId(1), 1));
    batch.body = vec![0xff; 40];
    meter.say(&FromMeter::Batch(batch)).await;
    assert_eq!(meter.end().await.code(), tonic::Code::FailedPrecondition);
    let meter = Meter::connect(&controller, TOKEN, "n1", 1).await.unwrap();
    let mut skipped = meter;
    skipped.sequence = 5;
    let batch = skipped.batch(&step_values(JobId(1), 1));
    skipped.say(&FromMeter::Batch(batch)).await;
    assert!(skipped.end().await.message().contains("does not follow"));
    // A newer stream ends the older.
    let mut old = Meter::connect(&controller, TOKEN, "n1", 1).await.unwrap();
    let mut new = Meter::connect(&controller, TOKEN, "n1", 1).await.unwrap();
    assert_eq!(old.end().await.code(), tonic::Code::Aborted);
    let batch = new.batch(&step_values(JobId(1), 1));
    new.say(&FromMeter::Batch(batch)).await;
    new.acked(|(live, ..)| live == 1).await;
    let client = controller.client().await;
    let Reply::Stats(stats) = client.ask(&Request::Stats).await.unwrap() else {
        panic!("no counters")
    };
    assert!(stats.usage_refused >= 3, "{stats:?}");
    assert_eq!(stats.usage_batches, 1);
}

/// Records of one node, as fast as they go.
const FLOOD: u64 = 20_000;

#[tokio::test]
async fn a_flood_of_records_waits_at_the_node_and_delays_no_job() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    let order = agent.assigned().await;
    let mut meter = Meter::connect(&controller, TOKEN, "n1", 1).await.unwrap();
    let out = meter.out.clone();
    let flood = tokio::spawn(async move {
        for number in 1..=FLOOD {
            let what = UsageEventKind::DeviceError {
                code: 79,
                text: "x\n".repeat(2000),
            };
            let record = FromMeter::Record {
                number,
                spool: "spool".into(),
                record: UsageRecord::Event(UsageEvent {
                    at: Millis(number),
                    job: Some(order.job),
                    gpu: Some(0),
                    what,
                }),
            };
            out.send(MeterMessage::from(&record)).await.unwrap();
        }
    });
    for _ in 0..20 {
        client.submit(spec(JobKind::Batch, 0)).await.unwrap();
    }
    meter.acked(|(_, record, _)| record == FLOOD).await;
    flood.await.unwrap();
    let told = report(&client, job, false).await;
    assert_eq!(told.events.len(), 1000, "the newest");
    let UsageEventKind::DeviceError { text, .. } = &told.events[999].event.what else {
        panic!("{told:?}")
    };
    assert!(text.len() <= 256 && !text.contains('\n'), "{text:?}");
}

#[tokio::test]
async fn others_see_the_record_of_a_job_and_not_its_live_use() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    agent.assigned().await;
    // `nobody`: no operator, and not the owner.
    let ask = |words: &[&str]| {
        use std::os::unix::process::CommandExt as _;
        let spur = std::path::Path::new(env!("CARGO_BIN_EXE_spur"));
        let near = controller.dir.join("spur");
        std::fs::copy(spur, &near).ok();
        let mut command = std::process::Command::new(near);
        command
            .args(words)
            .env("SPUR_CONTROLLER", controller.address());
        command.uid(65_534).gid(65_534).output().unwrap()
    };
    let number = job.to_string();
    // Which jobs there are is no secret, as with Slurm's default.
    let sacct = ask(&["sacct", "-a", "-P", "-n", "-X", "-o", "JobID"]);
    assert_eq!(
        String::from_utf8_lossy(&sacct.stdout),
        format!("{number}\n")
    );
    let denied = ask(&["usage", &number]);
    assert!(
        String::from_utf8_lossy(&denied.stderr).contains("Access/permission denied"),
        "{denied:?}"
    );
    // The record as a whole is as open as Slurm's.
    let summed = ask(&["seff", &number]);
    assert!(summed.status.success(), "{summed:?}");
    let missing = client.ask(&Request::Usage {
        job: JobId(999),
        watch: false,
        details: false,
    });
    assert_eq!(missing.await.unwrap_err().kind, RefusalKind::InvalidJobId);
}

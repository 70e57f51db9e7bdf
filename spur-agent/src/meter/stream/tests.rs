use super::*;
use crate::meter::outlet::{Emit, Moment, Outlet};
use crate::meter::testing::count;
use crate::meter::window::Values;
use spur_core::id::JobId;
use spur_core::usage::codec::Decoder;
use spur_core::usage::metric::Value;
use spur_proto::wire::meter_server::{Meter, MeterServer};
use std::sync::Mutex;
use std::sync::mpsc::Receiver as SyncReceiver;
use tokio_stream::Stream;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// How long anything may take.
const SOON: Duration = Duration::from_secs(30);

type Answers = mpsc::Sender<Result<wire::MeterAnswer, Status>>;

/// A controller that says nothing by itself.
#[derive(Clone, Default)]
struct Controller {
    heard: Arc<Mutex<Vec<FromMeter>>>,
    links: Arc<Mutex<Vec<Answers>>>,
}

#[tonic::async_trait]
impl Meter for Controller {
    type ReportStream = Pin<Box<dyn Stream<Item = Result<wire::MeterAnswer, Status>> + Send>>;

    async fn report(
        &self,
        request: Request<Streaming<wire::MeterMessage>>,
    ) -> Result<Response<Self::ReportStream>, Status> {
        let (send, receive) = mpsc::channel(64);
        self.links.lock().unwrap().push(send);
        let (heard, mut incoming) = (Arc::clone(&self.heard), request.into_inner());
        tokio::spawn(async move {
            while let Some(Ok(message)) = incoming.next().await {
                heard
                    .lock()
                    .unwrap()
                    .push(FromMeter::try_from(message).unwrap());
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }
}

struct Lab {
    dir: tempfile::TempDir,
    controller: Controller,
    server: Option<tokio::task::JoinHandle<()>>,
    items: mpsc::Sender<Item>,
    shared: Arc<Shared>,
    inputs: SyncReceiver<Input>,
    outlet: Outlet,
    now: u64,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (feed, inputs) = Feed::new();
        let (items, queue) = mpsc::channel(QUEUE_MAX);
        let shared = Arc::new(Shared::default());
        let courier = Courier {
            identity: Identity {
                controller: dir.path().join("socket"),
                token: "secret".into(),
                node: NodeName::new("n1").unwrap(),
                boot_id: "boot".into(),
                epoch: Millis(5),
            },
            queue,
            feed,
            shared: Arc::clone(&shared),
            records: Records::open(&dir.path().join("records"), "spool-1").unwrap(),
            segments: Segments::open(dir.path(), 1 << 20).unwrap(),
            state_file: dir.path().join("state"),
        };
        tokio::spawn(courier.run());
        Self {
            dir,
            controller: Controller::default(),
            server: None,
            items,
            shared,
            inputs,
            outlet: Outlet::default(),
            now: 1_000_000,
        }
    }

    /// The controller starts; what it heard before is forgotten.
    async fn up(&mut self) {
        self.controller = Controller::default();
        let socket = self.dir.path().join("socket");
        std::fs::remove_file(&socket).ok();
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        let service = MeterServer::new(self.controller.clone());
        let serve = tonic::transport::Server::builder().add_service(service);
        self.server = Some(tokio::spawn(async move {
            serve
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await
                .ok();
        }));
        self.until("the link is up", |lab| {
            (lab.link().connection > 0).then_some(())
        })
        .await;
    }

    /// The controller dies.
    async fn down(&mut self) {
        self.server.take().unwrap().abort();
        self.controller.links.lock().unwrap().clear();
        self.until("the link is down", |lab| {
            (lab.link().connection == 0).then_some(())
        })
        .await;
    }

    fn link(&self) -> LinkView {
        self.shared.link(self.items.capacity() > 1)
    }

    /// A second of the sampler's.
    fn second(&mut self, energy: u64) {
        self.now += 1000;
        let now = Moment {
            at: Millis(self.now),
            uptime: self.now,
        };
        let link = self.link();
        let item = match self
            .outlet
            .take(Values::from([count(0, energy)]), 1000, now, link)
        {
            Some(Emit::Live(batch)) => Item::Live(batch),
            Some(Emit::Spool(reading)) => Item::Spool(reading),
            None => return,
        };
        self.items.try_send(item).unwrap();
    }

    fn record(&self, job: u32) {
        let what = UsageEventKind::Busy;
        let event = UsageEvent {
            at: Millis(0),
            job: Some(JobId(job)),
            gpu: None,
            what,
        };
        self.items
            .try_send(Item::Record(Box::new(UsageRecord::Event(event))))
            .unwrap();
    }

    async fn ack(&self, live: u64, late: u64, record: u64, credit: u32) {
        let ack = ToMeter::Ack {
            live,
            late,
            record,
            credit,
        };
        let link = self
            .controller
            .links
            .lock()
            .unwrap()
            .last()
            .unwrap()
            .clone();
        link.send(Ok(wire::MeterAnswer::from(&ack))).await.unwrap();
    }

    async fn until<T>(&self, what: &str, pick: impl Fn(&Self) -> Option<T>) -> T {
        let end = Instant::now() + SOON;
        loop {
            if let Some(found) = pick(self) {
                return found;
            }
            assert!(
                Instant::now() < end,
                "waited in vain until {what}: {:#?}",
                self.heard()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn heard(&self) -> Vec<FromMeter> {
        self.controller.heard.lock().unwrap().clone()
    }

    fn records(&self) -> Vec<(u64, String)> {
        let heard = self.heard().into_iter();
        heard
            .filter_map(|message| match message {
                FromMeter::Record { number, spool, .. } => Some((number, spool)),
                FromMeter::Hello { .. } | FromMeter::Batch(_) => None,
            })
            .collect()
    }

    fn batches(&self, late: bool) -> Vec<Batch> {
        let heard = self.heard().into_iter();
        heard
            .filter_map(|message| match message {
                FromMeter::Batch(batch) if batch.late == late => Some(batch),
                FromMeter::Batch(_) | FromMeter::Hello { .. } | FromMeter::Record { .. } => None,
            })
            .collect()
    }
}

#[tokio::test]
async fn the_greeting_comes_first_and_records_until_they_are_acknowledged() {
    let mut lab = Lab::new();
    lab.record(1);
    lab.record(2);
    lab.up().await;
    lab.until("both records", |lab| {
        (lab.records().len() == 2).then_some(())
    })
    .await;
    let hello = &lab.heard()[0];
    assert!(
        matches!(hello, FromMeter::Hello { token, epoch: Millis(5), .. } if token == "secret"),
        "{hello:?}"
    );
    lab.ack(0, 0, 1, 4).await;
    lab.record(3);
    lab.until("the third", |lab| (lab.records().len() == 3).then_some(()))
        .await;
    lab.down().await;
    lab.up().await;
    lab.until("what was not acknowledged", |lab| {
        (lab.records().len() == 2).then_some(())
    })
    .await;
    assert_eq!(
        lab.records(),
        [(2, "spool-1".into()), (3, "spool-1".into())]
    );
    // An acknowledgement of what was not sent over this link means another spool.
    lab.ack(0, 0, 99, 4).await;
    lab.ack(0, 0, 3, 4).await;
    lab.record(4);
    lab.until("the fourth", |lab| {
        (lab.records().last()?.0 == 4).then_some(())
    })
    .await;
    lab.down().await;
    lab.up().await;
    lab.until("the fourth again", |lab| {
        (lab.records() == [(4, "spool-1".to_owned())]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn credit_bounds_what_is_on_its_way_and_counters_lose_nothing() {
    let mut lab = Lab::new();
    lab.up().await;
    (1..=10).for_each(|second| lab.second(second));
    lab.until("what the first credit allows", |lab| {
        (lab.batches(false).len() as u64 == INITIAL_CREDIT + 1).then_some(())
    })
    .await;
    lab.ack(INITIAL_CREDIT + 1, 0, 0, 0).await;
    lab.until("no credit", |lab| {
        (lab.link().limit == INITIAL_CREDIT + 1).then_some(())
    })
    .await;
    lab.second(11);
    lab.ack(INITIAL_CREDIT + 1, 0, 0, 2).await;
    lab.until("new credit", |lab| {
        (lab.link().limit == INITIAL_CREDIT + 3).then_some(())
    })
    .await;
    lab.second(12);
    let batches = lab
        .until("the next", |lab| {
            Some(lab.batches(false)).filter(|all| all.len() as u64 == INITIAL_CREDIT + 2)
        })
        .await;
    let mut decoder = Decoder::default();
    batches
        .iter()
        .for_each(|batch| drop(decoder.decode(batch).unwrap()));
    assert_eq!(
        decoder.current().next().map(|(_, value)| value),
        Some(Value::Count(12))
    );
    assert_eq!(
        batches
            .iter()
            .map(|batch| u64::from(batch.span))
            .sum::<u64>(),
        12_000
    );
}

#[tokio::test]
async fn ten_minutes_away_come_back_as_late_batches_and_the_live_lane_begins_anew() {
    let mut lab = Lab::new();
    lab.up().await;
    lab.second(1);
    lab.until("the first", |lab| {
        (lab.batches(false).len() == 1).then_some(())
    })
    .await;
    lab.down().await;
    (2..=600).for_each(|second| lab.second(second));
    lab.until("it is on disk", |lab| {
        (lab.shared.spool_bytes() > 2000).then_some(())
    })
    .await;
    lab.up().await;
    lab.second(601);
    let mut seen = 0;
    let mut decoder = Decoder::default();
    while seen < 59 {
        let late = lab
            .until("a late batch", |lab| {
                Some(lab.batches(true)).filter(|late| late.len() > seen)
            })
            .await;
        for batch in &late[seen..] {
            decoder.decode(batch).unwrap();
            seen += 1;
            assert_eq!(batch.sequence, seen as u64);
        }
        lab.ack(0, seen as u64, 0, 8).await;
    }
    let told: u64 = lab
        .batches(true)
        .iter()
        .map(|batch| u64::from(batch.span))
        .sum();
    let live = lab
        .until("the live lane", |lab| lab.batches(false).pop())
        .await;
    assert!(live.keyframe && live.sequence == 2);
    // The last seconds before the link came back were not enough for a reading of the spool.
    assert_eq!(told + u64::from(live.span), 600_000);
    let files = || {
        std::fs::read_dir(lab.dir.path())
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("late-"))
            .count()
    };
    lab.until("the files are gone", |_| (files() == 0).then_some(()))
        .await;
}

#[tokio::test]
async fn somebody_who_looks_is_told_to_the_sampler_and_the_end_waits_for_what_was_handed_over() {
    let mut lab = Lab::new();
    lab.up().await;
    let watch = ToMeter::Watch {
        interval: 100,
        time_to_live: 9_000,
    };
    let link = lab.controller.links.lock().unwrap().last().unwrap().clone();
    link.send(Ok(wire::MeterAnswer::from(&watch)))
        .await
        .unwrap();
    lab.until("the sampler hears it", |lab| {
        matches!(
            lab.inputs.try_recv(),
            Ok(Input::Watch {
                interval: 100,
                time_to_live: 9_000
            })
        )
        .then_some(())
    })
    .await;
    lab.items.try_send(Item::Save(b"state".to_vec())).unwrap();
    let (done, wait) = std::sync::mpsc::sync_channel(1);
    lab.items.try_send(Item::Stop(Some(done))).unwrap();
    lab.until("it is over", |_| wait.try_recv().ok()).await;
    assert_eq!(
        std::fs::read(lab.dir.path().join("state")).unwrap(),
        b"state"
    );
}

//! A controller for tests: says what it is told to, remembers what it hears.

use spur_core::agent::order::{FromAgent, JobOrder, Report, StepOrder, ToAgent};
use spur_core::event::NodeHello;
use spur_core::id::{Generation, JobId, NodeId};
use spur_core::usage::codec::Decoder;
use spur_core::usage::metric::{SeriesKey, Value};
use spur_core::usage::words::{FromMeter, ToMeter, UsageRecord};
use spur_proto::wire;
use spur_proto::wire::link_server::{Link, LinkServer};
use spur_proto::wire::meter_server::{Meter, MeterServer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// How long anything may take.
pub const SOON: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Heard {
    all: Vec<FromAgent>,
    link: Option<mpsc::Sender<Result<wire::ControllerMessage, Status>>>,
    links: usize,
    mute: bool,
    acked: u64,
    revoked: BTreeSet<u32>,
    records: BTreeMap<u64, UsageRecord>,
    usage: BTreeMap<SeriesKey, Value>,
}

#[derive(Default)]
struct Shared {
    heard: Mutex<Heard>,
    changed: Condvar,
}

/// The controller; one agent at a time.
pub struct Controller {
    shared: Arc<Shared>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Shared {
    /// Takes a message of a meter; gives whether nothing is to be acknowledged.
    fn metered(&self, message: FromMeter, decoder: &mut Decoder, record: &mut u64) -> bool {
        let mut heard = self.heard.lock().unwrap();
        match message {
            FromMeter::Hello { .. } => {}
            FromMeter::Batch(batch) if batch.late => {}
            FromMeter::Batch(batch) => {
                decoder.decode(&batch).unwrap();
                heard.usage = decoder.current().collect();
            }
            FromMeter::Record {
                number,
                record: told,
                ..
            } => {
                *record = number;
                heard.records.insert(number, told);
            }
        }
        self.changed.notify_all();
        heard.mute
    }
}

struct Service(Arc<Shared>);

struct Metering(Arc<Shared>);

#[tonic::async_trait]
impl Link for Service {
    type ConnectStream =
        Pin<Box<dyn Stream<Item = Result<wire::ControllerMessage, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<wire::AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (send, receive) = mpsc::channel(1024);
        let mut incoming = request.into_inner();
        let shared = Arc::clone(&self.0);
        {
            let mut heard = shared.heard.lock().unwrap();
            heard.link = Some(send.clone());
            heard.links += 1;
        }
        tokio::spawn(async move {
            while let Some(Ok(message)) = incoming.next().await {
                let message = FromAgent::try_from(message).unwrap();
                let ack = {
                    let mut heard = shared.heard.lock().unwrap();
                    heard.all.push(message.clone());
                    shared.changed.notify_all();
                    !heard.mute
                };
                if let (FromAgent::Report { number, .. }, true) = (message, ack) {
                    let ack = ToAgent::Ack { report: number };
                    drop(send.send(Ok(wire::ControllerMessage::from(&ack))).await);
                    shared.heard.lock().unwrap().acked = number;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }
}

#[tonic::async_trait]
impl Meter for Metering {
    type ReportStream = Pin<Box<dyn Stream<Item = Result<wire::MeterAnswer, Status>> + Send>>;

    async fn report(
        &self,
        request: Request<Streaming<wire::MeterMessage>>,
    ) -> Result<Response<Self::ReportStream>, Status> {
        let (send, receive) = mpsc::channel(1024);
        let mut incoming = request.into_inner();
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut decoder = Decoder::default();
            let mut record = 0;
            while let Some(Ok(message)) = incoming.next().await {
                let message = FromMeter::try_from(message).unwrap();
                let mute = shared.metered(message, &mut decoder, &mut record);
                let ack = ToMeter::Ack {
                    live: decoder.last(),
                    late: 0,
                    record,
                    credit: 4,
                };
                if !mute {
                    drop(send.send(Ok(wire::MeterAnswer::from(&ack))).await);
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }
}

impl Controller {
    /// Listens on a socket.
    pub fn new(socket: &Path) -> Self {
        let shared = Arc::new(Shared::default());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let service = LinkServer::new(Service(Arc::clone(&shared)));
        let listener = runtime.block_on(async { tokio::net::UnixListener::bind(socket).unwrap() });
        let metering = MeterServer::new(Metering(Arc::clone(&shared)));
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .add_service(metering)
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        Self {
            shared,
            runtime: Some(runtime),
        }
    }

    /// Acknowledges nothing from now on, or again.
    pub fn mute(&self, mute: bool) {
        self.shared.heard.lock().unwrap().mute = mute;
    }

    /// The last report that was acknowledged: whatever is sent from now on comes after that word.
    pub fn acked(&self) -> u64 {
        self.shared.heard.lock().unwrap().acked
    }

    /// Sends an order over the present link.
    pub fn send(&self, order: &ToAgent) {
        let link = self
            .shared
            .heard
            .lock()
            .unwrap()
            .link
            .clone()
            .expect("an agent has connected");
        link.blocking_send(Ok(wire::ControllerMessage::from(order)))
            .unwrap();
    }

    /// Says that the node should hold nothing.
    pub fn welcome(&self) {
        self.welcome_to(0, None, None);
    }

    /// Says that the node should hold this job and run this step, as of a generation, and nothing else.
    pub fn welcome_to(
        &self,
        generation: u64,
        job: impl IntoIterator<Item = JobOrder>,
        step: impl IntoIterator<Item = StepOrder>,
    ) {
        self.send(&ToAgent::Welcome {
            node: NodeId(0),
            generation: Generation(generation),
            jobs: job.into_iter().collect(),
            steps: step.into_iter().collect(),
            programs: None,
            ticket_key: None,
        });
    }

    /// Ends a job.
    pub fn revoke(&self, job: u32, generation: u64) {
        self.send(&ToAgent::Revoke {
            job: JobId(job),
            generation: Generation(generation),
        });
    }

    /// As [`Self::revoke`], if that was not done before.
    pub fn revoke_once(&self, job: u32, generation: u64) {
        let new = self.shared.heard.lock().unwrap().revoked.insert(job);
        if new {
            self.revoke(job, generation);
        }
    }

    /// Forgets everything that was heard.
    pub fn forget(&self) {
        let mut heard = self.shared.heard.lock().unwrap();
        heard.all.clear();
        heard.revoked.clear();
    }

    /// Waits until something that was heard satisfies `pick`; the first in order.
    pub fn hear<T>(&self, what: &str, pick: impl Fn(&FromAgent) -> Option<T>) -> T {
        let end = Instant::now() + SOON;
        let mut heard = self.shared.heard.lock().unwrap();
        loop {
            if let Some(found) = heard.all.iter().find_map(&pick) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "did not hear {what}; heard {:#?}",
                heard.all
            );
            heard = self.shared.changed.wait_timeout(heard, left).unwrap().0;
        }
    }

    /// Everything heard so far that satisfies `pick`.
    pub fn heard<T>(&self, pick: impl Fn(&FromAgent) -> Option<T>) -> Vec<T> {
        self.shared
            .heard
            .lock()
            .unwrap()
            .all
            .iter()
            .filter_map(pick)
            .collect()
    }

    /// Waits for a record of usage.
    pub fn record<T>(&self, what: &str, pick: impl Fn(&UsageRecord) -> Option<T>) -> T {
        self.wait(what, |heard| heard.records.values().find_map(&pick))
    }

    /// Every record of usage so far.
    pub fn records(&self) -> Vec<UsageRecord> {
        self.shared
            .heard
            .lock()
            .unwrap()
            .records
            .values()
            .cloned()
            .collect()
    }

    /// Waits until the present values satisfy `pick`.
    pub fn usage<T>(
        &self,
        what: &str,
        pick: impl Fn(&BTreeMap<SeriesKey, Value>) -> Option<T>,
    ) -> T {
        self.wait(what, |heard| pick(&heard.usage))
    }

    fn wait<T>(&self, what: &str, pick: impl Fn(&Heard) -> Option<T>) -> T {
        let end = Instant::now() + SOON;
        let mut heard = self.shared.heard.lock().unwrap();
        loop {
            if let Some(found) = pick(&heard) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "did not hear {what}; records {:#?}",
                heard.records
            );
            heard = self.shared.changed.wait_timeout(heard, left).unwrap().0;
        }
    }

    /// Waits for a report.
    pub fn report(&self, what: &str, pick: impl Fn(&Report) -> bool) -> Report {
        self.hear(what, |message| match message {
            FromAgent::Report { report, .. } if pick(report) => Some(report.clone()),
            _ => None,
        })
    }

    /// Waits until a job is gone.
    pub fn cleaned(&self, job: u32) {
        self.report(
            "Cleaned",
            |report| matches!(report, Report::Cleaned { job: of, .. } if *of == JobId(job)),
        );
    }

    /// Waits for the `count`th Hello.
    pub fn hello(&self, count: usize) -> NodeHello {
        let end = Instant::now() + SOON;
        loop {
            let hellos = self.heard(|message| match message {
                FromAgent::Hello { hello, .. } => Some(hello.clone()),
                _ => None,
            });
            if let Some(hello) = hellos.get(count - 1) {
                return hello.clone();
            }
            assert!(Instant::now() < end, "no Hello number {count}");
            let heard = self.shared.heard.lock().unwrap();
            drop(
                self.shared
                    .changed
                    .wait_timeout(heard, Duration::from_millis(200))
                    .unwrap(),
            );
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

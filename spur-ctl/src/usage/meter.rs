//! Meters' streams: the greeting, batches and records in, acknowledgements and requests to measure more often out.
//!
//! A node has one stream that counts; a newer one ends the older. Batches are taken at once, each once. A record goes first to the
//! writer, if the planner is to know of it, then to the record's thread, and is acknowledged when it is durable there; while that
//! thread has no room, the stream is not read on. Credit falls when the thread lags, so that nodes spool instead.

mod session;

use super::Usage;
use crate::driver::Input;
use crate::links::greeting;
use crate::readers::Readers;
use session::Session;
use spur_core::id::NodeName;
use spur_core::time::Millis;
use spur_core::usage::words::FromMeter;
use spur_proto::door::Member;
use spur_proto::wire;
use spur_proto::wire::meter_server::{Meter, MeterServer};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// How long a meter may take to say who it is.
const GREETING_WAIT: Duration = Duration::from_secs(10);
/// The longest message of a meter (16 MiB): a keyframe of 65,536 series.
const MESSAGE_MAX: usize = 16 << 20;
/// The longest text in a greeting, in bytes.
const TEXT_MAX: usize = 256;
/// Most answers that wait for one meter.
const ANSWERS_MAX: usize = 16;

/// The service that meters connect to.
#[derive(Clone, Debug)]
pub struct Meters {
    pub(super) usage: Arc<Usage>,
    pub(super) readers: Arc<Readers>,
    pub(super) inbox: mpsc::Sender<Input>,
    token: Arc<[u8]>,
}

/// What a meter says of itself.
pub(super) struct Greeting {
    pub(super) node: NodeName,
    pub(super) epoch: (String, Millis),
}

impl Meters {
    /// A service that keeps what meters say in `usage` and tells the writer what the planner is to know.
    pub fn new(
        usage: Arc<Usage>,
        readers: Arc<Readers>,
        inbox: mpsc::Sender<Input>,
        token: Arc<[u8]>,
    ) -> Self {
        Self {
            usage,
            readers,
            inbox,
            token,
        }
    }

    /// As a gRPC service.
    pub fn server(self) -> MeterServer<Self> {
        MeterServer::new(self).max_decoding_message_size(MESSAGE_MAX)
    }

    fn check(
        &self,
        first: Option<wire::MeterMessage>,
        member: Option<&Member>,
    ) -> Result<Greeting, Status> {
        let first = first
            .ok_or_else(|| Status::invalid_argument("the stream ended before its greeting"))?;
        let first =
            FromMeter::try_from(first).map_err(|bad| Status::invalid_argument(bad.to_string()))?;
        let FromMeter::Hello {
            token,
            node,
            boot_id,
            epoch,
        } = first
        else {
            return Err(Status::invalid_argument(
                "the first message must be the greeting",
            ));
        };
        greeting::admit(&node, &token, (member, &self.token))?;
        if boot_id.len() > TEXT_MAX {
            return Err(Status::invalid_argument(format!(
                "node {node}: a boot id of {} bytes: at most {TEXT_MAX}",
                boot_id.len()
            )));
        }
        Ok(Greeting {
            node,
            epoch: (boot_id, epoch),
        })
    }
}

#[tonic::async_trait]
impl Meter for Meters {
    type ReportStream = Pin<Box<dyn Stream<Item = Result<wire::MeterAnswer, Status>> + Send>>;

    async fn report(
        &self,
        request: Request<Streaming<wire::MeterMessage>>,
    ) -> Result<Response<Self::ReportStream>, Status> {
        let member = greeting::member(&request);
        let mut from = request.into_inner();
        let first = tokio::time::timeout(GREETING_WAIT, from.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no greeting"))??;
        let greeting = self.check(first, member.as_ref())?;
        let (out, answers) = mpsc::channel(ANSWERS_MAX);
        let session = Session::begin(self.clone(), greeting, out).ok_or_else(|| {
            Status::resource_exhausted("too many nodes that the cluster does not know")
        })?;
        tokio::spawn(session.listen(from));
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }
}

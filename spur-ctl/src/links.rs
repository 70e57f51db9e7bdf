//! Agents' streams: the greeting, the token, words in, orders out.
//!
//! Each stream has a bounded queue of orders; when it is full the writer cuts the stream, and the agent is told everything anew
//! when it returns. Inward, a stream waits for the writer's inbox, so a busy writer slows agents down rather than losing reports.

pub(crate) mod greeting;

use crate::denials::Denials;
use crate::driver::{AgentInput, AgentWord, Input};
use spur_core::agent::order::{FromAgent, ToAgent};
use spur_core::id::{NodeId, NodeName};
use spur_proto::wire::link_server::{Link, LinkServer};
use spur_proto::wire::{AgentMessage, ControllerMessage};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// Most orders that wait for one agent.
const QUEUE_MAX: usize = 4096;
/// How long an agent may take to say who it is.
const GREETING_WAIT: Duration = Duration::from_secs(10);
/// The longest message of an agent (16 MiB).
const MESSAGE_MAX: usize = 16 << 20;
/// Most single refusals that are taken from one message; totals are exact all the same.
const DENIALS_MAX: usize = 1000;
/// An agent that says nothing for this long is taken for gone, however long the cluster waits for lost nodes.
const SILENCE_MIN: Duration = Duration::from_secs(30);

/// The service that agents connect to.
#[derive(Clone, Debug)]
pub struct Links {
    inbox: mpsc::Sender<Input>,
    denials: Arc<Denials>,
    token: Arc<[u8]>,
    sessions: Arc<AtomicU64>,
    silence: Duration,
}

impl Links {
    /// A service that passes agents' words to the writer. `node_timeout` in seconds.
    pub fn new(
        inbox: mpsc::Sender<Input>,
        denials: Arc<Denials>,
        token: Arc<[u8]>,
        node_timeout: u64,
    ) -> Self {
        let silence = Duration::from_secs(node_timeout).max(SILENCE_MIN);
        Self {
            inbox,
            denials,
            token,
            sessions: Arc::default(),
            silence,
        }
    }

    /// As a gRPC service.
    pub fn server(self) -> LinkServer<Self> {
        LinkServer::new(self).max_decoding_message_size(MESSAGE_MAX)
    }

    /// Reads a stream to its end.
    async fn listen(
        self,
        mut from: Streaming<AgentMessage>,
        name: NodeName,
        node: NodeId,
        session: u64,
    ) {
        let mut silent = false;
        let why = loop {
            let message = match tokio::time::timeout(self.silence, from.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => break "it closed its stream".to_owned(),
                Ok(Err(status)) => break status.message().to_owned(),
                Err(_) => {
                    silent = true;
                    break format!("it was silent for {:?}", self.silence);
                }
            };
            let word = match FromAgent::try_from(message) {
                Ok(said) => self.word(&name, said),
                Err(bad) => break bad.to_string(),
            };
            let Some(word) = word else { continue };
            if self
                .inbox
                .send(Input::Agent(AgentInput::Said {
                    node,
                    session,
                    word,
                }))
                .await
                .is_err()
            {
                return;
            }
        };
        tracing::info!(node = %name, "agent gone: {why}");
        self.inbox
            .send(Input::Agent(AgentInput::Gone {
                node,
                session,
                silent,
            }))
            .await
            .ok();
    }

    /// What of a message concerns the writer.
    fn word(&self, name: &NodeName, said: FromAgent) -> Option<AgentWord> {
        match said {
            FromAgent::Hello { .. } => {
                tracing::warn!(node = %name, "a second greeting on one stream is ignored");
                None
            }
            FromAgent::Report { number, report } => Some(AgentWord::Report { number, report }),
            FromAgent::Heartbeat {
                load_x100,
                free_mib,
            } => Some(AgentWord::Heartbeat {
                load_x100,
                free_mib,
            }),
            FromAgent::Denials {
                counts,
                mut events,
                rows,
            } => {
                let surplus = events.len().saturating_sub(DENIALS_MAX);
                events.drain(..surplus);
                self.denials.add(name, events);
                self.denials.add_rows(name, rows);
                (!counts.is_empty()).then_some(AgentWord::Denials { counts })
            }
            FromAgent::Fence {
                state,
                note,
                suffices,
                gpus_sick,
                gpu_notes,
                stuck,
            } => Some(AgentWord::Fence {
                state,
                note,
                suffices,
                gpus_sick,
                gpu_notes,
                stuck,
            }),
        }
    }
}

#[tonic::async_trait]
impl Link for Links {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<ControllerMessage, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let member = greeting::member(&request);
        let mut from = request.into_inner();
        let first = tokio::time::timeout(GREETING_WAIT, from.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no greeting"))??;
        let hello = greeting::check(first, member.as_ref(), &self.token)?;
        let name = hello.name.clone();
        let session = self.sessions.fetch_add(1, Ordering::Relaxed);
        let (out, orders) = mpsc::channel::<ToAgent>(QUEUE_MAX);
        let (admitted, answer) = oneshot::channel();
        let connected = AgentInput::Connected {
            session,
            hello: Box::new(hello),
            out,
            admitted,
        };
        let stopping = || Status::unavailable("the controller stops");
        self.inbox
            .send(Input::Agent(connected))
            .await
            .map_err(|_| stopping())?;
        let node = answer
            .await
            .map_err(|_| stopping())?
            .map_err(Status::unavailable)?;
        tokio::spawn(self.clone().listen(from, name, node, session));
        let orders = ReceiverStream::new(orders).map(|order| Ok(ControllerMessage::from(&order)));
        Ok(Response::new(Box::pin(orders)))
    }
}

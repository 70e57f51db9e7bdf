//! Commands over a Unix socket: a question, its answer, the next question. A client that goes away gives up its wait.
//!
//! A connection may be idle for as long as it likes; a question that has begun has to come, and an answer has to be read, within a
//! bound, and what is large takes a place (see [`super::places`]).

use super::accept::{Connection, Connections, Peer};
use super::auth;
use super::places::Places;
use crate::service::Service;
use spur_core::api;
use spur_proto::{client, envelope, reply, wire};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, split};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::StreamExt;

/// A question longer than this takes a place.
const LONG: usize = 64 << 10;
/// Long questions at once, in all and of one user.
const QUESTIONS: (usize, usize) = (8, 2);
/// Lists at once, in all and for one user.
const LISTS: (usize, usize) = (32, 8);
/// How long a question may take to come once its length is there.
const COMES_WITHIN: Duration = Duration::from_secs(10);
/// How long an answer may take to be read.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// What every connection shares.
struct Calls {
    service: Arc<Service>,
    questions: Places,
    lists: Places,
}

/// Answers until told to leave; then ends what waits for questions and lets answers go out.
pub async fn serve(
    mut connections: impl Connections,
    service: Arc<Service>,
    mut leave: watch::Receiver<bool>,
) {
    let mut open = JoinSet::new();
    let calls = Arc::new(Calls {
        service,
        questions: Places::new(QUESTIONS.0, QUESTIONS.1),
        lists: Places::new(LISTS.0, LISTS.1),
    });
    loop {
        let next = tokio::select! {
            next = connections.next() => next,
            // Those that ended are forgotten as they end.
            Some(_) = open.join_next() => continue,
            _ = leave.wait_for(|leave| *leave) => break,
        };
        match next {
            Some(Ok(connection)) => {
                let (calls, leave) = (Arc::clone(&calls), leave.clone());
                open.spawn(async move {
                    if let Err(e) = answer(connection, &calls, leave).await {
                        tracing::debug!("a client's connection: {e}");
                    }
                });
            }
            Some(Err(e)) => tracing::warn!("cannot take a connection: {e}"),
            None => break,
        }
    }
    drop(connections);
    while open.join_next().await.is_some() {}
}

/// One connection, question by question.
async fn answer(
    connection: Connection,
    calls: &Calls,
    mut leave: watch::Receiver<bool>,
) -> io::Result<()> {
    let peer = connection.peer().clone();
    let uid = peer.user.uid.0;
    let (mut from, mut to) = split(connection);
    loop {
        let len = tokio::select! {
            len = envelope::read_length(&mut from, client::REQUEST_MAX) => len?,
            _ = leave.wait_for(|leave| *leave) => return Ok(()),
        };
        let long = if len > LONG {
            Some(calls.questions.take(uid).await.ok_or_else(late)?)
        } else {
            None
        };
        let request = question(&mut from, len).await?;
        let list = match &request {
            Ok(request) if is_list(request) => Some(calls.lists.take(uid).await.ok_or_else(late)?),
            Ok(_) | Err(_) => None,
        };
        let reply = tokio::select! {
            reply = decide(&calls.service, &peer, request, list.is_some()) => reply,
            // Nothing may come before the answer: either the client has gone, or it speaks another protocol.
            _ = from.read_u8() => return Ok(()),
        };
        drop(long);
        let Some(reply) = reply else { return Ok(()) };
        let reply = reply?;
        let written = to.write_all(&reply);
        timeout(READ_WITHIN, written).await.map_err(|_| late())??;
        drop(list);
    }
}

fn late() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

type Question = Result<api::Request, api::Refusal>;

/// A question of this length. One that makes no sense is refused, for its sender to read.
async fn question(from: &mut (impl AsyncRead + Unpin), len: usize) -> io::Result<Question> {
    let body = envelope::read_body(from, len);
    let body = timeout(COMES_WITHIN, body).await.map_err(|_| late())??;
    let decoded = || {
        let message: wire::CallRequest = envelope::decode(&body)?;
        Ok(api::Request::try_from(message).map_err(|bad| api::Refusal {
            kind: api::RefusalKind::Invalid,
            text: bad.to_string(),
        }))
    };
    // What is long may have very many parts; others' calls go on meanwhile.
    if len > LONG {
        tokio::task::block_in_place(decoded)
    } else {
        decoded()
    }
}

/// Whether the answer grows with the cluster.
fn is_list(request: &api::Request) -> bool {
    matches!(
        request,
        api::Request::Jobs { .. }
            | api::Request::Nodes
            | api::Request::Cancel { .. }
            | api::Request::Accounting { .. }
            | api::Request::Usage { .. }
            | api::Request::IdleGpus
            | api::Request::State
    )
}

/// The answer as it is sent; none if the writer has stopped, for then it is not known what came of the request.
async fn decide(
    service: &Service,
    peer: &Peer,
    question: Question,
    list: bool,
) -> Option<io::Result<Vec<u8>>> {
    let answer = match question {
        Ok(request) => match auth::caller(service, peer).await {
            Ok(caller) => service.call(caller, request).await.ok()?,
            Err(refusal) => Err(refusal),
        },
        Err(refusal) => Err(refusal),
    };
    let sealed = || reply::seal(&answer, client::REPLY_MAX);
    // A list takes long to write down; others' calls go on meanwhile.
    Some(if list {
        tokio::task::block_in_place(sealed)
    } else {
        sealed()
    })
}

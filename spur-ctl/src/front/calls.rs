//! Commands over a Unix socket: a question, its answer, the next question. A client that goes away gives up its wait.

use super::accept::{Connection, accept};
use super::auth;
use super::socket::Bound;
use crate::service::Service;
use spur_core::api;
use spur_proto::{client, envelope, wire};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, split};
use tokio::net::unix::UCred;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

/// Answers until told to leave; then ends what waits for questions and lets answers go out.
pub async fn serve(bound: Bound, service: Arc<Service>, mut leave: watch::Receiver<bool>) {
    let mut connections = accept(bound);
    let mut open = JoinSet::new();
    loop {
        let next = tokio::select! {
            next = connections.next() => next,
            // Those that ended are forgotten as they end.
            Some(_) = open.join_next() => continue,
            _ = leave.wait_for(|leave| *leave) => break,
        };
        match next {
            Some(Ok(connection)) => {
                let (service, leave) = (Arc::clone(&service), leave.clone());
                open.spawn(async move {
                    if let Err(e) = answer(connection, &service, leave).await {
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
    service: &Service,
    mut leave: watch::Receiver<bool>,
) -> io::Result<()> {
    let peer = connection.peer()?;
    let (mut from, mut to) = split(connection);
    loop {
        let question = tokio::select! {
            question = envelope::read_async(&mut from, client::REQUEST_MAX) => question?,
            _ = leave.wait_for(|leave| *leave) => return Ok(()),
        };
        let reply = tokio::select! {
            reply = decide(service, peer, question) => reply,
            // Nothing may come before the answer: either the client has gone, or it speaks another protocol.
            _ = from.read_u8() => return Ok(()),
        };
        let Some(reply) = reply else { return Ok(()) };
        envelope::write_async(&mut to, &reply, client::REPLY_MAX).await?;
    }
}

/// The answer; none if the writer has stopped, for then it is not known what came of the request.
async fn decide(
    service: &Service,
    peer: UCred,
    question: wire::CallRequest,
) -> Option<wire::CallReply> {
    let answer = match api::Request::try_from(question) {
        Ok(request) => {
            let caller = auth::caller(service, peer).await;
            service.call(caller, request).await.ok()?
        }
        Err(bad) => Err(api::Refusal {
            kind: api::RefusalKind::Invalid,
            text: bad.to_string(),
        }),
    };
    Some(wire::CallReply::from(&answer))
}

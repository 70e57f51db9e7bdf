//! Where step clients (`srun`) connect: one message with a signed ticket, then the connection goes to the step's supervisor.

mod seats;

use crate::act::Failure;
use crate::agent::Input;
use crate::keys::Keys;
use crate::launch::Supervisor;
use crate::node::{Node, now};
use seats::Seats;
use spur_proto::frame::{read_frame_async, write_frame};
use spur_proto::ticket::Ticket;
use spur_proto::wire::{Ended, FromStep, Open, StepError, ToStep, from_step, to_step};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};

/// Connections that may be on their way in at once; further ones wait in the socket's own queue, and a user's that are more than
/// [`seats::USER_MAX`] are closed.
const INCOMING_MAX: usize = 512;

/// How long a client may take to send its first message.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client whose ticket is good.
#[derive(Debug)]
pub struct Visitor {
    /// What it may do.
    pub ticket: Ticket,
    open: Open,
    stream: std::os::unix::net::UnixStream,
}

impl Visitor {
    /// Starts its step with `start`, which takes its command and its connection; if that fails, the client hears why.
    pub fn start(
        self,
        start: impl FnOnce(&Open, OwnedFd) -> Result<Supervisor, Failure>,
    ) -> Result<Supervisor, Failure> {
        let cannot = |e: std::io::Error| Failure {
            why: format!("cannot hand on the client's connection: {e}"),
            node_fault: true,
        };
        let client = self.stream.as_fd().try_clone_to_owned().map_err(cannot)?;
        let outcome = start(&self.open, client);
        if let Err(failure) = &outcome {
            let why = failure.why.clone();
            self.refuse(&why);
        }
        outcome
    }

    /// Hands on its connection to a step that runs, with `attach`; if that fails, the client hears why.
    pub fn attach(self, attach: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<()>) {
        if let Err(error) = attach(self.stream.as_fd()) {
            self.refuse(&format!("cannot reach the step: {error}"));
        }
    }

    /// Tells the client that its step will not start.
    pub fn refuse(self, why: &str) {
        refuse(&self.stream, why);
    }
}

/// Two short messages on a connection that has carried nothing else. A client that does not take them learns it from the controller.
fn refuse(mut stream: &std::os::unix::net::UnixStream, why: &str) {
    let error = StepError {
        text: format!("error: {why}"),
        task_known: false,
        task: 0,
        refused: true,
    };
    for kind in [
        from_step::Kind::Error(error),
        from_step::Kind::Ended(Ended::default()),
    ] {
        if write_frame(&mut stream, &FromStep { kind: Some(kind) }).is_err() {
            return;
        }
    }
}

/// Opens the socket for every user of the machine.
pub fn listen(node: &Node) -> std::io::Result<UnixListener> {
    let path = &node.config.socket;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Takes clients until the process ends.
pub async fn serve(
    listener: UnixListener,
    node: Arc<Node>,
    keys: Arc<Keys>,
    inputs: mpsc::Sender<Input>,
) {
    let room = Arc::new(Semaphore::new(INCOMING_MAX));
    let seats = Seats::default();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: those of others come free.
                tracing::error!(%error, "cannot take a step's client");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let seat = stream
            .peer_cred()
            .ok()
            .and_then(|peer| seats.take(peer.uid()));
        let Some(seat) = seat else { continue };
        let (node, keys, inputs) = (Arc::clone(&node), Arc::clone(&keys), inputs.clone());
        tokio::spawn(async move {
            if let Some(visitor) = admit(stream, &node, &keys).await {
                drop(inputs.send(Input::Visitor(Box::new(visitor))).await);
            }
            drop((place, seat));
        });
    }
}

/// Reads the first message and checks the ticket against the node and against who the kernel says that the client is.
async fn admit(mut stream: UnixStream, node: &Node, keys: &Keys) -> Option<Visitor> {
    let first = tokio::time::timeout(PATIENCE, read_frame_async::<ToStep>(&mut stream)).await;
    let peer = stream.peer_cred();
    let stream = stream.into_std().ok()?;
    let open = match first {
        Ok(Ok(Some(ToStep {
            kind: Some(to_step::Kind::Open(open)),
        }))) => open,
        Ok(Ok(None)) => return None,
        Ok(Ok(Some(_))) | Ok(Err(_)) | Err(_) => {
            refuse(&stream, "first message of a step's client must be Open");
            return None;
        }
    };
    let ticket = keys
        .verify(&open.ticket, now())
        .map_err(|e| e.to_string())
        .and_then(|ticket| match peer {
            _ if ticket.node != node.config.node => {
                Err(format!("ticket is for node {}", ticket.node))
            }
            Ok(peer) if peer.uid() == ticket.uid.0 => Ok(ticket),
            Ok(peer) => Err(format!(
                "ticket is for user {}, not {}",
                ticket.uid,
                peer.uid()
            )),
            Err(error) => Err(format!("cannot tell who you are: {error}")),
        });
    match ticket {
        Ok(ticket) => Some(Visitor {
            ticket,
            open,
            stream,
        }),
        Err(why) => {
            tracing::warn!(why, "a step's client is refused");
            refuse(&stream, &why);
            None
        }
    }
}

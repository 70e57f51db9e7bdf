//! A client of the controller over a Unix socket.

use crate::convert::BadMessage;
use crate::wire;
use crate::wire::controller_client::ControllerClient;
use hyper_util::rt::TokioIo;
use spur_core::api::{Refusal, Reply, Request};
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// The longest reply that is read (256 MiB): a hundred thousand jobs listed at full length.
pub const REPLY_MAX: usize = 256 << 20;
/// The longest request that is sent (16 MiB); the controller has tighter bounds for each part.
pub const REQUEST_MAX: usize = 16 << 20;

/// Bytes in flight towards a client: a long list comes in few pieces.
const WINDOW: u32 = 4 << 20;

/// Why a call got no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nothing was sent: no such socket, nobody listens, or the address makes no sense. Safe to try again.
    #[error("cannot reach the controller at {address}: {cause}")]
    Unreachable {
        /// The address as given.
        address: String,
        /// What went wrong.
        cause: String,
    },
    /// The connection broke, or the answer made no sense: the request may or may not have been carried out.
    #[error("lost the controller: {0}")]
    Lost(String),
    /// The controller said no; nothing was done.
    #[error("refused: {kind:?}: {text}", kind = .0.kind, text = .0.text)]
    Refused(Refusal),
}

impl From<BadMessage> for CallError {
    fn from(bad: BadMessage) -> Self {
        Self::Lost(bad.to_string())
    }
}

/// A connection to the controller. Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    rpc: ControllerClient<Channel>,
}

/// The path of a `unix:/path` address.
pub fn unix_path(address: &str) -> Option<&Path> {
    address
        .strip_prefix("unix:")
        .map(Path::new)
        .filter(|path| path.is_absolute())
}

/// A gRPC channel over one Unix socket connection that is already made. It does not reconnect: when it breaks, connect anew.
pub async fn channel_over(stream: UnixStream) -> Result<Channel, tonic::transport::Error> {
    let stream = std::sync::Mutex::new(Some(TokioIo::new(stream)));
    let once = tower::service_fn(move |_: Uri| {
        let stream = stream.lock().ok().and_then(|mut slot| slot.take());
        std::future::ready(
            stream.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)),
        )
    });
    Endpoint::from_static("http://spur")
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_with_connector(once)
        .await
}

impl Client {
    /// Connects to `unix:/path`.
    pub async fn connect(address: &str) -> Result<Self, CallError> {
        let unreachable = |cause: String| CallError::Unreachable {
            address: address.to_owned(),
            cause,
        };
        let path: PathBuf = unix_path(address)
            .ok_or_else(|| unreachable("an address is unix:/absolute/path".to_owned()))?
            .to_owned();
        let stream = UnixStream::connect(path)
            .await
            .map_err(|e| unreachable(e.to_string()))?;
        let channel = channel_over(stream)
            .await
            .map_err(|e| unreachable(e.to_string()))?;
        let rpc = ControllerClient::new(channel)
            .max_decoding_message_size(REPLY_MAX)
            .max_encoding_message_size(REQUEST_MAX);
        Ok(Self { rpc })
    }

    /// Asks, and waits for the answer for as long as the controller takes. Dropping the future gives up the wait.
    pub async fn call(&self, request: &Request) -> Result<Reply, CallError> {
        let mut rpc = self.rpc.clone();
        let answer = rpc.call(wire::CallRequest::from(request)).await;
        let reply = answer
            .map_err(|status| CallError::Lost(status.message().to_owned()))?
            .into_inner();
        Result::<Reply, Refusal>::try_from(reply)?.map_err(CallError::Refused)
    }
}

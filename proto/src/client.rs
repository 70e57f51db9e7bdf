//! A client of the controller over a Unix socket.

use crate::convert::BadMessage;
use crate::reply::Jobs;
use crate::{envelope, reply, wire};
use hyper_util::rt::TokioIo;
use spur_core::api::{JobView, Refusal, RefusalKind, Reply, Request};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// The longest reply that is read (256 MiB): a hundred thousand jobs listed at full length.
pub const REPLY_MAX: usize = 256 << 20;
/// The longest request that is sent (8 MiB); the controller has tighter bounds for each part.
pub const REQUEST_MAX: usize = 8 << 20;

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

/// The way to the controller. Cheap to clone. Each call has a connection to itself; one that is free is used again.
#[derive(Clone, Debug)]
pub struct Client {
    address: Arc<str>,
    free: Arc<Mutex<Option<UnixStream>>>,
}

/// A connection for one question, from [`dial`].
#[derive(Debug)]
pub struct Line(std::os::unix::net::UnixStream);

impl From<std::os::unix::net::UnixStream> for Line {
    /// A connection to the controller that is there already.
    fn from(stream: std::os::unix::net::UnixStream) -> Self {
        Self(stream)
    }
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
    let stream = Mutex::new(Some(TokioIo::new(stream)));
    let once = tower::service_fn(move |_: Uri| {
        let stream = stream.lock().ok().and_then(|mut slot| slot.take());
        std::future::ready(stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)))
    });
    Endpoint::from_static("http://spur")
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_with_connector(once)
        .await
}

fn unreachable(address: &str, cause: impl ToString) -> CallError {
    CallError::Unreachable {
        address: address.to_owned(),
        cause: cause.to_string(),
    }
}

fn socket(address: &str) -> Result<&Path, CallError> {
    unix_path(address).ok_or_else(|| unreachable(address, "an address is unix:/absolute/path"))
}

fn lost(error: &io::Error) -> CallError {
    // It was never sent: see `envelope::seal`.
    if error.kind() == io::ErrorKind::InvalidInput {
        return CallError::Refused(Refusal {
            kind: RefusalKind::Invalid,
            text: format!("the request cannot be sent: {error}"),
        });
    }
    let closed = error.kind() == io::ErrorKind::UnexpectedEof;
    CallError::Lost(if closed {
        "it closed the connection".to_owned()
    } else {
        error.to_string()
    })
}

fn opened(body: &[u8]) -> Result<Reply, CallError> {
    let answer = reply::open(body).map_err(|e| lost(&e))?;
    answer?.map_err(CallError::Refused)
}

/// Asks one thing over a connection of its own, and waits on this thread for as long as the controller takes: for programs that ask
/// and end, which a runtime would only make slower.
pub fn ask(address: &str, request: &Request) -> Result<Reply, CallError> {
    ask_over(dial(address)?, request)
}

/// [`ask`] for jobs, which are read from the answer one by one.
pub fn ask_jobs(address: &str, request: &Request) -> Result<Jobs, CallError> {
    let body = body_over(dial(address)?, request)?;
    match reply::open_jobs(body).map_err(|e| lost(&e))? {
        Ok(Ok(jobs)) => Ok(jobs),
        Ok(Err(_)) => Err(CallError::Lost("an answer of another kind".to_owned())),
        Err(reply::Refused::No(refusal)) => Err(CallError::Refused(refusal)),
        Err(reply::Refused::Bad(bad)) => Err(bad.into()),
    }
}

/// The jobs of an answer, in turn. After an error there is no other.
pub fn each(jobs: &Jobs) -> impl Iterator<Item = Result<JobView, CallError>> {
    jobs.rows().map(|row| Ok(row.map_err(|e| lost(&e))??))
}

/// The first half of [`ask`]: what the controller has to do for a connection, it does while the question is still made.
pub fn dial(address: &str) -> Result<Line, CallError> {
    let stream = std::os::unix::net::UnixStream::connect(socket(address)?);
    stream.map(Line).map_err(|e| unreachable(address, e))
}

/// The second half of [`ask`].
pub fn ask_over(line: Line, request: &Request) -> Result<Reply, CallError> {
    opened(&body_over(line, request)?)
}

fn body_over(Line(mut stream): Line, request: &Request) -> Result<Vec<u8>, CallError> {
    envelope::write(&mut stream, &wire::CallRequest::from(request), REQUEST_MAX)
        .and_then(|()| envelope::read_bytes(&mut stream, REPLY_MAX))
        .map_err(|e| lost(&e))
}

impl Client {
    /// Connects to `unix:/path`.
    pub async fn connect(address: &str) -> Result<Self, CallError> {
        let client = Self {
            address: address.into(),
            free: Arc::default(),
        };
        let stream = client.dial().await?;
        client.put(stream);
        Ok(client)
    }

    /// Asks, and waits for the answer for as long as the controller takes. Dropping the future gives up the wait.
    pub async fn call(&self, request: &Request) -> Result<Reply, CallError> {
        let mut stream = match self.take() {
            Some(stream) => stream,
            None => self.dial().await?,
        };
        let question = wire::CallRequest::from(request);
        let answer = async {
            envelope::write_async(&mut stream, &question, REQUEST_MAX).await?;
            let len = envelope::read_length(&mut stream, REPLY_MAX).await?;
            envelope::read_body(&mut stream, len).await
        };
        let body = answer.await.map_err(|e| lost(&e))?;
        self.put(stream);
        opened(&body)
    }

    async fn dial(&self) -> Result<UnixStream, CallError> {
        let stream = UnixStream::connect(socket(&self.address)?).await;
        stream.map_err(|e| unreachable(&self.address, e))
    }

    /// The free connection, unless the controller has closed it meanwhile.
    fn take(&self) -> Option<UnixStream> {
        let stream = self.lock().take()?;
        let alive =
            matches!(stream.try_read(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
        alive.then_some(stream)
    }

    fn put(&self, stream: UnixStream) {
        *self.lock() = Some(stream);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

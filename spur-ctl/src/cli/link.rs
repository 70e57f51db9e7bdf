//! The way to the controller, with Slurm's words for when there is none.

pub use super::address::address;
use super::render::data::Problem;
use spur_core::api::{JobView, Refusal, RefusalKind, Reply, Request};
use spur_core::id::JobId;
use spur_core::slurm::codes;
use spur_proto::client::{self, CallError, Client, Line};
use spur_proto::reply::Jobs;
use std::future::Future;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};

/// How often a command tries to reach a controller that is not there: it may be starting again. Ten seconds, as Slurm's commands
/// try by its `MessageTimeout`.
pub const CONNECT_TRIES: u32 = 20;
/// How often a step of a job that runs tries: a minute.
const STEP_TRIES: u32 = 120;
/// Pause between the tries.
pub const CONNECT_PAUSE: Duration = Duration::from_millis(500);
/// How often a wait for a job looks for a controller that went away, one second apart.
const WAIT_TRIES: u32 = 600;

/// Slurm's word for a controller that is not there.
pub const UNREACHABLE: &str = "Unable to contact slurm controller (connect failure)";
/// Slurm's word for a connection that broke; whether the request was carried out is not known.
const BROKEN: &str = "Zero Bytes were transmitted or received";

/// Why a request was not answered as hoped.
#[derive(Debug)]
pub enum Trouble {
    /// The controller is not there, or the connection broke.
    Contact(String),
    /// It said no.
    Refused(Refusal),
}

impl Trouble {
    /// Slurm's message.
    pub fn text(&self) -> String {
        match self {
            Self::Contact(text) => text.clone(),
            Self::Refused(refusal) => refusal_text(refusal),
        }
    }

    /// The same in a document.
    pub fn problem(&self) -> Problem {
        Problem {
            description: self.text(),
            source: super::process::command_name(),
            ..Problem::default()
        }
    }

    /// The kind of refusal, if it is one.
    pub fn kind(&self) -> Option<RefusalKind> {
        match self {
            Self::Contact(_) => None,
            Self::Refused(refusal) => Some(refusal.kind),
        }
    }
}

/// Slurm's message for a refusal; where Slurm has none, what the controller says.
pub fn refusal_text(refusal: &Refusal) -> String {
    let ours = matches!(
        refusal.kind,
        RefusalKind::Invalid | RefusalKind::NotDurable | RefusalKind::Busy
    );
    if ours && !refusal.text.is_empty() {
        return refusal.text.clone();
    }
    let message = codes::message(refusal.kind);
    if refusal.kind == RefusalKind::JobEnded && !refusal.text.is_empty() {
        return format!("{message}: {}", refusal.text);
    }
    message.to_owned()
}

/// Runs a command's asynchronous part on this thread. A process that may not even open the two or three files that takes says so
/// and ends. A local runtime is of one thread by its type: what runs many threads, and the mathematics library with it, stays out of
/// the program.
pub fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(e) => {
            super::output::complain(&[format!("error: cannot wait for events: {e}")]);
            std::process::exit(1)
        }
    }
}

/// Asks one thing, without a runtime: for commands that ask and end. Some patience while nobody listens, as a controller may be
/// starting again; nothing was sent then, so that it is safe to try again.
pub fn question(request: &Request) -> Result<Reply, Trouble> {
    until_reached(|address| client::ask(address, request))
}

/// [`question`], for those who want to know at once whether anybody is there, or can do without the answer.
pub fn question_once(request: &Request) -> Result<Reply, Trouble> {
    client::ask(&address(), request).map_err(trouble)
}

/// Asks for jobs that are read one by one with [`each`]: of a long list, most of the time would go to the memory of all.
pub fn jobs(request: &Request) -> Result<Jobs, Trouble> {
    until_reached(|address| client::ask_jobs(address, request))
}

fn until_reached<T>(ask: impl Fn(&str) -> Result<T, CallError>) -> Result<T, Trouble> {
    let address = address();
    let mut answer = ask(&address);
    for _ in 1..CONNECT_TRIES {
        let away = matches!(answer, Err(CallError::Unreachable { .. }));
        if !away || !may_come_back(&address) {
            break;
        }
        std::thread::sleep(CONNECT_PAUSE);
        answer = ask(&address);
    }
    answer.map_err(trouble)
}

/// Whether a controller can be expected at this address: at a path in a folder that is not even there, none has ever been.
fn may_come_back(address: &str) -> bool {
    let folder = client::unix_path(address).and_then(Path::parent);
    folder.is_some_and(Path::is_dir)
}

/// The jobs of an answer, in turn. After an error there is no other.
pub fn each(jobs: &Jobs) -> impl Iterator<Item = Result<JobView, Trouble>> {
    client::each(jobs).map(|job| job.map_err(trouble))
}

/// The cluster's name.
pub fn cluster_name() -> Result<String, Trouble> {
    let Reply::Pong { cluster, .. } = question(&Request::Ping)? else {
        return Err(unexpected());
    };
    Ok(cluster)
}

/// A connection for a question that is still to be made. None if nobody listens, or not yet.
pub fn ahead() -> Option<Line> {
    client::dial(&address()).ok()
}

/// [`question`] over a connection that is there, or else with some patience while nobody listens. Nothing was sent then, so that it
/// is safe to try again. A submission whose answer was lost is looked for before it is made again.
pub fn question_patiently(ahead: Option<Line>, request: &Request) -> Result<Reply, Trouble> {
    let address = address();
    let mut answer = match ahead {
        Some(line) => client::ask_over(line, request),
        None => client::ask(&address, request),
    };
    let find = request_id(request).map(|request_id| Request::Submission { request_id });
    let (mut lost, somewhere) = (false, is_somewhere());
    for _ in 1..CONNECT_TRIES {
        let again = match answer {
            Err(CallError::Unreachable { .. }) => somewhere,
            Err(CallError::Lost(_)) => find.is_some(),
            Err(CallError::Refused(_)) | Ok(_) => false,
        };
        if !again {
            break;
        }
        lost |= matches!(answer, Err(CallError::Lost(_)));
        std::thread::sleep(CONNECT_PAUSE);
        answer = match find.as_ref().filter(|_| lost) {
            Some(find) => match client::ask(&address, find) {
                Err(CallError::Refused(none)) if none.kind == RefusalKind::InvalidJobId => {
                    client::ask(&address, request)
                }
                found => found,
            },
            None => client::ask(&address, request),
        };
    }
    answer.map_err(trouble)
}

/// The number by which what came of a request can be found again.
fn request_id(request: &Request) -> Option<u64> {
    let spec = if let Request::Submit { spec, .. } | Request::Run { spec, .. } = request {
        spec.as_ref()
    } else if let Request::SubmitHet { specs, .. } | Request::RunHet { specs, .. } = request {
        specs.first()?
    } else {
        return None;
    };
    Some(spec.request_id).filter(|id| *id != 0)
}

/// See [`may_come_back`].
fn is_somewhere() -> bool {
    may_come_back(&address())
}

/// Connects once.
pub async fn connect() -> Result<Client, Trouble> {
    Client::connect(&address()).await.map_err(trouble)
}

/// Connects, with some patience. Nothing was sent before, so that it is safe to try again.
pub async fn connect_patiently() -> Result<Client, Trouble> {
    let mut tries = 1;
    loop {
        match connect().await {
            Ok(client) => return Ok(client),
            Err(trouble) if tries == CONNECT_TRIES || !is_somewhere() => return Err(trouble),
            Err(_) => {
                tries += 1;
                tokio::time::sleep(CONNECT_PAUSE).await;
            }
        }
    }
}

/// Connects and asks one thing.
pub async fn ask(request: &Request) -> Result<Reply, Trouble> {
    let client = connect().await?;
    call(&client, request).await
}

/// Asks over a connection.
pub async fn call(client: &Client, request: &Request) -> Result<Reply, Trouble> {
    client.call(request).await.map_err(trouble)
}

/// Asks something that only waits, again and again while the controller is away: it may be starting again.
pub async fn wait_for(request: &Request) -> Result<Reply, Trouble> {
    insist(request, WAIT_TRIES, Duration::from_secs(1)).await
}

/// Asks something that may be asked again though it was done already (a query; a step, by its request's number), for as long as a
/// controller may take to start again.
pub async fn ask_again(request: &Request) -> Result<Reply, Trouble> {
    insist(request, STEP_TRIES, CONNECT_PAUSE).await
}

/// Asks something last that may be asked again, for as long as a submission would try.
pub async fn settle(request: &Request) -> Result<Reply, Trouble> {
    insist(request, CONNECT_TRIES, CONNECT_PAUSE).await
}

async fn insist(request: &Request, tries: u32, pause: Duration) -> Result<Reply, Trouble> {
    for _ in 0..tries {
        match ask(request).await {
            Err(Trouble::Contact(_)) if is_somewhere() => tokio::time::sleep(pause).await,
            answer => return answer,
        }
    }
    ask(request).await
}

/// The job that came of a request whose answer was lost; `None` if none did.
pub async fn submitted(request: &Request) -> Result<Option<JobId>, Trouble> {
    let Some(request_id) = request_id(request) else {
        return Ok(None);
    };
    match ask_again(&Request::Submission { request_id }).await {
        Ok(Reply::Submitted { job, .. }) => Ok(Some(job)),
        Ok(_) => Err(unexpected()),
        Err(trouble) if trouble.kind() == Some(RefusalKind::InvalidJobId) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// An answer of a kind that the request does not have.
pub fn unexpected() -> Trouble {
    Trouble::Contact("Unexpected message received".to_owned())
}

fn trouble(error: CallError) -> Trouble {
    match error {
        // An address that is none can be told from a controller that is away.
        CallError::Unreachable { address, .. } if client::unix_path(&address).is_none() => {
            Trouble::Contact(format!(
                "{UNREACHABLE}: the address {address:?} is none: use unix:/absolute/path"
            ))
        }
        CallError::Unreachable { .. } => Trouble::Contact(UNREACHABLE.to_owned()),
        CallError::Lost(_) => Trouble::Contact(BROKEN.to_owned()),
        CallError::Refused(refusal) => Trouble::Refused(refusal),
    }
}

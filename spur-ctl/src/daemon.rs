//! `spurctld`: from a configuration file to a running controller, and to a clean stop.

use crate::config::{self, Config, Enforce};
use crate::driver::{self, Input, Parts};
use crate::error::DaemonError;
use crate::front::accept::{Connections, accept};
use crate::front::agents::Agents;
use crate::front::auth::Users;
use crate::front::calls;
use crate::front::door;
use crate::front::socket;
use crate::hooks::{self, ControllerPrograms};
use crate::links::Links;
use crate::mail;
use crate::service::{Service, Settings};
use crate::store::sqlite::Sqlite;
use crate::usage::meter::Meters;
use clap::Parser;
use spur_core::agent::programs::NodePrograms;
use spur_core::manage::Setting;
use spur_core::resources::MemoryRequest;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_stream::StreamExt as _;
use tonic::transport::Server;

/// Most threads that serve connections. The writer has its own.
const WORKERS_MAX: usize = 4;
/// How long answers may take to leave after the writer has stopped.
const FAREWELL: Duration = Duration::from_millis(300);
/// Most calls at once on one connection.
const STREAMS_MAX: u32 = 1024;
/// Bytes in flight on one connection: a long list goes out in few pieces.
const WINDOW: u32 = 4 << 20;

/// How long a lock may be held by a controller that was killed: the last of its threads may be writing to the disk.
const LOCK_WITHIN: Duration = Duration::from_secs(5);
/// Between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The controller of a spur cluster.
#[derive(Debug, Parser)]
#[command(name = "spurctld", version)]
struct Args {
    /// Configuration file.
    #[arg(short = 'f', long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
    config: PathBuf,
}

/// Runs the daemon with its arguments (without the program's name).
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = std::iter::once(OsString::from("spurctld")).chain(args);
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(e) => {
            let code = u8::try_from(e.exit_code()).unwrap_or(2);
            e.print().ok();
            return ExitCode::from(code);
        }
    };
    log();
    match run(&args.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Threads that serve connections: half of the processors. On two of them a second thread would only be woken to find nothing to do,
/// for every question; lists are written down beside these threads.
fn workers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, WORKERS_MAX)
}

/// Logs to standard error; `SPUR_LOG` chooses what, as `info` or `spur_ctl=debug`.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SPUR_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(ansi)
        .with_writer(std::io::stderr)
        // It would say on a full disk that the disk is full, and panic over that.
        .log_internal_errors(false)
        .try_init()
        .ok();
}

/// Runs a controller until it is told to stop.
pub fn run(path: &Path) -> Result<(), DaemonError> {
    let config = Config::read(path)?;
    let token: Arc<[u8]> = config.token()?.into();
    let _lock = lock(&config.state_dir)?;
    raise_file_limit();
    let store = Sqlite::open(&config.state_dir.join("spur.db"))?;
    let parts = driver::start(Box::new(store), &config, Arc::clone(&token))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()
        .map_err(|cause| DaemonError::System {
            what: "start the runtime",
            cause,
        })?;
    let served = runtime.block_on(serve((&config, path), token, parts));
    runtime.shutdown_timeout(FAREWELL);
    served
}

/// Makes the state folder, private, and makes sure that no other controller lives on it. The lock goes with the process.
fn lock(dir: &Path) -> Result<File, DaemonError> {
    use std::fs::Permissions;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
    let unusable = |cause| DaemonError::StateDir {
        path: dir.to_owned(),
        cause,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(unusable)?;
    // Private as well, in case the folder was there and is not: who can open it can lock it.
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(dir.join("lock"))
        .map_err(unusable)?;
    lock.set_permissions(Permissions::from_mode(0o600))
        .map_err(unusable)?;
    let end = Instant::now() + LOCK_WITHIN;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(DaemonError::Locked(dir.to_owned())),
            Err(TryLockError::Error(cause)) => return Err(unusable(cause)),
        }
    }
}

/// Each agent and each waiting client is a descriptor: take as many as the system gives.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(e) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("cannot raise the limit of open files: {e}");
    }
}

async fn serve(
    (config, file): (&Config, &Path),
    token: Arc<[u8]>,
    parts: Parts,
) -> Result<(), DaemonError> {
    let Parts {
        inbox,
        readers,
        denials,
        usage,
        letters,
        hooks: due,
        mut stopped,
        thread,
    } = parts;
    let shutdown = Arc::new(Notify::new());
    let users = Users::new(config.operators.clone());
    warn_of_unknown_operators(&users).await;
    let (to_writer, secret) = (inbox.clone(), Arc::clone(&token));
    let meters = Meters::new(Arc::clone(&usage), Arc::clone(&readers), to_writer, secret);
    let links = Links::new(
        inbox.clone(),
        Arc::clone(&denials),
        token,
        config.node_timeout,
    );
    let service = Service::new(
        inbox.clone(),
        readers,
        Arc::clone(&denials),
        Arc::clone(&usage),
        users,
        Arc::new(settings(config, file)),
        Arc::clone(&shutdown),
    );
    let (commands, agents) = fronts(config).await?;
    let (farewell, leave) = watch::channel(false);
    let mut servers = tokio::task::JoinSet::new();
    let programs = config.controller_programs.clone();
    servers.spawn(served(mail::send_all(config.mailer.clone(), letters)));
    servers.spawn(served(hooks::run_all(programs, due, inbox.clone())));
    let calls = calls::serve(commands, Arc::new(service), leave.clone());
    servers.spawn(served(calls));
    servers.spawn(server().serve_with_incoming_shutdown(
        Agents::new(links, meters),
        agents,
        told(leave),
    ));
    tracing::info!(cluster = config.cluster, socket = %config.client_socket.display(), "ready");

    let ended = tokio::select! {
        () = asked_to_stop(&shutdown) => None,
        ended = &mut stopped => Some(ended),
        Some(Ok(Err(failed))) = servers.join_next() => return Err(failed.into()),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => stop(&inbox, stopped).await,
    };
    farewell.send(true).ok();
    leave_all(servers).await;
    drop(thread.join());
    denials.close();
    usage.close();
    ended
        .unwrap_or_else(|_| Err("the writer panicked".to_owned()))
        .map_err(DaemonError::Writer)
}

/// Opens the sockets: connections of commands, and of agents, from this host and through the mesh.
async fn fronts(config: &Config) -> Result<(impl Connections, impl Connections), DaemonError> {
    let clients = socket::bind(&config.client_socket, 0o666).await?;
    let agents = socket::bind(&config.agent_socket, 0o600).await?;
    let door = match &config.door_socket {
        Some(path) => Some(socket::bind(path, 0o600).await?),
        None => None,
    };
    let door = door::open(door);
    let commands = accept(clients).merge(door.commands);
    Ok((commands, accept(agents).merge(door.agents)))
}

/// Tells the writer to stop, and waits until it has.
async fn stop<T>(
    inbox: &mpsc::Sender<Input>,
    stopped: oneshot::Receiver<T>,
) -> Result<T, oneshot::error::RecvError> {
    inbox.send(Input::Stop).await.ok();
    stopped.await
}

/// A server that cannot fail.
async fn served<E>(server: impl Future<Output = ()>) -> Result<(), E> {
    server.await;
    Ok(())
}

/// The writer has dropped every waiting call and stream; what was answered may still be on its way.
async fn leave_all<T: 'static>(mut servers: tokio::task::JoinSet<T>) {
    let left = async { while servers.join_next().await.is_some() {} };
    tokio::time::timeout(FAREWELL, left).await.ok();
}

/// What the service needs of the configuration.
fn settings(config: &Config, file: &Path) -> Settings {
    let enforces = |what: Enforce| config.accounting.enforce.contains(&what);
    Settings {
        file: file.to_owned(),
        associations: enforces(Enforce::Associations),
        qos: enforces(Enforce::Qos),
        shown: shown(config, file),
    }
}

/// What everybody may know of the configuration.
fn shown(config: &Config, file: &Path) -> Vec<Setting> {
    let enforce: Vec<&str> = [
        (Enforce::Associations, "associations"),
        (Enforce::Qos, "qos"),
    ]
    .iter()
    .filter(|(what, _)| config.accounting.enforce.contains(what))
    .map(|(_, word)| *word)
    .collect();
    let (per_cpu, per_node) = match config.default_memory {
        MemoryRequest::PerCpu(mib) => (mib, 0),
        MemoryRequest::PerNode(mib) => (0, mib),
        MemoryRequest::Default | MemoryRequest::PerGpu(_) => (0, 0),
    };
    let health = config.programs.health.as_ref();
    let all = [
        ("file", file.display().to_string()),
        ("state_dir", config.state_dir.display().to_string()),
        ("min_job_age", config.min_job_age.to_string()),
        ("node_timeout", config.node_timeout.to_string()),
        ("max_array_size", config.max_array_size.to_string()),
        ("enforce", enforce.join(",")),
        ("default_mem_per_cpu", per_cpu.to_string()),
        ("default_mem_per_node", per_node.to_string()),
        (
            "health_program",
            health.map_or_else(String::new, |health| health.program.clone()),
        ),
        (
            "health_interval",
            health.map_or(0, |health| health.interval).to_string(),
        ),
        (
            "health_states",
            health.map_or_else(String::new, |health| health.states.join(",")),
        ),
        ("mail_prog", config.mailer.program().display().to_string()),
        (
            "mail_domain",
            config.mailer.domain.clone().unwrap_or_default(),
        ),
    ];
    let setting = |(key, value): (&str, String)| Setting {
        key: key.to_owned(),
        value,
    };
    all.into_iter()
        .chain(around_jobs(&config.programs))
        .chain(around_allocations(&config.controller_programs))
        .map(setting)
        .collect()
}

/// Programs that are run before and after jobs, each with its own setting, and their timeouts.
fn around_jobs(programs: &NodePrograms) -> impl Iterator<Item = (&'static str, String)> {
    let named = |key: &'static str| move |program: &String| (key, program.clone());
    let prolog = programs.prolog.iter().map(named("prolog"));
    let epilog = programs.epilog.iter().map(named("epilog"));
    prolog.chain(epilog).chain([
        ("prolog_timeout", programs.prolog_timeout.to_string()),
        ("epilog_timeout", programs.epilog_timeout.to_string()),
    ])
}

/// What the controller itself runs.
fn around_allocations(
    programs: &ControllerPrograms,
) -> impl Iterator<Item = (&'static str, String)> {
    let named = |key: &'static str| move |program: &PathBuf| (key, program.display().to_string());
    let prolog = programs.prolog.iter().map(named("controller_prolog"));
    prolog.chain(programs.epilog.iter().map(named("controller_epilog")))
}

async fn warn_of_unknown_operators(users: &Users) {
    for name in users.unknown_operators().await {
        tracing::warn!(%name, "an operator in the configuration is no user of this machine");
    }
}

fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
}

async fn told(mut leave: watch::Receiver<bool>) {
    leave
        .wait_for(|leave| *leave)
        .await
        .map(drop)
        .unwrap_or_default();
}

/// A signal, or an operator's request.
async fn asked_to_stop(shutdown: &Notify) {
    let (mut term, mut int) = match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) {
        (Ok(term), Ok(int)) => (term, int),
        (Err(e), _) | (_, Err(e)) => {
            tracing::warn!("cannot listen for signals: {e}");
            return shutdown.notified().await;
        }
    };
    tokio::select! {
        _ = term.recv() => tracing::info!("SIGTERM"),
        _ = int.recv() => tracing::info!("SIGINT"),
        () = shutdown.notified() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_around_jobs_are_settings_that_everybody_may_know() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("spur.toml");
        let text = "cluster = \"c\"\n[programs]\nprolog = [\"/a\", \"/b/*\"]\nepilog = \"/c\"\nepilog_timeout = 7\n[[partition]]\nname = \"p\"\n";
        std::fs::write(&file, text).unwrap();
        let all = shown(&Config::read(&file).unwrap(), &file);
        let of = |key: &str| {
            let own = all.iter().filter(|setting| setting.key == key);
            own.map(|setting| setting.value.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of("prolog"), ["/a", "/b/*"]);
        assert_eq!(of("epilog"), ["/c"]);
        assert_eq!(
            (of("prolog_timeout"), of("epilog_timeout")),
            (vec!["0".to_owned()], vec!["7".to_owned()])
        );
    }
}

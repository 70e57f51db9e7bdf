//! `spurd hollow`: many nodes in one process. They speak the real protocol and hold what they are told to hold, but run nothing:
//! for load tests of everything else.

mod made;
mod meter;
mod state;

use crate::config::Config;
use crate::discover::{survey, tree::Tree};
use crate::node::now;
use spur_core::agent::order::{FromAgent, ToAgent};
use spur_core::event::NodeHello;
use spur_core::id::NodeName;
use spur_core::node::FenceState;
use spur_core::time::Millis;
use spur_proto::client::channel_over;
use spur_proto::wire;
use spur_proto::wire::link_client::LinkClient;
use state::State;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// Nodes that share one connection, each with a stream of its own.
const NODES_PER_CONNECTION: usize = 50;

/// Most nodes of one process.
const NODES_MAX: u32 = 100_000;

/// Messages of a node on their way out.
const OUT_MAX: usize = 64;

/// How often each node says that it lives.
const BEAT: Duration = Duration::from_secs(30);

/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// Options of `spurd hollow`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// One node for each FOLDER/*/spurd.toml, with that file's name and declared inventory
    #[arg(conflicts_with_all = ["nodes", "prefix"])]
    pub folder: Option<PathBuf>,
    /// Without a folder: how many nodes, with the inventory that --config declares
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    pub nodes: u32,
    /// Their names: this and a number from 1
    #[arg(long, default_value = "n")]
    pub prefix: String,
    /// How long a batch step lasts; without it, until the job is ended
    #[arg(long)]
    pub job_seconds: Option<f64>,
}

/// Why hollow nodes cannot run.
#[derive(Debug, thiserror::Error)]
pub enum HollowError {
    /// No usable token.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// Names that no node may have.
    #[error("--prefix: {0}")]
    Name(#[from] spur_core::id::BadNodeName),
    /// Not a time.
    #[error("--job-seconds: {0}")]
    Seconds(#[from] std::time::TryFromFloatSecsError),
    /// The folder cannot be read.
    #[error("cannot read {folder}: {source}")]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The folder holds no node.
    #[error("{folder} holds no */spurd.toml")]
    Empty {
        /// Which.
        folder: PathBuf,
    },
    /// The event loop cannot start.
    #[error("cannot start the event loop: {0}")]
    Loop(#[from] std::io::Error),
}

/// Runs the nodes until the process is told to stop. `config` is the file of `--config`, read only without a folder.
pub fn run(config: &Path, args: &Args) -> Result<(), HollowError> {
    let (controller, token, nodes) = match &args.folder {
        Some(folder) => from_folder(folder)?,
        None => from_template(&Config::load(config)?, args)?,
    };
    let lasts = args
        .job_seconds
        .map(Duration::try_from_secs_f64)
        .transpose()?;
    let template = Arc::new(Template { token, lasts });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tracing::info!(
        nodes = nodes.len(),
        "hollow nodes: simulated, nothing runs on them"
    );
    runtime.block_on(async {
        let mut groups = JoinSet::new();
        let mut nodes = nodes.into_iter().peekable();
        while nodes.peek().is_some() {
            let group = nodes
                .by_ref()
                .take(NODES_PER_CONNECTION)
                .map(State::new)
                .collect();
            groups.spawn(keep_group(controller.clone(), Arc::clone(&template), group));
        }
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(())
    })
}

/// Where to connect, with which secret, as which nodes.
type Nodes = (PathBuf, String, Vec<Arc<NodeHello>>);

fn token(config: &Config) -> Result<String, HollowError> {
    Ok(String::from_utf8_lossy(&config.token()?).into_owned())
}

/// Nodes that differ in nothing but their names.
fn from_template(config: &Config, args: &Args) -> Result<Nodes, HollowError> {
    let hello = hello(config);
    let node = |number| -> Result<Arc<NodeHello>, HollowError> {
        let name = NodeName::new(format!("{}{number}", args.prefix))?;
        Ok(Arc::new(NodeHello {
            name,
            ..hello.clone()
        }))
    };
    let nodes = (1..=args.nodes).map(node).collect::<Result<_, _>>()?;
    Ok((config.controller.clone(), token(config)?, nodes))
}

/// A node for every configuration in a folder of folders.
fn from_folder(folder: &Path) -> Result<Nodes, HollowError> {
    let entries = std::fs::read_dir(folder).map_err(|source| HollowError::Folder {
        folder: folder.to_owned(),
        source,
    })?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path().join("spurd.toml")))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    let configs: Vec<Config> = files
        .iter()
        .map(|file| Config::load(file))
        .collect::<Result<_, _>>()?;
    let first = configs.first().ok_or_else(|| HollowError::Empty {
        folder: folder.to_owned(),
    })?;
    let nodes = configs
        .iter()
        .map(|config| Arc::new(hello(config)))
        .collect();
    Ok((first.controller.clone(), token(first)?, nodes))
}

/// What all nodes have in common.
#[derive(Debug)]
struct Template {
    token: String,
    lasts: Option<Duration>,
}

fn hello(config: &Config) -> NodeHello {
    let tree = Tree::new(Path::new("/"));
    let mut inventory = survey(&tree, &config.declare, &[]).inventory;
    inventory.simulated = true;
    inventory.features.clone_from(&config.features);
    NodeHello {
        name: config.node.clone(),
        inventory,
        boot_id: tree
            .line("proc/sys/kernel/random/boot_id")
            .unwrap_or_default(),
        boot_time: Millis(0),
        agent_start: now(),
        // Nothing runs, so nothing gets past a fence either.
        fence: FenceState::Fenced,
        fence_note: "hollow node: simulated, runs nothing".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        os: "hollow".into(),
        hostname: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        address: config.address(),
        jobs: Vec::new(),
        fence_suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        keeps_gpus: Some(true),
        stuck: Vec::new(),
    }
}

/// Keeps a group of nodes connected. Their states live through the connections.
async fn keep_group(controller: PathBuf, template: Arc<Template>, mut states: Vec<State>) {
    loop {
        match connect(&controller).await {
            Ok(channel) => {
                let mut nodes = JoinSet::new();
                for state in states.drain(..) {
                    nodes.spawn(one_link(channel.clone(), Arc::clone(&template), state));
                }
                while let Some(state) = nodes.join_next().await {
                    states.extend(state.ok());
                }
                tracing::warn!(
                    nodes = states.len(),
                    "the connection of a group of hollow nodes ended; connecting again"
                );
            }
            Err(error) => tracing::debug!(error, "hollow nodes cannot connect"),
        }
        sleep(PAUSE).await;
    }
}

async fn connect(controller: &Path) -> Result<Channel, String> {
    let stream = UnixStream::connect(controller)
        .await
        .map_err(|e| e.to_string())?;
    channel_over(stream).await.map_err(|e| e.to_string())
}

/// Begins a node's stream of made-up use; it ends when what this gives is dropped.
fn begin_metering(channel: &Channel, template: &Arc<Template>, state: &State) -> JoinSet<()> {
    let mut task = JoinSet::new();
    task.spawn(meter::keep(
        channel.clone(),
        Arc::clone(template),
        Arc::clone(state.shared_hello()),
        Arc::clone(state.metering()),
    ));
    task
}

/// One node's stream, from its Hello to its end; gives the node's state back.
async fn one_link(channel: Channel, template: Arc<Template>, mut state: State) -> State {
    // Ends with this link, whichever way that does.
    let _metering = begin_metering(&channel, &template, &state);
    let (out, rest) = mpsc::channel::<FromAgent>(OUT_MAX);
    let hello = NodeHello {
        jobs: state.jobs(),
        ..state.hello().clone()
    };
    let said = out
        .send(FromAgent::Hello {
            token: template.token.clone(),
            hello,
        })
        .await;
    if said.is_err() {
        return state;
    }
    let outgoing = ReceiverStream::new(rest).map(|message| wire::AgentMessage::from(&message));
    let mut client = LinkClient::new(channel).max_decoding_message_size(64 << 20);
    let mut incoming = match client.connect(outgoing).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => {
            tracing::debug!(node = %state.hello().name, why = status.message(), "refused");
            return state;
        }
    };
    state.forget_sent();
    let mut beat = Instant::now() + BEAT;
    loop {
        let wake = state.next_end().map_or(beat, |end| end.min(beat));
        let message = tokio::select! {
            message = incoming.message() => Some(message),
            () = sleep_until(wake) => None,
        };
        match message {
            Some(Ok(Some(message))) => match ToAgent::try_from(message) {
                Ok(order) => state.take(&order, Instant::now(), template.lasts),
                Err(error) => {
                    tracing::error!(%error, "the controller says what makes no sense");
                    return state;
                }
            },
            Some(Ok(None) | Err(_)) => return state,
            None => {}
        }
        let now = Instant::now();
        state.end_due(now, template.lasts);
        if now >= beat {
            beat = now + BEAT;
            if out
                .send(FromAgent::Heartbeat {
                    load_x100: 0,
                    free_mib: state.hello().inventory.memory_mib,
                })
                .await
                .is_err()
            {
                return state;
            }
        }
        for message in state.take_unsent() {
            if out.send(message).await.is_err() {
                return state;
            }
        }
    }
}

//! `spurd hollow`: many nodes in one process. They speak the real protocol and hold what they are told to hold, but run nothing:
//! for load tests of everything else.

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
    /// How many nodes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
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
pub enum Error {
    /// No usable token.
    #[error(transparent)]
    Config(#[from] crate::config::Error),
    /// Names that no node may have.
    #[error("--prefix: {0}")]
    Name(#[from] spur_core::id::BadNodeName),
    /// Not a time.
    #[error("--job-seconds: {0}")]
    Seconds(#[from] std::time::TryFromFloatSecsError),
    /// The event loop cannot start.
    #[error("cannot start the event loop: {0}")]
    Loop(#[from] std::io::Error),
}

/// Runs the nodes until the process is told to stop.
pub fn run(config: &Config, args: &Args) -> Result<(), Error> {
    let token = String::from_utf8_lossy(&config.token()?).into_owned();
    let lasts = args
        .job_seconds
        .map(Duration::try_from_secs_f64)
        .transpose()?;
    let template = Arc::new(Template {
        hello: hello(config),
        token,
        lasts,
    });
    let names: Vec<NodeName> = (1..=args.nodes)
        .map(|number| NodeName::new(format!("{}{number}", args.prefix)))
        .collect::<Result<_, _>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tracing::info!(
        nodes = args.nodes,
        prefix = args.prefix,
        "hollow nodes: simulated, nothing runs on them"
    );
    runtime.block_on(async {
        let mut groups = JoinSet::new();
        for group in names.chunks(NODES_PER_CONNECTION) {
            let states = group.iter().map(|name| State::new(name.clone())).collect();
            groups.spawn(keep_group(
                config.controller.clone(),
                Arc::clone(&template),
                states,
            ));
        }
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        Ok(())
    })
}

/// What all nodes have in common.
#[derive(Debug)]
struct Template {
    hello: NodeHello,
    token: String,
    lasts: Option<Duration>,
}

fn hello(config: &Config) -> NodeHello {
    let tree = Tree::new(std::path::Path::new("/"));
    let mut inventory = survey(&tree, &config.declare, &[]).inventory;
    inventory.simulated = true;
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
    }
}

/// Keeps a group of nodes connected. Their states live through the connections.
async fn keep_group(
    controller: std::path::PathBuf,
    template: Arc<Template>,
    mut states: Vec<State>,
) {
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

async fn connect(controller: &std::path::Path) -> Result<Channel, String> {
    let stream = UnixStream::connect(controller)
        .await
        .map_err(|e| e.to_string())?;
    channel_over(stream).await.map_err(|e| e.to_string())
}

/// One node's stream, from its Hello to its end; gives the node's state back.
async fn one_link(channel: Channel, template: Arc<Template>, mut state: State) -> State {
    let (out, rest) = mpsc::channel::<FromAgent>(OUT_MAX);
    let hello = NodeHello {
        name: state.name().clone(),
        jobs: state.jobs(),
        ..template.hello.clone()
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
            tracing::debug!(node = %state.name(), why = status.message(), "refused");
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
                    free_mib: template.hello.inventory.memory_mib,
                })
                .await
                .is_err()
            {
                return state;
            }
        }
        for message in state.to_send() {
            if out.send(message).await.is_err() {
                return state;
            }
        }
    }
}

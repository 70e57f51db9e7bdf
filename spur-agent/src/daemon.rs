//! Running the agent: facilities opened, tasks started, the loop run until a signal.

use anyhow::Context;
use spur_agent::agent::{Agent, INPUTS_MAX, Input};
use spur_agent::audit;
use spur_agent::clients;
use spur_agent::config::Config;
use spur_agent::discover::nvml;
use spur_agent::keys::Keys;
use spur_agent::link;
use spur_agent::node::{self, Node};
use spur_agent::watchdog;
use spur_core::node::FenceState;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Threads for slow work: one round of ending a job may wait for seconds, and a thousand jobs may end at once.
const SLOW_THREADS_MAX: usize = 64;

/// Runs the agent of this configuration until it is told to stop by `SIGTERM` or `SIGINT`.
pub(crate) fn run(config: Config) -> anyhow::Result<()> {
    let token = config.token()?;
    let lock = node::claim(&config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(SLOW_THREADS_MAX)
        .build()
        .context("starting the event loop")?;
    let ended = runtime.block_on(serve(config, token));
    // Slow work that is under way holds nothing that a later agent would not find.
    runtime.shutdown_background();
    drop(lock);
    ended
}

async fn serve(config: Config, token: Vec<u8>) -> anyhow::Result<()> {
    let (node, condition) = Node::open(config)?;
    say(&node, &condition);
    node.start_meter(&token);
    let node = Arc::new(node);
    let (inputs, queue) = mpsc::channel(INPUTS_MAX);
    let keys = Arc::new(Keys::new(Some(token)));
    let agent = Agent::adopt(
        Arc::clone(&node),
        condition,
        Arc::clone(&keys),
        audit::Buffer::default(),
        inputs.clone(),
    )?;
    watchdog::watch(Arc::clone(&node), inputs.clone()).context("starting the watchdog")?;
    let listener = clients::listen(&node)
        .with_context(|| format!("opening the socket {}", node.config.socket.display()))?;
    tokio::spawn(clients::serve(
        listener,
        Arc::clone(&node),
        keys,
        inputs.clone(),
    ));
    tokio::spawn(link::keep(node.config.controller.clone(), inputs.clone()));
    stop_on_signal(inputs.clone())?;
    if let Err(error) = spur_agent::uevents::watch(Arc::clone(&node), inputs) {
        tracing::warn!(%error, "devices that come and go are noticed at the next grant only");
    }
    agent.run(queue).await;
    if let Some(meter) = node.meter() {
        meter.stop();
    }
    Ok(())
}

/// What this node is, for its log.
fn say(node: &Node, condition: &node::Condition) {
    let inventory = &node.machine.inventory;
    tracing::info!(
        node = %node.config.node,
        cpus = inventory.cpus,
        memory_mib = inventory.memory_mib,
        gpus = inventory.gpus.len(),
        simulated = inventory.simulated,
        fence = ?condition.state,
        "this node"
    );
    if !condition.note.is_empty() {
        if node.accepts(condition.state) && condition.state != FenceState::Unfenced {
            tracing::warn!(why = condition.note, "the fence is not what it could be");
        } else {
            tracing::error!(why = condition.note, "the fence is not what it could be");
        }
    }
    let limits = node.unenforced();
    if !limits.is_empty() {
        tracing::warn!("{limits}");
    }
    for note in &node.machine.notes {
        tracing::warn!("{note}");
    }
}

fn stop_on_signal(inputs: mpsc::Sender<Input>) -> anyhow::Result<()> {
    let mut term = signal(SignalKind::terminate()).context("taking SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("taking SIGINT")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        drop(inputs.send(Input::Stop).await);
    });
    Ok(())
}

/// The child's answer about NVIDIA GPUs, for [`nvml::COMMAND`].
pub(crate) fn nvml_probe() {
    println!("{}", nvml::answer());
}

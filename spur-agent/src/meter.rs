//! What every job really uses: read on the node, streamed to the controller, kept until the controller has it.
//!
//! Three threads do it, none of them the agent's: the sampler reads and keeps the accounts (`sampler`, `account`), the stream sends
//! and spools (`stream`, `spool`), and each vendor's devices are looked at by a thread that may hang alone (`latest`). What belongs
//! to whom is known from the agent's own launches.

pub mod account;
pub mod bpf;
pub mod claims;
pub mod count;
pub mod device;
pub mod governor;
pub mod input;
pub mod kernel;
pub mod latest;
pub mod nvml;
pub mod outlet;
pub mod read;
pub mod ring;
pub mod sampler;
pub mod spool;
pub mod state;
pub mod stream;
#[cfg(test)]
pub(crate) mod testing;
pub mod watcher;
pub mod whose;
pub mod window;

use crate::cgroup::Cgroup;
use crate::discover::Identity;
use crate::discover::tree::Tree;
use crate::fence::mount::pins_of;
use crate::fence::node::chain;
use crate::node::{Node, now};
use claims::Board;
use input::{Feed, Input, JobBegins, StepBegins};
use kernel::{Kernel, NoKernel};
use latest::Latest;
use nvml::keeper::Keeper;
use nvml::words::Which;
use read::amd::AmdGpu;
use ring::Ring;
use sampler::{Ends, Sampler, Setup};
use spool::records::Records;
use spool::segments::Segments;
use spur_core::agent::order::JobOrder;
use spur_core::id::{JobId, StepKind};
use spur_core::resources::{Gpu, GpuVendor};
use spur_core::usage::words::Batch;
use state::Saved;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stream::{Courier, Identity as StreamIdentity, QUEUE_MAX, Shared};
use tokio::sync::mpsc;
use watcher::Watcher;

/// How long the removal of an ended job waits for its last numbers.
pub const FINAL_WITHIN: Duration = Duration::from_millis(500);

/// How long the agent's end waits for the meter's.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// Why nothing is metered.
#[derive(Debug, thiserror::Error)]
pub enum MeterError {
    /// The spool cannot be used.
    #[error("cannot use the spool {dir}: {source}")]
    Spool {
        /// Which folder.
        dir: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Its records cannot be read or written.
    #[error(transparent)]
    Records(#[from] crate::journal::JournalError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// The agent's hold on its meter. Calls never wait but where they say so.
#[derive(Clone, Debug)]
pub struct Handle {
    feed: Feed,
    kernel: Arc<dyn Kernel>,
    ring: Arc<Mutex<Ring>>,
}

impl Handle {
    /// A job is set up and holds its share from now on.
    pub fn job_begins(&self, order: &JobOrder, taken_over: bool) {
        let Some(here) = order.here() else { return };
        self.feed.send(Input::Job(Box::new(JobBegins {
            job: order.job,
            generation: order.generation,
            share: here.share.clone(),
            started: taken_over.then_some(order.started),
        })));
    }

    /// A step's group exists, and its first process is about to.
    pub fn step_begins(&self, job: JobId, step: StepKind, group: &Cgroup) {
        let cgroup = match group.id() {
            Ok(cgroup) => cgroup,
            Err(error) => return tracing::warn!(%job, %step, %error, "the step is not metered"),
        };
        // Before the first process, so that nothing of it is missed.
        if let Err(why) = self.kernel.add(cgroup) {
            tracing::warn!(%job, %step, why, "the kernel does not count for this step");
        }
        self.feed.send(Input::Step(Box::new(StepBegins {
            job,
            step,
            group: group.path().to_owned(),
            cgroup,
        })));
    }

    /// A step ended.
    pub fn step_ended(&self, job: JobId, step: StepKind) {
        self.feed.send(Input::StepEnded(job, step));
    }

    /// A job's groups are about to be removed. Waits until its last numbers were read, or [`FINAL_WITHIN`].
    pub fn job_ends(&self, job: JobId) {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        self.feed.send(Input::JobEnds(job, done));
        if wait.recv_timeout(FINAL_WITHIN) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!(%job, "the meter is late: the job's last numbers may be missing");
        }
    }

    /// Everything that an earlier agent left was named.
    pub fn taken_over(&self) {
        self.feed.send(Input::TakenOver);
    }

    /// Readings since a moment (milliseconds since boot), with those before it that a decoder needs.
    pub fn recent(&self, since: u64) -> Vec<Batch> {
        self.ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .since(since)
    }

    /// Hands over what is left, and waits a moment for that.
    pub fn stop(&self) {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        self.feed.send(Input::Stop(done));
        if wait.recv_timeout(STOP_WITHIN).is_err() {
            tracing::warn!("the meter does not stop in time");
        }
    }
}

/// Starts the meter of a node.
///
/// # Errors
/// The spool cannot be used, or a thread not be started.
pub fn start(node: &Node, token: &[u8]) -> Result<Handle, MeterError> {
    let config = &node.config;
    let dir = config.state_dir.join("spool");
    make_private(&dir).map_err(|source| MeterError::Spool {
        dir: dir.clone(),
        source,
    })?;
    let standins = config.declare.gpus.as_deref().unwrap_or_default();
    if let Err(error) = read::standin::make_all(standins) {
        tracing::warn!(%error, "stand-ins have no file to say how busy they are");
    }
    let (feed, inputs) = Feed::new();
    let (items, queue) = mpsc::channel(QUEUE_MAX);
    let shared = Arc::new(Shared::default());
    let ring = Arc::new(Mutex::new(Ring::default()));
    let kernel = kernel_of(node);
    let state_file = config.state_dir.join("meter");
    let saved = Saved::read(&state_file, &node.boot_id);
    let room = config.meter.spool_mib.saturating_mul(1 << 20);
    let segments = Segments::open(&dir, room).map_err(|source| MeterError::Spool {
        dir: dir.clone(),
        source,
    })?;
    let courier = Courier {
        identity: StreamIdentity {
            controller: config.controller.clone(),
            token: String::from_utf8_lossy(token).into_owned(),
            node: config.node.clone(),
            boot_id: node.boot_id.clone(),
            epoch: now(),
        },
        queue,
        feed: feed.clone(),
        shared: Arc::clone(&shared),
        records: Records::open(&dir.join("records"), &fresh_id())?,
        segments,
        state_file,
    };
    let ends = Ends {
        inputs,
        items,
        shared,
        ring: Arc::clone(&ring),
        board: Arc::default(),
    };
    let sources = watch(node, &kernel, &ends.board)?;
    let sampler = Sampler::new(setup(node), Arc::clone(&kernel), ends, sources, saved);
    run_courier(courier)?;
    spawn("meter", move || sampler.run())?;
    Ok(Handle { feed, kernel, ring })
}

/// The kernel's counts, if it counts.
fn kernel_of(node: &Node) -> Arc<dyn Kernel> {
    let config = &node.config;
    let level = u32::try_from(config.cgroup.components().count() + 1).unwrap_or(u32::MAX);
    let opened = crate::fence::mount::mount(config)
        .map_err(|error| chain(&error))
        .and_then(|()| bpf::Bpf::open(&pins_of(config), level));
    match opened {
        Ok(bpf) => Arc::new(bpf),
        Err(why) => {
            tracing::warn!(
                why,
                "the kernel does not count for jobs: their control groups' files tell what they can"
            );
            Arc::new(NoKernel)
        }
    }
}

/// Starts the threads that look at devices.
fn watch(
    node: &Node,
    kernel: &Arc<dyn Kernel>,
    board: &Arc<Board>,
) -> Result<Vec<Arc<Latest>>, MeterError> {
    let mut sources = Vec::new();
    let tree = Tree::new(&node.config.root);
    let real = node
        .machine
        .inventory
        .gpus
        .iter()
        .filter(|gpu| gpu.vendor != GpuVendor::Simulated);
    let gpus: Vec<Gpu> = real.cloned().collect();
    if !gpus.is_empty() {
        let latest = Arc::new(Latest::default());
        let watcher = Watcher {
            proc: tree.path("proc"),
            folder: node.config.cgroup.clone(),
            amd: AmdGpu::find(&tree, &node.machine.identities),
            tree,
            gpus,
            kernel: Arc::clone(kernel),
            latest: Arc::downgrade(&latest),
            board: Arc::clone(board),
        };
        spawn("meter-devices", move || watcher.run())?;
        sources.push(latest);
    }
    let nvidia: Vec<Which> = real_nvidia(node).collect();
    if !nvidia.is_empty() {
        let latest = Arc::new(Latest::default());
        let keeper = Keeper::new(nvidia, Arc::downgrade(&latest));
        spawn("meter-nvml", move || keeper.run())?;
        sources.push(latest);
    }
    Ok(sources)
}

/// NVIDIA's GPUs and MIG instances, by identity.
fn real_nvidia(node: &Node) -> impl Iterator<Item = Which> {
    let all = (0u32..).zip(&node.machine.identities);
    all.filter_map(|(index, identity)| match identity {
        Identity::Nvidia { uuid, pci } => Some(Which {
            index,
            uuid: uuid.clone(),
            pci: pci.clone(),
            part: false,
        }),
        // Its address is the whole GPU's, by which it must not be looked for.
        Identity::Mig { uuid, .. } => Some(Which {
            index,
            uuid: uuid.clone(),
            pci: String::new(),
            part: true,
        }),
        Identity::Amd { .. }
        | Identity::Drm { .. }
        | Identity::Declared { .. }
        | Identity::MigShared { .. } => None,
    })
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), MeterError> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(body).map(drop).map_err(MeterError::Thread)
}

fn run_courier(courier: Courier) -> Result<(), MeterError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(MeterError::Thread)?;
    spawn("meter-stream", move || runtime.block_on(courier.run()))
}

/// What a spool is called that begins now.
pub(crate) fn fresh_id() -> String {
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid");
    random.map_or_else(|_| now().0.to_string(), |text| text.trim().to_owned())
}

fn make_private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// What the sampler must know of the node.
fn setup(node: &Node) -> Setup {
    let inventory = &node.machine.inventory;
    let mut names = BTreeMap::new();
    let mut regions = BTreeMap::new();
    for (index, identity) in (0u32..).zip(&node.machine.identities) {
        match identity {
            Identity::Drm { device } => {
                let name = device.rsplit('/').next().unwrap_or_default().to_owned();
                regions.insert(name.clone(), index);
                names.insert(name, index);
            }
            // What it does for KFD goes past drm_sched, so that tells nothing of it.
            Identity::Amd {
                pci, partition: 0, ..
            } => drop(regions.insert(pci.clone(), index)),
            Identity::Amd { .. }
            | Identity::Nvidia { .. }
            | Identity::Declared { .. }
            | Identity::Mig { .. }
            | Identity::MigShared { .. } => {}
        }
    }
    let standins = inventory
        .gpus
        .iter()
        .filter(|gpu| gpu.vendor == GpuVendor::Simulated);
    let standins =
        standins.filter_map(|gpu| Some((gpu.index, read::standin::file(&gpu.files.first()?.path))));
    Setup {
        node: node.config.node.clone(),
        gpus: inventory.gpus.clone(),
        names,
        regions,
        standins: standins.collect(),
        policy: node.config.meter.policy(),
        groups: node.root.path().to_owned(),
        folder: node.config.cgroup.clone(),
        proc: node.config.root.join("proc"),
    }
}

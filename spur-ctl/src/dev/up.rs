//! `spur dev up`.

use super::config::{self, Machine};
use super::layout::{Layout, MARK, MARK_IN_OLD, MARK_NEW, OWN, names};
use super::{Up, daemon, default, down, failed, proc};
use crate::cli::failure::Failure;
use crate::cli::{link, output};
use spur_core::api::{NodeView, Reply, Request};
use spur_core::slurm::codes::node_state::{self, Base, State};
use spur_proto::client::Client;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// How long the controller may take to answer.
const CONTROLLER_WITHIN: Duration = Duration::from_secs(20);
/// How long the nodes may take to be idle, and a little more for each.
const NODES_WITHIN: Duration = Duration::from_secs(60);
/// See [`NODES_WITHIN`].
const EACH_NODE_WITHIN: Duration = Duration::from_millis(50);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of a log that an error shows.
const LOG_LINES: usize = 12;
/// Logs that an error shows.
const LOGS_SHOWN: usize = 2;
/// Programs in `bin` besides the commands'.
const DAEMONS: [&str; 2] = ["spurctld", "spurd"];

/// Starts a cluster. If that fails, nothing of it stays but its logs' last lines on stderr.
pub(super) fn up(wanted: &Up) -> Result<u8, Failure> {
    let layout = prepare(wanted)?;
    let mut daemons = Daemons {
        layout: &layout,
        running: Vec::new(),
    };
    match daemons.start(wanted) {
        Ok(nodes) => {
            output::print(&summary(&layout, &nodes));
            Ok(0)
        }
        Err(failure) => {
            let told = daemons.explain(failure);
            drop(daemons);
            if let Err(also) = down::remove(&layout) {
                return Err(Failure {
                    text: told.text + &also.text,
                    code: told.code,
                });
            }
            Err(told)
        }
    }
}

fn summary(layout: &Layout, nodes: &[NodeView]) -> String {
    let first = nodes.first().map(|node| &node.node.inventory);
    let gpus = first.map(|inventory| spur_core::slurm::gres::inventory(&inventory.gpus));
    format!(
        "Cluster dev is up: {} nodes, {} on each (simulated).\nNow: . {}\n",
        nodes.len(),
        gpus.unwrap_or_default(),
        layout.path("env").display()
    )
}

fn io(what: impl std::fmt::Display) -> impl Fn(std::io::Error) -> Failure {
    move |why| failed(format_args!("{what}: {why}"))
}

/// Makes the folder and every file in it.
fn prepare(wanted: &Up) -> Result<Layout, Failure> {
    let dir = &wanted.dir;
    let new = !dir.exists();
    fs::create_dir_all(dir).map_err(io(dir.display()))?;
    let layout = Layout::new(dir).map_err(io(dir.display()))?;
    if let Some(there) = OWN
        .iter()
        .map(|name| layout.path(name))
        .find(|path| path.exists())
    {
        return Err(failed(format_args!(
            "{} exists: a cluster is or was there; remove it with `spur dev down --dir {}`",
            there.display(),
            dir.display()
        )));
    }
    if !layout.fits_sockets() {
        return Err(failed(format_args!(
            "{}: too long for a Unix socket's path",
            dir.display()
        )));
    }
    if new {
        // Users must get in whatever the mask.
        fs::set_permissions(dir, Permissions::from_mode(0o755)).map_err(io(dir.display()))?;
    }
    let mark = if new { MARK_NEW } else { MARK_IN_OLD };
    write(&layout.path(MARK), mark, 0o644)?;
    if let Err(failure) = fill(&layout, wanted) {
        down::remove(&layout)?;
        return Err(failure);
    }
    Ok(layout)
}

fn fill(layout: &Layout, wanted: &Up) -> Result<(), Failure> {
    for name in ["bin", "log", "run", "nodes", "state"] {
        folder(&layout.path(name))?;
    }
    write(&layout.path("token"), &token()?, 0o600)?;
    let controller = config::controller(layout, wanted, Machine::here());
    write(&layout.controller_config(), &controller, 0o644)?;
    let bpffs = bpffs(layout);
    for (name, index) in names(wanted.nodes).iter().zip(0..) {
        folder(&layout.node(name))?;
        let text = config::node(layout, wanted, index, name, &bpffs);
        write(&layout.node_config(name), &text, 0o644)?;
    }
    links(layout)?;
    if wanted.default {
        default::claim(layout)?;
    }
    write(&layout.path("env"), &config::env(layout), 0o644)
}

fn folder(path: &Path) -> Result<(), Failure> {
    fs::create_dir(path).map_err(io(path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(io(path.display()))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut how = fs::File::options();
    how.write(true).create_new(true).mode(mode);
    let mut file = how.open(path).map_err(io(path.display()))?;
    file.write_all(text.as_bytes())
        .map_err(io(path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io(path.display()))
}

/// 256 bits, in hex.
fn token() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(io("/dev/urandom"))?;
    Ok(bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        + "\n")
}

/// The machine's BPF file system if it has one in its usual place, else one of the cluster's own.
fn bpffs(layout: &Layout) -> PathBuf {
    let usual = Path::new("/sys/fs/bpf");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is = |line: &str| {
        let mut words = line.split(' ');
        words.nth(4) == Some("/sys/fs/bpf") && line.contains(" - bpf ")
    };
    if mounts.lines().any(is) {
        usual.to_owned()
    } else {
        layout.path("bpf")
    }
}

fn links(layout: &Layout) -> Result<(), Failure> {
    let spur = std::env::current_exe().map_err(io("finding this program"))?;
    let link = |program: &Path, name: &str| {
        let link = layout.path("bin").join(name);
        symlink(program, &link).map_err(io(link.display()))
    };
    let commands = crate::cli::flags::Command::ALL.map(crate::cli::flags::Command::name);
    for name in commands.into_iter().chain(["spur"]) {
        link(&spur, name)?;
    }
    for name in DAEMONS {
        link(&daemon(name).map_err(failed)?, name)?;
    }
    // `man` looks beside the folders of PATH.
    let pages = crate::cli::tools::write_pages(&layout.path("man"));
    pages.map_err(|(path, why)| failed(format_args!("cannot write {path}: {why}")))
}

/// The daemons that were started.
struct Daemons<'a> {
    layout: &'a Layout,
    running: Vec<(String, Child)>,
}

impl Daemons<'_> {
    fn start(&mut self, wanted: &Up) -> Result<Vec<NodeView>, Failure> {
        let config = self.layout.controller_config();
        self.spawn(
            "spurctld",
            "spurctld",
            &[OsStr::new("--config"), config.as_os_str()],
        )?;
        link::run(async {
            let client = self.controller().await?;
            self.agents(wanted)?;
            self.idle(&client, wanted.nodes).await
        })
    }

    fn spawn(&mut self, log: &str, program: &str, args: &[&OsStr]) -> Result<(), Failure> {
        let program = self.layout.path("bin").join(program);
        let child = proc::start(self.layout, log, &program, args).map_err(io(program.display()))?;
        self.running.push((log.to_owned(), child));
        Ok(())
    }

    fn agents(&mut self, wanted: &Up) -> Result<(), Failure> {
        let all = names(wanted.nodes);
        if wanted.hollow {
            let folder = self.layout.path("nodes");
            let lasts = wanted
                .job_seconds
                .map(|secs| format!("--job-seconds={secs}"));
            let mut words = vec![OsStr::new("hollow"), folder.as_os_str()];
            words.extend(lasts.as_deref().map(OsStr::new));
            return self.spawn("hollow", "spurd", &words);
        }
        for name in &all {
            let config = self.layout.node_config(name);
            self.spawn(name, "spurd", &[OsStr::new("--config"), config.as_os_str()])?;
        }
        Ok(())
    }

    /// Waits until the controller answers.
    async fn controller(&mut self) -> Result<Client, Failure> {
        let address = format!("unix:{}", self.layout.client_socket().display());
        let deadline = Instant::now() + CONTROLLER_WITHIN;
        loop {
            if let Ok(client) = Client::connect(&address).await
                && matches!(client.call(&Request::Ping).await, Ok(Reply::Pong { .. }))
            {
                return Ok(client);
            }
            self.alive()?;
            if Instant::now() > deadline {
                return Err(failed("the controller does not answer"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until every node is there and idle.
    async fn idle(&mut self, client: &Client, wanted: u32) -> Result<Vec<NodeView>, Failure> {
        let deadline = Instant::now() + NODES_WITHIN + EACH_NODE_WITHIN * wanted;
        loop {
            let nodes = match client.call(&Request::Nodes).await {
                Ok(Reply::Nodes(nodes)) => nodes,
                Ok(_) | Err(_) => Vec::new(),
            };
            let idle = nodes.iter().filter(|node| is_idle(node)).count();
            if idle >= wanted as usize {
                return Ok(nodes.iter().map(|node| NodeView::clone(node)).collect());
            }
            self.alive()?;
            let refused = nodes.iter().find(|node| State::of(node).drain);
            if Instant::now() > deadline || refused.is_some() {
                return Err(failed(not_idle(&nodes, idle, wanted)));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether every daemon still runs.
    fn alive(&mut self) -> Result<(), Failure> {
        for (name, child) in &mut self.running {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(failed(format_args!("{name} ended: {status}")));
            }
        }
        Ok(())
    }

    /// Adds the last lines of every log that has something to say.
    fn explain(&mut self, failure: Failure) -> Failure {
        let mut text = failure.text;
        let mut wanted: Vec<&str> = Vec::new();
        let mut ended = 0;
        for (name, child) in &mut self.running {
            // Those that ended come first: they know why.
            if matches!(child.try_wait(), Ok(Some(_))) {
                wanted.insert(ended, name);
                ended += 1;
            } else {
                wanted.push(name);
            }
        }
        for name in wanted.iter().take(LOGS_SHOWN) {
            let path = self.layout.log(name);
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
            text.push_str(&format!("--- the end of {}\n", path.display()));
            last.iter()
                .for_each(|line| text.push_str(&format!("{line}\n")));
        }
        Failure {
            text,
            code: failure.code,
        }
    }
}

fn is_idle(node: &NodeView) -> bool {
    let state = State::of(node);
    state.base == Base::Idle && !state.drain && !state.completing && !state.silent
}

fn not_idle(nodes: &[std::sync::Arc<NodeView>], idle: usize, wanted: u32) -> String {
    let bad = nodes.iter().find(|node| !is_idle(node)).map(|node| {
        let (name, state) = (&node.node.name, node_state::long(node));
        format!("; {name} is {state}: {}", node_state::reason(node))
    });
    format!(
        "{idle} of {wanted} nodes are idle{}",
        bad.unwrap_or_default()
    )
}

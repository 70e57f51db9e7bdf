//! The files that the daemons read, and the one that users source.

use super::Up;
use super::layout::Layout;
use std::path::Path;

/// Memory of a real GPU of that model in MiB, so that the stand-in looks like one.
const GPU_MEMORY: [(&str, u64); 9] = [
    ("a100", 81_920),
    ("b200", 183_359),
    ("h100", 81_559),
    ("h200", 144_384),
    ("l40s", 46_068),
    ("mi250x", 65_536),
    ("mi300x", 196_608),
    ("mi325x", 262_144),
    ("v100", 32_768),
];
/// The same for any other model.
const GPU_MEMORY_OTHER: u64 = 81_920;
/// Default memory per CPU in MiB, where there is enough.
const MEMORY_PER_CPU: u64 = 1024;

/// A string in TOML's quotes.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// `spur.toml`.
pub(super) fn controller(layout: &Layout, wanted: &Up, machine: Machine) -> String {
    let cpus = u64::from(wanted.cpus.unwrap_or(machine.cpus)).max(1);
    let share = wanted.memory.unwrap_or(machine.memory_mib) / cpus;
    format!(
        "cluster = \"dev\"\n\
         state_dir = {}\n\
         client_socket = {}\n\
         agent_socket = {}\n\
         token_file = {}\n\
         default_mem_per_cpu = {}\n\
         \n\
         [[partition]]\n\
         name = \"gpu\"\n\
         default = true\n{}",
        path(&layout.path("state")),
        path(&layout.client_socket()),
        path(&layout.agent_socket()),
        path(&layout.path("token")),
        share.clamp(1, MEMORY_PER_CPU),
        wanted.shape.controller(wanted.nodes),
    )
}

/// What this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// CPUs.
    pub(super) cpus: u32,
    /// Memory in MiB.
    pub(super) memory_mib: u64,
}

impl Machine {
    /// Looks.
    pub(super) fn here() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Self {
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            memory_mib: kib.map_or(MEMORY_PER_CPU, |kib| kib / 1024),
        }
    }
}

/// A node's `spurd.toml`; `bpffs` is where the BPF file system is or will be.
pub(super) fn node(layout: &Layout, wanted: &Up, index: u32, name: &str, bpffs: &Path) -> String {
    let kernel = layout.kernel_name(name);
    let mut text = format!(
        "cluster = \"dev\"\n\
         node = {}\n\
         state_dir = {}\n\
         socket = {}\n\
         controller = {}\n\
         token_file = {}\n\
         cgroup = {}\n\
         bpffs = {}\n\
         pins = {}\n\
         require = \"fence\"\n",
        quoted(name),
        path(&layout.node(name).join("state")),
        path(&layout.node_socket(name)),
        quoted(&format!("unix:{}", layout.agent_socket().display())),
        path(&layout.path("token")),
        quoted(&kernel),
        path(bpffs),
        quoted(&kernel),
    );
    if let Some(seconds) = wanted.kill_wait {
        text.push_str(&format!("kill_wait = {seconds}\n"));
    }
    if let Some(seconds) = wanted.idle_after {
        text.push_str(&format!(
            "\n[meter]\nidle_after = {seconds}\nidle_grace = 0\n"
        ));
    }
    text.push_str(&declared(layout, wanted, index, name));
    text
}

/// The inventory: CPUs and memory only if the user says so, GPUs always, also that there are none.
fn declared(layout: &Layout, wanted: &Up, index: u32, name: &str) -> String {
    let mut text = String::from("\n[declare]\n");
    if let Some(cpus) = wanted.cpus {
        text.push_str(&format!("cpus = {cpus}\n"));
    }
    if let Some(mib) = wanted.memory {
        text.push_str(&format!("memory_mib = {mib}\n"));
    }
    text.push_str(&wanted.shape.declare());
    if wanted.gpus == 0 {
        text.push_str("gpus = []\n");
        return text;
    }
    let model = wanted.gpu_type.as_str();
    let known = GPU_MEMORY.iter().find(|(known, _)| *known == model);
    let memory = known.map_or(GPU_MEMORY_OTHER, |(_, mib)| *mib);
    let (major, minor) = layout.device(index, wanted.shape.devices(wanted.gpus));
    text.push_str(&format!(
        "\n[[declare.gpus]]\n\
         model = {}\n\
         count = {}\n\
         memory_mib = {}\n\
         {}dev_dir = {}\n\
         major = {major}\n\
         minor = {minor}\n",
        quoted(model),
        wanted.gpus,
        wanted.shape.memory(memory),
        wanted.shape.group(model),
        path(&layout.node(name).join("dev")),
    ));
    text
}

/// `env`, for a shell to source.
pub(super) fn env(layout: &Layout) -> String {
    let shell = |text: String| format!("'{}'", text.replace('\'', r"'\''"));
    let bin = shell(layout.path("bin").to_string_lossy().into_owned());
    let controller = shell(format!("unix:{}", layout.client_socket().display()));
    format!(
        "# To be sourced: makes the commands of this cluster the first on PATH.\n\
         SPUR_CONTROLLER={controller}\n\
         export SPUR_CONTROLLER\n\
         PATH={bin}:\"$PATH\"\n\
         export PATH\n"
    )
}

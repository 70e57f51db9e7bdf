//! `spurd doctor`: what this node has, what is fenced, and whether the fence holds, for people. Where no agent has run, it takes
//! away again what it set up.

use spur_agent::cgroup::{Root, limits};
use spur_agent::config::{Config, Require};
use spur_agent::discover::{self, tree::Tree};
use spur_agent::fence::classes::Fenced;
use spur_agent::fence::guarding::GuardReport;
use spur_agent::fence::node::{NodeFence, chain, pins_of};
use spur_agent::fence::{canary, node, probe, resolve};
use spur_agent::node::{Condition, accepts, agent_of_another_build, judge};
use spur_core::node::FenceState;
use spur_core::resources::{Gpu, GpuVendor};
use std::process::ExitCode;

/// Looks at everything and prints it. Fails when jobs could not be fenced here.
pub(crate) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    println!(
        "node          {} of cluster {} ({})",
        config.node,
        config.cluster,
        config.file.display()
    );
    let machine = discover::discover(config);
    let inventory = &machine.inventory;
    println!(
        "cpus          {} ({} sockets x {} cores x {} threads)",
        inventory.cpus, inventory.sockets, inventory.cores_per_socket, inventory.threads_per_core
    );
    println!("memory        {} MiB", inventory.memory_mib);
    let tree = Tree::new(&config.root);
    let devices = resolve::resolve(&tree, &machine, &config.declare, config.fence_infiniband);
    for (gpu, own) in inventory.gpus.iter().zip(&devices.own) {
        match own {
            Ok(files) => println!("gpu {:<3}       {}", gpu.index, describe(gpu, files)),
            Err(error) => println!("gpu {:<3}       CANNOT BE GRANTED: {error}", gpu.index),
        }
    }
    for note in &machine.notes {
        println!("note          {note}");
    }
    for fenced in &devices.fenced {
        match fenced {
            Fenced::Major(major) => println!("fenced        {major}:*"),
            Fenced::Device(major, minor) => {
                println!("fenced        {major}:{minor} (never granted)")
            }
        }
    }
    if let Some(pid) = agent_of_another_build(config) {
        // Opening the fence would put this build's program into the links of the jobs of a living agent.
        anyhow::bail!(
            "an agent of another build runs here (process {pid}); ask that one: /proc/{pid}/exe doctor --config {}",
            config.file.display()
        );
    }
    let fresh = !pins_of(config).exists();
    spur_agent::node::make_state_dir(config)?;
    let root = Root::open(&config.cgroup.to_string_lossy())?;
    println!("cgroup        {}", root.path().display());
    for missing in limits::unenforced(root.path()) {
        println!("not enforced  {}: {}", missing.limit, missing.why);
    }
    let proven = prove(config, &machine, &tree, &root);
    if fresh {
        crate::leftovers::clean(config)?;
    }
    Ok(verdict(config.require, proven))
}

/// The last two lines, and the exit code: whether jobs would be taken here.
fn verdict(require: Require, proven: Result<GuardReport, String>) -> ExitCode {
    let Condition { state, note } = judge(require, proven);
    let fence = match state {
        FenceState::Unfenced => "unfenced",
        FenceState::Fenced => "fenced",
        FenceState::Guarded => "guarded",
    };
    let good = accepts(require, state);
    let jobs = match (good, state) {
        (false, _) => "NO JOBS",
        (true, FenceState::Unfenced) => "jobs are NOT FENCED",
        (true, FenceState::Fenced) => "jobs are fenced",
        (true, FenceState::Guarded) => "jobs are fenced and guarded",
    };
    println!("require       \"{}\"; this node is {fence}", require.word());
    if note.is_empty() {
        println!("verdict       {jobs}");
    } else {
        println!("verdict       {jobs}: {note}");
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn describe(gpu: &Gpu, files: &[spur_core::resources::DeviceFile]) -> String {
    let vendor = match gpu.vendor {
        GpuVendor::Nvidia => "NVIDIA",
        GpuVendor::Amd => "AMD",
        GpuVendor::Drm => "DRM",
        GpuVendor::Simulated => "simulated",
    };
    let files: Vec<String> = files
        .iter()
        .map(|file| format!("{} ({}:{})", file.path, file.major, file.minor))
        .collect();
    let numa = gpu
        .numa
        .map(|numa| format!(" NUMA {numa}"))
        .unwrap_or_default();
    format!(
        "{vendor} {} {} {} {} MiB{numa}: {}",
        gpu.model,
        gpu.uuid,
        gpu.pci,
        gpu.memory_mib,
        files.join(", ")
    )
}

/// Opens the fence, looks at every pinned link through other code, lets a child of ours try the canary, and tries the guard.
fn prove(
    config: &Config,
    machine: &discover::Machine,
    tree: &Tree,
    root: &Root,
) -> Result<GuardReport, String> {
    let fence = node::open(config, machine).map_err(|e| chain(&e))?;
    println!(
        "program       id {} pinned below {}",
        fence.program_id(),
        pins_of(config).display()
    );
    let all_well = links(&fence, root);
    let canary = canary::make(tree, &config.state_dir).map_err(|e| chain(&e))?;
    println!(
        "canary        {} reaches the device table outside the fence",
        canary.display()
    );
    let proof = probe::run(root, &fence, &canary);
    if proof.is_ok() {
        println!("canary        refused inside the fence");
    }
    let guard = fence.raise_guard();
    for (hook, what) in &guard.programs {
        println!("guard         {hook}: {what}");
    }
    proof.map_err(|error| chain(&error)).and(all_well)?;
    Ok(guard)
}

/// Every job's fence, read back by aya.
fn links(fence: &NodeFence, root: &Root) -> Result<(), String> {
    let mut outcome = Ok(());
    for job in root.jobs().map_err(|e| chain(&e))? {
        let pin = format!("job_{job}");
        match fence.verify(&pin, &root.job_path(job)) {
            Ok(proof) => println!(
                "job {job:<9} fenced by link {} of program {}",
                proof.link_id, proof.program_id
            ),
            Err(error) => {
                println!("job {job:<9} NOT FENCED: {}", chain(&error));
                outcome = Err(format!("job {job} is not fenced"));
            }
        }
    }
    outcome
}

//! `spurd doctor`: what this node has, what is fenced, and whether the fence holds, for people. It changes nothing of jobs and
//! their fences, and takes away again what it set up itself.

mod made;

use made::Made;
use spur_agent::cgroup::{Root, limits};
use spur_agent::config::{Config, Require};
use spur_agent::discover::{self, Machine, tree::Tree};
use spur_agent::fence::classes::Fenced;
use spur_agent::fence::guarding::GuardReport;
use spur_agent::fence::node::{NodeFence, chain, pins_of};
use spur_agent::fence::{canary, node, probe, resolve};
use spur_agent::node::{Condition, accepts, agent_of_another_build, judge};
use spur_core::id::JobId;
use spur_core::node::FenceState;
use spur_core::resources::{DeviceFile, Gpu, GpuVendor};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

/// Looks at everything and prints it. Fails when jobs could not be fenced here.
pub(crate) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "doctor looks into the fence and tries it, which only root may: run it as root"
    );
    let mut out = std::io::stdout().lock();
    let machine = discover::discover(config);
    let tree = Tree::new(&config.root);
    hardware(&mut out, config, &machine, &tree).map_err(name_output)?;
    if let Some(pid) = agent_of_another_build(config) {
        // Opening the fence would put this build's program into the links of the jobs of a living agent.
        anyhow::bail!(
            "an agent of another build runs here (process {pid}); ask that one: /proc/{pid}/exe doctor --config {}",
            config.file.display()
        );
    }
    let made = Made::look(config)?;
    let looked = look(&mut out, config, &machine, &tree, &made);
    made.undo()?;
    looked.map_err(name_output)
}

/// Says of a failed write what was written: only the report's lines fail with a bare error of input or output.
fn name_output(error: anyhow::Error) -> anyhow::Error {
    if error.is::<std::io::Error>() {
        error.context("writing what was found to standard output")
    } else {
        error
    }
}

/// What this node has, and what of it is fenced.
fn hardware(
    out: &mut impl Write,
    config: &Config,
    machine: &Machine,
    tree: &Tree,
) -> anyhow::Result<()> {
    let place = config.file.display();
    let (node, cluster) = (&config.node, &config.cluster);
    writeln!(out, "node          {node} of cluster {cluster} ({place})")?;
    let inventory = &machine.inventory;
    writeln!(
        out,
        "cpus          {} ({} sockets x {} cores x {} threads)",
        inventory.cpus, inventory.sockets, inventory.cores_per_socket, inventory.threads_per_core
    )?;
    writeln!(out, "memory        {} MiB", inventory.memory_mib)?;
    let devices = resolve::resolve(tree, machine, &config.declare, config.fence_infiniband);
    for (gpu, own) in inventory.gpus.iter().zip(&devices.own) {
        match own {
            Ok(own) => {
                let files: Vec<DeviceFile> = own
                    .iter()
                    .chain(devices.common_of(gpu.index))
                    .cloned()
                    .collect();
                writeln!(out, "gpu {:<3}       {}", gpu.index, describe(gpu, &files))?;
            }
            Err(error) => writeln!(out, "gpu {:<3}       CANNOT BE GRANTED: {error}", gpu.index)?,
        }
    }
    for note in &machine.notes {
        writeln!(out, "note          {note}")?;
    }
    for fenced in &devices.fenced {
        match fenced {
            Fenced::Major(major) => writeln!(out, "fenced        {major}:*")?,
            Fenced::Device(major, minor) => {
                writeln!(out, "fenced        {major}:{minor} (never granted)")?;
            }
        }
    }
    Ok(())
}

/// Whether the fence holds here.
fn look(
    out: &mut impl Write,
    config: &Config,
    machine: &Machine,
    tree: &Tree,
    made: &Made<'_>,
) -> anyhow::Result<ExitCode> {
    spur_agent::node::make_state_dir(config)?;
    let root = Root::open(&config.cgroup.to_string_lossy())?;
    writeln!(out, "cgroup        {}", root.path().display())?;
    for missing in limits::unenforced(root.path()) {
        writeln!(out, "not enforced  {}: {}", missing.limit, missing.why)?;
    }
    let proven = prove(out, config, (machine, tree), &root, made)?;
    verdict(out, config.require, proven)
}

/// The last two lines, and the exit code: whether jobs would be taken here.
fn verdict(
    out: &mut impl Write,
    require: Require,
    proven: Result<GuardReport, String>,
) -> anyhow::Result<ExitCode> {
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
    writeln!(
        out,
        "require       \"{}\"; this node is {fence}",
        require.word()
    )?;
    if note.is_empty() {
        writeln!(out, "verdict       {jobs}")?;
    } else {
        writeln!(out, "verdict       {jobs}: {note}")?;
    }
    out.flush()?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn describe(gpu: &Gpu, files: &[DeviceFile]) -> String {
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

/// Opens the fence, looks at every pinned link through other code, lets a child of ours try the canary, and tries the guard. The
/// inner value is the proof, or why there is none.
fn prove(
    out: &mut impl Write,
    config: &Config,
    (machine, tree): (&Machine, &Tree),
    root: &Root,
    made: &Made<'_>,
) -> std::io::Result<Result<GuardReport, String>> {
    let fence = match node::open_to_look(config, machine) {
        Ok(fence) => fence,
        Err(error) => return Ok(Err(chain(&error))),
    };
    let (id, pins) = (fence.program_id(), pins_of(config));
    writeln!(
        out,
        "program       id {id} pinned below {}{}",
        pins.display(),
        if made.has_pins() {
            " for this look"
        } else {
            ""
        }
    )?;
    let jobs = match root.jobs() {
        Ok(jobs) => jobs,
        Err(error) => return Ok(Err(chain(&error))),
    };
    let all_well = links(out, &fence, root, &jobs)?;
    let canary = match canary::make(tree, &config.state_dir) {
        Ok(canary) => canary,
        Err(error) => return Ok(Err(chain(&error))),
    };
    writeln!(
        out,
        "canary        {} reaches the device table outside the fence",
        canary.display()
    )?;
    let proof = probe::run(root, &fence, &canary);
    if proof.is_ok() {
        writeln!(out, "canary        refused inside the fence")?;
    }
    let guard = if made.has_pins() && !jobs.is_empty() {
        untried()
    } else {
        fence.raise_guard()
    };
    for (hook, what) in &guard.programs {
        writeln!(out, "guard         {hook}: {what}")?;
    }
    Ok(proof
        .map_err(|error| chain(&error))
        .and(all_well)
        .map(|()| guard))
}

/// A temporary guard knows no job's devices, so it would refuse running jobs their own.
fn untried() -> GuardReport {
    GuardReport {
        complete: false,
        summary: "not tried, since jobs run here that have no fence below these pins".into(),
        programs: Vec::new(),
    }
}

/// Every job's fence, read back by aya. The inner value says which is not there.
fn links(
    out: &mut impl Write,
    fence: &NodeFence,
    root: &Root,
    jobs: &BTreeSet<JobId>,
) -> std::io::Result<Result<(), String>> {
    let mut outcome = Ok(());
    for job in jobs {
        let pin = format!("job_{job}");
        match fence.verify(&pin, &root.job_path(*job)) {
            Ok(proof) => writeln!(
                out,
                "job {job:<9} fenced by link {} of program {}",
                proof.link_id, proof.program_id
            )?,
            Err(error) => {
                writeln!(out, "job {job:<9} NOT FENCED: {}", chain(&error))?;
                outcome = Err(format!("job {job} is not fenced"));
            }
        }
    }
    Ok(outcome)
}

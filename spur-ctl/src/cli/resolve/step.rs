//! Options of `srun` as a request for a step.

use super::super::failure::Failure;
use super::super::flags::getopt::{Options, Source};
use super::{combined, hosts, numbers};
use spur_core::job::step::{Sharing, StepSpec};
use spur_core::resources::{GpuCount, MemoryRequest};
use spur_core::slurm::distribution::canonical;

/// The last part of a command's path.
pub fn base_name(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or(command)
}

/// The only step of a job that `srun` asks for itself: all that the job has.
pub fn of_run(options: &Options, command: &str, request_id: u64) -> StepSpec {
    StepSpec {
        name: options
            .value("job-name")
            .unwrap_or_else(|| base_name(command))
            .to_owned(),
        request_id,
        plane: plane(options),
        ..StepSpec::default()
    }
}

/// A step within an allocation. Numbers from the environment describe the job, so they count only where the step says
/// nothing of its own.
pub fn of_allocation(
    options: &Options,
    command: &str,
    request_id: u64,
) -> Result<StepSpec, Failure> {
    let said = |long: &str| {
        options
            .last(long)
            .is_some_and(|g| g.source == Source::CommandLine)
    };
    let nodelist = hosts(options, "nodelist")?;
    let listed = u32::try_from(nodelist.len()).unwrap_or(u32::MAX);
    let nodes = match numbers::nodes(options)? {
        Some((min, _)) if said("nodes") => min.max(listed),
        Some(_) | None => listed,
    };
    let tasks = numbers::number(options, "ntasks", 1)?;
    let per_node = numbers::number(options, "ntasks-per-node", 0)?.unwrap_or(0);
    let per_node = if said("ntasks-per-node") { per_node } else { 0 };
    let tasks = tasks.unwrap_or(match (nodes, per_node) {
        (0, 0) => 0,
        (_, _) => nodes.saturating_mul(per_node.max(1)),
    });
    let for_tasks = said("gpus-per-task") || said("tres-per-task");
    let per_task = combined::gpus_per_task(options)?.filter(|_| for_tasks);
    // Without a number, a step may use all CPUs of the job on its nodes, unless it is to have only its own.
    let frugal = u32::from(options.on("exact") || said("exclusive"));
    Ok(StepSpec {
        name: if said("job-name") {
            options.value("job-name")
        } else {
            None
        }
        .unwrap_or_else(|| base_name(command))
        .to_owned(),
        tasks,
        nodes,
        cpus_per_task: numbers::number(options, "cpus-per-task", 1)?.unwrap_or(frugal),
        tasks_per_node: per_node,
        gpus_per_node: gpus(options, nodes, said)?,
        gpus_per_task: per_task,
        nodelist,
        exclude: hosts(options, "exclude")?,
        request_id,
        sharing: sharing(options, said("exclusive")),
        relative: relative(options)?,
        overcommit: options.on("overcommit"),
        plane: plane(options),
        patient: false,
        memory: memory(options)?,
    })
}

/// What is said of memory on the command line itself; what the environment says is the job's.
fn memory(options: &Options) -> Result<Option<MemoryRequest>, Failure> {
    let said = ["mem", "mem-per-cpu", "mem-per-gpu"].iter().any(|long| {
        let given = options.last(long);
        given.is_some_and(|given| given.source == Source::CommandLine)
    });
    said.then(|| numbers::memory(options)).transpose()
}

/// What the step shares with others. Without a word it shares what it does not ask for.
fn sharing(options: &Options, exclusive: bool) -> Sharing {
    if options.on("overlap") {
        Sharing::Everything
    } else if exclusive || options.on("exact") {
        Sharing::Nothing
    } else {
        Sharing::Unasked
    }
}

fn relative(options: &Options) -> Result<Option<u32>, Failure> {
    let relative = numbers::number(options, "relative", 0)?;
    if relative.is_some() && (options.on("nodelist") || options.on("exclude")) {
        let why = "-r,--relative not allowed with -w,--nodelist or -x,--exclude.";
        return Err(Failure::error(options.command, why));
    }
    Ok(relative)
}

/// How tasks are numbered over nodes, see [`StepSpec::plane`]. How they are spread within a node is all the same: each may use
/// every CPU of its step there.
fn plane(options: &Options) -> u32 {
    let text = options.value("distribution").unwrap_or_default();
    let text = text.to_ascii_lowercase();
    let nodes = text.split([',', ':']).next().unwrap_or_default();
    match nodes.strip_prefix("plane=") {
        Some(size) => size.parse().unwrap_or(0),
        None => u32::from(nodes == "cyclic"),
    }
}

/// What is said of a distribution that is not followed.
pub fn arbitrary(options: &Options) -> Vec<String> {
    let text = options.value("distribution").unwrap_or_default();
    let line = "srun: warning: --distribution=arbitrary: tasks are numbered node by node";
    let given = canonical(text).is_some_and(|spread| spread.starts_with("arbitrary"));
    given.then(|| line.to_owned()).into_iter().collect()
}

/// What is given to a step and means something only for a job: lines for stderr.
pub fn notices(options: &Options) -> Vec<String> {
    let jobs_only = ["mem", "mem-per-cpu", "mem-per-gpu", "constraint"];
    let said = |long: &&str| {
        options
            .last(long)
            .is_some_and(|g| g.source == Source::CommandLine)
    };
    let line =
        |long| format!("srun: warning: --{long} has no effect on a step: it has what its job has");
    let jobs_only = jobs_only.into_iter().filter(said).map(line);
    jobs_only.chain(arbitrary(options)).collect()
}

/// GPUs of the step on each node. A total is divided among the step's nodes.
fn gpus(
    options: &Options,
    nodes: u32,
    said: impl Fn(&str) -> bool,
) -> Result<Option<GpuCount>, Failure> {
    if said("gres") || said("gpus-per-node") {
        return numbers::gpus_per_node(options);
    }
    let Some(total) = numbers::gpus(options, "gpus")?.filter(|_| said("gpus")) else {
        return Ok(None);
    };
    let nodes = nodes.max(1);
    if total.count.is_multiple_of(nodes) {
        return Ok(Some(GpuCount {
            count: total.count / nodes,
            ..total
        }));
    }
    let why = format!(
        "--gpus: {} GPUs do not divide among {nodes} nodes; use --gres",
        total.count
    );
    Err(Failure::error(options.command, why))
}

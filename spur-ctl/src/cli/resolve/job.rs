//! Options of `sbatch`, `salloc` and `srun` as a request for a job.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::input::{LIMITS, Surroundings};
use super::placement::Placement;
use super::{combined, extras, hosts, invalid, numbers, values};
use spur_core::id::{Gid, Uid};
use spur_core::job::spec::{JobKind, JobSpec, Owner};
use spur_core::slurm::timespec::{self, begin};

/// What `--nice` means without a number.
const NICE: i32 = 100;
/// The most and, negative, the least (`NICE_OFFSET` less 3).
const NICE_MAX: i32 = 2_147_483_645;

/// Nodes and tasks, which depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    nodes: (u32, u32),
    nodes_set: bool,
    tasks: u32,
    tasks_set: bool,
    tasks_per_node: u32,
}

/// The request, and what is to be said of it on stderr.
pub fn spec(
    options: &Options,
    here: &Surroundings,
    name: &str,
    command: &str,
) -> Result<(JobSpec, Vec<String>), Failure> {
    values::check(options)?;
    let kind = kind(options.command);
    let mut nodelist = nodelist(options)?;
    let surplus = surplus(options, &mut nodelist)?;
    let (shape, mut warning) = shape(options, &nodelist)?;
    warning.splice(0..0, surplus);
    let text = |long| options.value(long).unwrap_or_default().to_owned();
    let placed = placed(Placement::of(options, here)?);
    combined::check(options)?;
    let cpus = combined::cpus_per_task(options)?;
    let files = kind != JobKind::Alloc;
    let file = |long| if files { text(long) } else { String::new() };
    let spec = JobSpec {
        kind,
        owner: nobody(here),
        name: options.value("job-name").unwrap_or(name).to_owned(),
        account: text("account"),
        partition: text("partition"),
        qos: text("qos"),
        comment: text("comment"),
        nodes_min: shape.nodes.0,
        nodes_max: shape.nodes.1,
        nodes_set: shape.nodes_set,
        tasks: shape.tasks,
        tasks_set: shape.tasks_set,
        tasks_per_node: shape.tasks_per_node,
        cpus_per_task: cpus.unwrap_or(1),
        cpus_per_task_set: cpus.is_some(),
        memory: numbers::memory(options)?,
        gpus_per_node: numbers::gpus_per_node(options)?,
        gpus_total: numbers::gpus(options, "gpus")?,
        gpus_per_task: combined::gpus_per_task(options)?,
        nodelist,
        exclude: hosts(options, "exclude")?,
        constraint: text("constraint"),
        exclusive: exclusive(options)?,
        time_limit: time_limit(options)?,
        begin: begin(options, here)?,
        hold: options.on("hold"),
        nice: nice(options)?,
        requeue: kind == JobKind::Batch && requeue(options),
        work_dir: work_dir(options, here),
        stdin: file("input"),
        stdout: file("output"),
        stderr: file("error"),
        append: files && append(options)?,
        export: if files { text("export") } else { String::new() },
        command: command.to_owned(),
        submit_host: here.host.clone(),
        submit_sid: here.session,
        prefer: text("prefer"),
        contiguous: options.on("contiguous"),
        array: text("array"),
        dependency: text("dependency"),
        kill_on_invalid_dep: kill_on_invalid_dep(options),
        extras: extras::of(options, here)?.boxed(),
        submit_line: here.submit_line.clone(),
        request_id: here.request_id,
        ..placed
    };
    Ok((combined::settled(options, tidied(spec))?, warning))
}

/// A request that says only where it is to be placed.
fn placed(placement: Placement) -> JobSpec {
    JobSpec {
        gpus_per_socket: placement.gpus_per_socket,
        tasks_per_gpu: placement.tasks_per_gpu,
        cpus_per_gpu: placement.cpus_per_gpu,
        gres_flags: placement.gres_flags,
        switches: placement.switches,
        tasks_per_socket: placement.tasks_per_socket,
        sockets_per_node: placement.sockets_per_node,
        mincpus: placement.mincpus,
        segment: placement.segment,
        ..JobSpec::default()
    }
}

fn work_dir(options: &Options, here: &Surroundings) -> String {
    let given = options.value("chdir").unwrap_or(".");
    here.absolute(given.trim_start_matches("./"))
}

/// `-D .` and the default are the working directory itself.
fn tidied(mut spec: JobSpec) -> JobSpec {
    if let Some(dir) = spec.work_dir.strip_suffix("/.") {
        spec.work_dir = if dir.is_empty() {
            "/".to_owned()
        } else {
            dir.to_owned()
        };
    }
    spec
}

/// The kind of job that a command submits.
fn kind(command: Command) -> JobKind {
    if command == Command::Sbatch {
        JobKind::Batch
    } else if command == Command::Salloc {
        JobKind::Alloc
    } else {
        JobKind::Run
    }
}

/// The owner's place; the controller fills in who the kernel says it is.
fn nobody(here: &Surroundings) -> Owner {
    Owner {
        uid: Uid(here.uid),
        gid: Gid(here.gid),
        groups: Vec::new(),
        user: String::new(),
        group: String::new(),
        home: String::new(),
        shell: String::new(),
    }
}

fn nodelist(options: &Options) -> Result<Vec<String>, Failure> {
    let mut listed = hosts(options, "nodelist")?;
    if listed.is_empty() && options.command != Command::Srun {
        listed = hosts(options, "nodefile")?;
    }
    let mut seen = std::collections::BTreeSet::new();
    listed.retain(|name| seen.insert(name.clone()));
    Ok(listed)
}

/// With `srun -N1 -w n1,n2` only the first are asked for, and it says so, as Slurm's does.
fn surplus(options: &Options, nodelist: &mut Vec<String>) -> Result<Option<String>, Failure> {
    let Some((_, most)) = numbers::nodes(options)? else {
        return Ok(None);
    };
    let (listed, kept) = (nodelist.len(), usize::try_from(most).unwrap_or(usize::MAX));
    if options.command != Command::Srun || listed <= kept {
        return Ok(None);
    }
    nodelist.truncate(kept);
    Ok(Some(format!(
        "srun: error: Required nodelist includes more nodes than permitted by max-node count ({listed} > {most}). Eliminating nodes from the nodelist."
    )))
}

fn shape(options: &Options, nodelist: &[String]) -> Result<(Shape, Vec<String>), Failure> {
    let nodes = numbers::nodes(options)?;
    let tasks = numbers::number(options, "ntasks", 1)?;
    let per_node = numbers::number(options, "ntasks-per-node", 0)?.unwrap_or(0);
    let listed = u32::try_from(nodelist.len()).unwrap_or(u32::MAX);
    let mut warnings = Vec::new();
    let (mut min, mut max) = match nodes {
        Some(range) => range,
        None => {
            let by_tasks = match (tasks, per_node) {
                (Some(tasks), 1..) => tasks.div_ceil(per_node),
                (_, _) => 1,
            };
            let min = by_tasks.max(listed);
            (min, min.max(tasks.unwrap_or(1)))
        }
    };
    if let Some(tasks) = tasks.filter(|tasks| nodes.is_some() && *tasks < min) {
        let command = options.command;
        warnings.push(format!(
            "{command}: warning: can't run {tasks} processes on {min} nodes, setting nnodes to {tasks}"
        ));
        (min, max) = (tasks, tasks.max(1));
    }
    let shape = Shape {
        nodes: (min, max.max(min)),
        nodes_set: nodes.is_some(),
        tasks: tasks.unwrap_or_else(|| min.saturating_mul(per_node.max(1))),
        tasks_set: tasks.is_some(),
        tasks_per_node: per_node,
    };
    Ok((shape, warnings))
}

/// `--exclusive[=user|mcs|topo]`: only the plain kind is known.
fn exclusive(options: &Options) -> Result<bool, Failure> {
    match options
        .last("exclusive")
        .map(|given| given.value.as_deref())
    {
        None => Ok(false),
        Some(None | Some("" | "1" | "yes" | "exclusive")) => Ok(true),
        Some(Some("user" | "mcs" | "topo")) => Err(Failure::error(
            options.command,
            "--exclusive: only whole nodes can be asked for",
        )),
        Some(Some(_)) => Err(invalid(options, "exclusive")),
    }
}

/// `--time`, of a job or of a step.
pub fn time_limit(options: &Options) -> Result<Option<spur_core::time::TimeLimit>, Failure> {
    let Some(text) = options.value("time") else {
        return Ok(None);
    };
    timespec::parse_limit(text)
        .map(Some)
        .map_err(|_| invalid(options, "time"))
}

fn begin(
    options: &Options,
    here: &Surroundings,
) -> Result<Option<spur_core::time::Millis>, Failure> {
    let Some(text) = options.value("begin") else {
        return Ok(None);
    };
    let at = begin::parse_begin(text, here.now, here.utc_offset)
        .map_err(|why| invalid(options, "begin").after_moment(&why))?;
    let deadline = extras::moment(options, here, "deadline")?;
    if deadline.is_some_and(|deadline| deadline < at) {
        let why = "Incompatible begin and deadline time specification";
        return Err(Failure::error(options.command, why));
    }
    Ok(Some(at))
}

/// `--kill-on-invalid-dep`, which only `sbatch` has.
fn kill_on_invalid_dep(options: &Options) -> Option<bool> {
    if options.command != Command::Sbatch {
        return None;
    }
    let word = options.value("kill-on-invalid-dep")?;
    Some(word.starts_with(['y', 'Y']))
}

fn nice(options: &Options) -> Result<i32, Failure> {
    let Some(given) = options.last("nice") else {
        return Ok(0);
    };
    let Some(text) = given.value.as_deref() else {
        return Ok(NICE);
    };
    match text.parse::<i64>() {
        Ok(nice) if nice.abs() <= i64::from(NICE_MAX) => {
            Ok(i32::try_from(nice).unwrap_or(NICE_MAX))
        }
        Ok(_) => {
            let why = format!("Invalid --nice value, out of range (+/- {NICE_MAX})");
            Err(Failure::usage(options.command, why))
        }
        Err(_) => Err(Failure::error(
            options.command,
            format!("Invalid numeric value \"{text}\" for --nice."),
        )),
    }
}

/// Jobs may be started again unless the user says no; of both options the last counts.
fn requeue(options: &Options) -> bool {
    let last = options
        .given()
        .iter()
        .rev()
        .find(|given| given.flag.long.ends_with("requeue"));
    last.is_none_or(|given| given.flag.long == "requeue")
}

/// `--open-mode`.
pub fn append(options: &Options) -> Result<bool, Failure> {
    match options
        .value("open-mode")
        .and_then(|mode| mode.chars().next())
    {
        None | Some('t' | 'T') => Ok(false),
        Some('a' | 'A') => Ok(true),
        Some(_) => Err(invalid(options, "open-mode")),
    }
}

/// The limits that `--propagate` lets through: all by default.
pub fn limits(options: &Options, here: &Surroundings) -> Result<Vec<(u32, u64)>, Failure> {
    let Some(list) = options.value("propagate") else {
        return Ok(here.rlimits.clone());
    };
    let mut wanted = Vec::new();
    for word in list.split(',').filter(|word| !word.is_empty()) {
        let name = word.trim_start_matches("RLIMIT_").to_ascii_uppercase();
        match name.as_str() {
            "ALL" => wanted.extend(LIMITS.iter().map(|(_, number)| *number)),
            "NONE" => wanted.clear(),
            name => match LIMITS.iter().find(|(known, _)| *known == name) {
                Some((_, number)) => wanted.push(*number),
                None => {
                    let why = format!("--propagate={list} is not valid.");
                    let first = format!("Bad rlimit name: {word}");
                    return Err(Failure::error(options.command, why).after(options.command, first));
                }
            },
        }
    }
    Ok(here
        .rlimits
        .iter()
        .filter(|(number, _)| wanted.contains(number))
        .copied()
        .collect())
}

#[cfg(test)]
mod tests;

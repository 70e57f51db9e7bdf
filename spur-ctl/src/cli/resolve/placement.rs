//! Options that say where in the cluster a job may be, and how its CPUs, GPUs and tasks lie together.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::input::Surroundings;
use super::{combined, invalid, numbers};
use spur_core::job::spec::{GresFlags, Switches};
use spur_core::resources::GpuCount;
use spur_core::slurm::timespec;
use spur_core::time::TimeLimit;

/// The largest `--segment`: Slurm keeps it in 16 bits, and the highest values mean something else.
const SEGMENT_MAX: u32 = 65_533;

/// See the module; 0 is "not given".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) gpus_per_socket: Option<GpuCount>,
    pub(super) tasks_per_gpu: u32,
    pub(super) cpus_per_gpu: u32,
    pub(super) gres_flags: GresFlags,
    pub(super) switches: Option<Switches>,
    pub(super) tasks_per_socket: u32,
    pub(super) sockets_per_node: u32,
    pub(super) mincpus: u32,
    pub(super) segment: u32,
}

impl Placement {
    /// Reads the options.
    pub(super) fn of(options: &Options, here: &Surroundings) -> Result<Self, Failure> {
        let number = |long| Ok(numbers::number(options, long, 1)?.unwrap_or(0));
        Ok(Self {
            gpus_per_socket: numbers::gpus(options, "gpus-per-socket")?,
            tasks_per_gpu: combined::tasks_per_gpu(options)?,
            cpus_per_gpu: combined::cpus_per_gpu(options)?,
            gres_flags: gres_flags(options)?,
            switches: switches(options, here)?,
            tasks_per_socket: number("ntasks-per-socket")?,
            sockets_per_node: number("sockets-per-node")?,
            mincpus: number("mincpus")?,
            segment: segment(options)?,
        })
    }
}

/// `--gres-flags`.
fn gres_flags(options: &Options) -> Result<GresFlags, Failure> {
    let mut flags = GresFlags::default();
    let command = options.command;
    let bad = |why: &str| Err(Failure::usage(command, why));
    let list = options.value("gres-flags").unwrap_or_default();
    for word in list.split(',').filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "allow-task-sharing" if command != Command::Srun => {
                return bad("--gres-flags=allow-task-sharing is only used with srun.");
            }
            "allow-task-sharing" => flags.allow_task_sharing = true,
            "disable-binding" => flags.disable_binding = true,
            "enforce-binding" => flags.enforce_binding = true,
            "multiple-tasks-per-sharing" => flags.multiple_tasks_per_sharing = true,
            "one-task-per-sharing" => flags.one_task_per_sharing = true,
            _ => return bad(&format!("Invalid --gres-flags specification: {word}")),
        }
    }
    if flags.disable_binding && flags.enforce_binding {
        return bad(
            "Invalid --gres-flags combo: disable-binding and enforce-binding are mutually exclusive.",
        );
    }
    if flags.multiple_tasks_per_sharing && flags.one_task_per_sharing {
        return bad(
            "Invalid --gres-flags combo: one-task-per-sharing and multiple-tasks-per-sharing are mutually exclusive.",
        );
    }
    if flags.one_task_per_sharing {
        return bad(
            "In order to use --gres-flags=one-task-per-sharing you must also have \
             SelectTypeParameters=MULTIPLE_SHARING_GRES_PJ in your slurm.conf",
        );
    }
    Ok(flags)
}

/// `--switches=COUNT[@TIME]`; without a time, a variable of its own may give one.
fn switches(options: &Options, here: &Surroundings) -> Result<Option<Switches>, Failure> {
    let Some(text) = options.value("switches") else {
        return Ok(None);
    };
    let (count, wait) = match text.split_once('@') {
        Some((count, wait)) => (count, Some(wait.to_owned())),
        None => (text, waited(options, here)),
    };
    let number = count.parse::<u32>().ok();
    let number = number.filter(|n| *n > 0 && *n < i32::MAX.unsigned_abs());
    let Some(count) = number else {
        let why = format!("Invalid numeric value \"{count}\" for --switches.");
        return Err(Failure::error(options.command, why));
    };
    // What is no time counts for nothing, as in Slurm.
    let limit = wait.and_then(|wait| timespec::parse_span(&wait).ok());
    let max_wait_secs = match limit {
        Some(TimeLimit::Secs(secs)) => Some(secs),
        Some(TimeLimit::Unlimited) | None => None,
    };
    Ok(Some(Switches {
        count,
        max_wait_secs,
    }))
}

/// `SBATCH_WAIT4SWITCH` and its like.
fn waited(options: &Options, here: &Surroundings) -> Option<String> {
    let name = format!("{}WAIT4SWITCH=", options.command.env_prefix());
    let mut values = here
        .env
        .iter()
        .filter_map(|entry| entry.strip_prefix(&name));
    values.next().filter(|v| !v.is_empty()).map(str::to_owned)
}

fn segment(options: &Options) -> Result<u32, Failure> {
    let Some(text) = options.value("segment") else {
        return Ok(0);
    };
    let number = text.parse().ok().filter(|number| *number <= SEGMENT_MAX);
    number.ok_or_else(|| invalid(options, "segment"))
}

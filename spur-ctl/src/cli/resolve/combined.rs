//! Options that exclude each other or follow from each other, as Slurm's commands check them before they ask.

use super::super::failure::Failure;
use super::super::flags::getopt::{Options, Source};
use super::numbers;
use spur_core::job::gpus::{self, BadGpus};
use spur_core::job::spec::JobSpec;
use spur_core::resources::GpuCount;
use spur_core::slurm::tres::{self, PerTask};

/// Where an option that counts was written: by the user, or in the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    User,
    Environment,
}

fn by(options: &Options, long: &str) -> Option<By> {
    let given = options.last(long)?;
    Some(match given.source {
        Source::Environment => By::Environment,
        Source::Component | Source::Script | Source::CommandLine => By::User,
    })
}

/// Options that exclude each other.
pub(super) fn check(options: &Options) -> Result<(), Failure> {
    let fatal = |why: String| Err(Failure::fatal(options.command, why));
    let per_gpu = by(options, "ntasks-per-gpu").or(by(options, "ntasks-per-tres"));
    if per_gpu.is_some() {
        for (long, variable) in [
            ("gpus-per-task", "SLURM_GPUS_PER_TASK"),
            ("gpus-per-socket", "SLURM_GPUS_PER_SOCKET"),
            ("ntasks-per-node", "SLURM_NTASKS_PER_NODE"),
        ] {
            let name = match by(options, long) {
                Some(By::User) => format!("--{long}"),
                Some(By::Environment) => variable.to_owned(),
                None => continue,
            };
            return fatal(format!(
                "{name} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
            ));
        }
    }
    if by(options, "exclusive") == Some(By::User) && by(options, "oversubscribe") == Some(By::User)
    {
        return fatal("--exclusive and --oversubscribe options are mutually exclusive".to_owned());
    }
    match (by(options, "core-spec"), by(options, "thread-spec")) {
        (Some(By::User), Some(By::User)) => {
            return fatal(
                "-S/--core-spec and --thred-spec options are mutually exclusive".to_owned(),
            );
        }
        (Some(By::Environment), Some(By::Environment)) => {
            let why = "Both --core-spec and --thread-spec set using environment variables. Those options are mutually exclusive.";
            return fatal(why.to_owned());
        }
        _ => {}
    }
    let cpus = (by(options, "cpus-per-task"), by(options, "cpus-per-gpu"));
    if cpus.0.is_some() && cpus.0 == cpus.1 {
        return fatal(
            "--cpus-per-task, --tres-per-task=cpu:#, and --cpus-per-gpu are mutually exclusive"
                .to_owned(),
        );
    }
    Ok(())
}

/// `--tres-per-task`.
fn per_task(options: &Options) -> Result<PerTask, Failure> {
    let text = options.value("tres-per-task").unwrap_or_default();
    tres::parse_per_task(text)
        .map_err(|why| super::invalid(options, "tres-per-task").after(options.command, why))
}

/// `--gpus-per-task`, or what `--tres-per-task` says of GPUs.
pub(super) fn gpus_per_task(options: &Options) -> Result<Option<GpuCount>, Failure> {
    Ok(numbers::gpus(options, "gpus-per-task")?.or(per_task(options)?.gpus))
}

/// `--cpus-per-task` or what `--tres-per-task` says of CPUs, unless it is only in the environment and the user wrote
/// `--cpus-per-gpu`.
pub(super) fn cpus_per_task(options: &Options) -> Result<Option<u32>, Failure> {
    let number = numbers::number(options, "cpus-per-task", 1)?.or(per_task(options)?.cpus);
    let loses = (by(options, "cpus-per-task"), by(options, "cpus-per-gpu"))
        == (Some(By::Environment), Some(By::User));
    Ok(number.filter(|_| !loses))
}

/// `--cpus-per-gpu`, unless it is only in the environment and the user wrote `--cpus-per-task`; 0 if not given.
pub(super) fn cpus_per_gpu(options: &Options) -> Result<u32, Failure> {
    let number = numbers::number(options, "cpus-per-gpu", 1)?;
    let loses = (by(options, "cpus-per-gpu"), by(options, "cpus-per-task"))
        == (Some(By::Environment), Some(By::User));
    Ok(number.filter(|_| !loses).unwrap_or(0))
}

/// `--ntasks-per-gpu` or `--ntasks-per-tres`, which mean the same; 0 if neither was given.
pub(super) fn tasks_per_gpu(options: &Options) -> Result<u32, Failure> {
    let (gpu, tres) = ("ntasks-per-gpu", "ntasks-per-tres");
    let value = |long| numbers::number(options, long, 1);
    let (of_gpu, of_tres) = (value(gpu)?, value(tres)?);
    let (Some(a), Some(b)) = (of_gpu, of_tres) else {
        return Ok(of_gpu.or(of_tres).unwrap_or(0));
    };
    match (by(options, gpu), by(options, tres)) {
        (Some(By::User), Some(By::Environment)) => Ok(a),
        (Some(By::Environment), Some(By::User)) => Ok(b),
        _ if a == b => Ok(a),
        (Some(By::Environment), _) => Err(Failure::fatal(
            options.command,
            format!(
                "Inconsistent values set by environment variables SLURM_NTASKS_PER_GPU={a} and SLURM_NTASKS_PER_TRES={b} "
            ),
        )),
        _ => Err(Failure::fatal(
            options.command,
            format!("Inconsistent values set to --ntasks-per-gpu={a} and --ntasks-per-tres={b} "),
        )),
    }
}

/// The request with what its GPUs say of nodes and tasks.
pub(super) fn settled(options: &Options, mut spec: JobSpec) -> Result<JobSpec, Failure> {
    let command = options.command;
    let settled = gpus::written(&spec).and_then(|()| gpus::settle(&mut spec));
    settled.map_err(|why| {
        if why == BadGpus::MixedModels {
            return Failure::error(command, why);
        }
        Failure::error(command, "Invalid generic resource (gres) specification").after(command, why)
    })?;
    Ok(spec)
}

#[cfg(test)]
mod tests;

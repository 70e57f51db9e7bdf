//! Components of a heterogeneous job or step on the command line, parted by lone colons, and in a script, parted by
//! `#SBATCH hetjob`.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::{Given, Options, Source, environment, parse};
use spur_core::job::het::COMPONENTS_MAX;
use spur_core::resources::IdSet;

/// Options that count for the components after the one that has them as well, until one has its own.
const HANDED_ON: [&str; 60] = [
    "account",
    "acctg-freq",
    "begin",
    "cluster-constraint",
    "clusters",
    "comment",
    "deadline",
    "delay-boot",
    "dependency",
    "disable-status",
    "epilog",
    "error",
    "exclude",
    "export",
    "export-file",
    "get-user-env",
    "gid",
    "hold",
    "ignore-pbs",
    "immediate",
    "input",
    "job-name",
    "jobid",
    "kill-on-bad-exit",
    "kill-on-invalid-dep",
    "label",
    "mail-type",
    "mail-user",
    "mcs-label",
    "mpi",
    "nice",
    "no-kill",
    "no-requeue",
    "open-mode",
    "output",
    "overlap",
    "parsable",
    "priority",
    "profile",
    "prolog",
    "propagate",
    "pty",
    "qos",
    "quiet",
    "quit-on-interrupt",
    "reboot",
    "requeue",
    "reservation",
    "signal",
    "slurmd-debug",
    "task-epilog",
    "task-prolog",
    "test-only",
    "time",
    "time-min",
    "unbuffered",
    "verbose",
    "wait",
    "wait-all-nodes",
    "wckey",
];

/// Variables of a job that count for a component only with its own number behind the name, where the components are told apart.
const OF_A_COMPONENT: [&str; 10] = [
    "SLURM_CPUS_PER_TASK",
    "SLURM_JOB_NUM_NODES",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NNODES",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_TRES_PER_TASK",
];

/// Parts a command line: options and command of each component. The first has the options of the environment already. [`settle`] is
/// for when all that the components have of their own is there.
pub fn split(
    mut options: Options,
    var: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Options>, Failure> {
    let mut all: Vec<Options> = Vec::new();
    loop {
        let command = options.command;
        let mut words = options.operands.iter();
        let colon = if command == Command::Srun {
            words.position(|word| word == ":")
        } else {
            words.next().filter(|word| *word == ":").map(|_| 0)
        };
        let Some(at) = colon else {
            all.push(options);
            break;
        };
        let rest = options.operands.split_off(at + 1);
        options.operands.truncate(at);
        all.push(options);
        options = parse(command, &rest, Source::CommandLine)?;
        options.merge(environment(command, &var));
        if all.len() >= COMPONENTS_MAX {
            let why = format!("a heterogeneous job has at most {COMPONENTS_MAX} components");
            return Err(Failure::error(command, why));
        }
    }
    Ok(all)
}

/// Hands on from component to component what counts for all, and the command backwards to those that have none.
pub fn settle(parts: &mut [Options]) {
    for at in 1..parts.len() {
        let (before, rest) = parts.split_at_mut(at);
        if let (Some(before), Some(next)) = (before.last(), rest.first_mut()) {
            hand_on(before, next);
        }
    }
    for at in (1..parts.len()).rev() {
        if parts[at - 1].operands.is_empty() {
            parts[at - 1].operands = parts[at].operands.clone();
        }
    }
}

/// Lays what a component hands on below what the next one has of its own.
fn hand_on(before: &Options, next: &mut Options) {
    let handed = before.given().iter();
    let handed = handed.filter(|given| HANDED_ON.contains(&given.flag.long));
    let handed = handed.map(|given| Given {
        source: Source::Component,
        ..given.clone()
    });
    let mut below = Options::none(next.command);
    below.extend(handed);
    next.merge(below);
}

/// What the environment of a job says to a component: where the components are told apart, of numbers only its own.
pub fn variable(name: &str, offset: u32, var: impl Fn(&str) -> Option<String>) -> Option<String> {
    if OF_A_COMPONENT.contains(&name) && var("SLURM_HET_SIZE").is_some() {
        return var(&format!("{name}_HET_GROUP_{offset}"));
    }
    var(name)
}

/// The components that the parts of an `srun` command line are for, within an allocation of so many; each with its part. Without
/// `--het-group` each part is for the component of its own number.
pub fn groups(parts: &[Options], size: Option<u32>) -> Result<Vec<(u32, usize)>, Failure> {
    let mut groups: Vec<(u32, usize)> = Vec::new();
    let error = |why: String| Failure::fatal(Command::Srun, why);
    for (at, part) in parts.iter().enumerate() {
        let own = part.last("het-group");
        let own = own.filter(|given| given.source != Source::Component);
        let Some(text) = own.and_then(|given| given.value.as_deref()) else {
            groups.push((u32::try_from(at).unwrap_or(u32::MAX), at));
            continue;
        };
        let bad = || error(format!("Invalid value for --het-group: {text}"));
        let named = text.trim_start_matches('[').trim_end_matches(']');
        let set: IdSet = named.parse().map_err(|_| bad())?;
        if set.is_empty() || set.len() as usize > COMPONENTS_MAX {
            return Err(bad());
        }
        groups.extend(set.iter().map(|group| (group, at)));
    }
    let most = size.map(|size| size.saturating_sub(1));
    if let Some((group, _)) = groups.iter().find(|(group, _)| *group > most.unwrap_or(0)) {
        let why = match most {
            Some(most) => format!(
                "Attempt to run a job step with het group value of {group}, but the job allocation has maximum value of {most}"
            ),
            None => "Attempt to run a job step with het group value in a non-heterogeneous job allocation".to_owned(),
        };
        return Err(Failure::error(Command::Srun, why));
    }
    let mut seen = std::collections::BTreeSet::new();
    if !groups.iter().all(|(group, _)| seen.insert(*group)) {
        return Err(error(
            "a component is named twice by --het-group".to_owned(),
        ));
    }
    groups.sort_unstable();
    Ok(groups)
}

#[cfg(test)]
mod tests;

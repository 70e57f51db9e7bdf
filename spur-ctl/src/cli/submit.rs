//! What `sbatch`, `salloc` and `srun` share when they ask for a job.

use super::failure::Failure;
use super::flags::getopt::Options;
use super::flags::{self, Command};
use super::link::{self, Trouble};
use super::resolve::notice::not_submitted;
use super::{output, process};
use spur_core::api::{RefusalKind, Reply, Request};
use spur_core::id::NodeName;
use spur_core::job::spec::JobSpec;
use spur_core::slurm::{hostlist, timespec};
use std::io::{IsTerminal as _, Read as _};

/// Texts of refusals that Slurm prints as a line of their own before the reason.
const FIRST_LINES: [&str; 3] = [
    "CPU count per node can not be satisfied",
    "Memory specification can not be satisfied",
    "Socket, core and/or thread specification can not be satisfied",
];

/// Kinds of dependencies.
const DEPENDENCIES: [&str; 7] = [
    "after",
    "afterany",
    "afterburstbuffer",
    "aftercorr",
    "afternotok",
    "afterok",
    "singleton",
];

/// Why the job was not taken, as the command words it. The controller's own sentence is added where it says more: always
/// for what Slurm has no words for, otherwise when the user wants to hear more (`-v`) or reads along on a terminal, since
/// programs compare what Slurm prints.
pub fn refused(command: Command, spec: &JobSpec, trouble: &Trouble, verbose: bool) -> Failure {
    let more = verbose || std::io::stderr().is_terminal();
    let failure = told(command, spec, trouble, more);
    if trouble.kind() == Some(RefusalKind::InvalidDependency) {
        let kinds = spec.dependency.split([',', '?']);
        let mut kinds = kinds.map(|word| word.split(':').next().unwrap_or_default());
        let wrong = kinds.find(|kind| !DEPENDENCIES.contains(kind));
        return match wrong {
            Some(wrong) => failure.nearest(wrong, DEPENDENCIES),
            None => failure,
        };
    }
    if trouble.kind() != Some(RefusalKind::InvalidPartition) {
        return failure;
    }
    let Ok(Reply::Partitions(known)) = link::question_once(&Request::Partitions) else {
        return failure;
    };
    failure.nearest(
        &spec.partition,
        known.iter().map(|known| known.name.as_str()),
    )
}

/// Says of an account or a quality that nobody keeps what the controller says to `sbatch`.
pub fn tell_unknown(command: Command, account: Option<&str>, qos: Option<&str>) {
    let given = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(str::to_owned);
    let (account, qos) = (given(account), given(qos));
    if account.is_none() && qos.is_none() {
        return;
    }
    let Ok(Reply::Accounts(accounts)) = link::question_once(&Request::Accounts) else {
        return;
    };
    let account = account.filter(|name| accounts.in_use() && accounts.account(name).is_none());
    let account = account.map(|name| {
        format!("there is no account {name}: the job is counted under that name all the same")
    });
    let qos = qos.filter(|name| accounts.quality(name).is_none());
    let qos = qos.map(|name| format!("there is no quality of service {name}: it has no effect"));
    let lines = account.into_iter().chain(qos);
    let lines: Vec<String> = lines
        .map(|line| format!("{command}: warning: {line}"))
        .collect();
    output::complain(&lines);
}

fn told(command: Command, spec: &JobSpec, trouble: &Trouble, more: bool) -> Failure {
    let failure = not_submitted(command, trouble.text());
    let Trouble::Refused(refusal) = trouble else {
        return failure;
    };
    let text = refusal.text.as_str();
    let bad_partition = refusal.kind == RefusalKind::InvalidPartition;
    let (first, _) = text.split_once('\n').unwrap_or((text, ""));
    let first_line = FIRST_LINES.contains(&first);
    let says_more = more && !text.is_empty() && *text != trouble.text();
    if bad_partition {
        let why = format!("invalid partition specified: {}", spec.partition);
        return failure.after(command, why);
    }
    if says_more {
        return failure.after(command, text);
    }
    if first_line {
        return failure.after(command, first);
    }
    failure
}

/// `--test-only`: says on stderr when and where the job would start. The exit code is 0 if it could.
pub fn test_only(command: Command, spec: &JobSpec, verbose: bool) -> Result<u8, Failure> {
    let request = Request::TestOnly {
        spec: Box::new(spec.clone()),
    };
    let more = verbose || std::io::stderr().is_terminal();
    let refused = |trouble: &Trouble| {
        let failure = Failure::plain(format!("allocation failure: {}", trouble.text()), 1);
        match trouble {
            Trouble::Refused(refusal) if more && !refusal.text.is_empty() => {
                failure.after(command, &refusal.text)
            }
            Trouble::Refused(_) | Trouble::Contact(_) => failure,
        }
    };
    let would = match link::question_patiently(None, &request) {
        Ok(Reply::WouldStart(would)) => would,
        Ok(_) => return Err(refused(&link::unexpected())),
        Err(trouble) => return Err(refused(&trouble)),
    };
    let nodes: Vec<&str> = would.nodes.iter().map(NodeName::as_str).collect();
    let line = format!(
        "{command}: Job {} to start at {} using {} processors on nodes {} in partition {}",
        would.job,
        process::clock().stamp(would.start),
        would.cpus,
        hostlist::compress(&nodes),
        would.partition
    );
    output::complain(&[line]);
    Ok(0)
}

/// Warnings, unless the user wants to hear of nothing.
pub fn warn(options: &Options, notices: &[String]) {
    if !options.on("quiet") {
        let command = options.command;
        let lines = notices
            .iter()
            .map(|notice| format!("{command}: warning: {notice}"));
        output::complain(&lines.collect::<Vec<_>>());
    }
}

/// With `-v`: every option that counts, with its value, as Slurm lists them.
pub fn tell_options(options: &Options) {
    if !options.on("verbose") {
        return;
    }
    let command = options.command;
    let mut told: Vec<(&str, String)> = Vec::new();
    for given in options.given() {
        let long = given.flag.long;
        let value = match (&given.value, long) {
            (_, "verbose") => options.count("verbose").to_string(),
            (Some(value), "time" | "time-min") => {
                timespec::parse_limit(value).map_or_else(|_| value.clone(), timespec::limit_long)
            }
            (None, "exclusive") => "exclusive".to_owned(),
            (None, "nice") => "100".to_owned(),
            (Some(value), _) => value.clone(),
            (None, _) => "set".to_owned(),
        };
        told.retain(|(name, _)| *name != long);
        told.push((long, value));
    }
    told.sort();
    let bar = format!("{command}: -------------------- --------------------");
    let mut lines = vec![format!("{command}: defined options"), bar.clone()];
    lines.extend(
        told.iter()
            .map(|(name, value)| format!("{command}: {name:<20}: {value}")),
    );
    lines.extend([bar, format!("{command}: end of defined options")]);
    if options.count("verbose") > 1 {
        let address = link::address();
        lines.push(format!(
            "{command}: debug:  asking the controller at {address}"
        ));
    }
    output::complain(&lines);
}

/// The longest file of node names that is read (4 MiB).
const NODE_FILE_MAX: u64 = 4 << 20;

/// Puts the names in place of the file that `-w` or `-F` names: as in Slurm, what has a slash in it is a file, with names parted
/// by commas or ends of lines.
pub fn read_node_files(options: &mut Options) -> Result<(), Failure> {
    for long in ["nodelist", "exclude", "nodefile"] {
        let file = if has(options.command, long) {
            options.value(long).map(str::to_owned)
        } else {
            None
        };
        let Some(file) = file.filter(|file| long == "nodefile" || file.contains('/')) else {
            continue;
        };
        let names = std::fs::File::open(process::path(&file)).and_then(|open| {
            let mut text = String::new();
            open.take(NODE_FILE_MAX).read_to_string(&mut text)?;
            Ok(text)
        });
        let names = names.map_err(|why| unread(options.command, long, &file, &why))?;
        let names: Vec<&str> = names.split(['\n', ',']).map(str::trim).collect();
        let list = joined(&names);
        options.replace(long, list);
    }
    Ok(())
}

/// Slurm's words for such a file that cannot be read.
fn unread(command: Command, long: &str, file: &str, why: &std::io::Error) -> Failure {
    let text = why.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let why = format!("slurm_allocate_resources error opening file {file}, {text}");
    if long == "nodefile" {
        Failure::usage(command, "Invalid --nodefile node file").after(command, why)
    } else {
        Failure::error(command, why)
    }
}

/// A comma between brackets parts numbers, not names: it is left alone, since what is split there is joined again.
fn joined(parts: &[&str]) -> String {
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.copied().collect::<Vec<_>>().join(",")
}

/// Whether a command has such an option.
fn has(command: Command, long: &str) -> bool {
    flags::rows(command).any(|flag| flag.named(long))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::api::Refusal;

    fn said(kind: RefusalKind, text: &str, more: bool) -> String {
        let refusal = Refusal {
            kind,
            text: text.to_owned(),
        };
        let spec = crate::cli::render::tests::samples::spec("job");
        told(Command::Sbatch, &spec, &Trouble::Refused(refusal), more).text
    }

    #[test]
    fn what_is_missing_is_said_to_people_and_slurms_words_to_programs() {
        let kind = RefusalKind::NodeConfigUnavailable;
        let never = "sbatch: error: Batch job submission failed: Requested node configuration is not available\n";
        let cpus = "CPU count per node can not be satisfied\nno node has 99 CPUs";
        let gpus = "no node has 9 GPUs";
        assert_eq!(
            said(kind, cpus, false),
            format!("sbatch: error: CPU count per node can not be satisfied\n{never}")
        );
        assert_eq!(
            said(kind, cpus, true),
            format!(
                "sbatch: error: CPU count per node can not be satisfied\nsbatch: error: no node has 99 CPUs\n{never}"
            )
        );
        assert_eq!(said(kind, gpus, false), never);
        assert_eq!(
            said(kind, gpus, true),
            format!("sbatch: error: {gpus}\n{never}")
        );
        assert_eq!(
            said(
                RefusalKind::InvalidPrefer,
                "no node has feature \"x\"",
                false
            ),
            "sbatch: error: Batch job submission failed: Invalid preferred feature specification\n"
        );
    }
}

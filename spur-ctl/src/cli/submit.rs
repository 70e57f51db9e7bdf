//! What `sbatch`, `salloc` and `srun` share when they ask for a job.

use super::failure::Failure;
use super::flags::getopt::Options;
use super::flags::{self, Command};
use super::link::Trouble;
use super::process;
use super::resolve::notice::not_submitted;
use spur_core::api::RefusalKind;
use spur_core::job::spec::JobSpec;
use std::io::{IsTerminal as _, Read as _};

/// Texts of refusals that Slurm prints as a line of their own before the reason.
const FIRST_LINES: [&str; 3] = [
    "CPU count per node can not be satisfied",
    "Memory specification can not be satisfied",
    "Socket, core and/or thread specification can not be satisfied",
];

/// Why the job was not taken, as the command words it. The controller's own sentence is added where it says more: always
/// for what Slurm has no words for, otherwise when the user wants to hear more (`-v`) or reads along on a terminal, since
/// programs compare what Slurm prints.
pub fn refused(command: Command, spec: &JobSpec, trouble: &Trouble, verbose: bool) -> Failure {
    let more = verbose || std::io::stderr().is_terminal();
    told(command, spec, trouble, more)
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
        let names = names.map_err(|_| {
            let why = format!("Invalid --{long} specification");
            Failure::usage(options.command, why)
                .after(options.command, format!("Unable to open file {file}"))
        })?;
        let names: Vec<&str> = names.split(['\n', ',']).map(str::trim).collect();
        let list = joined(&names);
        options.replace(long, list);
    }
    Ok(())
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

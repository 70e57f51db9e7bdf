//! What `sbatch`, `salloc` and `srun` share when they ask for a job.

use super::failure::Failure;
use super::flags::Command;
use super::link::Trouble;
use super::resolve::notice::not_submitted;
use spur_core::api::RefusalKind;
use spur_core::job::spec::JobSpec;

/// Texts of refusals that Slurm prints as a line of their own before the reason.
const FIRST_LINES: [&str; 2] = [
    "CPU count per node can not be satisfied",
    "Memory specification can not be satisfied",
];

/// Why the job was not taken, as the command words it. The controller's own sentence is added where it says more: always
/// for what Slurm has no words for, otherwise when the user wants to hear more.
pub fn refused(command: Command, spec: &JobSpec, trouble: &Trouble, verbose: bool) -> Failure {
    let failure = not_submitted(command, trouble.text());
    let Trouble::Refused(refusal) = trouble else {
        return failure;
    };
    let text = refusal.text.as_str();
    let bad_partition = refusal.kind == RefusalKind::InvalidPartition;
    let first_line = FIRST_LINES.contains(&text);
    let says_more = verbose && !text.is_empty() && *text != trouble.text();
    if bad_partition {
        let why = format!("invalid partition specified: {}", spec.partition);
        return failure.after(command, why);
    }
    if first_line || says_more {
        return failure.after(command, text);
    }
    failure
}

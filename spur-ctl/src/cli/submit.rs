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
    match refusal.kind {
        RefusalKind::InvalidPartition => failure.after(
            command,
            format!("invalid partition specified: {}", spec.partition),
        ),
        RefusalKind::NodeConfigUnavailable if FIRST_LINES.contains(&text) => {
            failure.after(command, text)
        }
        _ if verbose && !text.is_empty() && *text != trouble.text() => failure.after(command, text),
        _ => failure,
    }
}

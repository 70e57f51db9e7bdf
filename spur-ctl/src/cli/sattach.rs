//! `sattach`: reads its arguments as Slurm's does. Attaching itself is not available yet.

use super::failure::Failure;
use super::flags::getopt::Options;
use super::flags::{Command, help};
use super::process;
use super::resolve::filter::named;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let usage = |why: &str| {
        let mut failure = Failure::error(Command::Sattach, why);
        failure.text.push_str(&help::usage(Command::Sattach));
        failure
    };
    let [step] = options.operands.as_slice() else {
        return Err(usage("too many parameters"));
    };
    let step = process::text(step);
    if !step.contains('.') || !step.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(usage("Failed to parse stepid from command line options"));
    }
    if named(&step).is_none_or(|named| named.step.is_none()) {
        let job = step.split('.').next().unwrap_or_default();
        return Err(Failure::fatal(
            Command::Sattach,
            format!("Bad step specified: {job}"),
        ));
    }
    let why = format!(
        "attaching to a running step is not available yet: start it with --output=FILE, or see the output of the srun that \
         started {step}"
    );
    Err(Failure::error(Command::Sattach, why))
}

//! Nothing is ignored in silence: what an option does not do here is said, or is an error.

use super::super::failure::Failure;
use super::super::flags::getopt::{Options, Source};
use super::super::flags::{Command, Flag, Status};

/// Looks through what was given: the notices to print, or the error that ends the command. Options from the environment
/// that have no effect are mentioned only when the user wants to hear more.
pub fn review(options: &Options) -> Result<Vec<String>, Failure> {
    let mut notices = Vec::new();
    for given in options.given() {
        match given.flag.status {
            Status::Supported | Status::Implied(_) => {}
            Status::Ineffective { why, quiet } => {
                let spoken = given.source == Source::CommandLine || given.source == Source::Script;
                let asks = given
                    .value
                    .as_deref()
                    .is_none_or(|value| !quiet.contains(&value));
                if asks && (spoken || options.on("verbose")) {
                    let (command, long) = (options.command, given.flag.long);
                    notices.push(format!("{command}: warning: --{long} has no effect: {why}"));
                }
            }
            Status::Refused(why) => return Err(refused(options.command, given.flag, why)),
        }
    }
    notices.dedup();
    if options.on("verbose") {
        notices.extend(hint(options));
    }
    Ok(notices)
}

/// What Slurm says of a hint beside what it would decide: the hint counts for nothing then.
fn hint(options: &Options) -> Option<String> {
    let from = |long: &str, source: Source| {
        options
            .last(long)
            .is_some_and(|given| given.source == source)
    };
    let binds = || {
        options
            .value("cpu-bind")
            .is_some_and(|kind| !is_manner(kind))
    };
    let beside = |source| {
        let mut others = ["ntasks-per-core", "threads-per-core", "extra-node-info"].iter();
        others.any(|long| from(long, source)) || from("cpu-bind", source) && binds()
    };
    let why = if from("hint", Source::CommandLine) && beside(Source::CommandLine) {
        "(other than --cpu-bind=verbose). Ignoring --hint."
    } else if from("hint", Source::Environment)
        && beside(Source::Environment)
        && !beside(Source::CommandLine)
    {
        ", but more than one set by environment variables. Ignoring SLURM_HINT."
    } else {
        return None;
    };
    let gap = if why.starts_with(',') { "" } else { " " };
    let options_of = "Following options are mutually exclusive with --hint: --ntasks-per-core, --threads-per-core, -B and --cpu-bind";
    Some(format!("{}: {options_of}{gap}{why}", options.command))
}

fn is_manner(kind: &str) -> bool {
    ["q", "quiet", "v", "verbose"]
        .iter()
        .any(|manner| kind.eq_ignore_ascii_case(manner))
}

fn refused(command: Command, flag: &Flag, why: &'static str) -> Failure {
    Failure::error(command, format!("--{}: {why}", flag.long))
}

/// A refusal of the whole job, as each command words it.
pub fn not_submitted(command: Command, why: impl std::fmt::Display) -> Failure {
    let what = if command == Command::Sbatch {
        "Batch job submission failed"
    } else if command == Command::Salloc {
        "Job submit/allocate failed"
    } else {
        "Unable to allocate resources"
    };
    Failure::error(command, format!("{what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::super::flags::getopt::{environment, parse};
    use super::*;
    use std::ffi::OsString;

    fn hints(env: &[(&str, &str)], line: &str) -> Vec<String> {
        let get = |name: &str| {
            let entry = env.iter().find(|(known, _)| *known == name);
            entry.map(|(_, value)| (*value).to_owned())
        };
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let mut options = environment(Command::Srun, get);
        options.merge(parse(Command::Srun, &words, Source::CommandLine).unwrap());
        let mut notices = review(&options).unwrap();
        notices.retain(|notice| notice.contains("mutually exclusive"));
        notices
    }

    #[test]
    fn a_hint_beside_what_it_would_decide_is_told_to_who_wants_to_hear_more() {
        let told = "srun: Following options are mutually exclusive with --hint: --ntasks-per-core, --threads-per-core, -B and \
                    --cpu-bind (other than --cpu-bind=verbose). Ignoring --hint.";
        for other in [
            "--threads-per-core=1",
            "--ntasks-per-core=1",
            "-B1",
            "--cpu-bind=threads,verbose",
        ] {
            let line = format!("--hint=nomultithread {other} true");
            assert_eq!(hints(&[], &format!("-v {line}")), [told], "{other}");
            assert_eq!(hints(&[], &line), [""; 0], "{other}");
        }
        assert_eq!(
            hints(&[], "-v --hint=nomultithread --cpu-bind=verbose true"),
            [""; 0]
        );
        let env = [
            ("SLURM_HINT", "nomultithread"),
            ("SLURM_THREADS_PER_CORE", "1"),
        ];
        let line = hints(&env, "-v true");
        assert_eq!(line.len(), 1, "{line:?}");
        assert!(line[0].ends_with("Ignoring SLURM_HINT."), "{line:?}");
        assert_eq!(
            hints(&env, "-v -B1 true"),
            [""; 0],
            "the command line is above the environment"
        );
    }
}

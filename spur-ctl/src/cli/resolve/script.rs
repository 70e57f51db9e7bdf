//! Batch scripts: where the script comes from, and the options in it.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::{Options, Source, parse};
use super::super::process;
use spur_core::job::het::COMPONENTS_MAX;
use spur_core::slurm::directive::{self, Directive};
use spur_core::slurm::raw;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// Lines that part the components of a heterogeneous job.
const HET_MARKS: [&str; 2] = ["hetjob", "packjob"];

/// Where the script comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `--wrap`.
    Wrap(String),
    /// A file, as named.
    File(String),
    /// Standard input.
    Stdin,
}

impl Origin {
    /// Reads it off the command line.
    pub fn of(options: &Options) -> Result<Self, Failure> {
        let first = options.operands.first().map(|name| process::text(name));
        match (options.value("wrap"), first) {
            (Some(_), Some(_)) => Err(Failure::error(
                Command::Sbatch,
                "Script arguments not permitted with --wrap option",
            )),
            (Some(command), None) => Ok(Self::Wrap(command.to_owned())),
            (None, Some(file)) => Ok(Self::File(file)),
            (None, None) => Ok(Self::Stdin),
        }
    }

    /// What messages call the script.
    pub fn file(&self) -> &str {
        match self {
            Self::Wrap(_) => "--wrap",
            Self::File(path) => path,
            Self::Stdin => "STDIN",
        }
    }

    /// The job's name when the user gives none.
    pub fn name(&self) -> &str {
        match self {
            Self::Wrap(_) => "wrap",
            Self::File(path) => super::step::base_name(path),
            Self::Stdin => "sbatch",
        }
    }
}

/// Checks the script and lays its `#SBATCH` options below those that are there, for each component of a heterogeneous job those of
/// its own. Components that only the script has are begun by `fresh`. `name` is that of its file, for messages.
pub fn read_options(
    name: &str,
    script: &[u8],
    parts: &mut Vec<Options>,
    fresh: impl Fn() -> Options,
) -> Result<(), Failure> {
    directive::check(script).map_err(|why| Failure::error(Command::Sbatch, why))?;
    let lines = directive::directives(script)
        .map_err(|why| Failure::fatal(Command::Sbatch, format!("{name}: {why}")))?;
    let mark = |line: &Directive| matches!(line.args.as_slice(), [word] if HET_MARKS.contains(&word.as_str()));
    for (at, section) in lines.split(mark).enumerate() {
        if at == COMPONENTS_MAX {
            let why = format!("a heterogeneous job has at most {COMPONENTS_MAX} components");
            return Err(Failure::error(Command::Sbatch, why));
        }
        if at == parts.len() {
            parts.push(fresh());
        }
        parts[at].merge(read_section(section)?);
    }
    Ok(())
}

/// The options of one component: all lines together are one command line, as in Slurm.
fn read_section(lines: &[Directive]) -> Result<Options, Failure> {
    let words = lines.iter().flat_map(|line| &line.args);
    let words: Vec<OsString> = words
        .map(|word| raw::bytes(word).into_owned())
        .map(OsString::from_vec)
        .collect();
    let found = parse(Command::Sbatch, &words, Source::Script)?;
    if let Some(word) = found.operands.first() {
        let word = word.to_string_lossy();
        let why = format!("Invalid directive found in batch script: {word}");
        return Err(Failure::usage(Command::Sbatch, why));
    }
    Ok(found)
}

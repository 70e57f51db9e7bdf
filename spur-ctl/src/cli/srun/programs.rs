//! `--multi-prog`: the command is a file that says which tasks run what.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::{Given, Options, Source};
use super::super::flags::rows;
use super::super::process;
use super::super::resolve::numbers;
use spur_core::api::Grant;
use spur_core::slurm::multi_prog::{self, MultiProg};
use spur_core::slurm::raw;
use spur_proto::wire::TaskArgv;
use std::path::Path;

/// The longest file that is read: room for a long line of each task that there can be.
const FILE_MAX: u64 = 16 << 20;

/// What the tasks of a part of the command line run.
#[derive(Clone, Debug)]
pub struct Programs {
    file: MultiProg,
    /// What follows the file on the command line, and comes last for every task.
    more: Vec<Vec<u8>>,
    /// Number of the part's first task.
    first: u32,
}

/// Reads the file of a part with `--multi-prog`. Its number of tasks becomes the part's, if that has none.
pub fn read(part: &mut Options) -> Result<Option<Programs>, Failure> {
    use std::os::unix::ffi::OsStrExt as _;
    if !part.on("multi-prog") {
        return Ok(None);
    }
    let wrong = |why: &str| Failure::error(Command::Srun, why);
    let Some((file, more)) = part.operands.split_first() else {
        return Err(wrong("configuration file not specified"));
    };
    let name = process::text(file);
    let open = std::fs::File::open(Path::new(file));
    let bytes = open.and_then(|open| process::bounded(open, FILE_MAX));
    let bytes = bytes.map_err(|why| {
        wrong(&if why.kind() == std::io::ErrorKind::FileTooLarge {
            format!("configuration file {name} has more than {FILE_MAX} bytes")
        } else {
            format!("Unable to open configuration file {name}")
        })
    })?;
    let tasks = numbers::number(part, "ntasks", 1)?;
    let file = multi_prog::read(&raw::text(&bytes), &name, tasks)
        .map_err(|lines| wrong(&lines.join("\n")))?;
    let more = more.iter().map(|word| word.as_bytes().to_vec()).collect();
    let flag = rows(Command::Srun).find(|flag| flag.named("ntasks"));
    if let Some(flag) = flag.filter(|_| tasks.is_none() && file.tasks > 0) {
        let value = Some(file.tasks.to_string());
        let source = Source::CommandLine;
        part.extend(std::iter::once(Given {
            flag,
            value,
            source,
        }));
    }
    Ok(Some(Programs {
        file,
        more,
        first: 0,
    }))
}

/// Tells the parts which tasks became theirs.
pub fn number(
    mut programs: Vec<Option<Programs>>,
    grant: &Grant,
    parts: &[usize],
) -> Vec<Option<Programs>> {
    for (part, programs) in programs.iter_mut().enumerate() {
        let own = grant.nodes.iter().zip(parts);
        let own = own.filter(|(_, of)| **of == part);
        let first = own.flat_map(|(node, _)| &node.task_ids).min();
        if let (Some(programs), Some(first)) = (programs, first) {
            programs.first = *first;
        }
    }
    programs
}

impl Programs {
    /// What each of these tasks runs.
    pub fn of(&self, tasks: &[u32]) -> Vec<TaskArgv> {
        let own = |task: &u32| {
            let words = self.file.argv(task.saturating_sub(self.first));
            let words = words.unwrap_or_default();
            let words = words.iter().map(|word| raw::bytes(word).into_owned());
            let argv = words.chain(self.more.iter().cloned()).collect();
            TaskArgv { task: *task, argv }
        };
        tasks.iter().map(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::flags::getopt::parse;

    #[test]
    fn a_file_that_never_ends_is_refused() {
        let words = ["--multi-prog", "/dev/zero"].map(std::ffi::OsString::from);
        let mut part = parse(Command::Srun, &words, Source::CommandLine).unwrap();
        let refused = read(&mut part).unwrap_err();
        assert_eq!(
            refused.text,
            format!("srun: error: configuration file /dev/zero has more than {FILE_MAX} bytes\n")
        );
    }
}

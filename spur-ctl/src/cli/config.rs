//! `spur config`: is a configuration right, and what would a Slurm configuration be here.

mod import;
mod programs;
mod slurm;

use super::failure::Failure;
use super::output;
use crate::config::{self, Config};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const USAGE: &str = "Usage: spur config check [FILE]
       spur config import [-o FILE] SLURM.CONF [GRES.CONF] [TOPOLOGY.CONF]

check    reads a configuration (/etc/spur/spur.toml) as the controller would, and says what is wrong with it.
import   writes a configuration of ours that does what a Slurm configuration says, to standard output or FILE; each line
         that cannot be carried over is named on standard error, with the reason.
";

/// Runs it.
pub fn main(args: &[OsString]) -> Result<u8, Failure> {
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    if words.len() < args.len() {
        return Err(failed("file names must be valid UTF-8"));
    }
    match words.as_slice() {
        ["check"] => check(Path::new(config::DEFAULT_PATH)),
        ["check", file] if !file.starts_with('-') => check(Path::new(file)),
        ["import", rest @ ..] => import(rest),
        ["help" | "--help" | "-h", ..] | ["check", "--help" | "-h", ..] => {
            output::print(USAGE);
            Ok(0)
        }
        _ => Err(Failure {
            text: USAGE.to_owned(),
            code: 1,
        }),
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error("spur config", why)
}

fn check(file: &Path) -> Result<u8, Failure> {
    let config = Config::read(file).map_err(failed)?;
    let mut warnings = Vec::new();
    if let Err(why) = config.token() {
        warnings.push(format!("the token cannot be used: {why}"));
    }
    for name in &config.operators {
        if super::users::uid_of(name).is_none() {
            warnings.push(format!("operator {name} is no user of this machine"));
        }
    }
    let lines: Vec<String> = warnings
        .iter()
        .map(|warning| format!("spur config: warning: {warning}"))
        .collect();
    output::complain(&lines);
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    };
    output::print(&format!(
        "{}: good: cluster {}, {}, {} with settings\n",
        file.display(),
        config.cluster,
        count(config.partitions.len(), "partition"),
        count(config.nodes.len(), "node"),
    ));
    Ok(0)
}

fn import(words: &[&str]) -> Result<u8, Failure> {
    let (mut files, mut out) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "-o" | "--output" => {
                let missing = || failed("-o: name a file");
                out = Some(PathBuf::from(words.next().ok_or_else(missing)?));
            }
            word if word.starts_with("--output=") => {
                out = word.split_once('=').map(|(_, file)| PathBuf::from(file));
            }
            word if word.starts_with('-') => {
                return Err(failed(format!("unknown option {word}\n{USAGE}")));
            }
            word => files.push(PathBuf::from(word)),
        }
    }
    if files.is_empty() {
        return Err(failed(format!("name a slurm.conf\n{USAGE}")));
    }
    let mut lines = Vec::new();
    for file in &files {
        lines.extend(slurm::read(file).map_err(failed)?);
    }
    let imported = import::import(&lines);
    let left: Vec<String> = imported
        .left
        .iter()
        .map(|(at, why)| format!("{at}: {why}"))
        .collect();
    output::complain(&left);
    match out {
        None => output::print(&imported.text),
        Some(file) => {
            let failed = |why| failed(format!("{}: {why}", file.display()));
            std::fs::write(&file, &imported.text).map_err(failed)?;
        }
    }
    Ok(0)
}

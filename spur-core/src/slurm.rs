//! Slurm's grammars: each parses and displays, and the two are inverse.
//!
//! Parsers take what users and scripts write, so none panics and each bounds what it builds.

pub mod array;
pub mod bind;
pub mod codes;
pub mod constraint;
pub mod crontab;
pub mod dependency;
pub mod digits;
pub mod directive;
pub mod distribution;
pub mod environ;
pub mod export;
pub mod filename;
pub mod gres;
pub mod hostlist;
pub mod idset;
pub mod mail;
pub mod multi_prog;
pub mod raw;
pub mod signal;
pub mod size;
pub mod timespec;
pub mod tres;

#[cfg(test)]
mod tests;

//! `spur dev`: a whole cluster on one machine, made of the real daemons, and its end without a trace.

mod config;
mod default;
mod down;
mod layout;
mod proc;
mod programs;
mod shape;
mod up;

use crate::cli::failure::Failure;
use crate::cli::output;
use clap::Parser;
pub use programs::daemon;
use spur_core::slurm::size;
use std::ffi::OsString;
use std::path::PathBuf;

/// Most real nodes: each is a daemon of its own.
const NODES_MAX: u32 = 64;
/// Most hollow nodes.
const HOLLOW_MAX: u32 = 10_000;

/// A cluster to try out, on this machine.
#[derive(Debug, Parser)]
#[command(name = "spur dev", version)]
#[expect(clippy::large_enum_variant, reason = "parsed once")]
enum Args {
    /// Start a cluster; returns when every node is idle.
    Up(Up),
    /// Stop a cluster and remove all that it made, in whatever state it is.
    Down {
        /// The cluster's folder.
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
}

/// What the cluster is like.
#[derive(Clone, Debug, clap::Args)]
pub struct Up {
    /// Folder for all that the cluster makes; DIR/env is to be sourced.
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Make it the machine's own until it is taken down: commands find it without any variable, by /etc/spur/spur.toml.
    #[arg(long)]
    pub default: bool,
    /// Number of nodes; they are named n1, n2, …
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub nodes: u32,
    /// GPUs on every node: stand-ins, whose device nodes have no driver.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=256))]
    pub gpus: u32,
    /// What the stand-ins are called.
    #[arg(long, default_value = "h200", value_name = "MODEL")]
    pub gpu_type: String,
    /// CPUs of every node, instead of this machine's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub cpus: Option<u32>,
    /// Memory of every node, instead of this machine's: 256G.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<u64>,
    /// Nodes that speak the real protocol and run no processes.
    #[arg(long)]
    pub hollow: bool,
    /// With --hollow: seconds that a batch job lasts; without it, until it is ended.
    #[arg(long, value_name = "SECONDS", requires = "hollow")]
    pub job_seconds: Option<f64>,
    /// Seconds between SIGTERM and SIGKILL when a job is ended, instead of 30.
    #[arg(long, value_name = "SECONDS")]
    pub kill_wait: Option<u64>,
    /// Seconds without work after which a GPU counts as idle, from a job's start on, instead of 900 and the first 300 not.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_after: Option<u64>,
    /// What the nodes are like beyond that.
    #[command(flatten)]
    pub shape: shape::Shape,
}

fn memory(text: &str) -> Result<u64, String> {
    match size::parse_mib(text) {
        Ok(0) => Err("a node has memory".to_owned()),
        Ok(mib) => Ok(mib),
        Err(why) => Err(why.to_string()),
    }
}

/// Runs `spur dev` with the arguments that follow.
pub fn main(args: &[OsString]) -> Result<u8, Failure> {
    let words = std::iter::once(OsString::from("spur dev")).chain(args.iter().cloned());
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(why) => {
            let code = u8::try_from(why.exit_code()).unwrap_or(2);
            if code == 0 {
                output::print(&why.to_string());
                return Ok(0);
            }
            return Err(Failure::plain(why.to_string().trim_end(), code));
        }
    };
    match args {
        Args::Up(wanted) => {
            check(&wanted)?;
            up::up(&wanted)
        }
        Args::Down { dir } => down::down(&dir),
    }
}

fn check(wanted: &Up) -> Result<(), Failure> {
    let most = if wanted.hollow { HOLLOW_MAX } else { NODES_MAX };
    if !(1..=most).contains(&wanted.nodes) {
        return Err(failed(format_args!("--nodes: give 1 to {most}")));
    }
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let starts = wanted
        .gpu_type
        .starts_with(|c: char| c.is_ascii_lowercase());
    if !starts || !wanted.gpu_type.chars().all(legal) {
        return Err(failed(
            "--gpu-type: use small letters, digits, '-' and '_', and begin with a letter",
        ));
    }
    wanted
        .shape
        .check(wanted.nodes, wanted.gpus)
        .map_err(failed)?;
    if wanted.default {
        default::check()?;
    }
    if !wanted.hollow && !rustix::process::geteuid().is_root() {
        return Err(failed(
            "nodes that run jobs need root, for cgroups, fences and device nodes: use sudo, or --hollow",
        ));
    }
    Ok(())
}

/// A failure of this command.
fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error("spur dev", why)
}

#[cfg(test)]
mod tests;

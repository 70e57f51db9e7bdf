//! Entry point of `spurd`.

mod daemon;
mod doctor;
mod leftovers;

use anyhow::Context;
use clap::{Parser, Subcommand};
use spur_agent::config::{Config, DEFAULT_PATH};
use spur_agent::{discover, fence, hollow, launch, meter, pmix};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The node agent of spur.
#[derive(Parser)]
#[command(name = "spurd", version)]
struct Args {
    /// Configuration file
    #[arg(long, global = true, default_value = DEFAULT_PATH)]
    config: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Say what this node has, what is fenced, and whether the fence holds
    Doctor,
    /// Many nodes that speak the real protocol and run nothing, for load tests
    Hollow(hollow::Args),
    /// Remove everything that a dead agent left: processes, cgroups, pins, mounts
    Leftovers,
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    // First, and without any set-up: a supervisor's start is on the path of every launch, and it must stay single-threaded.
    match args.as_slice() {
        [_, verb, dir] if verb == "supervise" => {
            return spur_agent::supervise::main(Path::new(dir));
        }
        // Nothing is said in the third word: it keeps room for what its copies show.
        [_, verb, _] if verb == launch::starter::COMMAND => return launch::starter::main(),
        [_, verb, cgroup, canary] if verb == fence::probe::COMMAND => {
            return fence::probe::child(Path::new(cgroup), Path::new(canary));
        }
        [_, verb] if verb == discover::nvml::COMMAND => {
            daemon::nvml_probe();
            return ExitCode::SUCCESS;
        }
        [_, verb] if verb == meter::nvml::COMMAND => return meter::nvml::child::main(),
        // The folder is there for those who look at processes.
        [_, verb, _dir] if verb == pmix::COMMAND => return pmix::main(),
        _ => {}
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(usage) => return explain(&usage),
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        // It would say on a full disk that the disk is full, and panic over that.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("SPUR_LOG")
                .unwrap_or_else(|_| "info".into()),
        )
        .init();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("spurd: error: {}", fence::node::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Help, the version, or what is wrong with the arguments.
fn explain(usage: &clap::Error) -> ExitCode {
    let written = usage.print().and_then(|()| std::io::stdout().flush());
    match (written, u8::try_from(usage.exit_code())) {
        (Ok(()), Ok(code)) => ExitCode::from(code),
        (Ok(()), Err(_)) => ExitCode::FAILURE,
        (Err(error), _) => {
            eprintln!("spurd: error: writing to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = || Config::load(&args.config);
    match &args.command {
        None => daemon::run(config()?)?,
        Some(Command::Doctor) => return doctor::run(&config()?),
        Some(Command::Hollow(hollow)) => hollow::run(&args.config, hollow)?,
        Some(Command::Leftovers) => {
            let mut out = std::io::stdout().lock();
            for line in leftovers::clean(&config()?)? {
                writeln!(out, "{line}").context("writing what was done to standard output")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

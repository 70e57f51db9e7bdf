//! Every development task of this workspace. CI is one call of it; a person runs the same verbs.

mod bench;
mod budget;
mod chaos;
mod clients;
mod compat;
mod demo;
mod dev;
mod escapes;
mod golden;
mod lint;
mod meter_check;
mod setup;
mod sh;
mod suite;
mod tidy;
mod vm;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of spur")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what this machine lacks (as root), or print the one line that does.
    Setup,
    /// Start a cluster here, run fenced jobs, show who may open what; leave nothing behind.
    Demo,
    /// Run every test that this machine can run; say what it could not and why.
    Test {
        /// Leave the virtual machine out.
        #[arg(long)]
        no_vm: bool,
    },
    /// Check the rules of the workspace that no compiler checks.
    Tidy,
    /// Formatting, clippy, dependencies.
    Lint,
    /// What CI runs: lint, then test. Never writes to the tree.
    Ci,
    /// Boot Debian's kernels in QEMU and run the guest tests, or one command.
    Vm(vm::Args),
    /// Run every escape test on every kernel, and print the table of the known escapes.
    Escapes(escapes::Args),
    /// Play recorded commands of the real Slurm, and say which of ours do the same.
    Golden(golden::Args),
    /// Kill daemons at random under a mixed workload, and check what came of every job.
    Chaos(chaos::Args),
    /// Measure on every kernel what the BPF programs cost the verifier, and write that as their budget.
    Budget,
    /// Hold the meter against the truth, on real kernels and here, and print the error of everything.
    MeterCheck(meter_check::Args),
    /// Measure, and print ratios.
    Bench(bench::Args),
    /// Run programs of others that use Slurm's commands, as they come from their registry, on a cluster here.
    Clients(clients::Args),
    /// Count, for each of Slurm's commands, which options and columns are supported, accepted and refused.
    Compat,
    /// Run the simulator over a range of seeds.
    Sim {
        /// `A..B`, B excluded.
        #[arg(long, default_value = "0..200")]
        seeds: String,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup => setup::run(),
        Task::Demo => demo::run(),
        Task::Test { no_vm } => suite::run(no_vm),
        Task::Tidy => tidy::run(),
        Task::Lint => lint::run(),
        Task::Ci => {
            lint::run()?;
            suite::run(false)
        }
        Task::Vm(args) => vm::run(&args),
        Task::Escapes(args) => escapes::run(&args),
        Task::Golden(args) => golden::run(&args),
        Task::Chaos(args) => chaos::run(&args),
        Task::Budget => budget::run(),
        Task::MeterCheck(args) => meter_check::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Clients(args) => clients::run(&args),
        Task::Compat => compat::run(),
        Task::Sim { seeds } => lint::sim(&seeds),
    }
}

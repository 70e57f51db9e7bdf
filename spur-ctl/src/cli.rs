//! The commands: parse ([`flags`]), resolve ([`resolve`]), act, render ([`render`]).

pub mod address;
pub mod clusters;
pub mod config;
pub mod failure;
pub mod fence;
pub mod flags;
pub mod link;
pub mod named;
pub mod node;
pub mod output;
pub mod process;
pub mod render;
pub mod resolve;
pub mod sacct;
pub mod sacctmgr;
pub mod salloc;
pub mod sattach;
pub mod sbatch;
pub mod sbcast;
pub mod scancel;
pub mod scontrol;
pub mod scrontab;
pub mod sdiag;
pub mod seff;
pub mod sim;
pub mod sinfo;
pub mod sprio;
pub mod squeue;
pub mod sreport;
pub mod srun;
pub mod sshare;
pub mod sstat;
pub mod stats;
pub mod strigger;
pub mod submit;
pub mod table;
pub mod tools;
pub mod usage;
pub mod users;
pub mod why;

use failure::Failure;
use flags::getopt::{self, Options, Source};
use flags::{Command, help};
use std::ffi::OsString;

/// The command that a program's name stands for.
pub fn command(name: &str) -> Option<Command> {
    Command::all().find(|command| command.name() == name)
}

/// Runs a command with the arguments that follow its name; the answer is the exit code.
pub fn run(command: Command, args: &[OsString]) -> u8 {
    let own_code = |mut failure: Failure| {
        // `SLURM_EXIT_ERROR` is for errors of the command itself, not for what it runs.
        let wanted = process::var("SLURM_EXIT_ERROR").and_then(|code| code.parse().ok());
        if failure.code == 1 && command.submits() {
            failure.code = wanted.unwrap_or(1);
        }
        failure
    };
    finish(try_run(command, args).map_err(own_code))
}

/// Says why a command failed, and gives its exit code.
pub fn finish(result: Result<u8, Failure>) -> u8 {
    output::code(result.unwrap_or_else(|failure| {
        if !failure.text.is_empty() {
            output::complain(&[failure.text.trim_end_matches('\n').to_owned()]);
        }
        failure.code
    }))
}

fn try_run(command: Command, args: &[OsString]) -> Result<u8, Failure> {
    let mut options = getopt::parse(command, args, Source::CommandLine)?;
    if let Some(text) = asked_text(&options) {
        output::print(&text);
        return Ok(0);
    }
    options.merge(getopt::environment(command, process::var));
    if command != Command::Sbatch {
        announce(&options)?;
    }
    if matches!(command, Command::Squeue | Command::Sinfo) && options.on("verbose") {
        output::print(&help::in_effect(&options));
    }
    match command {
        Command::Srun => srun::main(&options),
        Command::Sbatch => sbatch::main(options),
        Command::Salloc => salloc::main(&options),
        Command::Squeue => squeue::main(&options),
        Command::Sinfo => sinfo::main(&options),
        Command::Scancel => scancel::main(&options),
        Command::Scontrol => scontrol::main(&options),
        Command::Fence => fence::main(&options),
        Command::Sacct => sacct::main(&options),
        Command::Sdiag => sdiag::main(&options),
        Command::Sprio => sprio::main(&options),
        Command::Sshare => sshare::main(&options),
        Command::Sreport => sreport::main(&options),
        Command::Sacctmgr => sacctmgr::main(&options),
        Command::Scrontab => scrontab::main(&options),
        Command::Strigger => strigger::main(&options),
        Command::Sattach => sattach::main(&options),
        Command::Sbcast => sbcast::main(&options),
        Command::Sstat => sstat::main(&options),
        Command::Seff => seff::main(&options),
        Command::Usage => usage::main(&options),
    }
}

/// Ends on an option that is refused; says of one that has no effect that it has none.
fn announce(options: &Options) -> Result<(), Failure> {
    let notices = resolve::notice::review(options)?;
    clusters::asked(options)?;
    if options.command.submits() {
        resolve::values::check(options)?;
    }
    if !options
        .given()
        .iter()
        .any(|given| given.flag.long == "quiet")
    {
        output::complain(&notices);
    }
    Ok(())
}

/// `--help`, `--usage` and `--version` answer before anything else counts.
fn asked_text(options: &Options) -> Option<String> {
    if options.on("version") {
        return Some(format!("{}\n", scontrol::SLURM_VERSION));
    }
    if matches!(given(options, "gres"), Some("help" | "list")) {
        return Some("Valid gres options are:\ngpu[[:type]:count]\n".to_owned());
    }
    let bound = |long: &str| given(options, long) == Some("help") && options.command.submits();
    if let Some(text) = resolve::texts::HELP.iter().find(|(long, _)| bound(long)) {
        return Some(text.1.to_owned());
    }
    if options.on("help") {
        return Some(help::help(options.command));
    }
    options.on("usage").then(|| help::summary(options.command))
}

/// The value of an option that the command may not have.
fn given<'a>(options: &'a Options, long: &str) -> Option<&'a str> {
    let mut last = options.given().iter().rev();
    last.find(|given| given.flag.long == long)?.value.as_deref()
}

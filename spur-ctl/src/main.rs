//! One binary, many names: the name it is called by, or the first argument, says which command it is.

use spur_ctl::{cli, dev};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "Usage: spur COMMAND [ARGUMENT...]

Commands for users    srun sbatch salloc squeue sinfo scancel scontrol sacct sattach sbcast sstat
                      sdiag sprio sshare sreport sacctmgr scrontab strigger seff
                      usage    what a job used, and GPUs that are held and not used
                      why      why a job waits, until when, and what can be done about it
                      fence    what a job may open, what it was refused, and what that means
                      stats    counters of the controller
                      sim      what the planner would do, without a cluster
                      node     who is in the mesh of hosts, and who may join it
For shells            completion bash|zsh|fish, man DIR
Configuration         config check [FILE], config import SLURM.CONF [GRES.CONF]
Daemons               spurctld
A cluster to try out  dev up --dir DIR, dev down --dir DIR

`spur COMMAND --help` says more. Called by the name of a command, spur is that command.
";

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let own = words.next().unwrap_or_default();
    let name = Path::new(&own)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let mut args: Vec<OsString> = words.collect();
    if is_program(name) {
        return run(name, args);
    }
    match args
        .first()
        .and_then(|first| first.to_str())
        .map(str::to_owned)
    {
        Some(first) if is_program(&first) => {
            args.remove(0);
            run(&first, args)
        }
        Some(first) if matches!(first.as_str(), "help" | "--help" | "-h") => {
            cli::output::print(USAGE);
            ExitCode::from(cli::finish(Ok(0)))
        }
        Some(first) if matches!(first.as_str(), "--version" | "-V") => {
            cli::output::print(concat!("spur ", env!("CARGO_PKG_VERSION"), "\n"));
            ExitCode::from(cli::finish(Ok(0)))
        }
        first => {
            let unknown = first.map(|first| unknown(&first));
            let lines: Vec<String> = unknown
                .into_iter()
                .chain([USAGE.trim_end().to_owned()])
                .collect();
            cli::output::complain(&lines);
            ExitCode::from(2)
        }
    }
}

/// Words that are no commands of the table.
const OTHERS: [&str; 10] = [
    "spurctld",
    "stats",
    "why",
    "sim",
    "node",
    "dev",
    "completion",
    "man",
    "compat",
    "config",
];

fn is_program(name: &str) -> bool {
    OTHERS.contains(&name) || cli::command(name).is_some()
}

fn unknown(word: &str) -> String {
    let names = cli::flags::Command::all().map(cli::flags::Command::name);
    let meant = cli::flags::nearest::nearest(word, names.chain(OTHERS));
    let hint = meant.map(|meant| format!("; did you mean {meant}?"));
    format!(
        "spur: error: there is no command {word:?}{}",
        hint.unwrap_or_default()
    )
}

fn run(name: &str, args: Vec<OsString>) -> ExitCode {
    match (cli::command(name), name) {
        (Some(command), _) => ExitCode::from(cli::run(command, &args)),
        (None, "stats") => ExitCode::from(cli::finish(cli::stats::main(&args))),
        (None, "sim") => ExitCode::from(cli::finish(cli::sim::main(&args))),
        (None, "why") => ExitCode::from(cli::finish(cli::why::main(&args))),
        (None, "node") => ExitCode::from(cli::finish(cli::node::main(&args))),
        (None, "completion") => ExitCode::from(cli::finish(cli::tools::completion(&args))),
        (None, "man") => ExitCode::from(cli::finish(cli::tools::man(&args))),
        (None, "compat") => ExitCode::from(cli::finish(cli::tools::compat(&args))),
        (None, "config") => ExitCode::from(cli::finish(cli::config::main(&args))),
        (None, "dev") => ExitCode::from(cli::finish(dev::main(&args))),
        (None, _) => controller(&args),
    }
}

/// Becomes the controller, the program beside this one.
fn controller(args: &[OsString]) -> ExitCode {
    let why = match dev::daemon("spurctld") {
        Ok(program) => {
            let why = std::process::Command::new(&program).args(args).exec();
            format!("{}: {why}", program.display())
        }
        Err(why) => why,
    };
    cli::output::complain(&[format!("spur: error: cannot start the controller: {why}")]);
    ExitCode::FAILURE
}

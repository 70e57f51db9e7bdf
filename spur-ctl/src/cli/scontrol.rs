//! `scontrol`: a first word says what to do.

pub mod change;
pub mod show;

use super::failure::Failure;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::{output, process};
use spur_core::api::{Reply, Request};

/// Slurm's level that we claim; tools read it to know what to expect.
pub const SLURM_VERSION: &str = "slurm 24.11.5";

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let words: Vec<String> = options
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let Some((first, rest)) = words.split_first() else {
        return Err(Failure::plain(
            "scontrol: interactive mode is not available; say what to do, for example `scontrol show nodes`",
            1,
        ));
    };
    let (word, attached) = first
        .split_once('=')
        .map_or((first.as_str(), None), |(w, v)| (w, Some(v)));
    let mut rest = rest.to_vec();
    rest.splice(0..0, attached.map(str::to_owned));
    dispatch(options, word, &rest)
}

fn dispatch(options: &Options, word: &str, rest: &[String]) -> Result<u8, Failure> {
    let is = |full: &str, least: usize| abbreviates(word, full, least);
    if is("show", 2) {
        return need(word, rest, 1).and_then(|()| show::main(options, &rest[0], &rest[1..]));
    }
    if is("update", 1) {
        return need(word, rest, 1).and_then(|()| change::update(options, rest));
    }
    if is("hold", 4) || is("uhold", 4) {
        return need(word, rest, 1).and_then(|()| change::hold(options, rest, true));
    }
    if is("release", 3) {
        return need(word, rest, 1).and_then(|()| change::hold(options, rest, false));
    }
    if is("requeue", 7) {
        return need(word, rest, 1).and_then(|()| change::requeue(options, rest));
    }
    if is("write", 2) {
        return need(word, rest, 2).and_then(|()| show::write_script(rest));
    }
    if is("ping", 2) {
        return Ok(ping());
    }
    if is("version", 3) {
        output::print(&format!("{SLURM_VERSION}\n"));
        return Ok(0);
    }
    if is("help", 1) {
        output::print(&super::flags::help::help(options.command));
        return Ok(0);
    }
    Err(invalid(word))
}

/// Slurm's words that nothing here stands behind, with what to do instead.
const LATER: [(&str, &str); 19] = [
    ("abort", ""),
    ("cancel_reboot", ""),
    ("cluster", "there is only this cluster"),
    ("completing", "see `squeue -t CG`"),
    (
        "create",
        "partitions are in spur.toml, there are no reservations",
    ),
    (
        "delete",
        "partitions are in spur.toml, there are no reservations",
    ),
    ("errnumstr", ""),
    ("getaddrs", ""),
    ("listjobs", "see `squeue -w NODE`"),
    ("listpids", "see the job's cgroup on the node"),
    ("notify", ""),
    ("reboot", "nodes are never booted"),
    ("reconfigure", "restart the daemon; jobs go on"),
    ("requeuehold", "use requeue, then hold"),
    (
        "resume",
        "to return a node: `scontrol update nodename=NODE state=resume`",
    ),
    ("setdebug", "set SPUR_LOG for the daemon"),
    ("suspend", ""),
    ("top", ""),
    ("wait_job", "see `sbatch --wait`"),
];

/// What to say of a word that is Slurm's but not ours; `None` if it is nobody's.
fn later(words: &[(&str, &str)], word: &str) -> Option<Failure> {
    let (word, instead) = words
        .iter()
        .find(|(full, _)| full.eq_ignore_ascii_case(word))?;
    let instead = match *instead {
        "" => String::new(),
        instead => format!("; {instead}"),
    };
    Some(Failure::error(
        "scontrol",
        format!("{word}: not available yet{instead}"),
    ))
}

/// Whether a word is the beginning of another, at least so many letters of it, in any case.
fn abbreviates(word: &str, full: &str, least: usize) -> bool {
    let begins = full
        .get(..word.len())
        .is_some_and(|part| part.eq_ignore_ascii_case(word));
    begins && word.len() >= least
}

fn invalid(word: &str) -> Failure {
    later(&LATER, word).unwrap_or_else(|| Failure::plain(format!("invalid keyword: {word}"), 1))
}

fn need(word: &str, rest: &[String], least: usize) -> Result<(), Failure> {
    if rest.len() >= least {
        return Ok(());
    }
    Err(Failure::plain(
        format!("too few arguments for keyword:{word}"),
        1,
    ))
}

fn ping() -> u8 {
    match link::question(&Request::Ping) {
        Ok(Reply::Pong { host, .. }) => {
            output::print(&format!("Slurmctld(primary) at {host} is UP\n"));
            0
        }
        Ok(_) | Err(_) => {
            output::print(&format!(
                "Slurmctld(primary) at {} is DOWN\n",
                process::host()
            ));
            1
        }
    }
}

/// Asks one thing, with trouble worded as `PREFIX: WHY`.
fn ask(request: &Request, prefix: &str) -> Result<Reply, Failure> {
    link::question(request).map_err(|trouble| worded(prefix, &trouble))
}

fn worded(prefix: &str, trouble: &Trouble) -> Failure {
    Failure::plain(format!("{prefix}: {}", trouble.text()), 1)
}

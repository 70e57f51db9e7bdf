//! `sacctmgr`: accounts, users, associations and qualities of service. Limits and shares are kept and shown; none is enforced.

mod conditions;
mod data;
mod edit;
mod fields;
mod list;
mod rows;
mod told;
mod words;

use super::failure::Failure;
use super::flags::getopt::Options;
use super::{link, output, process};
use spur_core::api::{Reply, Request};
use spur_core::manage::accounts::Accounts;
use std::io::BufRead as _;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let words: Vec<String> = options
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if words.is_empty() {
        return session(options);
    }
    one(options, &words)
}

/// Commands line by line from standard input.
fn session(options: &Options) -> Result<u8, Failure> {
    let mut code = 0;
    for line in std::io::stdin().lock().lines() {
        let line =
            line.map_err(|why| Failure::error("sacctmgr", format!("standard input: {why}")))?;
        let words: Vec<String> = words::split(&line);
        match words.first().map(|word| word.to_ascii_lowercase()) {
            None => continue,
            Some(word) if matches!(word.as_str(), "exit" | "quit" | "q") => return Ok(code),
            Some(_) => {}
        }
        match one(options, &words) {
            Ok(0) => {}
            Ok(failed) => code = failed,
            Err(failure) => {
                code = failure.code;
                output::complain(&[failure.text.trim_end_matches('\n').to_owned()]);
            }
        }
    }
    Ok(code)
}

/// First words.
pub(super) const WORDS: [&str; 11] = [
    "add",
    "create",
    "delete",
    "help",
    "list",
    "modify",
    "ping",
    "reconfigure",
    "show",
    "update",
    "version",
];

/// What there is to list; the first three can be added, changed and deleted.
pub(super) const ENTITIES: [&str; 8] = [
    "account",
    "qos",
    "user",
    "association",
    "cluster",
    "configuration",
    "runawayjobs",
    "tres",
];

/// Whether a word is the beginning of another, at least so many letters of it.
fn is(word: &str, full: &str, least: usize) -> bool {
    let begins = full
        .get(..word.len())
        .is_some_and(|part| part.eq_ignore_ascii_case(word));
    begins && word.len() >= least
}

fn one(options: &Options, words: &[String]) -> Result<u8, Failure> {
    let (word, rest) = (words[0].as_str(), &words[1..]);
    match () {
        () if is(word, "list", 1) || is(word, "show", 2) => list::main(options, rest),
        () if is(word, "add", 3) || is(word, "create", 2) => edit::add(options, rest),
        () if is(word, "modify", 1) || is(word, "update", 1) => edit::modify(options, rest),
        () if is(word, "delete", 3) || is(word, "remove", 3) => edit::delete(options, rest),
        () if is(word, "ping", 2) => Ok(ping()),
        () if is(word, "version", 2) => {
            output::print(&format!("{}\n", super::scontrol::SLURM_VERSION));
            Ok(0)
        }
        () if is(word, "help", 1) => {
            output::print(&super::flags::help::help(options.command));
            Ok(0)
        }
        // The controller keeps accounts; there is no daemon of its own to tell.
        () if is(word, "reconfigure", 4) => match link::question(&Request::Reconfigure) {
            Ok(_) => Ok(0),
            Err(trouble) => Err(Failure::error("sacctmgr", trouble.text())),
        },
        () if is(word, "archive", 2) || is(word, "dump", 2) || is(word, "load", 2) => Err(later(
            word,
            "accounts are in the controller's state; copy its folder to keep them",
        )),
        () if is(word, "clear", 5) || is(word, "shutdown", 2) => {
            Err(later(word, "the controller keeps accounts itself"))
        }
        () => Err(Failure::plain(format!("invalid keyword: {word}"), 1).nearest(word, WORDS)),
    }
}

fn later(word: &str, instead: &str) -> Failure {
    Failure::error("sacctmgr", format!("{word} is not available: {instead}"))
}

fn ping() -> u8 {
    match link::question(&Request::Ping) {
        Ok(Reply::Pong { host, .. }) => {
            output::print(&format!("slurmdbd(primary) at {host} is UP\n"));
            0
        }
        Ok(_) | Err(_) => {
            output::print(&format!(
                "slurmdbd(primary) at {} is DOWN\n",
                process::host()
            ));
            1
        }
    }
}

/// The cluster's name.
fn cluster() -> Result<String, Failure> {
    let Reply::Pong { cluster, .. } = ask(&Request::Ping)? else {
        return Err(unexpected());
    };
    Ok(cluster)
}

fn accounts() -> Result<Accounts, Failure> {
    let Reply::Accounts(accounts) = ask(&Request::Accounts)? else {
        return Err(unexpected());
    };
    Ok(*accounts)
}

fn ask(request: &Request) -> Result<Reply, Failure> {
    link::question(request).map_err(|trouble| Failure::error("sacctmgr", trouble.text()))
}

fn unexpected() -> Failure {
    Failure::error("sacctmgr", link::unexpected().text())
}

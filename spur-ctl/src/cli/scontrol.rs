//! `scontrol`: a first word says what to do; without one, words come from standard input.

pub mod change;
mod jobs;
mod pids;
mod ping;
mod prompt;
mod reservation;
pub mod show;

use super::failure::Failure;
use super::flags::getopt::{self, Options, Source};
use super::link::{self, Trouble};
use super::output;
use spur_core::api::{RefusalKind, Reply, Request};
use std::ffi::OsString;

/// Slurm's level that we claim; tools read it to know what to expect.
pub const SLURM_VERSION: &str = "slurm 24.11.5";

/// Most words of one command, as in Slurm.
const WORDS_MAX: usize = 128;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let words: Vec<String> = options.operands.iter().map(text).collect();
    if words.len() > WORDS_MAX {
        return Err(Failure::plain(
            format!("scontrol: can not process over {WORDS_MAX} words"),
            1,
        ));
    }
    if words.is_empty() {
        return prompt::main(options);
    }
    words_of(options, &words)
}

fn text(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// One command.
fn words_of(options: &Options, words: &[String]) -> Result<u8, Failure> {
    let Some((first, rest)) = words.split_first() else {
        return Ok(0);
    };
    let (word, attached) = first
        .split_once('=')
        .map_or((first.as_str(), None), |(w, v)| (w, Some(v)));
    let mut rest = rest.to_vec();
    rest.splice(0..0, attached.map(str::to_owned));
    dispatch(options, word, &rest)
}

/// The same with an option more, as if it stood on the command line.
fn with_option(options: &Options, option: &str) -> Result<Options, Failure> {
    let mut all = options.clone();
    let word = [OsString::from(option)];
    all.merge(getopt::parse(options.command, &word, Source::CommandLine)?);
    Ok(all)
}

fn dispatch(options: &Options, word: &str, rest: &[String]) -> Result<u8, Failure> {
    let is = |full: &str, least: usize| abbreviates(word, full, least);
    if is("show", 2) {
        return need(word, rest, 1).and_then(|()| show::main(options, &rest[0], &rest[1..]));
    }
    if is("update", 1) {
        return need(word, rest, 1).and_then(|()| change::update(options, rest));
    }
    if is("create", 2) {
        return need(word, rest, 1).and_then(|()| change::create(options, rest));
    }
    if is("delete", 1) && word.len() > 2 {
        return need(word, rest, 1).and_then(|()| change::delete(options, rest));
    }
    if is("write", 2) {
        return need(word, rest, 2).and_then(|()| show::write_script(rest));
    }
    if let Some(done) = jobs::dispatch(options, word, rest) {
        return done;
    }
    if let Some(done) = of_nodes(options, word, rest) {
        return done;
    }
    stands_alone(word, rest)?;
    if is("ping", 3) {
        return ping::main(options);
    }
    if is("reconfigure", 3) {
        return reconfigure(options);
    }
    if is("version", 3) {
        output::print(&format!("{SLURM_VERSION}\n"));
        return Ok(0);
    }
    if is("help", 2) || word == "?" {
        output::print(&super::flags::help::help(options.command));
        return Ok(0);
    }
    if is("errnumstr", 3) || is("errnostr", 3) {
        return need(word, rest, 1).and_then(|()| errno(&rest[0]));
    }
    if is("shutdown", 8) || is("abort", 5) {
        return told(options, &Request::Shutdown, "slurm_shutdown error");
    }
    if is("all", 3)
        || is("hide", 3)
        || is("oneliner", 3)
        || is("details", 3)
        || is("quiet", 4)
        || is("verbose", 4)
    {
        // Alone on a command line these change nothing that follows; in a session they do.
        return Ok(0);
    }
    let known = LATER
        .iter()
        .find(|(full, ..)| abbreviates(word, full, full.len().min(5)));
    if let Some((full, least, instead)) = known {
        need(full, rest, *least)?;
        return Err(unavailable(full, instead));
    }
    Err(invalid(word))
}

/// Refuses what follows a word that nothing may follow.
fn stands_alone(word: &str, rest: &[String]) -> Result<(), Failure> {
    let alone = [("ping", 3), ("reconfigure", 3), ("version", 3)];
    let mut alone = alone.iter();
    if rest.is_empty() || !alone.any(|(full, least)| abbreviates(word, full, *least)) {
        return Ok(());
    }
    let text = format!("too many arguments for keyword:{word}");
    Err(Failure::plain(text, 1))
}

/// What is asked of nodes rather than of the controller.
fn of_nodes(options: &Options, word: &str, rest: &[String]) -> Option<Result<u8, Failure>> {
    let first = rest.first().map(String::as_str);
    let is = |full: &str, least: usize| abbreviates(word, full, least);
    match () {
        () if is("liststeps", 5) => Some(show::list_steps(first)),
        () if is("listjobs", 5) => Some(show::list_jobs(first)),
        () if is("listpids", 5) => Some(pids::list(rest)),
        () if is("pidinfo", 3) => Some(pids::info(options, rest)),
        () => None,
    }
}

/// First words that do something here.
pub(in crate::cli) const WORDS: [&str; 27] = [
    "all",
    "completing",
    "create",
    "delete",
    "errnumstr",
    "help",
    "hold",
    "listjobs",
    "listpids",
    "liststeps",
    "oneliner",
    "pidinfo",
    "ping",
    "quiet",
    "reconfigure",
    "release",
    "requeue",
    "requeuehold",
    "resume",
    "show",
    "shutdown",
    "suspend",
    "top",
    "uhold",
    "update",
    "version",
    "wait_job",
];

/// Words that Slurm has and that need arguments, with the fewest; and what to say of them here.
const LATER: [(&str, usize, &str); 14] = [
    ("callerid", 3, ""),
    ("cancel_reboot", 1, "nodes are never booted"),
    ("cluster", 0, "there is only this cluster"),
    ("completing", 0, "see `squeue -t CG`"),
    ("fsdampeningfactor", 1, "fair shares are not enforced"),
    ("getaddrs", 1, "agents are reached by their sockets"),
    ("gethost", 1, ""),
    ("power", 1, "nodes are never powered"),
    ("reboot", 0, "nodes are never booted"),
    ("reboot_nodes", 0, "nodes are never booted"),
    ("schedloglevel", 1, "set SPUR_LOG for the daemon"),
    ("setdebug", 1, "set SPUR_LOG for the daemon"),
    ("setdebugflags", 1, "set SPUR_LOG for the daemon"),
    ("takeover", 0, "there is one controller"),
];

/// What to say of a word that is Slurm's but not ours; `None` if it is nobody's.
fn later(words: &[(&str, &str)], word: &str) -> Option<Failure> {
    let (word, instead) = words
        .iter()
        .find(|(full, _)| full.eq_ignore_ascii_case(word))?;
    Some(unavailable(word, instead))
}

fn unavailable(word: &str, instead: &str) -> Failure {
    let instead = match instead {
        "" => String::new(),
        instead => format!(": {instead}"),
    };
    Failure::error("scontrol", format!("{word} is not available{instead}"))
}

/// Whether a word is the beginning of another, at least so many letters of it, in any case.
fn abbreviates(word: &str, full: &str, least: usize) -> bool {
    let begins = full
        .get(..word.len())
        .is_some_and(|part| part.eq_ignore_ascii_case(word));
    begins && word.len() >= least
}

fn invalid(word: &str) -> Failure {
    Failure::plain(format!("invalid keyword: {word}"), 1).nearest(word, WORDS)
}

/// Whether a word that is Slurm's has as many arguments as it needs, before anything else is said of it.
fn need(word: &str, rest: &[String], least: usize) -> Result<(), Failure> {
    if rest.len() >= least {
        return Ok(());
    }
    Err(Failure::plain(
        format!("too few arguments for keyword:{word}"),
        1,
    ))
}

fn reconfigure(options: &Options) -> Result<u8, Failure> {
    told(options, &Request::Reconfigure, "slurm_reconfigure error")
}

/// Asks for something that only operators may; a refusal is worded with this before it, unless `-Q`.
fn told(options: &Options, request: &Request, prefix: &str) -> Result<u8, Failure> {
    match link::question(request) {
        Ok(_) => Ok(0),
        Err(_) if options.on("quiet") => Ok(1),
        Err(trouble) if trouble.kind() == Some(RefusalKind::AccessDenied) => {
            Err(Failure::plain(format!("{prefix}: Invalid user id"), 1))
        }
        Err(trouble) => Err(worded(prefix, &trouble)),
    }
}

/// `scontrol errnumstr N`: the system's text.
fn errno(text: &str) -> Result<u8, Failure> {
    let bad = |_| {
        Failure::plain(
            format!("numeric arguments required for keyword:errnumstr ({text})"),
            1,
        )
    };
    let number: i32 = text.parse().map_err(bad)?;
    let error = std::io::Error::from_raw_os_error(number).to_string();
    let words = error.split(" (os error").next().unwrap_or_default();
    output::print(&format!("{words}\n"));
    Ok(0)
}

/// Asks one thing, with trouble worded as `PREFIX: WHY`.
fn ask(request: &Request, prefix: &str) -> Result<Reply, Failure> {
    link::question(request).map_err(|trouble| worded(prefix, &trouble))
}

fn worded(prefix: &str, trouble: &Trouble) -> Failure {
    Failure::plain(format!("{prefix}: {}", trouble.text()), 1)
}

//! What the views share in printing: formats, headings, repetition.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::{Options, Source};
use super::render::View;
use spur_core::slurm::raw;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Something that was to be written was not: the command must not end as if all were well.
static INCOMPLETE: AtomicBool = AtomicBool::new(false);
/// Nobody reads standard output any more.
static UNREAD: AtomicBool = AtomicBool::new(false);

/// Prints to stdout. Bytes that are kept in the text as characters are bytes again.
pub fn print(text: &str) {
    write(&raw::bytes(text));
}

/// Writes to stdout. A reader that went away is no failure; any other is said once and makes the exit code 1 ([`code`]).
pub fn write(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    drop(out);
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            UNREAD.store(true, Ordering::Relaxed);
        }
        written => note("standard output", written),
    }
}

/// Takes note of a write to something that the user asked for by name.
pub fn note(what: &str, written: std::io::Result<()>) {
    if let Err(error) = written
        && !INCOMPLETE.swap(true, Ordering::Relaxed)
    {
        complain(&[format!(
            "{}: error: cannot write to {what}: {error}",
            super::process::command_name()
        )]);
    }
}

/// Whether it is no use to go on printing: the reader went away, or writing fails.
pub fn is_over() -> bool {
    UNREAD.load(Ordering::Relaxed) || INCOMPLETE.load(Ordering::Relaxed)
}

/// Whether a write found that nobody reads standard output any more.
pub fn is_unread() -> bool {
    UNREAD.load(Ordering::Relaxed)
}

/// Ends when nobody reads standard output any more; never, if it is a file or a terminal.
pub async fn unread() {
    use rustix::event::{PollFd, PollFlags, poll};
    let (tell, told) = tokio::sync::oneshot::channel();
    // A thread of its own, which ends with the process: poll without events waits for an error only.
    let watch = move || {
        let out = std::io::stdout();
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        while poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
        UNREAD.store(true, Ordering::Relaxed);
        tell.send(()).ok();
    };
    let started = std::thread::Builder::new().spawn(watch);
    if started.is_err() || told.await.is_err() {
        std::future::pending().await
    }
}

/// The exit code of a command that would end with `code`: never 0 when its output is incomplete.
pub fn code(code: u8) -> u8 {
    if code == 0 && INCOMPLETE.load(Ordering::Relaxed) {
        1
    } else {
        code
    }
}

/// Prints lines to stderr. If even that fails, nobody listens.
pub fn complain(lines: &[String]) {
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    let _written = std::io::stderr().lock().write_all(&raw::bytes(&text));
}

/// Error lines of a command.
pub fn errors(command: &str, errors: &[String]) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{command}: error: {error}"))
        .collect()
}

/// A format as given: the command line's before the environment's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// `-o`.
    Letters(String),
    /// `-O`.
    Names(String),
}

/// The format that counts: of both kinds, the one from the stronger source, and `-o` among equals.
pub fn format(options: &Options) -> Option<Format> {
    let source = |long| options.last(long).map(|given| given.source);
    let letters = || {
        options
            .value("format")
            .map(|f| Format::Letters(f.to_owned()))
    };
    let names = || options.value("Format").map(|f| Format::Names(f.to_owned()));
    // `-l` and the like on the command line win over a format from the environment.
    let shaped = ["start", "step", "summarize", "Node", "list-reasons"];
    let long = options.command == Command::Squeue && on_command_line(options, "long");
    let overruled = long || shaped.iter().any(|long| on_command_line(options, long));
    match (source("format"), source("Format")) {
        (None, None) => None,
        (a, b) if a.max(b) == Some(Source::Environment) && overruled => None,
        (a, b) if b > a => names(),
        (_, _) => letters(),
    }
}

/// Whether an option that this command may not even have was given on the command line.
pub fn on_command_line(options: &Options, long: &str) -> bool {
    options
        .given()
        .iter()
        .any(|given| given.flag.long == long && given.source == Source::CommandLine)
}

/// The lines above the rows: the date with `-l`, then the header unless `-h`.
pub fn heading(options: &Options, view: &View, header: &str) -> String {
    let mut text = String::new();
    if options.on("long") || options.on("iterate") {
        text.push_str(&view.clock.heading());
        text.push('\n');
    }
    if !options.on("noheader") {
        text.push_str(header);
        text.push('\n');
    }
    text
}

/// Shows once, or with `-i` again and again until interrupted.
pub fn repeat(
    command: Command,
    options: &Options,
    mut show: impl FnMut() -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let Some(text) = options.value("iterate") else {
        return show().map(|()| 0);
    };
    let bad = || Failure::error(command, format!("invalid entry for --iterate={text}"));
    let seconds = text
        .parse::<u64>()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(bad)?;
    loop {
        if let Err(failure) = show() {
            complain(&[failure.to_string()]);
        }
        print("\n");
        if is_over() {
            return Ok(0);
        }
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

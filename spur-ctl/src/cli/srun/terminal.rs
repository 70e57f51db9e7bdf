//! srun's own terminal while a task has one: keys go to the task as they are, and the terminal is as before when srun ends.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::wire::Link;
use rustix::termios::{OptionalActions, OutputModes, Termios};
use spur_proto::wire::WindowSize;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The terminal.
#[derive(Debug)]
pub struct Terminal {
    fd: Arc<OwnedFd>,
    before: Termios,
    raw: bool,
    /// A message about its size waits to be sent.
    resizing: Arc<AtomicBool>,
}

impl Terminal {
    /// The one that `--pty` means: that of standard input, or of the descriptor that it names. `None` without `--pty`, and where
    /// there is no terminal, which is said.
    pub fn of(options: &Options) -> Option<Self> {
        let given = options.last("pty")?;
        let number = given.value.as_deref().unwrap_or_default();
        let equals = if number.is_empty() { "" } else { "=" };
        let found = Self::open(number);
        if found.is_none() {
            super::err(format_args!(
                "Not using a pseudo-terminal, disregarding --pty{equals}{number} option"
            ));
        }
        found
    }

    /// That of standard input, or of the descriptor of this number.
    pub fn open(number: &str) -> Option<Self> {
        let fd = open(number).ok()?;
        let before = rustix::termios::tcgetattr(&fd).ok()?;
        Some(Self {
            fd: Arc::new(fd),
            before,
            raw: false,
            resizing: Arc::default(),
        })
    }

    /// Its size.
    pub fn size(&self) -> WindowSize {
        size(&self.fd)
    }

    /// Its input, where that is not srun's own.
    pub fn input(&self, options: &Options) -> Option<File> {
        options.value("pty").filter(|number| !number.is_empty())?;
        self.fd.try_clone().ok().map(File::from)
    }

    /// Passes keys on as they are from now on, Ctrl-C too. Lines that srun itself prints still end at the left edge. In the
    /// background the terminal is somebody else's.
    pub fn make_raw(&mut self) {
        if !in_foreground(&self.fd) {
            return;
        }
        let mut modes = self.before.clone();
        modes.make_raw();
        modes.output_modes |= OutputModes::OPOST;
        self.raw = rustix::termios::tcsetattr(&self.fd, OptionalActions::Now, &modes).is_ok();
    }

    /// The size may have changed: tells the node of the task, as soon as input that no task takes lets it pass.
    pub fn tell_size(&self, link: &Link) {
        // Whoever waits already reads the size when its turn comes.
        if self.resizing.swap(true, Ordering::Relaxed) {
            return;
        }
        let (fd, resizing) = (Arc::clone(&self.fd), Arc::clone(&self.resizing));
        let link = link.clone();
        tokio::spawn(async move {
            link.resize(|| {
                resizing.store(false, Ordering::Relaxed);
                size(&fd)
            })
            .await;
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.raw && in_foreground(&self.fd) {
            // There is nobody to tell.
            rustix::termios::tcsetattr(&self.fd, OptionalActions::Now, &self.before).ok();
        }
    }
}

/// Refuses what `--pty` cannot mean, before anything is asked for.
pub fn check(options: &Options) -> Result<(), Failure> {
    let Some(given) = options.last("pty") else {
        return Ok(());
    };
    let number = given.value.as_deref().unwrap_or_default();
    let equals = if number.is_empty() { "" } else { "=" };
    let streams = ["input", "output", "error"];
    if streams.iter().any(|stream| options.on(stream)) {
        let why = "--error/--input/--output are incompatible with --pty";
        let why = format!("{why}{equals}{number}");
        return Err(Failure::error(Command::Srun, why));
    }
    if number.is_empty() || number.starts_with(|first: char| first.is_ascii_digit()) {
        return Ok(());
    }
    let why = format!("--pty={number} must be numeric file descriptor");
    Err(Failure::fatal(Command::Srun, why))
}

fn open(number: &str) -> std::io::Result<OwnedFd> {
    if number.is_empty() {
        return std::io::stdin().as_fd().try_clone_to_owned();
    }
    let how = File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{number}"));
    Ok(how?.into())
}

fn size(fd: impl AsFd) -> WindowSize {
    let size = rustix::termios::tcgetwinsize(fd);
    size.map_or_else(
        |_| WindowSize::default(),
        |size| WindowSize {
            rows: size.ws_row.into(),
            columns: size.ws_col.into(),
        },
    )
}

/// Whether this process may read and change a terminal: a background job would be stopped for trying.
pub fn in_foreground(fd: impl AsFd) -> bool {
    let foreground = rustix::termios::tcgetpgrp(fd);
    foreground.is_ok_and(|group| group == rustix::process::getpgrp())
}

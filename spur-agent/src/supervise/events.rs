//! The supervisor's loop: one `poll(2)` over everything that can happen to a step.

use super::client::Gone;
use super::note;
use super::step::{Phase, Step};
use super::task::Stream;
use crate::launch::supervisor::{MAX_ORDER, Order};
use crate::sys;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;
use spur_proto::wire::{Stdin, to_step};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// While more input than this waits for a task to take it, the client's messages are not read.
const STDIN_HIGH: usize = 1 << 20;

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Control,
    Signals,
    Client,
    Cgroup,
    Status(usize),
    Stdin(usize),
    Output(usize, Stream),
}

/// What a supervisor listens to besides the step's own descriptors.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Orders of the agent.
    pub(crate) control: OwnedFd,
    /// `SIGCHLD` and `SIGTERM`.
    pub(crate) signals: OwnedFd,
}

impl Step<'_> {
    /// Runs until the step has ended and the client knows.
    pub(crate) fn run(&mut self, inputs: &Inputs) -> io::Result<()> {
        self.start();
        if self.take_messages().is_err() {
            self.client_gone();
        }
        loop {
            self.advance();
            self.flush();
            if self.phase == Phase::Closing
                && self
                    .client
                    .as_ref()
                    .is_none_or(|client| !client.wants_out())
            {
                return Ok(());
            }
            for (source, what) in self.wait(inputs)? {
                self.handle(source, what, inputs)?;
            }
            if !self.on_time() {
                note("processes survived SIGKILL: leaving them to the agent");
                return Ok(());
            }
        }
    }

    /// Waits for something to happen or to be due.
    fn wait(&self, inputs: &Inputs) -> io::Result<Vec<(Source, PollFlags)>> {
        let (sources, mut fds): (Vec<_>, Vec<_>) = self.interests(inputs).into_iter().unzip();
        let left = self
            .ending
            .deadline()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let happened = sources
            .into_iter()
            .zip(&fds)
            .map(|(source, fd)| (source, fd.revents()));
        Ok(happened.filter(|(_, what)| !what.is_empty()).collect())
    }

    fn interests<'f>(&'f self, inputs: &'f Inputs) -> Vec<(Source, PollFd<'f>)> {
        let mut all = vec![
            (Source::Control, PollFd::new(&inputs.control, PollFlags::IN)),
            (Source::Signals, PollFd::new(&inputs.signals, PollFlags::IN)),
        ];
        if let Some(client) = &self.client {
            let mut flags = PollFlags::empty();
            let room = self
                .tasks
                .iter()
                .filter_map(|t| t.stdin.as_ref())
                .all(|s| s.waiting() < STDIN_HIGH);
            flags.set(PollFlags::IN, client.is_open() && room);
            flags.set(PollFlags::OUT, client.wants_out());
            all.push((
                Source::Client,
                PollFd::from_borrowed_fd(client.as_fd(), flags),
            ));
        }
        if let Some(events) = self
            .events
            .as_ref()
            .filter(|_| self.phase == Phase::Draining)
        {
            all.push((
                Source::Cgroup,
                PollFd::from_borrowed_fd(events.as_fd(), PollFlags::PRI),
            ));
        }
        let room = self
            .client
            .as_ref()
            .is_none_or(super::client::Client::has_room);
        for (at, task) in self.tasks.iter().enumerate() {
            if let Some(status) = &task.status {
                all.push((Source::Status(at), PollFd::new(status, PollFlags::IN)));
            }
            if let Some(stdin) = task.stdin.as_ref().filter(|stdin| stdin.waiting() > 0) {
                all.push((Source::Stdin(at), PollFd::new(&stdin.pipe, PollFlags::OUT)));
            }
            let outputs = [
                (Stream::Stdout, &task.stdout),
                (Stream::Stderr, &task.stderr),
            ];
            for (stream, pipe) in outputs.into_iter().filter(|_| room) {
                all.extend(
                    pipe.as_ref()
                        .map(|pipe| (Source::Output(at, stream), PollFd::new(pipe, PollFlags::IN))),
                );
            }
        }
        all
    }

    fn handle(&mut self, source: Source, what: PollFlags, inputs: &Inputs) -> io::Result<()> {
        match source {
            Source::Control => self.take_orders(&inputs.control),
            Source::Signals => self.take_signals(&inputs.signals)?,
            Source::Client => self.serve_client(what),
            // Only wakes the loop, which looks by itself.
            Source::Cgroup => {}
            Source::Status(at) => self.take_status(at),
            Source::Stdin(at) => self.feed(at),
            Source::Output(at, stream) => self.pump(at, stream),
        }
        Ok(())
    }

    fn take_orders(&mut self, control: &OwnedFd) {
        let mut bytes = [0; MAX_ORDER];
        while let Ok((count, _)) =
            rustix::net::recv(control, bytes.as_mut_slice(), RecvFlags::DONTWAIT)
        {
            match rmp_serde::from_slice(bytes.get(..count).unwrap_or_default()) {
                Ok(Order::Signal(number)) if (1..=64).contains(&number) => self.signal(number),
                Ok(Order::End { grace_ms, reason }) => {
                    self.end(Duration::from_millis(grace_ms), reason)
                }
                Ok(Order::Signal(number)) => note(&format!("there is no signal {number}")),
                Err(error) => note(&format!("an order is damaged: {error}")),
            }
        }
    }

    fn take_signals(&mut self, signals: &OwnedFd) -> io::Result<()> {
        while let Some(signal) = sys::signal::next(signals)? {
            if signal == libc::SIGTERM {
                let grace = Duration::from_secs(self.spec.kill_wait.into());
                self.end(grace, crate::launch::EndReason::Cancelled);
            }
        }
        // One SIGCHLD may stand for many children.
        while let Some(child) = sys::process::reap_any()? {
            self.reaped(child);
        }
        Ok(())
    }

    fn serve_client(&mut self, what: PollFlags) {
        let Some(client) = &mut self.client else {
            return;
        };
        let mut gone = what.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        if what.contains(PollFlags::IN) && !gone {
            gone = client.read().is_err();
        }
        if gone || self.take_messages().is_err() {
            self.client_gone();
        }
    }

    /// Carries out what the client sent.
    pub(crate) fn take_messages(&mut self) -> Result<(), Gone> {
        while let Some(message) = self
            .client
            .as_mut()
            .map_or(Ok(None), super::client::Client::next)?
        {
            match message.kind {
                Some(to_step::Kind::Stdin(Stdin { data, eof })) => self.input(&data.into(), eof),
                Some(to_step::Kind::Signal(signal)) => match u8::try_from(signal.number) {
                    Ok(number @ 1..=64) => self.signal(number),
                    _ => note(&format!("there is no signal {}", signal.number)),
                },
                // Terminals are not there yet; a second Open, or nothing, breaks the protocol.
                Some(to_step::Kind::Window(_)) => {}
                Some(to_step::Kind::Open(_)) | None => return Err(Gone),
            }
        }
        if self.client.as_ref().is_some_and(|client| !client.is_open()) {
            self.input(&Bytes::new(), true);
        }
        Ok(())
    }

    /// Hands input to the tasks that get it.
    pub(crate) fn input(&mut self, data: &Bytes, eof: bool) {
        for at in 0..self.tasks.len() {
            if let Some(stdin) = self.tasks.get_mut(at).and_then(|task| task.stdin.as_mut()) {
                stdin.push(data.clone(), eof);
            }
            self.feed(at);
        }
    }

    fn feed(&mut self, at: usize) {
        let Some(task) = self.tasks.get_mut(at) else {
            return;
        };
        if task.stdin.as_mut().is_some_and(|stdin| !stdin.write()) {
            task.stdin = None;
        }
    }

    fn pump(&mut self, at: usize, stream: Stream) {
        let room = self
            .client
            .as_ref()
            .is_none_or(super::client::Client::has_room);
        if let Some(task) = self.tasks.get_mut(at).filter(|_| room) {
            task.pump(stream, self.client.as_mut());
        }
    }

    fn flush(&mut self) {
        if self
            .client
            .as_mut()
            .is_some_and(|client| client.flush().is_err())
        {
            self.client_gone();
        }
    }
}

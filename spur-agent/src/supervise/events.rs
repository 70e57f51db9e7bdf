//! The supervisor's loop: one `poll(2)` over everything that can happen to a step.

use super::client::Gone;
use super::note;
use super::step::{Phase, Step};
use super::task::Stream;
use crate::launch::supervisor::{self, Order};
use crate::sys;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec};
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
    Viewer(usize),
    Cgroup,
    Status(usize),
    Stdin(usize),
    Output(usize, Stream),
    Mpi(usize),
    Pmix,
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
            self.tell_taken();
            self.flush();
            if self.phase == Phase::Closing
                && self.audience.client_has_all()
                && (self.audience.viewers_have_all() || self.ending.viewers_left())
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
            .wake()
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
        let mut stdins = self.tasks.iter().filter_map(|t| t.stdin.as_ref());
        let stdin_room = stdins.all(|s| s.waiting() < STDIN_HIGH) && !self.waits_for_pmix();
        for (at, fd, flags) in self.audience.viewers(stdin_room) {
            all.push((Source::Viewer(at), PollFd::from_borrowed_fd(fd, flags)));
        }
        if let Some(client) = self.audience.client() {
            let mut flags = PollFlags::empty();
            let pmix_room = self.pmix.as_ref().is_none_or(super::pmix::Pmix::has_room);
            flags.set(PollFlags::IN, client.is_open() && stdin_room && pmix_room);
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
        let room = self.audience.has_room();
        if let Some(mpi) = &self.mpi {
            let all_of = mpi.interests(room);
            all.extend(
                all_of.map(|(at, socket, flags)| (Source::Mpi(at), PollFd::new(socket, flags))),
            );
        }
        if let Some((socket, flags)) = self.pmix.as_ref().and_then(|pmix| pmix.interest(room)) {
            all.push((Source::Pmix, PollFd::new(socket, flags)));
        }
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
            Source::Viewer(at) => self.serve_viewer(at, what),
            // Only wakes the loop, which looks by itself.
            Source::Cgroup => {}
            Source::Status(at) => self.take_status(at),
            Source::Stdin(at) => self.feed(at),
            Source::Output(at, stream) => self.pump(at, stream),
            Source::Mpi(at) => self.serve_mpi(at, what),
            Source::Pmix => self.serve_pmix(what),
        }
        Ok(())
    }

    fn take_orders(&mut self, control: &OwnedFd) {
        while let Ok((order, socket)) = supervisor::receive(control) {
            match (order, socket) {
                (Ok(Order::Signal(number)), _) if (1..=64).contains(&number) => self.signal(number),
                (Ok(Order::SignalGroup(number)), _) if (1..=64).contains(&number) => {
                    self.signal_tasks_groups(number)
                }
                (Ok(Order::End { grace_ms, reason }), _) => {
                    self.end(Duration::from_millis(grace_ms), reason)
                }
                (Ok(Order::Pause(paused)), _) => self.ending.pause(paused, Instant::now()),
                (Ok(Order::Attach), Some(socket)) => self.admit(socket),
                (Ok(Order::Attach), None) => note("somebody attaches without a connection"),
                (Ok(Order::Signal(number) | Order::SignalGroup(number)), _) => {
                    note(&format!("there is no signal {number}"))
                }
                (Err(error), _) => note(&format!("an order is damaged: {error}")),
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
        let Some(client) = self.audience.client_mut() else {
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
        if self.waits_for_pmix() {
            // There is nobody yet who could have them.
            return Ok(());
        }
        while let Some(message) = self
            .audience
            .client_mut()
            .map_or(Ok(None), super::client::Client::next)?
        {
            match message.kind {
                Some(to_step::Kind::Stdin(Stdin { data, eof, task })) => {
                    self.count_input(data.len());
                    self.input(&data.into(), eof, task);
                }
                Some(to_step::Kind::Signal(signal)) => match u8::try_from(signal.number) {
                    Ok(number @ 1..=64) => self.signal(number),
                    _ => note(&format!("there is no signal {}", signal.number)),
                },
                Some(to_step::Kind::Window(size)) => self.resize(crate::compose::window(&size)),
                Some(to_step::Kind::Exchange(exchange)) => self.exchanged(exchange)?,
                Some(to_step::Kind::Abort(abort)) => self.abort(abort.code),
                Some(to_step::Kind::Name(answer)) => self.name_answered(answer),
                Some(to_step::Kind::Pmix(message)) => self.tell_pmix(message),
                // A second one, or nothing, breaks the protocol.
                Some(to_step::Kind::Open(_)) | None => return Err(Gone),
            }
        }
        if self
            .audience
            .client()
            .is_some_and(|client| !client.is_open())
        {
            self.input(&Bytes::new(), true, None);
        }
        Ok(())
    }

    /// Somebody who attached may send input, and nothing else. Its end is the end of that input alone.
    fn serve_viewer(&mut self, at: usize, what: PollFlags) {
        for message in self.audience.hear(at, what) {
            if let Some(to_step::Kind::Stdin(Stdin { data, task, .. })) = message.kind {
                self.input(&data.into(), false, task);
            }
        }
    }

    /// Hands input to the tasks that get it: one of them only, if one is named.
    pub(crate) fn input(&mut self, data: &Bytes, eof: bool, only: Option<u32>) {
        for at in 0..self.tasks.len() {
            let task = self.tasks.get_mut(at);
            let task = task.filter(|task| only.is_none_or(|only| only == task.id));
            if let Some(stdin) = task.and_then(|task| task.stdin.as_mut()) {
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
        let room = self.audience.has_room();
        if let Some(task) = self.tasks.get_mut(at).filter(|_| room) {
            task.pump(stream, &mut self.audience);
        }
    }

    fn flush(&mut self) {
        if self.audience.flush().is_err() {
            self.client_gone();
        }
    }
}

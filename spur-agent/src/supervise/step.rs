//! A step's life on this node: children are made and proven, let go together, watched, and what is left is killed.

use super::audience::Audience;
use super::child::Child;
use super::ending::Ending;
use super::hooks::Epilog;
use super::mpi::Mpi;
use super::orphan::Orphan;
use super::plan::Planner;
use super::pmix::Pmix;
use super::program;
use super::status::{self, Stage, Status};
use super::task::{Before, Task};
use super::{message, note, now};
use crate::cgroup::{Cgroup, Events};
use crate::launch::{ExitRecord, StepLaunch, TaskEnd, Window};
use crate::sys;
use crate::sys::process::Reaped;
use spur_core::job::state::ExitStatus;
use spur_proto::wire::{Ended, Started, StepError, TaskExit, from_step};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

/// Where the step is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Children prepare; none has executed anything of the job.
    Starting,
    /// Tasks run.
    Running,
    /// All tasks have ended; leftovers are being killed and the last output goes to the client.
    Draining,
    /// The last message is queued.
    Closing,
}

/// A step on this node.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) spec: &'a StepLaunch,
    pub(crate) dir: &'a Path,
    pub(crate) cgroup: Cgroup,
    pub(crate) phase: Phase,
    pub(crate) tasks: Vec<Task>,
    pub(crate) audience: Audience,
    /// Lets the children go, one byte each.
    pub(crate) go: Option<OwnedFd>,
    pub(crate) ending: Ending,
    /// Standard error of the first task if that is a file.
    pub(crate) stderr: Option<OwnedFd>,
    /// Signals that came before the tasks were let go: bit n is signal n.
    pub(crate) early_signals: u128,
    pub(crate) events: Option<Events>,
    pub(crate) orphan: Orphan,
    /// What runs after tasks.
    pub(crate) epilogs: Vec<Epilog>,
    /// The `oom_score_adj` to give back to tasks, if the supervisor has another.
    pub(crate) oom_score: Option<String>,
    pub(crate) record: ExitRecord,
    /// Whether the record is what there is to say.
    pub(crate) settled: bool,
    /// Whether it was written.
    pub(crate) recorded: bool,
    pub(crate) mpi: Option<Mpi>,
    pub(crate) pmix: Option<Pmix>,
    /// What the step's exit is because a task aborted it.
    pub(crate) aborted: Option<ExitStatus>,
}

impl<'a> Step<'a> {
    /// A step of which nothing runs yet.
    pub(crate) fn new(
        spec: &'a StepLaunch,
        dir: &'a Path,
        cgroup: Cgroup,
        audience: Audience,
    ) -> Self {
        Self {
            spec,
            dir,
            cgroup,
            phase: Phase::Starting,
            tasks: Vec::new(),
            audience,
            go: None,
            ending: Ending::default(),
            stderr: None,
            early_signals: 0,
            events: None,
            orphan: Orphan::new(spec.agent.as_ref()),
            epilogs: Vec::new(),
            oom_score: None,
            record: ExitRecord::default(),
            settled: false,
            recorded: false,
            mpi: Mpi::new(spec),
            pmix: None,
            aborted: None,
        }
    }

    /// Makes every child, or first what they need.
    pub(crate) fn start(&mut self) {
        let mpi = self.spec.mpi.as_ref();
        match mpi.and_then(|mpi| mpi.pmix.as_ref()) {
            None => self.start_tasks(),
            Some(step) => {
                if let Err(error) = self.start_pmix(step) {
                    self.not_made("the PMIx server", &error);
                }
            }
        }
    }

    /// Makes every child. They stop before exec until all have reported ready.
    pub(crate) fn start_tasks(&mut self) {
        if let Err(error) = self.make_children() {
            self.not_made("the tasks", &error);
        }
    }

    fn not_made(&mut self, what: &str, error: &io::Error) {
        // New tasks count towards the job's own limits of processes and memory, which a step of it may have used up.
        let own = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM));
        let why = super::child::reason(error);
        self.fail(&format!("could not start {what}: {why}"), !own);
    }

    fn make_children(&mut self) -> io::Result<()> {
        let (wait, go) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        self.go = Some(go);
        let script = self.spec.script.as_deref();
        let script = script
            .map(|script| program::write_script(self.dir, script, &self.spec.owner))
            .transpose()?;
        let mut planner = Planner::new(self.spec);
        for task in &self.spec.tasks {
            let (ends, ours) = planner.task(task)?;
            let (our_status, status) = status::pair()?;
            let mpi = self.mpi.as_mut().filter(|_| self.pmix.is_none());
            let mpi = mpi.map(|mpi| mpi.connect(task.id));
            let pmix = self.pmix.as_ref().map_or(&[][..], |pmix| pmix.env(task.id));
            let own_session = self.spec.terminal_of(task).is_some();
            let group = self.group().filter(|_| !own_session);
            let child = Child {
                spec: self.spec,
                task,
                prolog: &self.spec.hooks.prolog,
                script: script.as_deref(),
                ends,
                status,
                mpi: mpi.transpose()?,
                pmix,
                go: wait.as_fd(),
                group,
                oom_score: self.oom_score.as_deref(),
            };
            let pid = sys::clone::clone_into(self.cgroup.as_fd(), || child.run())?;
            let group = group.unwrap_or(pid);
            self.tasks
                .push(Task::new(task.id, (pid, group), our_status, ours));
            if own_session {
                continue;
            }
            // The child does the same; but the group must be there for the next child.
            let (member, leader) = (
                rustix::process::Pid::from_raw(pid),
                rustix::process::Pid::from_raw(group),
            );
            rustix::process::setpgid(member, leader)?;
        }
        Ok(())
    }

    /// The group that tasks share: that of the first without a session of its own.
    fn group(&self) -> Option<i32> {
        let shared = self.tasks.iter().zip(&self.spec.tasks);
        let mut shared = shared.filter(|(_, spec)| self.spec.terminal_of(spec).is_none());
        shared.next().map(|(task, _)| task.group)
    }

    /// The client's terminal has another size now.
    pub(crate) fn resize(&self, window: Window) {
        let first = self.tasks.iter().zip(&self.spec.tasks);
        let mut first = first.filter(|(_, spec)| self.spec.terminal_of(spec).is_some());
        if let Some(terminal) = first.next().and_then(|(task, _)| task.stdout.as_ref())
            && let Err(error) = super::terminal::resize(terminal, window)
        {
            note(&format!("could not resize the task's terminal: {error}"));
        }
    }

    /// Takes a child's report.
    pub(crate) fn take_status(&mut self, at: usize) {
        let Some(task) = self.tasks.get_mut(at) else {
            return;
        };
        let Some(socket) = &task.status else { return };
        let id = task.id;
        match status::receive(socket) {
            Ok(Some(Status::Ready(stderr))) => {
                task.ready = true;
                if at == 0 {
                    self.stderr = stderr;
                }
                if self.phase == Phase::Starting && self.tasks.iter().all(|task| task.ready) {
                    self.let_go();
                }
            }
            Ok(Some(Status::Failed(stage, text))) => {
                task.status = None;
                self.fail(&text, matches!(stage, Stage::Fence | Stage::Node));
            }
            Ok(Some(Status::NoExec(text))) => note(&format!("task {id}: {text}")),
            Ok(None) => {
                task.status = None;
                if !task.ready {
                    // Not the node's fault: it is its user's process by now, whom nothing keeps from killing it, and a node
                    // at fault is drained.
                    self.fail(&format!("task {id} died before it was ready"), false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.fail(&format!("lost touch with task {id}: {error}"), true),
        }
    }

    /// Lets every child execute its program.
    fn let_go(&mut self) {
        if let Err(error) = crate::launch::record::unmark_starting(self.dir) {
            return self.fail(&error.to_string(), true);
        }
        let go = vec![0; self.tasks.len()];
        let sent = self.go.take().map(|pipe| rustix::io::write(pipe, &go));
        if !matches!(sent, Some(Ok(count)) if count == go.len()) {
            return self.fail("could not let the tasks go", true);
        }
        self.phase = Phase::Running;
        self.record.started = now();
        self.limit();
        let started = self.started();
        self.tell(started);
        let early = std::mem::take(&mut self.early_signals);
        for signal in (1..=64u8).filter(|signal| early & (1 << signal) != 0) {
            self.signal(signal);
        }
    }

    /// That the tasks run.
    fn started(&self) -> from_step::Kind {
        let pids = self.tasks.iter();
        let pids = pids.filter_map(|task| u32::try_from(task.pid).ok());
        from_step::Kind::Started(Started {
            pids: pids.collect(),
        })
    }

    /// Somebody attaches: hears that the tasks run, what they said last, which have ended, and then what all hear.
    pub(crate) fn admit(&mut self, socket: OwnedFd) {
        let runs = match self.phase {
            Phase::Starting => false,
            Phase::Running | Phase::Draining => true,
            // The connection ends, as that of the others.
            Phase::Closing => return,
        };
        let started = runs.then(|| self.started());
        let told = self.tasks.iter().filter(|task| runs && task.told);
        let ends = told.filter_map(|task| task.end);
        let ends = ends.map(|end| exit_of(end, false));
        match self.audience.admit(socket, started, ends) {
            Ok(true) => {}
            Ok(false) => note("nobody else may attach: too many did"),
            Err(error) => note(&format!("nobody could attach: {error}")),
        }
    }

    /// Gives the step up before anything of the job ran.
    pub(crate) fn fail(&mut self, why: &str, node_fault: bool) {
        note(why);
        if self.phase != Phase::Starting || self.record.failure.is_some() {
            return;
        }
        // Whoever still waits for the word reads the end of the pipe and exits.
        self.go = None;
        self.record.failure = Some(why.to_owned());
        self.record.node_fault = node_fault;
        self.record.exit = ExitStatus { code: 1, signal: 0 };
        let text = message(&self.spec.node, why).trim_end().to_owned();
        self.tell(from_step::Kind::Error(StepError {
            text,
            task_known: false,
            task: 0,
            refused: node_fault,
        }));
        self.kill();
        self.advance();
    }

    /// Sends a signal to every live task; 9 kills all that is in the step's cgroup.
    pub(crate) fn signal(&mut self, signal: u8) {
        if self.phase == Phase::Starting && i32::from(signal) != libc::SIGKILL {
            self.early_signals |= 1 << signal.min(64);
            return;
        }
        if i32::from(signal) == libc::SIGKILL {
            if self.phase == Phase::Starting {
                self.fail("killed before it started", false);
            }
            return self.kill();
        }
        for task in self.tasks.iter().filter(|task| task.end.is_none()) {
            if let Err(error) = sys::process::kill(task.pid, i32::from(signal)) {
                note(&format!(
                    "could not send signal {signal} to task {}: {error}",
                    task.id
                ));
            }
        }
    }

    /// Notes the end of a child. Orphans of the job that were handed to us are only reaped.
    pub(crate) fn reaped(&mut self, child: Reaped) {
        let find = |task: &&mut Task| task.pid == child.pid && task.end.is_none();
        let Some(task) = self.tasks.iter_mut().find(find) else {
            return self.epilog_ended(&child);
        };
        let exit = ExitStatus {
            code: child.code,
            signal: child.signal,
        };
        task.end = Some(TaskEnd {
            id: task.id,
            pid: task.pid,
            exit,
            core: child.core,
        });
        task.stdin = None;
        let id = task.id;
        let in_mpi = self.left_mpi(id);
        if let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) {
            task.in_mpi = in_mpi;
        }
        if self.phase == Phase::Running {
            self.run_epilog(id);
        }
        // The others of an MPI program wait for one that ends within it.
        if self.phase == Phase::Running
            && (self.spec.kill_on_bad_exit || in_mpi)
            && exit != ExitStatus::default()
        {
            self.end_for_bad_exit();
        }
    }

    /// Goes as far as it can without waiting.
    pub(crate) fn advance(&mut self) {
        self.tell_ends();
        let over = self.tasks.iter().all(|task| task.end.is_some()) && self.epilogs.is_empty();
        if over && matches!(self.phase, Phase::Starting | Phase::Running) {
            if self.phase == Phase::Starting && self.record.failure.is_none() {
                // Its report may still be unread: that says more than its death.
                return;
            }
            if self.has_grace() || self.pmix_has_grace() {
                return;
            }
            self.settle();
        }
        if self.phase == Phase::Draining && self.is_empty() && self.drained() {
            self.close();
        }
    }

    /// Tells the client of each ended task, after the task's own output.
    fn tell_ends(&mut self) {
        if self.phase == Phase::Starting || self.record.failure.is_some() {
            return;
        }
        for task in &mut self.tasks {
            let after = self.epilogs.iter().any(|epilog| epilog.task == task.id);
            let Some(end) = task.end.filter(|_| !task.told && !after) else {
                continue;
            };
            if !task.drain(Before::Exit, &mut self.audience) {
                continue;
            }
            task.told = true;
            self.audience.tell(exit_of(end, task.in_mpi));
        }
    }

    /// Every task has ended: kills leftovers and writes the exit record, before the last output is delivered.
    fn settle(&mut self) {
        self.phase = Phase::Draining;
        if !self.is_empty() {
            self.kill();
        }
        self.record.ended = now();
        if self.record.failure.is_none() {
            self.record.tasks = self.tasks.iter().filter_map(|task| task.end).collect();
            let worst = self
                .record
                .tasks
                .iter()
                .map(|end| end.exit)
                .max_by_key(|exit| shell_status(*exit));
            self.record.exit = self.aborted.or(worst).unwrap_or_default();
        }
        self.record.oom = self.cgroup.oom_kills() > 0;
        self.settled = true;
        // What cannot be written now is tried again when the client has its output.
        match crate::launch::record::write_exit_record(self.dir, &self.record) {
            Ok(()) => self.recorded = true,
            Err(error) => note(&error.to_string()),
        }
    }

    /// Whether nothing of the step lives. The kernel's event wakes us when that changes.
    fn is_empty(&mut self) -> bool {
        if self.events.is_none() {
            self.events = self.cgroup.events().ok();
        }
        // A group that cannot be read is gone.
        !self
            .events
            .as_ref()
            .is_some_and(|events| events.populated().unwrap_or(false))
    }

    /// Whether the client has, or has room for, all output. Nobody in the step can write more.
    fn drained(&mut self) -> bool {
        let mut all = true;
        for task in &mut self.tasks {
            all &= task.drain(Before::Ended, &mut self.audience);
        }
        all && self
            .tasks
            .iter()
            .all(|task| task.told || self.record.failure.is_some())
    }

    /// Queues the last message.
    pub(crate) fn close(&mut self) {
        let record = &self.record;
        let ended = Ended {
            oom: record.oom,
            cancelled: record.cancelled,
            timed_out: record.timed_out,
        };
        self.tell(from_step::Kind::Ended(ended));
        self.clear_pmix();
        self.phase = Phase::Closing;
        self.ending.leave_viewers(Instant::now());
    }

    /// Kills all that is in the step's cgroup.
    pub(crate) fn kill(&mut self) {
        if let Err(error) = self.cgroup.kill() {
            note(&error.to_string());
        }
    }

    /// Queues a message for all who listen.
    pub(crate) fn tell(&mut self, kind: from_step::Kind) {
        self.audience.tell(kind);
    }
}

/// The message of a task's end.
fn exit_of(end: TaskEnd, in_mpi: bool) -> from_step::Kind {
    from_step::Kind::Exit(TaskExit {
        task: end.id,
        code: end.exit.code.into(),
        signal: end.exit.signal.into(),
        core_dumped: end.core,
        in_mpi,
    })
}

/// A status as a shell counts it.
pub(crate) fn shell_status(exit: ExitStatus) -> u16 {
    if exit.signal > 0 {
        128 + u16::from(exit.signal)
    } else {
        exit.code.into()
    }
}

//! What will happen when.

use spur_core::agent::order::{Report, ToAgent};
use spur_core::event::NodeHello;
use spur_core::id::{Generation, JobId, StepKind};
use spur_core::time::Millis;
use std::collections::BTreeMap;

/// A stream between an agent and the controller; never the same twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stream(pub(crate) u64);

/// A machine's position.
pub(crate) type At = usize;

/// A placement's part on a machine: events about another boot or generation are void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) at: At,
    pub(crate) boot: u32,
    pub(crate) job: JobId,
    pub(crate) generation: Generation,
}

/// A message on its way to the controller.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    Hello(Box<NodeHello>),
    Report(u64, Report),
}

/// Something that goes wrong, somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    ControllerCrash,
    AgentCrash,
    Reboot,
    Cut,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// A client submits its job.
    Submit(usize),
    /// A client does something about its job.
    Meddle(usize),
    /// An `salloc` ends.
    GiveBack(JobId),
    /// Released and resumed by the operator, whatever is held or drained.
    Operator,
    /// The controller's disk has written all that was decided.
    Durable(u32),
    /// Time alone makes something due.
    Due(u32),
    /// A message arrives.
    ToController(At, Stream, Word),
    /// A message arrives.
    ToAgent(At, Stream, Box<ToAgent>),
    /// The agent notices that its stream ended, or the controller does.
    ClosedAtAgent(At, Stream),
    ClosedAtController(At, Stream),
    /// An agent without a stream tries to connect.
    Connect(At, u32),
    /// A client of `srun` reaches its step.
    Client(Part, StepKind),
    /// A step's last task ends.
    StepEnds(Part, StepKind),
    /// The last process of a killed job is gone.
    Emptied(Part),
    ControllerStart,
    AgentStart(At),
    Fault(Fault),
    /// No fault from now on.
    Calm,
}

/// Happenings in order of time; at the same time, in order of scheduling.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) now: Millis,
    next: u64,
    waiting: BTreeMap<(Millis, u64), Happening>,
}

impl Queue {
    /// Nothing scheduled yet.
    pub(crate) fn starting(now: Millis) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    /// Schedules something so many milliseconds from now.
    pub(crate) fn after(&mut self, millis: u64, happening: Happening) {
        self.at(Millis(self.now.0.saturating_add(millis)), happening);
    }

    /// Schedules something at a moment, or now if that has passed.
    pub(crate) fn at(&mut self, at: Millis, happening: Happening) {
        self.next += 1;
        self.waiting
            .insert((at.max(self.now), self.next), happening);
    }

    /// The next happening; the clock moves to it.
    pub(crate) fn pop(&mut self) -> Option<Happening> {
        let ((at, _), happening) = self.waiting.pop_first()?;
        self.now = at;
        Some(happening)
    }
}

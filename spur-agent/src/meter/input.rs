//! What the agent tells the sampler.

use spur_core::id::{Generation, JobId, StepKind};
use spur_core::resources::NodeShare;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

/// Inputs that may wait for the sampler, which takes them at once; beyond, they are dropped and said to be.
pub const INPUTS_MAX: usize = 8192;

/// A job that is set up on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobBegins {
    /// Job.
    pub job: JobId,
    /// Generation of its placement.
    pub generation: Generation,
    /// What it holds here.
    pub share: NodeShare,
    /// For a job that is taken over from an earlier agent: when it started, by the controller's clock.
    pub started: Option<spur_core::time::Millis>,
}

/// A step whose control group exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepBegins {
    /// Job.
    pub job: JobId,
    /// Step.
    pub step: StepKind,
    /// Its control group.
    pub group: PathBuf,
    /// The group's number.
    pub cgroup: u64,
}

/// Everything that the sampler is told.
#[derive(Debug)]
pub enum Input {
    /// A job holds its share from now on.
    Job(Box<JobBegins>),
    /// A step begins.
    Step(Box<StepBegins>),
    /// A step ended.
    StepEnded(JobId, StepKind),
    /// A job's groups are about to be removed. Answered when its final numbers were read.
    JobEnds(JobId, SyncSender<()>),
    /// Nothing else was taken over: what is remembered of other jobs is of no use.
    TakenOver,
    /// Somebody looks.
    Watch {
        /// Milliseconds between readings.
        interval: u32,
        /// For so many milliseconds.
        time_to_live: u32,
    },
    /// Stop. Answered when all is handed over.
    Stop(SyncSender<()>),
}

/// Where inputs are sent. Sending never waits.
#[derive(Clone, Debug)]
pub struct Feed {
    sender: SyncSender<Input>,
}

impl Feed {
    /// Both ends.
    pub fn new() -> (Self, Receiver<Input>) {
        let (sender, receiver) = std::sync::mpsc::sync_channel(INPUTS_MAX);
        (Self { sender }, receiver)
    }

    /// Sends an input.
    pub fn send(&self, input: Input) {
        match self.sender.try_send(input) {
            Ok(()) => {}
            Err(TrySendError::Full(input)) => {
                tracing::error!(?input, "the meter does not keep up; this is not metered")
            }
            // It ended, or never began.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }
}

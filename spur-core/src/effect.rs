//! Every output of the cluster's state machine: what the shell must now do. Effects carry identities; the shell looks up the
//! rest in the cluster. Each may be repeated safely.

use crate::id::{Generation, JobId, NodeId, StepKind};
use std::collections::BTreeSet;

/// A mail about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// About which job.
    pub job: JobId,
    /// To whom.
    pub to: String,
    /// Whether that is the owner's name on this machine, because no address was given.
    pub local: bool,
    /// Its subject.
    pub subject: String,
    /// The environment of the program that sends it.
    pub env: Vec<(&'static str, String)>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the node that the job has this share there.
    Assign {
        /// Which node.
        node: NodeId,
        /// Which job.
        job: JobId,
    },
    /// Tell the node to run its part of a step (with its script for `Batch`).
    Launch {
        /// Which node.
        node: NodeId,
        /// Which job.
        job: JobId,
        /// Which step.
        step: StepKind,
    },
    /// Tell the node that the job must be gone: kill, clean, report.
    Revoke {
        /// Which node.
        node: NodeId,
        /// Which job.
        job: JobId,
        /// Placements up to this generation.
        generation: Generation,
    },
    /// Tell the node to send a signal to the job's steps there, or to its batch shell only.
    Signal {
        /// Which node.
        node: NodeId,
        /// Which job.
        job: JobId,
        /// `Batch` for its shell; `None` for all steps but that.
        step: Option<StepKind>,
        /// Number.
        signal: u8,
    },
    /// Somebody may wait for this job: its state changed.
    Notify {
        /// Which job.
        job: JobId,
    },
    /// Something happened to a job of which its owner wants to hear by mail.
    Mail(Box<Letter>),
    /// A program of the operator is due for this job on the controller's host, after those that were due for it before.
    Hook {
        /// Which job.
        job: JobId,
    },
    /// The job's payload is needed no more.
    DropPayload {
        /// Which job.
        job: JobId,
    },
}

/// What `apply` answers: never an error. An event that makes no sense in the present state is ignored, and says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// What to do, in order.
    pub effects: Vec<Effect>,
    /// Why the event was ignored, if it was.
    pub ignored: Option<&'static str>,
    /// Whether a planning pass is worth its time now (a job came, a device came free).
    pub replan: bool,
    /// Jobs whose state changed or that were forgotten: their published rows are stale.
    pub touched_jobs: BTreeSet<JobId>,
    /// Nodes whose state changed: their published rows are stale.
    pub touched_nodes: BTreeSet<NodeId>,
}

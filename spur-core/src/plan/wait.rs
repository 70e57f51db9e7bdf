//! Why a job waits, as a pass says it.

use super::ask::{Ask, GpuAsk};
use crate::cluster::Said;
use crate::job::state::Reason;
use std::borrow::Cow;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) reason: Reason,
    pub(super) text: Cow<'static, str>,
}

impl Wait {
    /// No more than the reason.
    pub(super) fn bare(reason: Reason) -> Self {
        Self {
            reason,
            text: Cow::Borrowed(""),
        }
    }

    /// For room, of which there is too little; of its partition's nodes so many take jobs.
    pub(super) fn for_room(ask: &Ask<'_>, ready: usize) -> Self {
        Self {
            reason: Reason::Resources,
            text: describe(ask, ready).into(),
        }
    }

    /// As jobs of a bucket say it.
    pub(super) fn said(&self) -> Said {
        Said::of(self.reason, &self.text)
    }
}

impl From<(Reason, String)> for Wait {
    fn from((reason, text): (Reason, String)) -> Self {
        let text = text.into();
        Self { reason, text }
    }
}

/// What the job waits for, in words that change only when its partition's nodes do.
fn describe(ask: &Ask<'_>, ready: usize) -> String {
    let gpus = |count: u32| match (ask.model, count) {
        ("", 1) => "1 GPU".to_owned(),
        ("", count) => format!("{count} GPUs"),
        (model, count) => format!("{count} {model}"),
    };
    let what = match ask.gpus {
        GpuAsk::No => {
            let cpus = u64::from(ask.tasks_on(ask.nodes_min)) * u64::from(ask.cpus_per_task);
            format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" })
        }
        GpuAsk::PerNode(count) => format!("{} a node", gpus(count)),
        GpuAsk::PerTask(count) => format!("{} a task", gpus(count)),
        GpuAsk::Total(count) => format!("{} in all", gpus(count)),
    };
    let nodes = match (ask.exclusive, ask.nodes_min) {
        (true, 1) => "a whole node".to_owned(),
        (true, nodes) => format!("{nodes} whole nodes"),
        (false, 1) => "one node".to_owned(),
        (false, nodes) => format!("{nodes} nodes"),
    };
    format!("waits for {what} on {nodes}; {ready} of its partition's nodes take jobs now")
}

//! What is known of a job and the fence, put side by side.

use spur_core::api::{JobView, NodeRows, NodeView};
use spur_core::denial::{Denial, DenialRow, DeviceOp};
use spur_core::id::NodeName;
use spur_core::node::{FenceState, Node};
use spur_core::resources::{Gpu, IdSet};
use std::sync::Arc;

/// A job, where it is, and what it was refused.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) job: Arc<JobView>,
    /// Nodes that it holds, or held, something on.
    pub(crate) places: Vec<Place>,
    /// Its newest lines.
    pub(crate) lines: Vec<Denial>,
}

/// One node of a job.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) node: NodeName,
    /// The fence's state and what is to be said of it; `None` if the node is not known any more.
    pub(crate) fence: Option<(FenceState, String)>,
    /// Whether that is what the node requires, so that jobs start there.
    pub(crate) suffices: bool,
    pub(crate) simulated: bool,
    /// All GPUs of the node.
    pub(crate) gpus: Vec<Gpu>,
    /// Those that the job holds.
    pub(crate) held: IdSet,
    pub(crate) rows: Vec<DenialRow>,
}

impl Facts {
    pub(crate) fn new(
        job: Arc<JobView>,
        nodes: &[Arc<NodeView>],
        mut rows: Vec<NodeRows>,
        lines: Vec<Denial>,
    ) -> Self {
        let places = job.nodes.iter().map(|held| {
            let node = nodes.iter().find(|node| node.node.name == held.name);
            let node = node.map(|view| &view.node);
            let own = rows.iter().position(|rows| rows.node == held.name);
            Place {
                node: held.name.clone(),
                fence: node.map(|node| (node.fence, node.fence_note.clone())),
                suffices: node.is_some_and(Node::has_required_fence),
                simulated: node.is_some_and(|node| node.inventory.simulated),
                gpus: node
                    .map(|node| node.inventory.gpus.clone())
                    .unwrap_or_default(),
                held: held.share.gpus.clone(),
                rows: own.map(|at| rows.swap_remove(at).rows).unwrap_or_default(),
            }
        });
        Self {
            places: places.collect(),
            job,
            lines,
        }
    }

    /// Whether the job has ended and holds nothing any more.
    pub(crate) fn is_over(&self) -> bool {
        self.job.state.is_terminal() && !self.job.completing
    }

    /// All refusals. Rows and lines come a moment earlier than totals.
    pub(crate) fn total(&self) -> u64 {
        let lines = self.lines.iter().filter(|line| !line.noted).count();
        let lines = u64::try_from(lines).unwrap_or(u64::MAX);
        self.job.denials.total.max(self.in_rows()).max(lines)
    }

    /// Refusals that are in a row.
    fn in_rows(&self) -> u64 {
        let rows = self.rows().filter(|(_, row)| !row.key.noted);
        rows.map(|(_, row)| row.total).fold(0, u64::saturating_add)
    }

    /// Refusals of which only the number is known.
    pub(crate) fn others(&self) -> u64 {
        self.total() - self.in_rows()
    }

    /// Every row, with its node.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Place, &DenialRow)> {
        self.places
            .iter()
            .flat_map(|place| place.rows.iter().map(move |row| (place, row)))
    }

    /// Operations that were refused and that no library does by accident.
    pub(crate) fn alarms(&self) -> impl Iterator<Item = DeviceOp> {
        let rows = self.rows().map(|(_, row)| &row.key);
        let rows = rows.filter(|key| key.op.is_alarming() && !key.noted && key.label.is_none());
        let lines = self.lines.iter().filter(|line| line.is_alarm());
        rows.map(|key| key.op).chain(lines.map(|line| line.op))
    }

    pub(crate) fn place(&self, node: &NodeName) -> Option<&Place> {
        self.places.iter().find(|place| place.node == *node)
    }
}

impl Place {
    /// The GPU that a device belongs to; none if it belongs to several, as control nodes do.
    pub(crate) fn gpu_of(&self, major: u32, minor: u32) -> Option<&Gpu> {
        let is = |gpu: &&Gpu| {
            let mut files = gpu.files.iter();
            files.any(|file| (file.major, file.minor) == (major, minor))
        };
        let mut found = self.gpus.iter().filter(is);
        let gpu = found.next()?;
        found.next().is_none().then_some(gpu)
    }

    /// The GPUs that the job holds here.
    pub(crate) fn own(&self) -> impl Iterator<Item = &Gpu> {
        self.gpus.iter().filter(|gpu| self.held.contains(gpu.index))
    }

    /// What keeps the job to its devices, in a word for programs.
    pub(crate) fn fence_word(&self) -> &'static str {
        match self.fence {
            None => "unknown",
            Some((FenceState::Unfenced, _)) => "unfenced",
            Some((FenceState::Fenced, _)) => "fenced",
            Some((FenceState::Guarded, _)) => "guarded",
        }
    }

    /// And in a sentence.
    pub(crate) fn condition(&self) -> &'static str {
        match self.fence {
            None => "the node is not known any more",
            Some((FenceState::Unfenced, _)) => "the node has no proven fence",
            Some((FenceState::Fenced, _)) => "the kernel refuses all other GPUs (fence)",
            Some((FenceState::Guarded, _)) => "the kernel refuses all other GPUs (fence and guard)",
        }
    }

    /// `2 of 8 GPUs, simulated (index 0-1)`.
    pub(crate) fn share(&self) -> String {
        let which = if self.held.is_empty() {
            String::new()
        } else {
            format!(" (index {})", self.held)
        };
        let made = if self.simulated { ", simulated" } else { "" };
        format!(
            "{} of {} GPUs{made}{which}",
            self.held.len(),
            self.gpus.len()
        )
    }
}

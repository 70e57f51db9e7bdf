//! What stops a job on each node: the first thing, in the order of [`Stop`].

use super::Known;
use super::amount::{Amount, Lack, Want};
use crate::api::{JobView, NodeView, Stop};
use crate::node::{AdminState, Node};
use crate::plan::ask::Ask;
use crate::plan::shape::Shape;
use crate::plan::slot::{Free, Slot};
use crate::slurm::constraint::{self, Constraint};
use crate::time::Millis;

/// Each node of the job's partition with the first thing that stops the job there.
pub(super) fn look<'a>(
    job: &JobView,
    (ask, want): (&Ask<'_>, &Want<'_>),
    known: &Known<'a>,
) -> Vec<(&'a NodeView, Stop, String)> {
    // One that makes no sense was refused at submission.
    let features = constraint::parse(&job.spec.constraint).unwrap_or_default();
    let mut shapes = Shapes::default();
    let here = |view: &&NodeView| view.partitions.contains(&job.spec.partition);
    let nodes = known.nodes.iter().copied().filter(here);
    let told = |view: &'a NodeView| {
        let (stop, detail) = first_stop(job, (want, &features), view, known);
        if stop == Stop::Nothing && ask.is_bound() && !shapes.fits(&view.node, (ask, want)) {
            return (view, Stop::Shape, lies_elsewhere(ask).to_owned());
        }
        (view, stop, detail)
    };
    nodes.map(told).collect()
}

/// Shapes of the nodes that were looked at: most are alike.
#[derive(Default)]
struct Shapes(Vec<Shape>);

impl Shapes {
    /// Whether what is free on a node lies as the job wants it.
    fn fits(&mut self, node: &Node, (ask, want): (&Ask<'_>, &Want<'_>)) -> bool {
        let known = self.0.iter().position(|shape| shape.is_of(&node.inventory));
        let at = known.unwrap_or_else(|| {
            self.0.push(Shape::of(&node.inventory));
            self.0.len() - 1
        });
        let Some(shape) = self.0.get(at) else {
            return true;
        };
        let need = if want.spreads {
            ask.least_part()
        } else {
            ask.even_part(ask.nodes_min)
        };
        Slot::of(shape, Free::now(shape, node)).fits(ask, need)
    }
}

fn lies_elsewhere(ask: &Ask<'_>) -> &'static str {
    if ask.gpus_per_socket > 0 {
        "its free GPUs are on other sockets"
    } else if ask.tasks_per_socket > 0 {
        "its free CPUs are on other sockets"
    } else {
        "its free CPUs are not near its free GPUs"
    }
}

/// What of a node nobody holds, and what of it the partition may still give.
pub(super) fn free_of(want: &Want<'_>, view: &NodeView, known: &Known<'_>) -> Amount {
    let node = &view.node;
    let left = want.cap.map(|(most, name)| {
        let jobs = node.jobs.iter().filter_map(|id| (known.job)(*id));
        let own = jobs.filter(|job| job.spec.partition == name);
        let shares = own.flat_map(|job| &job.nodes);
        let here = shares.filter(|held| held.share.node == node.id);
        let used: u32 = here.map(|held| held.share.cpus.len()).sum();
        most.saturating_sub(used)
    });
    Amount::free(node, want.model).capped(left)
}

/// When a node that rests takes jobs again.
pub(super) fn rests_until(view: &NodeView) -> Option<Millis> {
    view.node.trouble.as_ref()?.until
}

fn first_stop(
    job: &JobView,
    (want, features): (&Want<'_>, &Constraint),
    view: &NodeView,
    known: &Known<'_>,
) -> (Stop, String) {
    if let Some(stop) = unwanted(job, view) {
        return (stop, String::new());
    }
    let has = |name: &str| view.features.iter().any(|feature| feature == name);
    if !features.matches_by(has) {
        let theirs = match view.features.as_slice() {
            [] => "has none".to_owned(),
            all => format!("has {}", all.join(",")),
        };
        return (Stop::Feature, theirs);
    }
    let node = &view.node;
    let most = want.cap.map(|(most, _)| most);
    let whole = Amount::whole(node, want.model).capped(most);
    if let Some(lack) = want.lacks(&whole) {
        return (Stop::TooSmall, want.has(&whole, lack));
    }
    if want.exclusive && most.is_some_and(|most| most < node.inventory.cpus) {
        return (Stop::TooSmall, want.has(&whole, Lack::Allowed));
    }
    if job.uncleaned.contains(&node.id) {
        return (Stop::Unclean, String::new());
    }
    if job.avoid.contains(&node.id) {
        return (Stop::LaunchFailed, String::new());
    }
    if let Some((stop, detail)) = condition(view) {
        return (stop, detail);
    }
    if want.lacks(&Amount::well(node, want.model)).is_some() {
        return (Stop::SickGpus, sick(view));
    }
    let free = free_of(want, view, known);
    if want.exclusive && !node.jobs.is_empty() {
        let jobs = node.jobs.len();
        let plural = if jobs == 1 { "" } else { "s" };
        return (Stop::Busy, format!("used by {jobs} job{plural}"));
    }
    match want.lacks(&free) {
        Some(lack) => (Stop::Busy, want.free(&free, &whole, lack)),
        None if (known.held_back)(view) => (Stop::Shape, "kept for jobs before it".to_owned()),
        None => (Stop::Nothing, String::new()),
    }
}

/// What the job itself says against a node.
fn unwanted(job: &JobView, view: &NodeView) -> Option<Stop> {
    let spec = &job.spec;
    let is = |name: &String| name == view.node.name.as_str();
    if spec.exclude.iter().any(is) {
        return Some(Stop::Excluded);
    }
    let only_named = spec.nodelist.len() >= spec.nodes_max as usize;
    (only_named && !spec.nodelist.is_empty() && !spec.nodelist.iter().any(is))
        .then_some(Stop::NotNamed)
}

/// Why a node takes no job at all.
pub(super) fn condition(view: &NodeView) -> Option<(Stop, String)> {
    let node = &view.node;
    let reason = || node.reason.clone();
    if node.admin == AdminState::Down {
        return Some((Stop::Down, reason()));
    }
    if node.lost {
        return Some((Stop::Down, "it was silent for too long".to_owned()));
    }
    if !node.connected {
        return Some((Stop::Silent, String::new()));
    }
    if node.admin == AdminState::Drain {
        return Some((Stop::Drained, reason()));
    }
    if !node.has_required_fence() {
        return Some((Stop::Unfenced, node.fence_note.clone()));
    }
    if node.next_inventory.is_some() {
        return Some((Stop::Changing, String::new()));
    }
    let trouble = node.trouble.as_ref().filter(|_| node.is_resting())?;
    Some((Stop::Resting, trouble.why.clone()))
}

fn sick(view: &NodeView) -> String {
    let node = &view.node;
    let gpus = &node.gpus_sick;
    let plural = if gpus.len() == 1 { "" } else { "s" };
    match node.gpu_notes.first() {
        Some(note) if gpus.len() == 1 => format!("GPU {gpus} out of order: {}", note.why),
        Some(_) | None => format!("GPU{plural} {gpus} out of order"),
    }
}

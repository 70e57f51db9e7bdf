//! Which CPUs and GPUs of a node: GPUs that are close to one another, CPUs that are close to the GPUs.

mod cpus;
mod gpus;
mod rails;

#[cfg(test)]
mod tests;

pub(crate) use gpus::are_bound;

use super::ask::{Ask, Need};
use super::layout::Quality;
use super::shape::{Mask, id_set};
use super::slot::Slot;
use crate::id::NodeId;
use crate::resources::{IdSet, MemoryRequest, NodeShare};
use std::borrow::Cow;

/// A node's slot with what the slot only counts: its free CPUs by id.
#[derive(Clone, Debug)]
pub(crate) struct Place<'s> {
    pub(crate) node: NodeId,
    pub(crate) slot: Slot<'s>,
    pub(crate) cpus: Cow<'s, IdSet>,
    /// CPUs are chosen by their order alone, so that the choice does not change when others are taken.
    pub(crate) steady: bool,
}

/// The shares that the parts of a job become; the caller has checked that each fits. Parts on several nodes get GPUs on the same
/// network rails, if there are such.
pub(crate) fn shares(places: &[(Place<'_>, Need)], ask: &Ask<'_>) -> Vec<NodeShare> {
    let rails = rails::common(places, ask);
    let each = |(place, need): &(Place<'_>, Need)| {
        let gpus = rails.and_then(|rails| rails::choose(&place.slot, ask, *need, rails));
        share(place, ask, *need, gpus)
    };
    places.iter().map(each).collect()
}

fn share(place: &Place<'_>, ask: &Ask<'_>, need: Need, gpus: Option<Mask>) -> NodeShare {
    let slot = &place.slot;
    let gpus = if ask.exclusive {
        slot.free_gpus("")
    } else {
        let chosen = gpus.or_else(|| gpus::choose(slot, ask, need));
        chosen.unwrap_or(0)
    };
    let cpus = if ask.exclusive {
        place.cpus.clone().into_owned()
    } else {
        cpus::choose(place, ask, need, gpus)
    };
    let memory_mib = match ask.memory {
        MemoryRequest::Default => 0,
        MemoryRequest::PerNode(0) => slot.shape.memory_mib,
        MemoryRequest::PerNode(mib) => mib,
        MemoryRequest::PerCpu(mib) => mib.saturating_mul(u64::from(cpus.len())),
        MemoryRequest::PerGpu(mib) => mib.saturating_mul(u64::from(need.gpus)),
    };
    NodeShare {
        node: place.node,
        cpus,
        memory_mib: memory_mib.min(slot.memory(ask)),
        gpus: id_set(gpus),
        tasks: need.tasks.saturating_mul(ask.bundle),
    }
}

/// How good the GPUs are that a part would get here; `None` if it does not fit. It is the same for all nodes with equal slots.
pub(crate) fn quality(slot: &Slot<'_>, ask: &Ask<'_>, need: Need) -> Option<Quality> {
    let chosen = gpus::choose(slot, ask, need)?;
    let free = slot.free.gpus & slot.shape.gpus_of(ask.model);
    Some(slot.shape.layout().quality(chosen, free))
}

//! GPUs of a job on several nodes: on the same network rails, so that traffic between nodes stays on one rail.

use super::{Place, gpus};
use crate::plan::ask::{Ask, Need};
use crate::plan::shape::Mask;
use crate::plan::slot::Slot;

/// Rails on which every part gets all its GPUs, if there are such: those of the best choice on the node that has least to choose
/// from.
pub(super) fn common(places: &[(Place<'_>, Need)], ask: &Ask<'_>) -> Option<u128> {
    let (first, need) = places.first()?;
    let alike = places
        .iter()
        .all(|(place, other)| other.gpus == need.gpus && place.slot.shape.layout().has_rails());
    if places.len() < 2 || need.gpus == 0 || ask.exclusive || !alike {
        return None;
    }
    let rails = places.iter().fold(u128::MAX, |rails, (place, _)| {
        let free = place.slot.free_gpus(ask.model);
        rails & place.slot.shape.layout().rails_of(free)
    });
    let slot = &first.slot;
    let layout = slot.shape.layout();
    let chosen = gpus::within(slot, ask, *need, layout.on_rails(rails))?;
    let rails = layout.rails_of(chosen);
    let all = places.iter();
    all.clone()
        .all(|(place, need)| choose(&place.slot, ask, *need, rails).is_some())
        .then_some(rails)
}

/// GPUs for a part, on these rails only.
pub(super) fn choose(slot: &Slot<'_>, ask: &Ask<'_>, need: Need, rails: u128) -> Option<Mask> {
    gpus::within(slot, ask, need, slot.shape.layout().on_rails(rails))
}

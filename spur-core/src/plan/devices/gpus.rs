//! Which GPUs.

use super::cpus;
use crate::plan::ask::{Ask, Binding, Need};
use crate::plan::layout::Layout;
use crate::plan::shape::{DOMAINS, Mask};
use crate::plan::slot::Slot;

/// Islands of which every combination is looked at; of further ones only the fullest.
const MOST_ISLANDS: usize = 16;

/// GPUs for a part; `None` if there are none that the ask allows.
pub(super) fn choose(slot: &Slot<'_>, ask: &Ask<'_>, need: Need) -> Option<Mask> {
    within(slot, ask, need, Mask::MAX)
}

/// GPUs for a part, of these only.
pub(super) fn within(slot: &Slot<'_>, ask: &Ask<'_>, need: Need, among: Mask) -> Option<Mask> {
    if need.gpus == 0 {
        return Some(0);
    }
    let layout = slot.shape.layout();
    let free = slot.free_gpus(ask.model) & among;
    if ask.gpus_per_socket > 0 {
        return by_socket(layout, free, need.gpus, ask.gpus_per_socket);
    }
    match ask.binding {
        Binding::Off => layout.best(free, need.gpus),
        Binding::Enforce => near_cpus(slot, ask, need, free),
        Binding::Prefer => {
            let best = layout.best(free, need.gpus)?;
            if layout.islands().len() < 2 || has_cpus(slot, ask, need, best) {
                return Some(best);
            }
            let near = near_cpus(slot, ask, need, free);
            let as_close = |near: &Mask| layout.closeness(*near) <= layout.closeness(best);
            Some(near.filter(as_close).unwrap_or(best))
        }
    }
}

/// Whether the conditions are met that are more than counts.
pub(crate) fn are_bound(slot: &Slot<'_>, ask: &Ask<'_>, need: Need) -> bool {
    cpus::hold(slot, ask, need, None) && choose(slot, ask, need).is_some()
}

/// So many on each of as many sockets as that takes: on each the best, on the sockets where the least stays behind.
fn by_socket(layout: &Layout, free: Mask, count: u32, each: u32) -> Option<Mask> {
    let sockets = count
        .checked_div(each)
        .filter(|_| count.is_multiple_of(each))?;
    let mut chosen: Mask = 0;
    for _ in 0..sockets {
        let open = layout.sockets().iter();
        let open = open.filter(|socket| *socket & chosen == 0);
        let best = open.filter_map(|socket| {
            let here = layout.best(free & socket, each)?;
            Some((layout.quality(here, free), here))
        });
        chosen |= best.min()?.1;
    }
    Some(chosen)
}

/// The best GPUs on as few NUMA nodes as the node allows, where these have enough free CPUs.
fn near_cpus(slot: &Slot<'_>, ask: &Ask<'_>, need: Need, free: Mask) -> Option<Mask> {
    let layout = slot.shape.layout();
    let span = layout.least_span(slot.shape.gpus_of(ask.model), need.gpus);
    let islands = layout.islands();
    let looked_at = islands.len().min(MOST_ISLANDS);
    let mut best = None;
    for set in 1u32..1 << looked_at {
        if set.count_ones() != span {
            continue;
        }
        let here = islands.iter().enumerate();
        let here = here.filter(|(at, _)| set & 1 << at != 0);
        let gpus = here.fold(0, |gpus, (_, island)| gpus | island.gpus) & free;
        let Some(chosen) = layout.best(gpus, need.gpus) else {
            continue;
        };
        if has_cpus(slot, ask, need, chosen) {
            let found = (layout.quality(chosen, free), chosen);
            best = Some(best.map_or(found, |best: (_, _)| found.min(best)));
        }
    }
    best.map(|(_, chosen)| chosen)
}

/// Whether there are enough free CPUs near these GPUs.
fn has_cpus(slot: &Slot<'_>, ask: &Ask<'_>, need: Need, gpus: Mask) -> bool {
    cpus::hold(slot, ask, need, near_domains(slot, gpus))
}

/// Which domains of CPUs these GPUs are near to; `None`: all the same.
pub(super) fn near_domains(slot: &Slot<'_>, gpus: Mask) -> Option<[bool; DOMAINS]> {
    let mut near = [false; DOMAINS];
    let islands = slot.shape.layout().islands().iter();
    for island in islands.filter(|island| island.gpus & gpus != 0) {
        *near.get_mut(island.domain?)? = true;
    }
    Some(near)
}

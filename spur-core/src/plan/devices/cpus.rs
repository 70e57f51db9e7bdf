//! Which CPUs: near the GPUs, in proportion to them; whole cores before single threads.

use super::{Place, gpus};
use crate::plan::ask::{Ask, Binding, Need};
use crate::plan::shape::{DOMAINS, Mask};
use crate::plan::slot::Slot;
use crate::resources::IdSet;

/// CPUs for a part that gets these GPUs.
pub(super) fn choose(place: &Place<'_>, ask: &Ask<'_>, need: Need, gpus: Mask) -> IdSet {
    let slot = &place.slot;
    let mut pick = Pick {
        free: &place.cpus,
        threads: slot.shape.threads_per_core.max(1),
        chosen: IdSet::new(),
        left: ask.cpus_for(need),
        caps: caps(slot, ask),
    };
    let near = match ask.binding {
        Binding::Off => None,
        Binding::Prefer | Binding::Enforce => gpus::near_domains(slot, gpus),
    };
    let domains = slot.shape.domains();
    match near {
        Some(near) if gpus != 0 => {
            in_proportion(&mut pick, slot, gpus);
            for (domain, _) in domains.iter().zip(near).filter(|(_, near)| *near) {
                pick.take(domain, u32::MAX);
            }
        }
        _ if gpus == 0 => away_from_gpus(&mut pick, slot),
        _ => {}
    }
    for domain in domains {
        pick.take(domain, u32::MAX);
    }
    pick.chosen
}

/// Whether so many tasks fit when each socket takes but a few of them.
pub(super) fn sockets_hold(slot: &Slot<'_>, ask: &Ask<'_>, tasks: u32) -> bool {
    if ask.tasks_per_socket == 0 {
        return true;
    }
    let domains = slot.shape.domains().iter().zip(slot.free.cpus);
    let room = |socket: &IdSet| {
        let here = domains.clone();
        let here = here.filter(|(domain, _)| domain.intersects(socket));
        let cpus: u32 = here.map(|(_, free)| u32::from(free)).sum();
        (cpus / ask.cpus_per_task).min(ask.tasks_per_socket)
    };
    slot.shape.socket_cpus().iter().map(room).sum::<u32>() >= tasks
}

/// What is still to be chosen.
struct Pick<'s> {
    free: &'s IdSet,
    threads: u32,
    chosen: IdSet,
    left: u32,
    /// Sockets with the number of CPUs that may still be taken of each; empty: no bound.
    caps: Vec<(&'s IdSet, u32)>,
}

impl Pick<'_> {
    /// Takes up to so many of a domain's: whole cores, then threads of cores that are in use anyway, then any.
    fn take(&mut self, domain: &IdSet, most: u32) {
        let mut most = most.min(self.left);
        if most == 0 {
            return;
        }
        let open = |pick: &Self| -> Vec<u32> {
            let open = domain.iter().filter(|cpu| pick.is_open(*cpu));
            open.collect()
        };
        if self.threads > 1 {
            let mut whole = Vec::new();
            let mut broken = Vec::new();
            for core in open(self).chunk_by(|a, b| a / self.threads == b / self.threads) {
                let is_whole = core.len() == self.threads as usize;
                if is_whole { &mut whole } else { &mut broken }.extend_from_slice(core);
            }
            let cores = most - most % self.threads;
            most -= self.add(whole, cores);
            most -= self.add(broken, most);
        }
        let rest = open(self);
        self.add(rest, most);
    }

    /// Takes the first of these; answers how many.
    fn add(&mut self, cpus: Vec<u32>, most: u32) -> u32 {
        let mut added = 0;
        for cpu in cpus {
            if added == most {
                break;
            }
            if self.is_open(cpu) && self.charge(cpu) {
                self.chosen.insert(cpu);
                self.left -= 1;
                added += 1;
            }
        }
        added
    }

    fn is_open(&self, cpu: u32) -> bool {
        self.free.contains(cpu) && !self.chosen.contains(cpu)
    }

    /// Counts a CPU against its socket's cap; `false` if that is reached.
    fn charge(&mut self, cpu: u32) -> bool {
        let socket = self.caps.iter_mut().find(|(cpus, _)| cpus.contains(cpu));
        match socket {
            None => true,
            Some((_, 0)) => false,
            Some((_, left)) => {
                *left -= 1;
                true
            }
        }
    }
}

/// With a bound on tasks a socket, no socket gives more CPUs than those tasks need.
fn caps<'s>(slot: &Slot<'s>, ask: &Ask<'_>) -> Vec<(&'s IdSet, u32)> {
    if ask.tasks_per_socket == 0 {
        return Vec::new();
    }
    let cap = ask.tasks_per_socket.saturating_mul(ask.cpus_per_task);
    let sockets = slot.shape.socket_cpus().iter();
    sockets.map(|cpus| (cpus, cap)).collect()
}

/// To each domain CPUs by its part of the GPUs, in whole cores.
fn in_proportion(pick: &mut Pick<'_>, slot: &Slot<'_>, gpus: Mask) {
    let (all, wanted) = (gpus.count_ones(), pick.left);
    let mut by_domain = [0u32; DOMAINS];
    for island in slot.shape.layout().islands() {
        if let Some(count) = island.domain.and_then(|at| by_domain.get_mut(at)) {
            *count += (island.gpus & gpus).count_ones();
        }
    }
    for (domain, gpus) in slot.shape.domains().iter().zip(by_domain) {
        let part = u64::from(wanted) * u64::from(gpus) / u64::from(all.max(1));
        let part = u32::try_from(part).unwrap_or(u32::MAX);
        pick.take(domain, part - part % pick.threads);
    }
}

/// A job without GPUs goes to one domain if one holds it, and where it takes CPUs from the fewest free GPUs.
fn away_from_gpus(pick: &mut Pick<'_>, slot: &Slot<'_>) {
    let domains = slot.shape.domains();
    if domains.len() < 2 {
        return;
    }
    let free_gpus = |at: usize| {
        let islands = slot.shape.layout().islands().iter();
        let here = islands.filter(|island| island.domain == Some(at));
        let gpus = here.fold(0, |gpus, island| gpus | island.gpus);
        (slot.free.gpus & gpus).count_ones()
    };
    let mut order: Vec<(bool, u32, u16, usize)> = Vec::new();
    for (at, cpus) in slot.free.cpus.into_iter().enumerate().take(domains.len()) {
        let too_small = u32::from(cpus) < pick.left;
        order.push((too_small, free_gpus(at), cpus, at));
    }
    order.sort_unstable();
    for (.., at) in order {
        if let Some(domain) = domains.get(at) {
            pick.take(domain, u32::MAX);
        }
    }
}

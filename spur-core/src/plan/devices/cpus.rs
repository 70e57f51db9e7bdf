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
        threads: match place.steady {
            true => 1,
            false => slot.shape.threads_per_core.max(1),
        },
        chosen: IdSet::new(),
        left: ask.cpus_for(need),
    };
    let near = match ask.binding {
        Binding::Off => None,
        Binding::Prefer | Binding::Enforce if gpus == 0 => None,
        Binding::Prefer | Binding::Enforce => gpus::near_domains(slot, gpus),
    };
    let is_near = |at: usize| near.is_none_or(|near| near.get(at).copied().unwrap_or(false));
    if ask.tasks_per_socket > 0 && pick.left == need.tasks.saturating_mul(ask.cpus_per_task) {
        by_socket(&mut pick, slot, ask, &is_near);
    } else if near.is_some() {
        in_proportion(&mut pick, slot, gpus);
    } else if gpus == 0 {
        away_from_gpus(&mut pick, place);
    }
    let domains = slot.shape.domains();
    for (domain, at) in domains.iter().zip(0..) {
        if is_near(at) {
            pick.take(domain, u32::MAX);
        }
    }
    if ask.binding != Binding::Enforce {
        domains
            .iter()
            .for_each(|domain| pick.take(domain, u32::MAX));
    }
    pick.chosen
}

/// Whether there are enough free CPUs in these domains, for the tasks that each socket may take as well; all domains, if `None`.
pub(super) fn hold(
    slot: &Slot<'_>,
    ask: &Ask<'_>,
    need: Need,
    near: Option<[bool; DOMAINS]>,
) -> bool {
    let near = near.unwrap_or([true; DOMAINS]);
    let free = slot.free.cpus.iter().zip(near);
    let free = free.filter(|(_, near)| *near);
    if free.map(|(cpus, _)| u32::from(*cpus)).sum::<u32>() < ask.cpus_for(need) {
        return false;
    }
    if ask.tasks_per_socket == 0 {
        return true;
    }
    let domains = slot.shape.domains().iter().zip(slot.free.cpus).zip(near);
    let room = |socket: &IdSet| {
        let here = domains.clone();
        let here = here.filter(|((domain, _), near)| *near && domain.intersects(socket));
        let cpus: u32 = here.map(|((_, free), _)| u32::from(free)).sum();
        (cpus / ask.cpus_per_task).min(ask.tasks_per_socket)
    };
    slot.shape.socket_cpus().iter().map(room).sum::<u32>() >= need.tasks
}

/// What is still to be chosen.
struct Pick<'s> {
    free: &'s IdSet,
    threads: u32,
    chosen: IdSet,
    left: u32,
}

impl Pick<'_> {
    /// Takes up to so many of a domain's: whole cores, then threads of cores that are in use anyway, then any.
    fn take(&mut self, domain: &IdSet, most: u32) {
        let mut most = most.min(self.left);
        if most == 0 {
            return;
        }
        if self.threads == 1 {
            let first = domain.first_common(self.free, &self.chosen, most);
            self.left -= first.len();
            self.chosen.union_with(&first);
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
            if self.is_open(cpu) {
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
}

/// Whole tasks to each socket, as many as it may take.
fn by_socket(pick: &mut Pick<'_>, slot: &Slot<'_>, ask: &Ask<'_>, is_near: &dyn Fn(usize) -> bool) {
    let domains = slot.shape.domains().iter().enumerate();
    let enforced = ask.binding == Binding::Enforce;
    for only_near in [true, false] {
        if enforced && !only_near {
            return;
        }
        for socket in slot.shape.socket_cpus() {
            let here = domains.clone();
            let here = here.filter(|(at, _)| is_near(*at) == only_near);
            let cpus: IdSet = here
                .flat_map(|(_, domain)| domain.iter().filter(|cpu| socket.contains(*cpu)))
                .collect();
            let open = cpus.iter().filter(|cpu| pick.is_open(*cpu)).count();
            let open = u32::try_from(open).unwrap_or(u32::MAX);
            let given = socket
                .iter()
                .filter(|cpu| pick.chosen.contains(*cpu))
                .count();
            let given = u32::try_from(given).unwrap_or(u32::MAX) / ask.cpus_per_task;
            let tasks = (open / ask.cpus_per_task).min(ask.tasks_per_socket - given);
            pick.take(&cpus, tasks * ask.cpus_per_task);
        }
    }
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
fn away_from_gpus(pick: &mut Pick<'_>, place: &Place<'_>) {
    let slot = &place.slot;
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
        order.push(match place.steady {
            true => (too_small, 0, 0, at),
            false => (too_small, free_gpus(at), cpus, at),
        });
    }
    order.sort_unstable();
    for (.., at) in order {
        if let Some(domain) = domains.get(at) {
            pick.take(domain, u32::MAX);
        }
    }
}

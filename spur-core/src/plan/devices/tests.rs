//! Whatever the node and the request: what is given is free, is what was asked for, and is bound as asked; and what is not given
//! cannot be given.

use super::{Place, shares};
use crate::fixture::{batch, gpus, inventory};
use crate::job::spec::{GresFlags, JobSpec};
use crate::plan::ask::Ask;
use crate::plan::shape::{Mask, Shape, indices, mask_of};
use crate::plan::slot::{Free, Slot};
use crate::resources::{GpuLink, IdSet, Inventory, MemoryRequest, NodeShare};
use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Sockets with cores of one or two threads, a NUMA node each, up to eight GPUs anywhere.
fn any_node() -> impl Strategy<Value = Inventory> {
    let gpu = (proptest::option::weighted(0.9, 0u32..3), 0u32..3);
    let gpus = proptest::collection::vec(gpu, 0..=8);
    (1u32..4, 1u32..4, 1u32..3, gpus).prop_map(|(sockets, cores, threads, gpus)| {
        let cpus = sockets * cores * threads;
        let mut inventory = inventory(cpus, 64, u32::try_from(gpus.len()).unwrap());
        (inventory.sockets, inventory.cores_per_socket) = (sockets, cores);
        inventory.threads_per_core = threads;
        for (gpu, (numa, link)) in inventory.gpus.iter_mut().zip(gpus) {
            gpu.numa = numa.map(|numa| numa.min(sockets - 1));
            gpu.links = match link {
                0 => Vec::new(),
                1 => vec![(gpu.index ^ 1, GpuLink::NvLink)],
                _ => vec![(gpu.index ^ 1, GpuLink::Pcie)],
            };
        }
        inventory
    })
}

#[derive(Clone, Copy, Debug)]
enum Bind {
    Prefer,
    Enforce,
    Off,
    Socket,
}

fn any_spec() -> impl Strategy<Value = (JobSpec, Bind)> {
    let bind = prop_oneof![
        Just(Bind::Prefer),
        Just(Bind::Enforce),
        Just(Bind::Off),
        Just(Bind::Socket)
    ];
    (bind, 0u32..6, 1u32..5, 1u32..3, 0u32..3, 0u32..5, 0u32..3).prop_map(
        |(bind, count, tasks, cpus, per_gpu, mincpus, per_socket)| {
            let mut spec = JobSpec {
                gpus_per_node: gpus(count),
                tasks,
                tasks_set: true,
                cpus_per_task: cpus,
                cpus_per_gpu: per_gpu,
                mincpus,
                tasks_per_socket: per_socket,
                memory: MemoryRequest::PerCpu(2),
                ..batch()
            };
            spec.gres_flags = GresFlags {
                enforce_binding: matches!(bind, Bind::Enforce),
                disable_binding: matches!(bind, Bind::Off),
                ..GresFlags::default()
            };
            if matches!(bind, Bind::Socket) {
                spec.gpus_per_socket = gpus(count.div_ceil(2));
                spec.sockets_per_node = 2;
                spec.gpus_per_node = None;
            }
            (spec, bind)
        },
    )
}

fn give(
    inventory: &Inventory,
    used: (u64, u8),
    ask: &Ask<'_>,
) -> (Shape, Free, IdSet, Option<NodeShare>) {
    let shape = Shape::of(inventory);
    let mut cpus = IdSet::first(inventory.cpus);
    let taken: IdSet = (0..inventory.cpus)
        .filter(|cpu| used.0 & 1 << (cpu % 64) != 0)
        .collect();
    cpus.subtract(&taken);
    let free = Free {
        gpus: shape.all_gpus() & !Mask::from(used.1),
        cpus: shape.cpus_without(&taken),
        idle: used == (0, 0),
        ..Free::all(&shape)
    };
    let need = ask.even_part(1);
    let slot = Slot::of(&shape, free);
    let share = slot.fits(ask, need).then(|| {
        let place = Place {
            node: Default::default(),
            slot,
            cpus: Cow::Borrowed(&cpus),
            steady: false,
        };
        shares(&[(place, need)], ask).remove(0)
    });
    (shape, free, cpus, share)
}

/// NUMA nodes of GPUs, and the sockets that their CPUs are on (they are the same here); `None` if one's is not known.
fn sockets_of(inventory: &Inventory, gpus: &IdSet) -> Option<BTreeSet<u32>> {
    if inventory.sockets < 2 {
        return None;
    }
    gpus.iter()
        .map(|gpu| inventory.gpus[gpu as usize].numa)
        .collect()
}

fn socket(inventory: &Inventory, cpu: u32) -> u32 {
    cpu / (inventory.cores_per_socket * inventory.threads_per_core)
}

fn count(things: usize) -> u32 {
    u32::try_from(things).unwrap()
}

fn span(inventory: &Inventory, gpus: &IdSet) -> usize {
    let numa: BTreeSet<_> = gpus
        .iter()
        .map(|gpu| inventory.gpus[gpu as usize].numa)
        .collect();
    numa.len()
}

fn subsets(set: Mask, count: u32) -> Vec<IdSet> {
    let all: Vec<u32> = indices(set).collect();
    let sets = (0..1u32 << all.len()).filter(|bits| bits.count_ones() == count);
    sets.map(|bits| {
        let picked = all.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
        picked.map(|(_, gpu)| *gpu).collect()
    })
    .collect()
}

/// Whether these GPUs are what the binding allows, given the free CPUs.
fn allowed(
    inventory: &Inventory,
    gpus: &IdSet,
    cpus: &IdSet,
    wanted: u32,
    bind: Bind,
    each: u32,
) -> bool {
    match bind {
        Bind::Prefer | Bind::Off => true,
        Bind::Socket => {
            let homes: Vec<Option<u32>> = gpus
                .iter()
                .map(|gpu| inventory.gpus[gpu as usize].numa)
                .collect();
            let home = |numa: &Option<u32>| match inventory.sockets {
                1 => Some(0),
                _ => *numa,
            };
            let Some(homes) = homes.iter().map(home).collect::<Option<Vec<u32>>>() else {
                return false;
            };
            let kinds: BTreeSet<u32> = homes.iter().copied().collect();
            kinds
                .iter()
                .all(|kind| homes.iter().filter(|home| *home == kind).count() == each as usize)
        }
        Bind::Enforce => {
            let all = subsets(Shape::of(inventory).all_gpus(), gpus.len());
            let least = all.iter().map(|set| span(inventory, set)).min();
            let near = match sockets_of(inventory, gpus) {
                Some(near) => cpus
                    .iter()
                    .filter(|cpu| near.contains(&socket(inventory, *cpu)))
                    .count(),
                None => cpus.len() as usize,
            };
            Some(span(inventory, gpus)) == least && near >= wanted as usize
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_given_is_free_and_as_asked(
        inventory in any_node(), used_cpus: u64, used_gpus: u8, (spec, bind) in any_spec(),
    ) {
        let ask = Ask::of(&spec);
        let used = (used_cpus & used_cpus >> 3, used_gpus & used_gpus >> 1);
        let (shape, free, cpus, share) = give(&inventory, used, &ask);
        let need = ask.even_part(1);
        let wanted = ask.cpus_for(need);
        let each = spec.gpus_per_socket.as_ref().map_or(0, |gpus| gpus.count);
        if let Some(share) = share {
            prop_assert!(share.cpus.is_subset(&cpus));
            prop_assert_eq!((share.cpus.len(), share.gpus.len()), (wanted, need.gpus));
            prop_assert_eq!((share.tasks, share.memory_mib), (need.tasks, 2 * u64::from(wanted)));
            prop_assert_eq!(mask_of(&share.gpus) & !free.gpus, 0);
            if need.gpus > 0 {
                prop_assert!(allowed(&inventory, &share.gpus, &cpus, wanted, bind, each));
            }
            if spec.tasks_per_socket > 0 {
                let room = (0..inventory.sockets).map(|at| {
                    let here = share.cpus.iter().filter(|cpu| socket(&inventory, *cpu) == at).count();
                    (count(here) / ask.cpus_per_task).min(spec.tasks_per_socket)
                });
                if wanted == need.tasks * ask.cpus_per_task {
                    prop_assert!(room.sum::<u32>() >= need.tasks, "{:?}", share.cpus);
                }
            }
            let near = sockets_of(&inventory, &share.gpus);
            if let (Bind::Enforce, Some(near)) = (bind, &near) {
                let far = share.cpus.iter().find(|cpu| !near.contains(&socket(&inventory, *cpu)));
                prop_assert!(need.gpus == 0 || far.is_none(), "{far:?}");
            }
            return Ok(());
        }
        // Nothing was given: then no GPUs do, or too little of something is free.
        let sockets = (0..inventory.sockets).map(|at| {
            let here = cpus.iter().filter(|cpu| socket(&inventory, *cpu) == at).count();
            (count(here) / ask.cpus_per_task).min(if spec.tasks_per_socket > 0 { spec.tasks_per_socket } else { u32::MAX })
        });
        let enough = cpus.len() >= wanted
            && u64::from(wanted) * 2 <= free.memory
            && ask.sockets <= inventory.sockets
            && (spec.tasks_per_socket == 0 || sockets.sum::<u32>() >= need.tasks);
        let sets = subsets(free.gpus & shape.all_gpus(), need.gpus);
        let some = sets.iter().find(|set| need.gpus == 0 || allowed(&inventory, set, &cpus, wanted, bind, each));
        let both = matches!(bind, Bind::Enforce) && spec.tasks_per_socket > 0;
        prop_assert!(!enough || both || some.is_none(), "{some:?}");
    }
}

//! Which GPUs are chosen, against a naive reading of the inventory.

use crate::fixture::inventory;
use crate::plan::shape::{Mask, Shape, first, indices};
use crate::resources::{GpuLink, IdSet, Inventory, PartOf};
use proptest::prelude::*;

/// NUMA nodes of four GPUs each.
fn quads(gpus: u32, links: impl Fn(u32) -> Vec<(u32, GpuLink)>) -> Shape {
    let mut inventory = inventory(16, 1000, gpus);
    inventory.sockets = gpus.div_ceil(4);
    for gpu in &mut inventory.gpus {
        gpu.numa = Some(gpu.index / 4);
        gpu.links = links(gpu.index);
    }
    Shape::of(&inventory)
}

fn set(text: &str) -> Mask {
    let ids: IdSet = text.parse().unwrap();
    ids.iter().fold(0, |set, at| set | 1 << at)
}

fn show(mask: Mask) -> String {
    indices(mask).collect::<IdSet>().to_string()
}

fn all_to_all(gpus: u32) -> impl Fn(u32) -> Vec<(u32, GpuLink)> {
    move |at| {
        let others = (0..gpus).filter(|other| *other != at);
        others.map(|other| (other, GpuLink::NvLink)).collect()
    }
}

#[test]
fn choices_by_table() {
    let none = quads(8, |_| Vec::new());
    let switched = quads(8, all_to_all(8));
    let bridged = quads(8, |at| vec![(at ^ 1, GpuLink::NvLink)]);
    let crossed = quads(8, |at| vec![(at ^ 4, GpuLink::Xgmi)]);
    // Six in one island of links and two in another.
    let lopsided = quads(8, |at| {
        let island = if at < 6 { 0..6 } else { 6..8 };
        let others = island.filter(|other| *other != at);
        others.map(|other| (other, GpuLink::NvLink)).collect()
    });
    for (shape, free, count, expected) in [
        (&none, "0-7", 1, "0"),
        (&none, "0-7", 4, "0-3"),
        (&none, "0-7", 5, "0-4"),
        (&none, "1,4-7", 1, "1"),
        (&none, "2-7", 2, "2-3"),
        (&none, "1-7", 3, "1-3"),
        (&none, "1-7", 4, "4-7"),
        // Two and two serve more than three and one.
        (&none, "0-2,4-5", 1, "0"),
        (&switched, "0-7", 4, "0-3"),
        (&switched, "0,4-6", 1, "0"),
        (&switched, "2-5", 2, "2-3"),
        (&bridged, "0-7", 2, "0-1"),
        (&bridged, "0,2-7", 1, "0"),
        (&bridged, "1-2,4-6", 2, "4-5"),
        // A link counts for more than a NUMA node.
        (&crossed, "0-7", 2, "0,4"),
        (&crossed, "0-3,7", 2, "3,7"),
        (&lopsided, "0-7", 2, "6-7"),
        (&lopsided, "0-7", 6, "0-5"),
        (&lopsided, "3-7", 2, "6-7"),
        (&lopsided, "3-7", 3, "3-5"),
    ] {
        let chosen = shape.layout().best(set(free), count).map(show);
        assert_eq!(chosen.as_deref(), Some(expected), "{count} of {free}");
        let again = shape.layout().best(set(free), count).map(show);
        assert_eq!(again, chosen, "what is known stays");
    }
    assert_eq!(none.layout().best(set("0-2"), 4), None);
    assert_eq!(none.layout().best(0, 0), Some(0));
}

/// A node with GPUs that have parts; the first GPU is there whole as well.
fn with_parts(gpus: u32, parts: u32) -> Inventory {
    let mut inventory = inventory(64, 1000, 1 + gpus * parts);
    for gpu in inventory.gpus.iter_mut().skip(1) {
        let parent = (gpu.index - 1) / parts;
        gpu.numa = Some(parent % 2);
        gpu.model = "h200_1g.18gb".to_owned();
        gpu.parent = Some(PartOf {
            uuid: format!("GPU-{}", parent * 1000),
            profile: "1g.18gb".to_owned(),
        });
    }
    inventory.gpus[0].uuid = "GPU-0".to_owned();
    inventory.gpus[0].numa = Some(0);
    inventory
}

#[test]
fn parts_stay_together_and_exclude_their_gpu() {
    let shape = Shape::of(&with_parts(8, 7));
    let layout = shape.layout();
    let parts = shape.gpus_of("h200_1g.18gb");
    assert_eq!(show(layout.best(parts, 3).unwrap()), "1-3");
    let rest = parts & !set("1-3");
    assert_eq!(
        show(layout.best(rest, 2).unwrap()),
        "4-5",
        "no other GPU is broken up"
    );
    assert_eq!(
        show(layout.best(rest, 7).unwrap()),
        "8-14",
        "one whole GPU's"
    );
    assert_eq!(show(layout.closure(set("0"))), "0-7");
    assert_eq!(show(layout.closure(set("3"))), "0,3");
    assert_eq!(show(layout.closure(set("9"))), "9");
    assert_eq!(layout.apart(shape.all_gpus()), shape.all_gpus() & !1);
    assert_eq!(layout.apart(1), 1);
}

#[test]
fn equal_nodes_have_equal_shapes_whatever_their_identities() {
    let mut one = with_parts(2, 2);
    let shape = Shape::of(&one);
    for gpu in &mut one.gpus {
        gpu.pci = "0000:01:00.0".to_owned();
        let old = std::mem::take(&mut gpu.uuid);
        gpu.uuid = if old == "GPU-0" {
            "GPU-7".to_owned()
        } else {
            String::new()
        };
        if let Some(parent) = &mut gpu.parent {
            parent.uuid = parent.uuid.replace("GPU-0", "GPU-7");
        }
    }
    assert!(shape.is_of(&one));
    assert_eq!(shape, Shape::of(&one));
    one.gpus[2].numa = Some(1);
    assert!(!shape.is_of(&one));
    assert_ne!(shape, Shape::of(&one));
}

#[test]
fn the_fewest_numa_nodes_that_hold_a_number() {
    let shape = quads(16, |_| Vec::new());
    let span = |free: &str, count| shape.layout().least_span(set(free), count);
    assert_eq!(
        [
            span("0-15", 1),
            span("0-15", 4),
            span("0-15", 5),
            span("0-15", 9)
        ],
        [1, 1, 2, 3]
    );
    assert_eq!(
        [span("0,4-15", 4), span("0,4-15", 13), span("0,4-15", 0)],
        [1, 4, 0]
    );
}

/// What the job would feel, read from the inventory pair by pair.
fn felt(inventory: &Inventory, chosen: &[u32]) -> (usize, usize, usize) {
    let joined = |a: u32, b: u32, wanted: fn(GpuLink) -> bool| {
        let one = |a: u32, b: u32| {
            let links = &inventory.gpus[a as usize].links;
            links.iter().any(|(to, kind)| *to == b && wanted(*kind))
        };
        one(a, b) || one(b, a)
    };
    let fast = |kind| kind != GpuLink::Pcie;
    let pairs: Vec<(u32, u32)> = chosen
        .iter()
        .flat_map(|a| chosen.iter().filter(move |b| a < b).map(move |b| (*a, *b)))
        .collect();
    let any_fast = inventory.gpus.iter().any(|gpu| {
        let mut links = gpu.links.iter();
        links.any(|(to, kind)| {
            fast(*kind) && *to != gpu.index && (*to as usize) < inventory.gpus.len()
        })
    });
    let unlinked = pairs
        .iter()
        .filter(|(a, b)| !joined(*a, *b, |kind| kind != GpuLink::Pcie));
    let far = pairs
        .iter()
        .filter(|(a, b)| !joined(*a, *b, |kind| kind == GpuLink::Pcie));
    let numa: std::collections::BTreeSet<_> = chosen
        .iter()
        .map(|gpu| inventory.gpus[*gpu as usize].numa)
        .collect();
    (
        if any_fast { unlinked.count() } else { 0 },
        numa.len(),
        far.count(),
    )
}

fn any_inventory(most: u32) -> impl Strategy<Value = Inventory> {
    let link = prop_oneof![
        Just(GpuLink::NvLink),
        Just(GpuLink::Xgmi),
        Just(GpuLink::Pcie)
    ];
    let gpu = (
        proptest::option::weighted(0.9, 0u32..3),
        proptest::collection::vec((0..most + 2, link), 0..4),
    );
    proptest::collection::vec(gpu, 1..=most as usize).prop_map(|gpus| {
        let mut inventory = inventory(8, 1000, u32::try_from(gpus.len()).unwrap());
        for (gpu, (numa, links)) in inventory.gpus.iter_mut().zip(gpus) {
            gpu.numa = numa;
            gpu.links = links;
        }
        inventory
    })
}

fn subsets(free: &[u32], count: usize) -> Vec<Vec<u32>> {
    (0..1u32 << free.len())
        .filter(|bits| bits.count_ones() as usize == count)
        .map(|bits| {
            let picked = free
                .iter()
                .enumerate()
                .filter(|(at, _)| bits & 1 << at != 0);
            picked.map(|(_, gpu)| *gpu).collect()
        })
        .collect()
}

proptest! {
    #[test]
    fn nothing_is_closer_than_what_is_chosen(inventory in any_inventory(8), free: u8, count in 0u32..9) {
        let shape = Shape::of(&inventory);
        let free = Mask::from(free) & shape.all_gpus();
        let Some(chosen) = shape.layout().best(free, count) else {
            prop_assert!(free.count_ones() < count);
            return Ok(());
        };
        prop_assert_eq!((chosen & !free, chosen.count_ones()), (0, count));
        if count < 2 {
            return Ok(());
        }
        let list: Vec<u32> = indices(chosen).collect();
        let mine = felt(&inventory, &list);
        let free: Vec<u32> = indices(free).collect();
        for other in subsets(&free, count as usize) {
            let theirs = felt(&inventory, &other);
            prop_assert!(mine <= theirs, "{list:?} {mine:?}, {other:?} {theirs:?}");
        }
    }

    #[test]
    fn many_devices_are_chosen_from_what_is_free(gpus in 1u32..8, parts in 1u32..8, free: u64, count in 0u32..20) {
        let shape = Shape::of(&with_parts(gpus, parts));
        let free = Mask::from(free) & shape.all_gpus();
        let apart = shape.layout().apart(free);
        match shape.layout().best(free, count) {
            Some(chosen) => prop_assert_eq!((chosen & !apart, chosen.count_ones()), (0, count)),
            None => prop_assert!(apart.count_ones() < count),
        }
    }

    #[test]
    fn what_is_kept_whole_is_worth_more(free: u8, taken: u8) {
        let shape = quads(8, all_to_all(8));
        let (free, taken) = (Mask::from(free), Mask::from(taken));
        prop_assert!(shape.layout().worth(free & !taken) <= shape.layout().worth(free));
    }

    #[test]
    fn masks_and_indices_agree(count in 0usize..130) {
        let mask = first(count);
        prop_assert_eq!(indices(mask).count(), count.min(128));
    }
}

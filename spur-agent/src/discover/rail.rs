//! Network rails: which InfiniBand or RoCE card is nearest to each GPU by the path of PCI bridges.
//!
//! Machines are wired so that card K of every node hangs on the same switch. Cards are numbered in the order of their PCI
//! addresses, and only those count that are nearest to some GPU: a card for storage on another root is no rail.

use super::FoundGpu;
use super::pci;
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

const CARDS: &str = "sys/class/infiniband";
const DEVICES: &str = "sys/bus/pci/devices";

/// Components of a device's path below `/sys/devices` up to its root complex: `sys`, `devices`, `pciDDDD:BB`.
const TO_ROOT: usize = 3;

/// Says of every GPU which rail it is next to, where the kernel tells.
pub fn find(tree: &Tree, gpus: &mut [FoundGpu]) {
    let cards = cards(tree);
    if cards.is_empty() {
        return;
    }
    let addresses: BTreeSet<&str> = gpus.iter().map(|found| found.gpu.pci.as_str()).collect();
    let mut addresses: Vec<&str> = addresses
        .into_iter()
        .filter(|pci| !pci.is_empty())
        .collect();
    addresses.sort_by_key(|pci| pci::Address::parse(pci));
    let path = |pci: &&str| tree.resolve(&format!("{DEVICES}/{pci}"));
    let paths: Vec<Option<String>> = addresses.iter().map(path).collect();
    let rails = assign(&paths, &cards);
    let rails: BTreeMap<String, u32> = addresses
        .into_iter()
        .map(str::to_owned)
        .zip(rails)
        .filter_map(|(pci, rail)| Some((pci, rail?)))
        .collect();
    for found in gpus {
        found.gpu.rail = rails.get(&found.gpu.pci).copied();
    }
}

/// Paths of the cards in the order of their addresses; virtual functions are none.
fn cards(tree: &Tree) -> Vec<String> {
    let mut found: Vec<(Option<pci::Address>, String)> = tree
        .names(CARDS)
        .into_iter()
        .map(|name| format!("{CARDS}/{name}/device"))
        .filter(|device| !tree.exists(&format!("{device}/physfn")))
        .filter_map(|device| tree.resolve(&device))
        .map(|path| {
            let name = path.rsplit('/').next().unwrap_or_default();
            (pci::Address::parse(name), path)
        })
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, path)| path).collect()
}

/// How many components two paths begin with in common.
fn common(a: &str, b: &str) -> usize {
    let parts = a.trim_matches('/').split('/');
    let other = b.trim_matches('/').split('/');
    parts.zip(other).take_while(|(a, b)| a == b).count()
}

/// The rail of each GPU. Where several cards are equally near, GPUs are shared out to them evenly, in order.
fn assign(gpus: &[Option<String>], cards: &[String]) -> Vec<Option<u32>> {
    let mut taken = vec![0_u32; cards.len()];
    let mut nearest = |gpu: &String| {
        let depths = || cards.iter().map(|card| common(gpu, card));
        let best = depths().max().filter(|best| *best >= TO_ROOT)?;
        let equal = depths().zip(0..).filter(|(depth, _)| *depth == best);
        let card = equal
            .map(|(_, card)| card)
            .min_by_key(|card| taken[*card])?;
        taken[card] += 1;
        Some(card)
    };
    let chosen: Vec<Option<usize>> = gpus
        .iter()
        .map(|gpu| gpu.as_ref().and_then(&mut nearest))
        .collect();
    let used: BTreeSet<usize> = chosen.iter().flatten().copied().collect();
    let rank = |card: usize| u32::try_from(used.range(..card).count()).unwrap_or(u32::MAX);
    chosen.into_iter().map(|card| card.map(rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::nvidia;
    use crate::discover::tests::Fake;

    fn path(below: &str) -> Option<String> {
        Some(format!("/sys/devices/{below}"))
    }

    #[test]
    fn the_nearest_card_by_bridges_is_the_rail() {
        let card = |below: &str| format!("/sys/devices/{below}");
        let cards = [
            card("pci0000:00/0000:00:01.0/0000:01:00.0"), // storage
            card("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0"),
            card("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0"),
            card("pci0000:64/0000:64:01.0/0000:65:00.0"),
        ];
        let gpus = [
            path("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:02.0/0000:1b:00.0"),
            path("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:03.0/0000:1c:00.0"),
            path("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.1"),
            path("pci0000:64/0000:64:02.0/0000:66:00.0"),
            path("pci0000:80/0000:80:01.0/0000:81:00.0"),
            None,
        ];
        // Two equally near cards are shared out; the third sits beside one of them.
        assert_eq!(
            assign(&gpus, &cards),
            [Some(0), Some(1), Some(1), Some(2), None, None]
        );
        assert_eq!(assign(&gpus, &[]), [None; 6]);
    }

    #[test]
    fn cards_are_found_in_the_tree_and_virtual_functions_are_none() {
        let fake = Fake::new();
        for (root, gpu, card, name) in [
            ("pci0000:16", "0000:19:00.0", "0000:1a:00.0", "mlx5_1"),
            ("pci0000:64", "0000:66:00.0", "0000:67:00.0", "mlx5_0"),
        ] {
            let bridge = format!("sys/devices/{root}/{}", &gpu.replace("00.0", "01.0"));
            fake.file(&format!("{bridge}/{gpu}/vendor"), "0x10de\n")
                .link(
                    &format!("sys/bus/pci/devices/{gpu}"),
                    &format!("../../../../{bridge}/{gpu}"),
                )
                .file(&format!("{bridge}/{card}/infiniband/{name}/fw_ver"), "1\n")
                .link(
                    &format!("{bridge}/{card}/infiniband/{name}/device"),
                    "../..",
                )
                .link(
                    &format!("sys/class/infiniband/{name}"),
                    &format!("../../../{bridge}/{card}/infiniband/{name}"),
                );
        }
        let virtual_ = "sys/devices/pci0000:16/0000:19:01.0/0000:1a:00.1";
        fake.file(&format!("{virtual_}/infiniband/mlx5_9/fw_ver"), "1\n")
            .file(&format!("{virtual_}/physfn/vendor"), "1\n")
            .link(&format!("{virtual_}/infiniband/mlx5_9/device"), "../..")
            .link(
                "sys/class/infiniband/mlx5_9",
                &format!("../../../{virtual_}/infiniband/mlx5_9"),
            );
        for (pci, minor) in [("0000:19:00.0", 0), ("0000:66:00.0", 1)] {
            let text = format!(
                "Model: \t NVIDIA H200\nGPU UUID: \t GPU-{minor}\nBus Location: \t {pci}\nDevice Minor: \t {minor}\n"
            );
            fake.file(&format!("proc/driver/nvidia/gpus/{pci}/information"), &text);
        }
        let tree = fake.tree();
        let mut gpus = nvidia::find(&tree, &[], &mut Vec::new());
        find(&tree, &mut gpus);
        let rails: Vec<Option<u32>> = gpus.iter().map(|found| found.gpu.rail).collect();
        assert_eq!(rails, [Some(0), Some(1)]);
    }
}

//! GPUs that this node had before keep their places: one that is missing takes out that GPU and not the node.
//!
//! The controller and running jobs know a GPU by its index. Were the rest numbered anew when one falls off the bus, every index
//! behind it would be another GPU. So the list is kept in a file; what is missing stays in it, is never granted, and is offered again
//! when it is back. Whoever removed GPUs for good removes the file and starts spurd anew.

use super::{FoundGpu, Identity, Machine};
use crate::config::GPUS_MAX;
use crate::fence::resolve::{Ungrantable, describe};
use serde::{Deserialize, Serialize};
use spur_core::resources::Gpu;
use std::io::{self, Write};
use std::path::Path;

/// The file below `state_dir`.
pub const FILE: &str = "known-gpus";

/// One place in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    identity: Identity,
    gpu: Gpu,
}

/// Puts what was found into the places of before, as far as `state_dir` remembers them. It is only read here: [`keep`] writes.
pub fn remember(state_dir: &Path, mut machine: Machine) -> Machine {
    if is_declared(&machine) {
        return machine;
    }
    match read(&state_dir.join(FILE)) {
        Ok(places) => merge(places, machine, state_dir),
        Err(error) => {
            let file = state_dir.join(FILE);
            machine.notes.push(format!(
                "cannot read {}: {error}; GPUs are numbered as they are found",
                file.display()
            ));
            machine
        }
    }
}

/// Writes the places down, if that changes the file.
pub fn keep(state_dir: &Path, machine: &Machine) -> io::Result<()> {
    if is_declared(machine) {
        return Ok(());
    }
    let file = state_dir.join(FILE);
    let pairs = machine.identities.iter().zip(&machine.inventory.gpus);
    let places: Vec<Place> = pairs
        .map(|(identity, gpu)| Place {
            identity: identity.clone(),
            gpu: gpu.clone(),
        })
        .collect();
    if read(&file).is_ok_and(|before| before == places) {
        return Ok(());
    }
    let bytes = rmp_serde::to_vec_named(&places).map_err(io::Error::other)?;
    let draft = file.with_extension("new");
    let mut out = std::fs::File::create(&draft)?;
    out.write_all(&bytes)?;
    out.sync_data()?;
    std::fs::rename(&draft, &file)
}

/// Declared stand-ins are what the configuration says, every time.
fn is_declared(machine: &Machine) -> bool {
    let mut all = machine.identities.iter();
    all.any(|identity| matches!(identity, Identity::Declared { .. }))
}

fn read(file: &Path) -> io::Result<Vec<Place>> {
    match std::fs::read(file) {
        Ok(bytes) => rmp_serde::from_slice(&bytes)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn merge(places: Vec<Place>, machine: Machine, state_dir: &Path) -> Machine {
    let Machine {
        mut inventory,
        host_cpus,
        cpu_numa,
        identities,
        split,
        unsure,
        notes,
        absent: _,
    } = machine;
    let gpus = std::mem::take(&mut inventory.gpus);
    let mut found: Vec<FoundGpu> = identities
        .into_iter()
        .zip(gpus)
        .map(|(identity, gpu)| FoundGpu { gpu, identity })
        .collect();
    let mut machine = Machine {
        host_cpus,
        cpu_numa,
        split,
        unsure,
        notes,
        ..Machine::default()
    };
    recall_instances(&places, &mut found, &mut machine);
    let slots = slots(places, found);
    let at = |old: u32| {
        let is = |slot: &Slot| slot.found_as == Some(old);
        slots
            .iter()
            .position(is)
            .and_then(|at| u32::try_from(at).ok())
    };
    for (index, slot) in (0u32..).zip(&slots) {
        let mut gpu = slot.place.gpu.clone();
        gpu.index = index;
        gpu.links = match slot.found_as {
            Some(_) => gpu
                .links
                .iter()
                .filter_map(|(to, link)| Some((at(*to)?, *link)))
                .collect(),
            None => Vec::new(),
        };
        if slot.found_as.is_none() {
            let why = why_absent(index, &slot.place.identity, &machine.split, state_dir);
            machine.absent.push((index, why));
        }
        inventory.gpus.push(gpu);
        machine.identities.push(slot.place.identity.clone());
    }
    machine.inventory = inventory;
    machine
}

fn why_absent(index: u32, identity: &Identity, split: &[String], state_dir: &Path) -> String {
    if identity.is_whole(split) {
        return Ungrantable::NoInstances { index }.to_string();
    }
    format!(
        "GPU {index} ({}) is not found; if it was removed for good, remove {} and restart spurd",
        describe(identity),
        state_dir.join(FILE).display()
    )
}

/// Where NVML tells nothing of a GPU's instances, they are those that were known before: were the GPU offered whole, its holder would
/// get what jobs have that still run on them.
fn recall_instances(places: &[Place], found: &mut Vec<FoundGpu>, machine: &mut Machine) {
    for uuid in std::mem::take(&mut machine.unsure) {
        let of_it =
            |place: &&Place| matches!(&place.identity, Identity::Mig { gpu, .. } if *gpu == uuid);
        let known: Vec<&Place> = places.iter().filter(of_it).collect();
        if known.is_empty() {
            machine.unsure.push(uuid);
            continue;
        }
        // Numbers that nothing was found as: no link leads to an instance.
        let free = found.iter().map(|now| now.gpu.index + 1).max();
        let whole = std::slice::from_ref(&uuid);
        found.retain(|now| !now.identity.is_whole(whole));
        for (index, place) in (free.unwrap_or(0)..).zip(known) {
            let mut gpu = place.gpu.clone();
            (gpu.index, gpu.links) = (index, Vec::new());
            let identity = place.identity.clone();
            found.push(FoundGpu { gpu, identity });
        }
        machine.split.push(uuid);
    }
}

/// A place, and the index under which its GPU was found now.
struct Slot {
    place: Place,
    found_as: Option<u32>,
}

fn slots(places: Vec<Place>, found: Vec<FoundGpu>) -> Vec<Slot> {
    let mut slots: Vec<Slot> = places
        .into_iter()
        .map(|place| Slot {
            place,
            found_as: None,
        })
        .collect();
    let (again, fresh): (Vec<FoundGpu>, Vec<FoundGpu>) = found
        .into_iter()
        .partition(|now| slots.iter().any(|slot| slot.place.identity == now.identity));
    for now in again {
        let slot = slots
            .iter_mut()
            .find(|slot| slot.place.identity == now.identity);
        if let Some(slot) = slot {
            take(slot, now);
        }
    }
    for now in fresh {
        // Another card in the same slot of the machine took the place of the one that is missing, or the same card is cut otherwise: as
        // few of those behind it as can be are numbered anew.
        let replaced = slots.iter_mut().find(|slot| {
            slot.found_as.is_none() && !now.gpu.pci.is_empty() && slot.place.gpu.pci == now.gpu.pci
        });
        match replaced {
            Some(slot) => take(slot, now),
            None => {
                let found_as = Some(now.gpu.index);
                let FoundGpu { gpu, identity } = now;
                let place = Place { identity, gpu };
                slots.push(Slot { place, found_as });
            }
        }
    }
    // A part that is not there was made into others: it is not missing.
    slots.retain(|slot| slot.found_as.is_some() || slot.place.gpu.parent.is_none());
    let over = slots.len().saturating_sub(GPUS_MAX as usize);
    for _ in 0..over {
        if let Some(at) = slots.iter().rposition(|slot| slot.found_as.is_none()) {
            slots.remove(at);
        }
    }
    slots
}

fn take(slot: &mut Slot, now: FoundGpu) {
    slot.found_as = Some(now.gpu.index);
    slot.place = Place {
        identity: now.identity,
        gpu: now.gpu,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::resources::{GpuLink, GpuVendor, Inventory, PartOf};

    fn gpu(index: u32, name: &str, pci: &str) -> FoundGpu {
        FoundGpu {
            gpu: Gpu {
                index,
                vendor: GpuVendor::Nvidia,
                model: "h200".to_owned(),
                uuid: name.to_owned(),
                pci: pci.to_owned(),
                numa: None,
                memory_mib: 0,
                files: Vec::new(),
                links: Vec::new(),
                rail: None,
                parent: None,
            },
            identity: Identity::Nvidia {
                uuid: name.to_owned(),
                pci: pci.to_owned(),
            },
        }
    }

    /// A machine with these GPUs, each linked to the next.
    fn machine(names: &[&str]) -> Machine {
        let mut found: Vec<FoundGpu> = (0u32..)
            .zip(names)
            .map(|(index, name)| gpu(index, name, &format!("pci-{}", &name[..1])))
            .collect();
        let last = u32::try_from(found.len()).unwrap().saturating_sub(1);
        for found in &mut found {
            if found.gpu.index < last {
                found.gpu.links = vec![(found.gpu.index + 1, GpuLink::NvLink)];
            }
        }
        let (gpus, identities) = found.into_iter().map(|f| (f.gpu, f.identity)).unzip();
        Machine {
            inventory: Inventory {
                gpus,
                ..Inventory::default()
            },
            identities,
            ..Machine::default()
        }
    }

    fn names(machine: &Machine) -> Vec<&str> {
        let gpus = machine.inventory.gpus.iter();
        gpus.map(|gpu| gpu.uuid.as_str()).collect()
    }

    /// Starts an agent on a machine after another.
    fn then(dir: &Path, names: &[&str]) -> Machine {
        let machine = remember(dir, machine(names));
        keep(dir, &machine).unwrap();
        for (at, gpu) in (0u32..).zip(&machine.inventory.gpus) {
            assert_eq!(gpu.index, at);
        }
        assert_eq!(machine.identities.len(), machine.inventory.gpus.len());
        machine
    }

    #[test]
    fn a_gpu_that_is_missing_keeps_its_place_and_has_it_again_when_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let whole = then(dir.path(), &["a", "b", "c", "d"]);
        assert!(whole.absent.is_empty());
        let less = then(dir.path(), &["a", "c", "d"]);
        assert_eq!(names(&less), ["a", "b", "c", "d"]);
        assert_eq!(less.absent.len(), 1);
        assert_eq!(less.absent[0].0, 1);
        assert!(less.absent[0].1.contains("known-gpus"), "{:?}", less.absent);
        let links: Vec<_> = less
            .inventory
            .gpus
            .iter()
            .map(|gpu| gpu.links.clone())
            .collect();
        assert_eq!(
            links[0],
            [(2, GpuLink::NvLink)],
            "to c, wherever it was found"
        );
        assert_eq!(links[1], []);
        let again = then(dir.path(), &["a", "b", "c", "d"]);
        assert_eq!(again, whole);
    }

    #[test]
    fn another_card_in_the_same_slot_takes_the_place_and_a_new_one_comes_last() {
        let dir = tempfile::tempdir().unwrap();
        then(dir.path(), &["a", "b", "c"]);
        let now = then(dir.path(), &["a", "bb", "c", "d"]);
        assert_eq!(names(&now), ["a", "bb", "c", "d"]);
        assert!(now.absent.is_empty());
    }

    #[test]
    fn a_damaged_file_is_noted_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), b"\xc1").unwrap();
        let now = then(dir.path(), &["a", "b"]);
        assert_eq!(now.notes.len(), 1);
        assert!(then(dir.path(), &["b"]).notes.is_empty());
    }

    /// GPU b in these instances.
    fn cut(mut machine: Machine, instances: &[&str]) -> Machine {
        let at = machine
            .identities
            .iter()
            .position(|identity| matches!(identity, Identity::Nvidia { uuid, .. } if uuid == "b"));
        let whole = at.map(|at| {
            machine.identities.remove(at);
            machine.inventory.gpus.remove(at)
        });
        for gpu in &mut machine.inventory.gpus {
            gpu.links.clear();
        }
        for name in instances {
            let gi: u32 = name[1..].parse().unwrap();
            machine.inventory.gpus.push(Gpu {
                uuid: (*name).to_owned(),
                parent: Some(PartOf {
                    uuid: "b".into(),
                    profile: "1g".into(),
                }),
                ..whole.clone().unwrap()
            });
            machine.identities.push(Identity::Mig {
                uuid: (*name).to_owned(),
                gpu: "b".into(),
                pci: "pci-b".into(),
                gi,
                ci: 0,
            });
        }
        for (index, gpu) in (0u32..).zip(&mut machine.inventory.gpus) {
            gpu.index = index;
        }
        machine.split.push("b".into());
        machine
    }

    fn then_is(dir: &Path, now: Machine) -> Machine {
        let machine = remember(dir, now);
        keep(dir, &machine).unwrap();
        assert_eq!(machine.identities.len(), machine.inventory.gpus.len());
        machine
    }

    #[test]
    fn what_a_gpu_is_cut_into_takes_its_places() {
        let dir = tempfile::tempdir().unwrap();
        let whole = machine(&["a", "b", "c"]);
        then_is(dir.path(), whole.clone());
        let parts = then_is(dir.path(), cut(whole.clone(), &["m1", "m2"]));
        assert_eq!(names(&parts), ["a", "m1", "c", "m2"]);
        assert!(parts.absent.is_empty());
        let other = then_is(dir.path(), cut(whole.clone(), &["m2", "m3"]));
        assert_eq!(names(&other), ["a", "m3", "c", "m2"]);
        let one = then_is(dir.path(), whole.clone());
        assert_eq!(names(&one), ["a", "b", "c"]);
        // In MIG mode without instances: it keeps its place, and is not to be had.
        let none = then_is(dir.path(), cut(whole, &[]));
        assert_eq!(names(&none), ["a", "b", "c"]);
        assert!(
            none.absent[0].1.contains("has no instances"),
            "{:?}",
            none.absent
        );
    }

    #[test]
    fn instances_are_recalled_where_nvml_is_silent() {
        let dir = tempfile::tempdir().unwrap();
        let unsure = || Machine {
            unsure: vec!["b".into()],
            ..machine(&["a", "b", "c"])
        };
        assert_eq!(names(&then_is(dir.path(), unsure())), ["a", "b", "c"]);
        let parts = then_is(dir.path(), cut(machine(&["a", "b", "c"]), &["m1", "m2"]));
        let silent = then_is(dir.path(), unsure());
        assert_eq!(
            names(&silent),
            names(&parts),
            "never whole beside its instances"
        );
        assert_eq!(
            (silent.split, silent.unsure),
            (vec!["b".to_owned()], vec![])
        );
        assert_eq!(silent.identities, parts.identities);
        assert!(silent.absent.is_empty());
    }
}

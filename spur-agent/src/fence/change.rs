//! What becomes of grants when devices come, go, or are partitioned anew under a running job. Pure.
//!
//! A grant is a bit that belongs to an identity, and the table says which numbers the bit opens. So a number that passes to
//! another GPU is taken from the old grant by the table alone. Two things need memory: a device that is about to go is closed
//! before its number can pass to another one, and a GPU whose MIG instances changed while a job held it is closed until that job
//! has ended, since what its old instances were belongs to nobody now. A MIG instance that was a device of its own and is seen to be gone
//! stays closed until the agent asks NVML anew: what comes under its numbers is another one.

use super::resolve::{Devices, Ungrantable};
use crate::discover::nvidia;
use spur_core::resources::GpuVendor;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of a GPU's MIG capability nodes, which change with every partitioning.
pub type Layout = BTreeSet<(u32, u32)>;

/// The capability nodes among a GPU's own nodes.
fn layout<'a>(numbers: impl Iterator<Item = &'a (u32, u32)>) -> Layout {
    numbers
        .filter(|(major, _)| *major != nvidia::MAJOR && *major != crate::discover::drm::MAJOR)
        .copied()
        .collect()
}

/// What is remembered from one look at the devices to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// GPUs that are closed until their holder has ended.
    frozen: BTreeSet<u32>,
    /// GPUs that the kernel is about to take away: closed until it has.
    leaving: BTreeSet<u32>,
    /// How each GPU was partitioned when its holder got it.
    layouts: BTreeMap<u32, Layout>,
    /// MIG instances that are no more.
    ended: BTreeMap<u32, Ungrantable>,
}

impl Memory {
    /// Starts from the numbers that an earlier agent granted, by GPU; of those that a living policy holds.
    pub fn starting_from(granted: &BTreeMap<u32, BTreeSet<(u32, u32)>>) -> Self {
        let layouts = granted.iter();
        Self {
            layouts: layouts
                .map(|(index, numbers)| (*index, layout(numbers.iter())))
                .collect(),
            ..Self::default()
        }
    }

    /// Notes that these GPUs are going away.
    pub fn leaves(&mut self, gpus: impl IntoIterator<Item = u32>) {
        self.leaving.extend(gpus);
    }

    /// The kernel has done what it announced: devices are as they are found.
    pub fn settled(&mut self) {
        self.leaving.clear();
    }

    /// Whether anything is closed until a job has ended.
    pub fn has_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Closes in `now` what must not be open, given which GPUs are `held`. Only NVIDIA's GPUs have layouts.
    pub fn apply(&mut self, now: &mut Devices, held: &BTreeSet<u32>) {
        self.frozen.retain(|index| held.contains(index));
        let gpus = now.own.iter_mut().zip(&now.vendors);
        for (index, (own, vendor)) in (0u32..).zip(gpus) {
            if let Some(ended) = self.ended.get(&index) {
                *own = Err(ended.clone());
            }
            let files = match own {
                Ok(files) => files,
                Err(why @ Ungrantable::InstanceGone { .. }) => {
                    self.ended.insert(index, why.clone());
                    continue;
                }
                Err(_) => continue,
            };
            let numbers: Vec<(u32, u32)> = files.iter().map(|f| (f.major, f.minor)).collect();
            if *vendor == GpuVendor::Nvidia {
                let found = layout(numbers.iter());
                let known = self.layouts.entry(index).or_insert_with(|| found.clone());
                if *known != found && held.contains(&index) {
                    self.frozen.insert(index);
                }
                if !held.contains(&index) {
                    *known = found;
                }
            }
            if self.frozen.contains(&index) {
                *own = Err(Ungrantable::Repartitioned { index });
            } else if self.leaving.contains(&index) {
                *own = Err(Ungrantable::Leaving { index });
            }
        }
    }
}

/// GPUs that were open and are not any more, with their numbers until now; without those that they share with others that are open.
pub fn lost(before: &Devices, now: &Devices) -> BTreeMap<u32, BTreeSet<(u32, u32)>> {
    let still: BTreeSet<(u32, u32)> = now
        .shared_out()
        .map(|(_, file)| (file.major, file.minor))
        .collect();
    (0u32..)
        .zip(before.own.iter().zip(&now.own))
        .filter_map(|(index, pair)| match pair {
            (Ok(files), Err(_)) => {
                let all = files.iter().chain(before.common_of(index));
                let numbers = all.map(|file| (file.major, file.minor));
                let numbers = numbers.filter(|number| !still.contains(number));
                Some((index, numbers.collect()))
            }
            (_, _) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;

//! What is asked of the last look at the devices.

use super::{Inner, NodeFence};
use crate::discover::{Identity, mig};
use crate::fence::classes::Fenced;
use crate::fence::resolve;
use crate::fence::revoke::HoldOn;
use spur_core::id::JobId;
use spur_core::resources::{GpuVendor, IdSet};
use spur_ebpf::DeviceTable;
use std::collections::BTreeSet;

impl NodeFence {
    /// The nodes of these GPUs that have a driver behind them, to be looked for among open files; stand-ins have none. Without those that
    /// others may have open, too.
    pub fn real_nodes(&self, gpus: &IdSet) -> BTreeSet<(u32, u32)> {
        let look = self.look();
        let simulated = GpuVendor::Simulated;
        gpus.iter()
            .filter(|index| look.devices.vendors.get(*index as usize) != Some(&simulated))
            .filter_map(|index| look.devices.own.get(index as usize)?.as_ref().ok())
            .flatten()
            .map(|file| (file.major, file.minor))
            .collect()
    }

    /// The numbers of these GPUs' nodes that a job does not need any more which keeps `kept`.
    pub fn nodes_without(&self, gpus: &IdSet, kept: &IdSet) -> BTreeSet<(u32, u32)> {
        let keeps = self.nodes(kept);
        let look = self.look();
        let own = |index: u32| look.devices.own.get(index as usize)?.as_ref().ok();
        gpus.iter()
            .filter_map(|index| Some((index, own(index)?)))
            .flat_map(|(index, own)| own.iter().chain(look.devices.common_of(index)))
            .map(|file| (file.major, file.minor))
            .filter(|number| !keeps.contains(number))
            .collect()
    }

    /// The numbers of all nodes that a holder of these GPUs may open.
    pub fn nodes(&self, gpus: &IdSet) -> BTreeSet<(u32, u32)> {
        let look = self.look();
        let files = look.devices.grant(gpus).unwrap_or_default();
        files.iter().map(|file| (file.major, file.minor)).collect()
    }

    /// Everything that is fenced: majors, and a minor or all.
    pub fn classes(&self) -> Vec<(u32, Option<u32>)> {
        let look = self.look();
        let fenced = look.devices.fenced.iter();
        fenced
            .map(|fenced| match *fenced {
                Fenced::Major(major) => (major, None),
                Fenced::Device(major, minor) => (major, Some(minor)),
            })
            .collect()
    }

    /// The path of a device, for people; empty if unknown.
    pub fn path_of(&self, major: u32, minor: u32) -> String {
        let look = self.look();
        look.devices.path_of(major, minor).to_owned()
    }

    /// Jobs that hold one of these GPUs.
    pub fn jobs_with(&self, gpus: &BTreeSet<u32>) -> BTreeSet<JobId> {
        self.0.wards.jobs_with(gpus)
    }

    /// How a GPU that was taken from a job is kept from it, see [`super::revoke`].
    pub fn hold_on(&self, gpus: impl IntoIterator<Item = u32>) -> HoldOn {
        let look = self.look();
        let vendors = gpus
            .into_iter()
            .filter_map(|gpu| look.devices.vendors.get(gpu as usize));
        HoldOn::of(vendors.copied(), look.devices.kfd(), self.is_guarded())
    }

    /// GPUs that came after the agent started, in words.
    pub fn appeared(&self) -> Vec<String> {
        let Inner {
            config,
            tree,
            machine,
            ..
        } = &*self.0;
        if config.declare.gpus.is_some() {
            return Vec::new();
        }
        // Whole GPUs: what is offered by instance is known under other names.
        let is_known = |identity: &Identity| {
            identity.is_whole(&machine.split) || machine.identities.contains(identity)
        };
        let found = crate::discover::identities(tree);
        let new = found.iter().filter(|identity| !is_known(identity));
        new.map(resolve::describe)
            .chain(mig::appeared(tree, machine))
            .map(|what| {
                format!(
                    "{what} came after spurd started: it is closed to everybody; restart spurd to offer it (jobs go on)"
                )
            })
            .collect()
    }

    /// The maker of the GPU that a device belongs to.
    pub fn vendor_of(&self, major: u32, minor: u32) -> Option<GpuVendor> {
        self.look().devices.vendor_of(major, minor)
    }

    /// GPUs that cannot be granted now, with the reason.
    pub fn ungrantable(&self) -> Vec<(u32, String)> {
        let look = self.look();
        let all = (0u32..).zip(&look.devices.own);
        all.filter_map(|(index, own)| Some((index, own.as_ref().err()?.to_string())))
            .collect()
    }

    /// The table in force, for `doctor`.
    pub fn table(&self) -> DeviceTable {
        self.look().table.clone()
    }
}

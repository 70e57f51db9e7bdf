//! Taking a GPU from a job that runs. Its next open is refused by the table or the policy. What is open already is refused its use
//! by the guard, where there is one and the driver asks through the descriptor. What remains is the group's end.
//!
//! - A mapping is used without asking anybody: it ends with its process only.
//! - NVIDIA's driver takes the mere possession of `/dev/nvidiaN` for permission, and is asked through `nvidiactl`.
//! - KFD looks at the fence when a process first opens `/dev/kfd`, never again: such a process keeps all GPUs that it had.

use super::holders::Holder;
use spur_core::resources::GpuVendor;
use std::collections::BTreeSet;

/// What lets a process go on with a GPU that was taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldOn {
    /// An open descriptor of its nodes does, not only a mapping.
    by_descriptor: bool,
    /// So does an open `/dev/kfd`.
    kfd: Option<(u32, u32)>,
}

impl HoldOn {
    /// What holds for GPUs of these vendors, given KFD's node and whether a guard is up.
    pub fn of(
        vendors: impl IntoIterator<Item = GpuVendor>,
        kfd: Option<(u32, u32)>,
        guarded: bool,
    ) -> Self {
        let vendors: BTreeSet<GpuVendor> = vendors.into_iter().collect();
        Self {
            by_descriptor: !guarded || vendors.contains(&GpuVendor::Nvidia),
            kfd: kfd.filter(|_| vendors.contains(&GpuVendor::Amd)),
        }
    }

    /// The numbers to look for: the GPU's own, and KFD's.
    pub fn numbers(&self, own: &BTreeSet<(u32, u32)>) -> BTreeSet<(u32, u32)> {
        own.iter().copied().chain(self.kfd).collect()
    }

    /// Why the job that this process belongs to must end; `None` if the kernel refuses it everything from now on.
    pub fn verdict(&self, holder: &Holder) -> Option<String> {
        let Holder {
            pid,
            device: (major, minor),
            mapped,
        } = holder;
        if Some(holder.device) == self.kfd {
            return Some(format!(
                "process {pid} has /dev/kfd open, and KFD asks at a process's first open only"
            ));
        }
        match (mapped, self.by_descriptor) {
            (true, _) => Some(format!("process {pid} has {major}:{minor} mapped")),
            (false, true) => Some(format!("process {pid} has {major}:{minor} open")),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_cannot_refuse_ends_the_job() {
        let holder = |device, mapped| Holder {
            pid: 7,
            device,
            mapped,
        };
        let (node, kfd) = ((226, 128), (238, 0));
        let of = |vendor, guarded| HoldOn::of([vendor], Some(kfd), guarded);
        for (what, hold_on, open, mapped, by_kfd) in [
            (
                "a guarded render node",
                of(GpuVendor::Drm, true),
                false,
                true,
                false,
            ),
            (
                "without a guard",
                of(GpuVendor::Drm, false),
                true,
                true,
                false,
            ),
            ("NVIDIA", of(GpuVendor::Nvidia, true), true, true, false),
            ("AMD", of(GpuVendor::Amd, true), false, true, true),
        ] {
            assert_eq!(
                hold_on.verdict(&holder(node, false)).is_some(),
                open,
                "{what}"
            );
            assert_eq!(
                hold_on.verdict(&holder(node, true)).is_some(),
                mapped,
                "{what}"
            );
            let looked_for = hold_on.numbers(&BTreeSet::from([node])).contains(&kfd);
            assert_eq!(looked_for, by_kfd, "{what}");
            let said = hold_on.verdict(&holder(kfd, false));
            assert_eq!(
                said.is_some_and(|why| why.contains("first open")),
                by_kfd,
                "{what}"
            );
        }
    }
}

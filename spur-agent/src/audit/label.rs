//! What a refusal most likely is.
//!
//! KFD asks the fence about each GPU of the node when a process first opens `/dev/kfd`, and again when it reads the topology in
//! sysfs, always for reading and writing the GPU's render node and without opening it. So a job on one of eight AMD GPUs is
//! refused seven times at each start of each of its programs, and has done nothing. The kernel asks in the same words for a real
//! open of such a node: the two cannot be told apart here, which is why the label is a label, and everything is counted.
//!
//! NVIDIA's library tries by really opening: what it does to see which GPUs there are and what a program does that picked the
//! wrong one is the same, so nothing is labelled.

use spur_core::denial::{DenialLabel, DenialReason, DeviceOp};

/// What is known of a refusal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) op: DeviceOp,
    pub(super) reason: DenialReason,
    /// The device program refused it, not the guard, which sees opens only.
    pub(super) by_fence: bool,
    /// The device is the render node of an AMD GPU.
    pub(super) amd_render_node: bool,
    /// The job may open `/dev/kfd`, since it holds an AMD GPU.
    pub(super) holds_amd: bool,
}

/// The label, if one fits.
pub(super) fn label(facts: Facts) -> Option<DenialLabel> {
    let Facts {
        op,
        reason,
        by_fence,
        amd_render_node,
        holds_amd,
    } = facts;
    let asked = op == DeviceOp::ReadWrite && reason == DenialReason::NotGranted && by_fence;
    (asked && amd_render_node && holds_amd).then_some(DenialLabel::KfdProbe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_kfd_asks_is_its_probe() {
        let probe = Facts {
            op: DeviceOp::ReadWrite,
            reason: DenialReason::NotGranted,
            by_fence: true,
            amd_render_node: true,
            holds_amd: true,
        };
        assert_eq!(label(probe), Some(DenialLabel::KfdProbe));
        let others = DeviceOp::ALL.map(|op| Facts { op, ..probe });
        let others = others.into_iter().filter(|facts| facts.op != probe.op);
        let reasons = DenialReason::ALL.map(|reason| Facts { reason, ..probe });
        let reasons = reasons
            .into_iter()
            .filter(|facts| facts.reason != probe.reason);
        let without = [
            Facts {
                by_fence: false,
                ..probe
            },
            Facts {
                amd_render_node: false,
                ..probe
            },
            Facts {
                holds_amd: false,
                ..probe
            },
        ];
        for facts in others.chain(reasons).chain(without) {
            assert_eq!(label(facts), None, "{facts:?}");
        }
    }
}

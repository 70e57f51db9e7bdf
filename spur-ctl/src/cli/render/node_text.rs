//! Words and numbers that several views derive from a node in the same way.

use super::View;
use spur_core::api::NodeView;
use spur_core::node::Node;
use spur_core::resources::Inventory;
use spur_core::slurm::codes::node_state::{Base, State};
use spur_core::time::Millis;

/// Whether something runs there or is being cleaned up.
pub fn busy(state: &State) -> bool {
    state.completing || matches!(state.base, Base::Allocated | Base::Mixed)
}

/// Whether it takes jobs at all.
pub fn usable(state: &State) -> bool {
    !state.drain && state.base != Base::Down
}

/// The number of the base state in Slurm, which orders the lines of `sinfo`.
pub fn rank(base: Base) -> u8 {
    match base {
        Base::Down => 1,
        Base::Idle => 2,
        Base::Allocated => 3,
        Base::Mixed => 5,
    }
}

/// When it was last busy; a node that never was counts from its agent's start, as in Slurm.
pub fn last_busy(node: &Node) -> Millis {
    if node.last_busy.0 == 0 {
        node.agent_start
    } else {
        node.last_busy
    }
}

/// `root` and when, if a reason was given.
pub fn reason_by(view: &View, node: &NodeView) -> Option<(String, String)> {
    let (uid, at) = node.node.reason_by?;
    Some((view.user(uid), view.clock.stamp(at)))
}

/// `2:32:1`.
pub fn topology(inventory: &Inventory) -> String {
    let Inventory {
        sockets,
        cores_per_socket,
        threads_per_core,
        ..
    } = inventory;
    format!("{sockets}:{cores_per_socket}:{threads_per_core}")
}

/// `a100,ib`; `(null)` if there are none.
pub fn features(node: &NodeView) -> String {
    super::or_null(&node.features.join(",")).to_owned()
}

/// An operator's remark.
pub fn comment(view: &NodeView) -> Option<&str> {
    Some(view.comment.as_str()).filter(|text| !text.is_empty())
}

/// The number that orders the lines of `sinfo -S t`: Slurm's, with its flags.
pub fn state_number(state: &State) -> u32 {
    let flags = [
        (state.reserved, 0x20),
        (state.drain, 0x200),
        (state.completing, 0x400),
        (state.silent, 0x800),
        (state.maintenance, 0x8000),
        (state.planned, 0x20_0000),
    ];
    let set = flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit);
    u32::from(rank(state.base)) + set.sum::<u32>()
}

/// Hundredths as `2.01`.
pub fn load(load_x100: u32) -> String {
    format!("{}.{:02}", load_x100 / 100, load_x100 % 100)
}

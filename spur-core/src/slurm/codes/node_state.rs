//! A node's state in `sinfo`'s and `scontrol`'s words.
//!
//! What the node is (down, or how much of it is taken) gives the base; what hangs over it (draining, completing, planned, not
//! responding) gives flags or a mark. A node without the fence that it requires takes no job, so it shows as drained; so does one
//! that rests because launches failed there, or that waits to take over other hardware.

use crate::api::NodeView;
use crate::node::{AdminState, FenceState, LaunchTrouble, Node};
use std::borrow::Cow;

/// How much of a node is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Takes no job and runs none.
    Down,
    /// Nothing of it.
    Idle,
    /// Part of it.
    Mixed,
    /// Every CPU.
    Allocated,
}

/// A node's state: what it is and what hangs over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// How much is taken.
    pub base: Base,
    /// Takes no new job: an operator said so, it lacks the fence that it requires, or it rests.
    pub drain: bool,
    /// Cleans up after a job.
    pub completing: bool,
    /// Held back for a waiting job.
    pub planned: bool,
    /// Does not answer.
    pub silent: bool,
    /// A reservation holds it now.
    pub reserved: bool,
    /// One for maintenance does.
    pub maintenance: bool,
}

impl State {
    /// Reads it off a node.
    pub fn of(view: &NodeView) -> Self {
        let node = &view.node;
        let base = if node.admin == AdminState::Down || node.lost {
            Base::Down
        } else if node.cpus_used.is_empty() && node.gpus_used.is_empty() && node.memory_used == 0 {
            Base::Idle
        } else if node.cpus_used.len() >= node.inventory.cpus {
            Base::Allocated
        } else {
            Base::Mixed
        };
        Self {
            base,
            drain: node.admin == AdminState::Drain
                || base != Base::Down && (!node.has_required_fence() || keeps_still(node)),
            completing: view.completing,
            planned: view.planned,
            silent: !node.connected,
            reserved: !view.reservations.is_empty(),
            maintenance: view.maintenance,
        }
    }

    /// The long word, the short word, and the mark behind either.
    fn words(&self) -> (&'static str, &'static str, &'static str) {
        let star = if self.silent { "*" } else { "" };
        let busy = self.completing || matches!(self.base, Base::Mixed | Base::Allocated);
        if self.drain {
            return if busy {
                ("draining", "drng", star)
            } else {
                ("drained", "drain", star)
            };
        }
        match self.base {
            Base::Down => ("down", "down", star),
            Base::Allocated if self.silent => ("allocated", "alloc", star),
            Base::Allocated if self.completing => ("allocated", "alloc", "+"),
            Base::Allocated => ("allocated", "alloc", ""),
            Base::Idle | Base::Mixed if self.completing => ("completing", "comp", star),
            Base::Idle if self.maintenance => ("maint", "maint", star),
            Base::Idle if self.silent => ("idle", "idle", star),
            Base::Idle if self.reserved => ("reserved", "resv", ""),
            Base::Idle if self.planned => ("planned", "plnd", ""),
            Base::Idle => ("idle", "idle", ""),
            Base::Mixed if self.silent => ("mixed", "mix", star),
            Base::Mixed if self.planned => ("mixed", "mix", "-"),
            Base::Mixed => ("mixed", "mix", ""),
        }
    }
}

/// As `sinfo %t`: `idle`, `mix-`, `drng`, `down*`.
pub fn compact(view: &NodeView) -> String {
    let (_, short, mark) = State::of(view).words();
    [short, mark].concat()
}

/// As `sinfo %T`: `idle`, `mixed-`, `draining`, `down*`.
pub fn long(view: &NodeView) -> String {
    let (long, _, mark) = State::of(view).words();
    [long, mark].concat()
}

/// As `scontrol`'s `State=`: the base and every flag, `MIXED+DRAIN`.
pub fn with_flags(view: &NodeView) -> String {
    let state = State::of(view);
    let mut text = match state.base {
        Base::Down => "DOWN",
        Base::Idle => "IDLE",
        Base::Mixed => "MIXED",
        Base::Allocated => "ALLOCATED",
    }
    .to_owned();
    let flags = [
        (state.completing, "+COMPLETING"),
        (state.drain, "+DRAIN"),
        (state.maintenance, "+MAINT"),
        (state.silent, "+NOT_RESPONDING"),
        (state.planned, "+PLANNED"),
        (state.reserved && !state.maintenance, "+RESERVED"),
    ];
    text.extend(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag));
    text
}

/// The fence's condition as a word: `guarded`, `fenced`, `unfenced`.
pub fn fence(view: &NodeView) -> &'static str {
    match view.node.fence {
        FenceState::Unfenced => "unfenced",
        FenceState::Fenced => "fenced",
        FenceState::Guarded => "guarded",
    }
}

/// Whether it takes no new job for a while and will by itself.
fn keeps_still(node: &Node) -> bool {
    node.is_resting() || node.next_inventory.is_some()
}

/// Why no job starts there, or not on all of it, for `sinfo -R` and `Reason=`: what an operator said, else what is wrong with the
/// fence, else that it rests, else which GPUs are out of order and which jobs do not end.
pub fn reason(view: &NodeView) -> Cow<'_, str> {
    let node = &view.node;
    if !node.reason.is_empty() {
        return Cow::Borrowed(&node.reason);
    }
    if !node.has_required_fence() {
        return Cow::Borrowed(&node.fence_note);
    }
    if let Some(trouble) = node.trouble.as_ref().filter(|_| node.is_resting()) {
        let LaunchTrouble {
            failures, job, why, ..
        } = trouble;
        let times = if *failures == 1 {
            "a launch failed".to_owned()
        } else {
            format!("{failures} launches failed in a row")
        };
        return Cow::Owned(format!("rests, since {times}, last job {job}: {why}"));
    }
    if node.next_inventory.is_some() {
        return Cow::Borrowed("waits for its jobs to end, to take over other hardware");
    }
    let stuck = node.stuck.iter();
    let stuck = stuck.map(|stuck| format!("job {} does not end: {}", stuck.job, stuck.what));
    let gpus = Some(gpus_out(node)).filter(|text| !text.is_empty());
    let all: Vec<String> = gpus.into_iter().chain(stuck).collect();
    Cow::Owned(all.join("; "))
}

/// `GPU 3 out of order: not found`; empty if all are well.
pub fn gpus_out(node: &Node) -> String {
    let why = |gpu: u32| {
        let note = node.gpu_notes.iter().find(|note| note.gpu == gpu);
        match note.map(|note| note.why.as_str()) {
            None | Some("") => format!("GPU {gpu} out of order"),
            Some(why) => format!("GPU {gpu} out of order: {why}"),
        }
    };
    let all: Vec<String> = node.gpus_sick.iter().map(why).collect();
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Generation, NodeId, NodeName};
    use crate::node::GpuNote;
    use crate::resources::{IdSet, Inventory};
    use crate::time::Millis;

    fn view(edit: impl FnOnce(&mut NodeView)) -> NodeView {
        let node = Node {
            id: NodeId(0),
            name: NodeName::new("n1").unwrap(),
            inventory: Inventory {
                cpus: 4,
                memory_mib: 100,
                ..Inventory::default()
            },
            admin: AdminState::Up,
            reason: String::new(),
            reason_by: None,
            connected: true,
            last_seen: Millis(0),
            boot_id: String::new(),
            boot_time: Millis(0),
            agent_start: Millis(0),
            fence: FenceState::Fenced,
            fence_note: String::new(),
            version: String::new(),
            os: String::new(),
            hostname: String::new(),
            address: String::new(),
            load_x100: 0,
            free_mib: 0,
            cpus_used: IdSet::new(),
            memory_used: 0,
            gpus_used: IdSet::new(),
            gpus_sick: IdSet::new(),
            jobs: std::collections::BTreeSet::new(),
            generation: Generation(0),
            last_busy: Millis(0),
            lost: false,
            next_inventory: None,
            fence_suffices: None,
            utilization: Default::default(),
            trouble: None,
            gpu_notes: Vec::new(),
            stuck: Vec::new(),
        };
        let mut view = NodeView {
            node,
            partitions: vec![],
            completing: false,
            planned: false,
            features: Vec::new(),
            weight: 1,
            comment: String::new(),
            extra: String::new(),
            reservations: Vec::new(),
            maintenance: false,
        };
        edit(&mut view);
        view
    }

    fn trouble(until: Option<Millis>) -> LaunchTrouble {
        LaunchTrouble {
            failures: 2,
            last: Millis(1),
            until,
            job: crate::id::JobId(7),
            why: "no space left".to_owned(),
        }
    }

    /// A node to which these words apply.
    fn described(words: &str) -> NodeView {
        view(|view| {
            for word in words.split_whitespace() {
                match word {
                    "half" => view.node.cpus_used = IdSet::first(2),
                    "full" => view.node.cpus_used = IdSet::first(4),
                    "drain" => view.node.admin = AdminState::Drain,
                    "down" => view.node.admin = AdminState::Down,
                    "silent" => view.node.connected = false,
                    "lost" => view.node.lost = true,
                    "completing" => view.completing = true,
                    "planned" => view.planned = true,
                    "unfenced" => view.node.fence = FenceState::Unfenced,
                    "waived" => view.node.fence_suffices = Some(true),
                    "guardless" => view.node.fence_suffices = Some(false),
                    "resting" => view.node.trouble = Some(trouble(Some(Millis(9)))),
                    "rested" => view.node.trouble = Some(trouble(None)),
                    "changing" => view.node.next_inventory = Some(Inventory::default()),
                    _ => panic!("unknown word {word}"),
                }
            }
        })
    }

    #[test]
    fn nodes_states_have_slurms_words() {
        for (words, short, full, flags) in [
            ("", "idle", "idle", "IDLE"),
            ("half", "mix", "mixed", "MIXED"),
            ("full", "alloc", "allocated", "ALLOCATED"),
            ("drain", "drain", "drained", "IDLE+DRAIN"),
            ("half drain", "drng", "draining", "MIXED+DRAIN"),
            ("full drain", "drng", "draining", "ALLOCATED+DRAIN"),
            (
                "completing drain",
                "drng",
                "draining",
                "IDLE+COMPLETING+DRAIN",
            ),
            (
                "drain silent",
                "drain*",
                "drained*",
                "IDLE+DRAIN+NOT_RESPONDING",
            ),
            ("down", "down", "down", "DOWN"),
            ("down unfenced", "down", "down", "DOWN"),
            ("down silent", "down*", "down*", "DOWN+NOT_RESPONDING"),
            ("lost silent", "down*", "down*", "DOWN+NOT_RESPONDING"),
            ("lost drain", "drain", "drained", "DOWN+DRAIN"),
            ("completing", "comp", "completing", "IDLE+COMPLETING"),
            ("half completing", "comp", "completing", "MIXED+COMPLETING"),
            (
                "full completing",
                "alloc+",
                "allocated+",
                "ALLOCATED+COMPLETING",
            ),
            ("planned", "plnd", "planned", "IDLE+PLANNED"),
            ("half planned", "mix-", "mixed-", "MIXED+PLANNED"),
            ("silent", "idle*", "idle*", "IDLE+NOT_RESPONDING"),
            ("half silent", "mix*", "mixed*", "MIXED+NOT_RESPONDING"),
            ("unfenced", "drain", "drained", "IDLE+DRAIN"),
            ("unfenced waived", "idle", "idle", "IDLE"),
            ("guardless", "drain", "drained", "IDLE+DRAIN"),
            ("resting", "drain", "drained", "IDLE+DRAIN"),
            ("half resting", "drng", "draining", "MIXED+DRAIN"),
            ("rested", "idle", "idle", "IDLE"),
            ("half changing", "drng", "draining", "MIXED+DRAIN"),
        ] {
            let view = described(words);
            let shown = (compact(&view), long(&view), with_flags(&view));
            assert_eq!(
                (shown.0.as_str(), shown.1.as_str(), shown.2.as_str()),
                (short, full, flags),
                "{words}"
            );
        }
    }

    #[test]
    fn an_unproven_fence_is_the_reason() {
        let unfenced = view(|v| {
            v.node.fence = FenceState::Unfenced;
            v.node.fence_note = "canary was not refused".to_owned();
        });
        assert_eq!(reason(&unfenced), "canary was not refused");
        let guardless = view(|v| {
            v.node.fence_suffices = Some(false);
            v.node.fence_note = "no guard".to_owned();
        });
        assert_eq!(
            (reason(&guardless).as_ref(), fence(&guardless)),
            ("no guard", "fenced")
        );
        let told = view(|v| v.node.reason = "bad fan".to_owned());
        assert_eq!(reason(&told), "bad fan");
        assert_eq!(
            reason(&described("resting")),
            "rests, since 2 launches failed in a row, last job 7: no space left"
        );
        let sick = view(|v| {
            v.node.gpus_sick = IdSet::first(2);
            v.node.gpu_notes = vec![GpuNote {
                gpu: 1,
                why: "not found".to_owned(),
            }];
        });
        assert_eq!(
            reason(&sick),
            "GPU 0 out of order; GPU 1 out of order: not found"
        );
        assert_eq!(compact(&sick), "idle", "the node goes on");
    }
}

//! The two halves of a node's loss: capacity on which typical parts do not fit, and capacity without CPU or memory.

use super::LOSS_UNIT;
use super::state::{Models, Part, State, WHOLE};
use crate::plan::mix::Counted;

/// Weights of all classes add up to about this.
const WEIGHTS: u64 = 1 << 20;
/// How much each class of the start counts, in parts; they keep a fresh cluster in order and vanish in what is learned.
const START_WEIGHT: u64 = 2 * crate::plan::mix::PART;

/// What the GPUs of several classes look like.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    part: Part,
    hosts: Vec<Host>,
}

/// What such a class needs of the node.
#[derive(Clone, Copy, Debug)]
struct Host {
    cpu_milli: u64,
    memory_mib: u64,
    weight: i64,
}

/// The classes by shape, with weights in parts of [`WEIGHTS`].
pub(super) fn shapes(typical: &[Counted], models: &Models) -> Vec<Shape> {
    let start = [1, 2, 4, 8].map(|gpus| (whole(gpus), START_WEIGHT));
    let learned = typical.iter().map(|counted| {
        let class = &counted.class;
        let part = Part {
            cpu_milli: class.cpu_milli,
            memory_mib: class.memory_mib,
            gpus: class.gpus,
            milli: class.milli,
            models: models.mask(&class.models),
            one_socket: false,
        };
        (part, counted.weight)
    });
    let all: Vec<(Part, u64)> = start.into_iter().chain(learned).collect();
    let total: u64 = all.iter().map(|(_, weight)| *weight).sum();
    let mut shapes: Vec<Shape> = Vec::new();
    for (part, weight) in all {
        let weight = u128::from(weight) * u128::from(WEIGHTS) / u128::from(total.max(1));
        let host = Host {
            cpu_milli: part.cpu_milli,
            memory_mib: part.memory_mib,
            weight: i64::try_from(weight).unwrap_or(0),
        };
        let bare = Part {
            cpu_milli: 0,
            memory_mib: 0,
            ..part
        };
        match shapes.iter_mut().find(|shape| shape.part == bare) {
            Some(shape) => shape.hosts.push(host),
            None => shapes.push(Shape {
                part: bare,
                hosts: vec![host],
            }),
        }
    }
    shapes
}

fn whole(gpus: u32) -> Part {
    Part {
        cpu_milli: 0,
        memory_mib: 0,
        gpus,
        milli: WHOLE,
        models: u64::MAX,
        one_socket: false,
    }
}

/// Free capacity that a typical part cannot use, averaged over the classes.
pub(super) fn unusable(state: &State, shapes: &[Shape]) -> i64 {
    let free = state.free_milli();
    if free == 0 {
        return 0;
    }
    let mut sum = 0i64;
    for Shape { part, hosts } in shapes {
        let useless = free - usable(state, part);
        for host in hosts {
            let fits = state.cpu_milli >= host.cpu_milli && state.memory_mib >= host.memory_mib;
            sum += host.weight * if fits { useless } else { free };
        }
    }
    sum / (WEIGHTS.cast_signed() / LOSS_UNIT)
}

/// Free capacity of the devices that such a part could use.
fn usable(state: &State, part: &Part) -> i64 {
    if state.wants_one_socket(part.gpus) {
        let last = state.devices().iter().map(|d| d.socket).max().unwrap_or(0);
        return (0..=last)
            .map(|socket| usable_of(state, part, Some(socket)))
            .sum();
    }
    usable_of(state, part, None)
}

fn usable_of(state: &State, part: &Part, socket: Option<u8>) -> i64 {
    let (mut count, mut milli) = (0u32, 0i64);
    for d in state.devices() {
        if d.serves(part) && socket.is_none_or(|socket| socket == d.socket) {
            count += u32::from(d.count);
            milli += d.milli();
        }
    }
    if count >= part.gpus { milli } else { 0 }
}

/// What a GPU usually takes of its node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    /// Thousandths of a CPU for a whole GPU.
    cpu_milli: u64,
    /// MiB for a whole GPU.
    memory_mib: u64,
}

/// Multiples of what is usual at which a shortage counts, in thousandths. One alone would be blind above it on clusters that
/// have less than jobs usually take, and blind below it on those that have plenty.
const MULTIPLES: [u64; 4] = [700, 1_000, 1_400, 2_000];
/// A shortage at one multiple counts this fraction of lost capacity: half if it is one at every multiple.
const SHORTAGE_SHARE: i64 = 8;

impl Usual {
    pub(super) fn of(typical: &[Counted]) -> Self {
        let (mut cpu, mut memory, mut milli) = (0u128, 0u128, 0u128);
        for Counted { class, weight } in typical {
            let weight = u128::from(*weight);
            cpu += weight * u128::from(class.cpu_milli);
            memory += weight * u128::from(class.memory_mib);
            milli += weight * u128::from(class.gpus) * u128::from(class.milli);
        }
        let each = |sum: u128| {
            let each = (sum * u128::from(WHOLE)).checked_div(milli);
            u64::try_from(each.unwrap_or(0)).unwrap_or(u64::MAX)
        };
        Self {
            cpu_milli: each(cpu),
            memory_mib: each(memory),
        }
    }

    /// Free capacity that lacks its usual CPU, or its usual memory.
    pub(super) fn shortage(self, state: &State) -> i64 {
        let free = state.free_milli();
        let short = |have: u64, usual: u64| -> i64 {
            if usual == 0 {
                return 0;
            }
            let at = |multiple: u64| {
                let served = have.saturating_mul(1_000_000) / usual.saturating_mul(multiple).max(1);
                let served = i64::try_from(served).unwrap_or(i64::MAX);
                free.saturating_sub(served).max(0)
            };
            MULTIPLES.into_iter().map(at).sum()
        };
        let all = short(state.cpu_milli, self.cpu_milli) + short(state.memory_mib, self.memory_mib);
        all * LOSS_UNIT / SHORTAGE_SHARE
    }
}

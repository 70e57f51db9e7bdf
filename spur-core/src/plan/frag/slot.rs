//! Nodes and asks of the planner as the score sees them.

use super::state::{Devices, Models, Part, State, WHOLE};
use crate::plan::ask::{Ask, Need};
use crate::plan::shape::{Shape, indices};
use crate::plan::slot::Slot;

impl Models {
    /// The models of these shapes.
    pub(crate) fn of_shapes<'a>(shapes: impl Iterator<Item = &'a Shape>) -> Self {
        let models = shapes.flat_map(|shape| &shape.gpus);
        Self::of(models.map(|gpu| gpu.model.as_str()))
    }
}

impl State {
    /// What is free in a slot.
    pub(crate) fn of_slot(slot: &Slot<'_>, models: &Models) -> Self {
        let domain = |index: u32| slot.shape.domain_of_gpu(index).unwrap_or(0);
        let mut sizes = [0usize; crate::plan::shape::DOMAINS];
        for index in indices(slot.shape.all_gpus()) {
            if let Some(size) = sizes.get_mut(domain(index)) {
                *size += 1;
            }
        }
        let size = sizes.into_iter().max().unwrap_or(0);
        let cpu_milli = u64::from(slot.cpus()).saturating_mul(1_000);
        let mut state = Self::new(cpu_milli, slot.free.memory).with_socket_size(size);
        for index in indices(slot.free.gpus) {
            let gpu = slot.shape.gpus.get(index as usize);
            state.add(Devices {
                free: WHOLE,
                model: gpu.and_then(|gpu| models.id(&gpu.model)).unwrap_or(0),
                socket: u8::try_from(domain(index)).unwrap_or(u8::MAX),
                count: 1,
            });
        }
        state
    }
}

impl Part {
    /// What a part of an ask needs of a node.
    pub(crate) fn of_ask(ask: &Ask<'_>, need: Need, models: &Models) -> Self {
        Self {
            cpu_milli: u64::from(ask.cpus_for(need)).saturating_mul(1_000),
            memory_mib: ask.memory_for(need),
            gpus: need.gpus,
            milli: WHOLE,
            models: models.mask(ask.model),
            one_socket: false,
        }
    }
}

//! How much of a cluster's GPUs a placement leaves useless: which node, and which of its devices, a part of a job should get.
//!
//! The measure of a node (its *loss*, in milli-GPU) is the free GPU capacity that the jobs to come cannot use there:
//!
//! - averaged over the learned [`Mix`] of what jobs ask for, the free capacity on which a part of that class would not fit:
//!   too few devices, too little left of each, another model, too little CPU or memory, or free devices spread over sockets
//!   of which none has enough (the measure of FGD, USENIX ATC'23, with sockets);
//! - and the free capacity for which no CPU or memory would be left if every GPU took its usual share of both. The usual
//!   share is a mean, so it is tried at several multiples: this sees long before a node's CPUs are gone that they will be.
//!
//! A part goes where the loss grows least; of places that differ by less than [`STEP`], where fewest GPUs stay free; the caller
//! takes the first of equals. All in integers: equal states and parts have equal scores on every machine, so that a caller may
//! keep them per group of equal nodes for as long as [`Mix::version`] does not change.

mod loss;
mod slot;
mod state;
#[cfg(test)]
mod tests;
mod ways;

pub use state::{Devices, Models, Part, State, WHOLE};

use super::mix::Mix;
use loss::{Shape, Usual};

/// Differences of loss below this are no differences: 40 milli-GPU, in the unit of [`Scorer::loss`].
const STEP: i64 = 40 * LOSS_UNIT;
/// The unit of a loss is a milli-GPU divided by this.
const LOSS_UNIT: i64 = 16;

/// Where a part goes on a node, and how good that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Best {
    /// Lower is better; comparable between nodes for one part and one scorer.
    pub score: i64,
    /// From which of the node's devices to take; `count` of each kind.
    pub devices: Vec<Devices>,
    /// The node afterwards.
    pub after: State,
}

/// Scores placements against one state of the mix.
#[derive(Clone, Debug)]
pub struct Scorer {
    shapes: Vec<Shape>,
    usual: Usual,
}

impl Scorer {
    /// Reads what is typical now. Until anything was asked for, whole GPUs in powers of two are.
    pub fn new(mix: &Mix, models: &Models) -> Self {
        let typical = mix.typical();
        Self {
            shapes: loss::shapes(typical, models),
            usual: Usual::of(typical),
        }
    }

    /// Free GPU capacity of a node that the jobs to come cannot use there, in sixteenths of a milli-GPU.
    pub fn loss(&self, state: &State) -> i64 {
        loss::unusable(state, &self.shapes).saturating_add(self.usual.shortage(state))
    }

    /// The first half of the loss, in milli-GPU: free capacity of no use to the average of what was asked for.
    pub fn unusable_milli(&self, state: &State) -> i64 {
        loss::unusable(state, &self.shapes) / LOSS_UNIT
    }

    /// The best way to put a part on a node, if it fits.
    pub fn best(&self, state: &State, part: &Part) -> Option<Best> {
        self.best_from(self.loss(state), state, part)
    }

    /// The same where the node's loss is known already.
    pub fn best_from(&self, loss: i64, state: &State, part: &Part) -> Option<Best> {
        if !state.fits(part) {
            return None;
        }
        let mut best: Option<Best> = None;
        for devices in ways::of(state, part) {
            let after = state.without(part, &devices);
            let score = self.score_after(loss, &after);
            if best.as_ref().is_none_or(|best| score < best.score) {
                best = Some(Best {
                    score,
                    devices,
                    after,
                });
            }
        }
        best
    }

    /// The score of a placement that somebody else chose: the node's loss before, and the node afterwards.
    pub fn score_after(&self, loss: i64, after: &State) -> i64 {
        score(self.loss(after).saturating_sub(loss), after)
    }

    /// The score of the best way; lower is better.
    pub fn score(&self, state: &State, part: &Part) -> Option<i64> {
        Some(self.best(state, part)?.score)
    }
}

/// Growth of loss, then GPUs left, in one number.
fn score(growth: i64, after: &State) -> i64 {
    const GPU_BITS: u32 = 24;
    let gpus = after.free_milli().clamp(0, (1 << GPU_BITS) - 1);
    (growth.div_euclid(STEP) << GPU_BITS) | gpus
}

//! What jobs ask for, learned from what they asked for: a histogram of parts by class that fades and is bounded.
//!
//! It is part of the cluster's state, fed by submissions only, so that every replica learns the same. What scores use is a
//! copy that is replaced now and then ([`Mix::version`]): between two replacements scores stay equal and can be kept.

#[cfg(test)]
mod tests;

use super::ask::Ask;
use crate::job::spec::JobSpec;
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// The weight of one part on the day on which it was asked for.
pub(crate) const PART: u64 = 1_024;
/// Most classes that are told apart; the rarest goes when another comes.
const CLASSES_MAX: usize = 256;
/// Most classes that count in a score, and the share of all parts that they stand for, in percent.
const TYPICAL_MAX: usize = 128;
const TYPICAL_PERCENT: u64 = 95;
/// What is left of a weight after a day: half of it after seven.
const FADE: (u64, u64) = (29, 32);
/// Days after which nothing is left of any weight.
const DAYS_MAX: u64 = 1_000;
const DAY_MS: u64 = 24 * 3_600 * 1_000;
/// Typical classes are taken anew when one in so many of the parts counted is new, and at least so many are.
const RENEW_SHARE: u64 = 5;
const RENEW_LEAST: u64 = 16 * PART;
/// Most parts that one job counts for.
const PARTS_MAX: u32 = 1_024;

/// What a part of a job needs on one node. CPU and memory are rounded up to four steps in each power of two, so that
/// requests that differ by little are one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Class {
    /// Devices, at least 1.
    pub gpus: u32,
    /// Thousandths of each.
    pub milli: u16,
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// MiB.
    pub memory_mib: u64,
    /// Models that it accepts, joined by bars; empty for any.
    pub models: String,
}

/// A class and how much it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The class.
    pub class: Class,
    /// 1,024 for each part, less for older ones.
    pub weight: u64,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mix {
    /// Rising by class.
    classes: Vec<Counted>,
    /// What scores use; most frequent first.
    typical: Vec<Counted>,
    /// Weight of parts seen since `typical` was taken.
    fresh: u64,
    /// Days since the epoch up to which weights have faded.
    day: u64,
    version: u64,
}

impl Class {
    fn rounded(mut self) -> Self {
        self.cpu_milli = round_up(self.cpu_milli);
        self.memory_mib = round_up(self.memory_mib);
        self
    }
}

impl Mix {
    /// Counts so many parts of a class, asked for at this time. Parts without devices strand none and are not counted.
    pub fn observe(&mut self, at: Millis, class: Class, parts: u32) {
        if class.gpus == 0 || class.milli == 0 || parts == 0 {
            return;
        }
        self.fade(at.0 / DAY_MS);
        let weight = u64::from(parts.min(PARTS_MAX)) * PART;
        let class = class.rounded();
        match self
            .classes
            .binary_search_by(|known| known.class.cmp(&class))
        {
            Ok(at) => {
                if let Some(known) = self.classes.get_mut(at) {
                    known.weight = known.weight.saturating_add(weight);
                }
            }
            Err(at) => {
                self.classes.insert(at, Counted { class, weight });
                self.forget_rarest(at);
            }
        }
        self.fresh = self.fresh.saturating_add(weight);
        self.renew();
    }

    /// Counts the parts of a job that was submitted.
    pub(crate) fn submitted(&mut self, at: Millis, spec: &JobSpec) {
        let ask = Ask::of(spec);
        let nodes = ask.nodes_min.max(1);
        let need = ask.even_part(nodes);
        let class = Class {
            gpus: need.gpus,
            milli: super::frag::WHOLE,
            cpu_milli: u64::from(ask.cpus_for(need)).saturating_mul(1_000),
            memory_mib: ask.memory_for(need),
            models: ask.model.to_owned(),
        };
        self.observe(at, class, nodes);
    }

    /// The classes that count in scores, most frequent first.
    pub fn typical(&self) -> &[Counted] {
        &self.typical
    }

    /// Changes whenever [`Mix::typical`] does.
    pub fn version(&self) -> u64 {
        self.version
    }

    fn fade(&mut self, today: u64) {
        let days = today.saturating_sub(self.day).min(DAYS_MAX);
        self.day = self.day.max(today);
        if self.classes.is_empty() {
            return;
        }
        for _ in 0..days {
            for known in &mut self.classes {
                known.weight =
                    known.weight / FADE.1 * FADE.0 + known.weight % FADE.1 * FADE.0 / FADE.1;
            }
            self.classes.retain(|known| known.weight > 0);
        }
    }

    /// Keeps the table within its bound; the newcomer stays.
    fn forget_rarest(&mut self, newcomer: usize) {
        if self.classes.len() <= CLASSES_MAX {
            return;
        }
        let others = self.classes.iter().enumerate();
        let others = others.filter(|(at, _)| *at != newcomer);
        if let Some((rarest, _)) = others.min_by_key(|(at, known)| (known.weight, *at)) {
            self.classes.remove(rarest);
        }
    }

    fn renew(&mut self) {
        let total: u64 = self.classes.iter().map(|known| known.weight).sum();
        if self.fresh < RENEW_LEAST || self.fresh < total / RENEW_SHARE {
            return;
        }
        let mut all = self.classes.clone();
        all.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.class.cmp(&b.class)));
        let enough = total / 100 * TYPICAL_PERCENT;
        let mut seen = 0;
        let typical = all.into_iter().take(TYPICAL_MAX).take_while(|counted| {
            let more = seen < enough;
            seen += counted.weight;
            more
        });
        self.typical = typical.collect();
        self.fresh = 0;
        self.version += 1;
    }
}

/// Up to the next of four steps in each power of two.
fn round_up(value: u64) -> u64 {
    const STEP_BITS: u32 = 2;
    let Some(top) = value.checked_ilog2().filter(|top| *top > STEP_BITS) else {
        return value;
    };
    let step = 1u64 << (top - STEP_BITS);
    value.div_ceil(step).saturating_mul(step)
}

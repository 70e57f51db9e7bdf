//! What refusals mean, in plain words: rules over what a job holds and what it was refused. Pure.
//!
//! A rule says only what the facts bear. The kernel tells the device, the process and the operation, not the intention; where one
//! fact has two explanations, the rule names both or the harmless one only if nothing would be missed by it.

mod devices;
mod guard;

use super::facts::{Facts, Place};
use serde::Serialize;
use spur_core::denial::{DenialKey, DenialReason, DeviceOp};
use spur_core::job::state::JobState;

/// How much a piece of advice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// No library does that by accident.
    Alarm,
    /// Something fails until it is changed.
    Fix,
    /// Good to know.
    Note,
    /// Nothing to do.
    Harmless,
}

impl Level {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Alarm => "alarm",
            Self::Fix => "fix",
            Self::Note => "note",
            Self::Harmless => "harmless",
        }
    }
}

/// One thing to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Advice {
    /// The rule that it comes from; stable.
    pub(crate) rule: &'static str,
    pub(crate) level: Level,
    /// How many refusals it is about.
    pub(crate) times: u64,
    pub(crate) text: String,
}

impl Advice {
    fn new(rule: &'static str, level: Level, times: u64, text: impl Into<String>) -> Self {
        Self {
            rule,
            level,
            times,
            text: text.into(),
        }
    }
}

/// Every rule. Each gives what it has to say of a job.
const RULES: [fn(&Facts) -> Vec<Advice>; 12] = [
    unfenced,
    waiting,
    devices::no_gpu,
    devices::chosen_by_number,
    devices::narrow_step,
    devices::tries_all,
    devices::kfd_probes,
    devices::others,
    guard::by_operation,
    errors,
    uncounted,
    nothing,
];

/// All that the rules say, what matters most first.
pub(crate) fn advice(facts: &Facts) -> Vec<Advice> {
    let mut all: Vec<Advice> = RULES.iter().flat_map(|rule| rule(facts)).collect();
    if all.is_empty() {
        let text =
            "What is listed above was refused or noted, and there is nothing more to say of it.";
        all.push(Advice::new("other", Level::Note, facts.total(), text));
    }
    all.sort_by_key(|advice| advice.level);
    all
}

/// How many refusals the rows have of a kind.
fn count(facts: &Facts, is: impl Fn(&Place, &DenialKey) -> bool) -> u64 {
    let rows = facts.rows().filter(|(place, row)| is(place, &row.key));
    rows.map(|(_, row)| row.total).sum()
}

/// `once`, `twice`, `5 times`.
fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

fn is_open(op: DeviceOp) -> bool {
    matches!(op, DeviceOp::Read | DeviceOp::Write | DeviceOp::ReadWrite)
}

fn unfenced(facts: &Facts) -> Vec<Advice> {
    let places = facts
        .places
        .iter()
        .filter(|place| place.fence_word() == "unfenced");
    let text = |place: &Place| {
        Advice::new(
            "unfenced",
            Level::Fix,
            0,
            format!(
                "{} has no fence that works at this moment: what is missing below was perhaps not refused, and {}. \
                 An operator finds out more with `spurd doctor` on the node.",
                place.node,
                if place.suffices {
                    "jobs start there all the same, since its configuration requires none"
                } else {
                    "new jobs do not start there"
                }
            ),
        )
    };
    places.map(text).collect()
}

fn waiting(facts: &Facts) -> Vec<Advice> {
    let waits = facts.job.state == JobState::Pending;
    let text = "The job waits: it has no device until it starts. `squeue` says what it waits for.";
    let advice = waits.then(|| Advice::new("waiting", Level::Note, 0, text));
    advice.into_iter().collect()
}

/// How the kernel's refusal reads in programs.
fn errors(facts: &Facts) -> Vec<Advice> {
    let failed = count(facts, |_, key| {
        is_open(key.op)
            && !key.noted
            && key.label.is_none()
            && key.reason == DenialReason::NotGranted
    });
    let text = "A refused open is EPERM (\"Operation not permitted\"). NVIDIA's NVML says \"Unknown Error\" or \"Insufficient Permissions\" for it, \
                CUDA \"no CUDA-capable device is detected\" or \"unknown error\", HIP \"no ROCm-capable device is detected\". \
                Those words without a refusal here have another cause.";
    let advice = (failed > 0).then(|| Advice::new("error-shape", Level::Note, failed, text));
    advice.into_iter().collect()
}

fn uncounted(facts: &Facts) -> Vec<Advice> {
    let others = facts.others();
    let text = format!(
        "Of {others} refusals only the number is known: they came too fast, or were of too many kinds, to tell apart. A program that tries again and \
         again does that; the lines above are a sample of it."
    );
    let advice = (others > 0).then(|| Advice::new("only-counted", Level::Note, others, text));
    advice.into_iter().collect()
}

/// The fence is not to blame.
fn nothing(facts: &Facts) -> Vec<Advice> {
    let noted = facts.rows().next().is_some() || !facts.lines.is_empty();
    if facts.total() > 0 || noted || facts.job.state == JobState::Pending {
        return Vec::new();
    }
    let holds_gpus = facts.places.iter().any(|place| !place.held.is_empty());
    let (rule, text) = if holds_gpus || facts.places.is_empty() {
        (
            "nothing-refused",
            "Nothing was refused: if a framework fails, the fence is not why. Look at the driver (`nvidia-smi`, `rocminfo` in the job), at the versions \
             of driver and libraries, and in a container at whether the device nodes are inside it.",
        )
    } else {
        (
            "no-gpu-asked",
            "Nothing was refused. The job holds no GPU since it asked for none: frameworks find none. Ask for one: --gres=gpu:1.",
        )
    };
    vec![Advice::new(rule, Level::Note, 0, text)]
}

#[cfg(test)]
mod tests;

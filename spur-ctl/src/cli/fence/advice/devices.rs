//! Refusals of device nodes.

use super::{Advice, Level, count, is_open, times};
use crate::cli::fence::facts::{Facts, Place};
use spur_core::denial::{Denial, DenialKey, DenialLabel, DenialReason, DeviceOp};
use spur_core::id::NodeName;
use spur_core::resources::{Gpu, GpuVendor};
use std::collections::{BTreeMap, BTreeSet};

/// DRM: display nodes have minors below 64, render nodes from 128.
const DRM: u32 = 226;
/// `/dev/mem` and its kin.
const MEMORY: u32 = 1;
/// An attempt at each device, and one more: a program that goes on after that wants that very device.
const GLANCES: usize = 2;

/// Whether an open of a GPU that the job does not hold was refused, and KFD did not just ask.
fn is_foreign_gpu(place: &Place, key: &DenialKey) -> bool {
    is_wanted(key)
        && place
            .gpu_of(key.major, key.minor)
            .is_some_and(|gpu| !place.held.contains(gpu.index))
}

fn is_wanted(key: &DenialKey) -> bool {
    is_open(key.op) && key.reason == DenialReason::NotGranted && key.label.is_none() && !key.noted
}

/// A job without a GPU tries one.
pub(super) fn no_gpu(facts: &Facts) -> Vec<Advice> {
    let places = facts.places.iter().filter(|place| place.held.is_empty());
    let advice = places.filter_map(|place| {
        let refused = place.rows.iter().filter(|row| is_wanted(&row.key));
        let total: u64 = refused.map(|row| row.total).sum();
        let text = format!(
            "The job holds no GPU on {} and tried to use one ({}): ask for one, as --gres=gpu:1.",
            place.node,
            times(total)
        );
        (total > 0).then(|| Advice::new("no-gpu", Level::Fix, total, text))
    });
    advice.collect()
}

/// What one process tried on a node: how often each GPU that the job does not hold.
struct Tried<'a> {
    place: &'a Place,
    command: &'a str,
    gpus: BTreeMap<u32, usize>,
}

impl Tried<'_> {
    /// It looked at all there are, or at several, and left it at that.
    fn is_glance(&self) -> bool {
        let foreign = self.place.gpus.len() - self.place.own().count();
        let wide = self.gpus.len() >= 2 || self.gpus.len() == foreign;
        wide && self.gpus.values().all(|tries| *tries <= GLANCES)
    }
}

/// By process, of those lines that are opens of GPUs that the job does not hold; on nodes where it holds some.
fn tried(facts: &Facts) -> Vec<Tried<'_>> {
    let mut by_process: BTreeMap<(&NodeName, u32), Tried<'_>> = BTreeMap::new();
    for line in facts.lines.iter().filter(|line| is_wanted(&key_of(line))) {
        let Some(place) = facts
            .place(&line.node)
            .filter(|place| !place.held.is_empty())
        else {
            continue;
        };
        let Some(gpu) = foreign_gpu(place, line) else {
            continue;
        };
        let tried = by_process
            .entry((&line.node, line.pid))
            .or_insert_with(|| Tried {
                place,
                command: &line.command,
                gpus: BTreeMap::new(),
            });
        *tried.gpus.entry(gpu.index).or_default() += 1;
    }
    by_process.into_values().collect()
}

fn foreign_gpu<'a>(place: &'a Place, line: &Denial) -> Option<&'a Gpu> {
    let gpu = place.gpu_of(line.major, line.minor)?;
    (!place.held.contains(gpu.index)).then_some(gpu)
}

fn key_of(line: &Denial) -> DenialKey {
    DenialKey {
        major: line.major,
        minor: line.minor,
        device: String::new(),
        op: line.op,
        reason: line.reason,
        noted: line.noted,
        label: line.label,
    }
}

/// Libraries try every GPU to see which they may use.
pub(super) fn tries_all(facts: &Facts) -> Vec<Advice> {
    let glances = tried(facts)
        .into_iter()
        .filter(Tried::is_glance)
        .collect::<Vec<_>>();
    let commands: BTreeSet<&str> = glances.iter().map(|tried| tried.command).collect();
    let total: usize = glances.iter().flat_map(|tried| tried.gpus.values()).sum();
    let who = match glances.len() {
        0 => return Vec::new(),
        1 => "One process".to_owned(),
        several => format!("{several} processes"),
    };
    let text = format!(
        "{who} ({}) tried GPUs that the job does not hold, each once or twice, and left it at that. NVML, PyTorch, JAX and the like do so at their \
         start to see which GPUs they may use.",
        commands.into_iter().collect::<Vec<_>>().join(", ")
    );
    let total = u64::try_from(total).unwrap_or(u64::MAX);
    vec![Advice::new("tries-every-gpu", Level::Harmless, total, text)]
}

/// A program wants a certain GPU, and it is not the job's.
pub(super) fn chosen_by_number(facts: &Facts) -> Vec<Advice> {
    let wants = tried(facts).into_iter().filter(|tried| !tried.is_glance());
    let mut said = BTreeSet::new();
    let mut advice = Vec::new();
    for Tried {
        place,
        command,
        gpus,
    } in wants
    {
        let Some((index, _)) = gpus.iter().max_by_key(|(_, tries)| **tries) else {
            continue;
        };
        if !said.insert((&place.node, command, *index)) {
            continue;
        }
        let own = count(facts, |at, key| {
            at.node == place.node
                && is_foreign_gpu(at, key)
                && at
                    .gpu_of(key.major, key.minor)
                    .is_some_and(|gpu| gpu.index == *index)
        });
        advice.push(Advice::new(
            "chosen-by-number",
            Level::Fix,
            own,
            chosen(place, command, *index),
        ));
    }
    advice
}

fn chosen(place: &Place, command: &str, index: u32) -> String {
    let gpu = place.gpus.iter().find(|gpu| gpu.index == index);
    let variable = match gpu.map(|gpu| gpu.vendor) {
        Some(GpuVendor::Amd) => "ROCR_VISIBLE_DEVICES",
        Some(GpuVendor::Nvidia | GpuVendor::Simulated) => "CUDA_VISIBLE_DEVICES",
        Some(GpuVendor::Drm) | None => "SLURM_JOB_GPUS",
    };
    let held = place.held.len();
    let first = if held == 1 {
        "the first one".to_owned()
    } else {
        format!("the first {held}")
    };
    format!(
        "{command} on {} chose GPU index {index} by its number, but the job holds only index {}. Leave {variable} as the job gets it and use {first} that the \
         program sees, counted from 0.",
        place.node, place.held
    )
}

/// The job holds it, the step does not.
pub(super) fn narrow_step(facts: &Facts) -> Vec<Advice> {
    let own = |place: &Place, key: &DenialKey| {
        is_wanted(key)
            && place
                .gpu_of(key.major, key.minor)
                .is_some_and(|gpu| place.held.contains(gpu.index))
    };
    let total = count(facts, own);
    if total == 0 {
        return Vec::new();
    }
    let amd = facts
        .places
        .iter()
        .any(|place| place.own().any(|gpu| gpu.vendor == GpuVendor::Amd));
    let mut text = format!(
        "A GPU of the job itself was refused {}. Its step has fewer GPUs than the job: give the step more (srun --gres=gpu:N). Or the GPU was taken \
         away for a while, as when its driver is loaded anew: start the process again.",
        times(total)
    );
    if amd {
        text.push_str(
            " KFD asks which GPUs a process may use when it first opens /dev/kfd, and never again: GPUs that come later reach new processes only, so \
             restart the process.",
        );
    }
    vec![Advice::new("narrow-step", Level::Fix, total, text)]
}

/// KFD asks about every GPU of the node.
pub(super) fn kfd_probes(facts: &Facts) -> Vec<Advice> {
    let total = count(facts, |_, key| key.label == Some(DenialLabel::KfdProbe));
    let text = format!(
        "AMD's driver asked {} about GPUs that the job does not hold. It does so for each GPU of the node when a process first uses one, and when a \
         program reads the list of GPUs, as rocminfo does; nothing was opened. A program that really opens such a GPU looks the same here.",
        times(total)
    );
    let advice = (total > 0).then(|| Advice::new("kfd-probe", Level::Harmless, total, text));
    advice.into_iter().collect()
}

/// A reason to be refused a device, and what to say of it.
struct Rule {
    rule: &'static str,
    level: Level,
    is: fn(&DenialKey) -> bool,
    text: &'static str,
}

const OTHERS: [Rule; 7] = [
    Rule {
        rule: "display-node",
        level: Level::Note,
        is: |key| key.reason == DenialReason::NeverGranted && key.major == DRM && is_open(key.op),
        text: "Display nodes (/dev/dri/cardN) are given to no job: they can reach what others draw. Computing needs the render node \
               (/dev/dri/renderDN) only; programs that try the display node first go on with that.",
    },
    Rule {
        rule: "memory-node",
        level: Level::Alarm,
        is: |key| {
            key.reason == DenialReason::NeverGranted && key.major == MEMORY && is_open(key.op)
        },
        text: "The machine's memory (/dev/mem, /dev/kmem, /dev/port) is open to no job.",
    },
    Rule {
        rule: "never-granted",
        level: Level::Note,
        is: |key| {
            key.reason == DenialReason::NeverGranted
                && ![DRM, MEMORY].contains(&key.major)
                && is_open(key.op)
        },
        text: "A device that no job is given: nvidia-modeset, nvidia-uvm-tools (profilers use it to watch other processes), MIG's settings, VFIO and \
               the like. Programs that only compute do without.",
    },
    Rule {
        rule: "unknown-minor",
        level: Level::Fix,
        is: |key| key.reason == DenialReason::UnknownMinor && is_open(key.op),
        text: "A device number that belongs to no GPU that the agent knows. If it is a real GPU, it came after the agent started, or its MIG instances \
               were cut anew: an operator restarts spurd on the node.",
    },
    Rule {
        rule: "no-policy",
        level: Level::Fix,
        is: |key| key.reason == DenialReason::NoPolicy,
        text: "The job's devices were closed for a while: their numbers changed under it (a driver that was loaded anew, a GPU that went away), or its \
               fence had to be put up again. Start the process again; if it goes on, an operator looks at the agent's log.",
    },
    Rule {
        rule: "mknod",
        level: Level::Note,
        is: |key| key.op == DeviceOp::Mknod,
        text: "Making a device node of a GPU is refused to everybody. Container runtimes try it: let them bind-mount the nodes of the host's /dev.",
    },
    Rule {
        rule: "probe",
        level: Level::Harmless,
        is: |key| key.op == DeviceOp::Probe,
        text: "A program only asked whether a device is there (access, inotify) and opened nothing.",
    },
];

/// What depends on nothing but its own kind.
pub(super) fn others(facts: &Facts) -> Vec<Advice> {
    let rules = OTHERS.iter().filter_map(|rule| {
        let total = count(facts, |_, key| !key.noted && (rule.is)(key));
        (total > 0).then(|| Advice::new(rule.rule, rule.level, total, rule.text))
    });
    rules.collect()
}

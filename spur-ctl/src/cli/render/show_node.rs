//! `scontrol show node`.

use super::node_text::{comment, features, last_busy, load, reason_by};
use super::record::Record;
use super::{SLURM_LEVEL, View};
use spur_core::api::NodeView;
use spur_core::node::Node;
use spur_core::slurm::codes::node_state;
use spur_core::slurm::gres;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// What is always shown.
    None,
    /// What Slurm adds for `-d`.
    Slurms,
    /// What we add for `-dd`.
    All,
}

impl Details {
    /// By how often `-d` was given.
    pub fn of(count: u32) -> Self {
        match count {
            0 => Self::None,
            1 => Self::Slurms,
            _ => Self::All,
        }
    }
}

/// The record of one node.
pub fn record(view: &View, shown: &NodeView, details: Details, one_line: bool) -> String {
    let node = &shown.node;
    let inventory = &node.inventory;
    let first = format!(
        "NodeName={} Arch={} CoresPerSocket={} ",
        node.name,
        std::env::consts::ARCH,
        inventory.cores_per_socket
    );
    let mut record = Record::new(first, one_line);
    let cpus = inventory.cpus;
    record.line(format_args!(
        "CPUAlloc={} CPUEfctv={cpus} CPUTot={cpus} CPULoad={}",
        node.cpus_used.len(),
        load(node.load_x100)
    ));
    let features = features(shown);
    record.line(format_args!("AvailableFeatures={features}"));
    record.line(format_args!("ActiveFeatures={features}"));
    gpus(&mut record, node, details != Details::None);
    let host = &node.hostname;
    let version = SLURM_LEVEL;
    record.line(format_args!(
        "NodeAddr={host} NodeHostName={host} Port=0 Version={version}"
    ));
    record.line(format_args!("OS={} ", node.os));
    record.line(format_args!(
        "RealMemory={} AllocMem={} FreeMem={} Sockets={} Boards=1",
        inventory.memory_mib, node.memory_used, node.free_mib, inventory.sockets
    ));
    record.line(format_args!(
        "State={} ThreadsPerCore={} TmpDisk=0 Weight={} Owner=N/A MCS_label=N/A",
        node_state::with_flags(shown),
        inventory.threads_per_core,
        shown.weight.max(1)
    ));
    record.line(format_args!("Partitions={} ", shown.partitions.join(",")));
    times(&mut record, view, node);
    tres(&mut record, view, node);
    record.line("CurrentWatts=0 AveWatts=0");
    record.line("");
    remarks(&mut record, view, shown, details);
    record.end();
    record.into_text()
}

fn gpus(record: &mut Record, node: &Node, details: bool) {
    let gpus = &node.inventory.gpus;
    record.line(format_args!("Gres={}", gres::of_node(&node.inventory)));
    if !details {
        return;
    }
    let sick = if node.gpus_sick.is_empty() {
        "N/A".to_owned()
    } else {
        gres::with_index(gpus, &node.gpus_sick)
    };
    record.line(format_args!("GresDrain={sick}"));
    record.line(format_args!(
        "GresUsed={}",
        gres::with_index(gpus, &node.gpus_used)
    ));
}

fn times(record: &mut Record, view: &View, node: &Node) {
    let stamp = |at| view.clock.stamp(at);
    record.line(format_args!(
        "BootTime={} SlurmdStartTime={}",
        stamp(node.boot_time),
        stamp(node.agent_start)
    ));
    record.line(format_args!(
        "LastBusyTime={} ResumeAfterTime=None",
        stamp(last_busy(node))
    ));
}

fn tres(record: &mut Record, view: &View, node: &Node) {
    record.line(format_args!("CfgTRES={}", tres_all(view, node)));
    record.line(format_args!("AllocTRES={}", tres_used(view, node)));
}

fn gpu_tres(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(",gres/gpu={count}")
    }
}

/// `cpu=64,mem=1000000M,billing=64,gres/gpu=8`: all that the node has.
pub fn tres_all(view: &View, node: &Node) -> String {
    let inventory = &node.inventory;
    format!(
        "cpu={cpus},mem={},billing={cpus}{}",
        view.mib(inventory.memory_mib),
        gpu_tres(inventory.gpus.len()),
        cpus = inventory.cpus
    )
}

/// `cpu=13,mem=69G,gres/gpu=6`: what jobs hold of it; empty if they hold nothing.
pub fn tres_used(view: &View, node: &Node) -> String {
    let (cpus, memory) = (node.cpus_used.len(), node.memory_used);
    if cpus == 0 && memory == 0 && node.gpus_used.is_empty() {
        return String::new();
    }
    let memory = if memory == 0 {
        String::new()
    } else {
        format!(",mem={}", view.mib(memory))
    };
    format!(
        "cpu={cpus}{memory}{}",
        gpu_tres(node.gpus_used.iter().count())
    )
}

/// A comment, the reason, and what is wrong; with more details also what is ours: the fence, the agent.
fn remarks(record: &mut Record, view: &View, shown: &NodeView, details: Details) {
    record.maybe(comment(shown).map(|text| format!("Comment={text}")));
    record.maybe((!shown.extra.is_empty()).then(|| format!("Extra={}", shown.extra)));
    if !shown.reservations.is_empty() {
        record.line(format_args!(
            "ReservationName={}",
            shown.reservations.join(",")
        ));
    }
    let reason = node_state::reason(shown);
    if !reason.is_empty() {
        let by = reason_by(view, shown).map(|(user, at)| format!(" [{user}@{at}]"));
        record.line(format_args!("Reason={reason}{}", by.unwrap_or_default()));
    }
    let node = &shown.node;
    for note in &node.gpu_notes {
        record.line(format_args!("GpuOut={} Why={}", note.gpu, note.why));
    }
    if let Some(trouble) = &node.trouble {
        let until = view.clock.stamp_or(trouble.until, "None");
        record.line(format_args!(
            "LaunchFailures={} LastFailedJob={} RestsUntil={until} LaunchError={}",
            trouble.failures, trouble.job, trouble.why
        ));
    }
    let all = details == Details::All;
    if all || !node.has_required_fence() {
        record.line(format_args!("Fence={}", node_state::fence(shown)));
        if !node.fence_note.is_empty() {
            record.line(format_args!("FenceNote={}", node.fence_note));
        }
    }
    if all {
        let simulated = if node.inventory.simulated {
            "Yes"
        } else {
            "No"
        };
        record.line(format_args!(
            "AgentAddr={} AgentVersion={} Simulated={simulated}",
            node.address, node.version
        ));
    }
}

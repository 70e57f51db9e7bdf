//! `scontrol show node`.

use super::View;
use super::node_text::{comment, features, load, reason_by};
use super::record::Record;
use spur_core::api::NodeView;
use spur_core::node::Node;
use spur_core::slurm::codes::node_state;
use spur_core::slurm::gres;

/// The record of one node.
pub fn record(view: &View, shown: &NodeView, details: bool, one_line: bool) -> String {
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
    record.line(format!(
        "CPUAlloc={} CPUEfctv={cpus} CPUTot={cpus} CPULoad={}",
        node.cpus_used.len(),
        load(node.load_x100)
    ));
    let features = features(shown);
    record.line(format!("AvailableFeatures={features}"));
    record.line(format!("ActiveFeatures={features}"));
    gpus(&mut record, node, details);
    let host = &node.hostname;
    let version = &node.version;
    record.line(format!(
        "NodeAddr={host} NodeHostName={host} Port=0 Version={version}"
    ));
    record.line(format!("OS={} ", node.os));
    record.line(format!(
        "RealMemory={} AllocMem={} FreeMem={} Sockets={} Boards=1",
        inventory.memory_mib, node.memory_used, node.free_mib, inventory.sockets
    ));
    record.line(format!(
        "State={} ThreadsPerCore={} TmpDisk=0 Weight={} Owner=N/A MCS_label=N/A",
        node_state::with_flags(shown),
        inventory.threads_per_core,
        shown.weight.max(1)
    ));
    record.line(format!("Partitions={} ", shown.partitions.join(",")));
    times(&mut record, view, node);
    tres(&mut record, view, node);
    record.line("CurrentWatts=0 AveWatts=0");
    record.line("");
    remarks(&mut record, view, shown, details);
    record.end()
}

fn gpus(record: &mut Record, node: &Node, details: bool) {
    let gpus = &node.inventory.gpus;
    record.line(format!("Gres={}", gres::of_node(&node.inventory)));
    if !details {
        return;
    }
    let sick = if node.gpus_sick.is_empty() {
        "N/A".to_owned()
    } else {
        gres::with_index(gpus, &node.gpus_sick)
    };
    record.line(format!("GresDrain={sick}"));
    record.line(format!(
        "GresUsed={}",
        gres::with_index(gpus, &node.gpus_used)
    ));
}

fn times(record: &mut Record, view: &View, node: &Node) {
    let stamp = |at| view.clock.stamp(at);
    record.line(format!(
        "BootTime={} SlurmdStartTime={}",
        stamp(node.boot_time),
        stamp(node.agent_start)
    ));
    record.line(format!(
        "LastBusyTime={} ResumeAfterTime=None",
        stamp(node.last_busy)
    ));
}

fn tres(record: &mut Record, view: &View, node: &Node) {
    let inventory = &node.inventory;
    let gpu = |count: usize| {
        if count == 0 {
            String::new()
        } else {
            format!(",gres/gpu={count}")
        }
    };
    record.line(format!(
        "CfgTRES=cpu={cpus},mem={},billing={cpus}{}",
        view.mib(inventory.memory_mib),
        gpu(inventory.gpus.len()),
        cpus = inventory.cpus
    ));
    let (cpus, memory) = (node.cpus_used.len(), node.memory_used);
    let held = if cpus == 0 && memory == 0 && node.gpus_used.is_empty() {
        String::new()
    } else {
        let memory = if memory == 0 {
            String::new()
        } else {
            format!(",mem={}", view.mib(memory))
        };
        format!("cpu={cpus}{memory}{}", gpu(node.gpus_used.iter().count()))
    };
    record.line(format!("AllocTRES={held}"));
}

/// A comment, the reason, the fence's condition, and with details where the agent listens.
fn remarks(record: &mut Record, view: &View, shown: &NodeView, details: bool) {
    record.maybe(comment(shown).map(|text| format!("Comment={text}")));
    let reason = node_state::reason(shown);
    if !reason.is_empty() {
        let by = reason_by(view, shown).map(|(user, at)| format!(" [{user}@{at}]"));
        record.line(format!("Reason={reason}{}", by.unwrap_or_default()));
    }
    let node = &shown.node;
    for note in &node.gpu_notes {
        record.line(format!("GpuOut={} Why={}", note.gpu, note.why));
    }
    if let Some(trouble) = &node.trouble {
        let until = view.clock.stamp_or(trouble.until, "None");
        record.line(format!(
            "LaunchFailures={} LastFailedJob={} RestsUntil={until} LaunchError={}",
            trouble.failures, trouble.job, trouble.why
        ));
    }
    record.line(format!("Fence={}", node_state::fence(shown)));
    if !node.fence_note.is_empty() {
        record.line(format!("FenceNote={}", node.fence_note));
    }
    if details {
        record.line(format!("AgentAddr={}", node.address));
    }
}

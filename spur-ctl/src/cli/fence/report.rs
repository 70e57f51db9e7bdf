//! What `spur fence … --json` prints. The names and their meaning are documented in `docs/reference/fence-json.md` and only
//! grow.

use super::facts::{Facts, Place};
use crate::cli::render::job_text::state;
use serde::Serialize;
use spur_core::denial::Denial;
use spur_core::resources::{DeviceFile, Gpu, GpuVendor};
use std::collections::BTreeSet;

/// A job and the fence: `show`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JobReport {
    job: u32,
    name: String,
    user: String,
    uid: u32,
    /// Slurm's word, as `RUNNING`.
    state: String,
    /// Whether it holds what is listed now; otherwise it did when it last ran.
    holds: bool,
    nodes: Vec<NodeReport>,
    refused: Refused,
}

/// One node of a job.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NodeReport {
    node: String,
    /// `guarded`, `fenced`, `unfenced`, `unknown`.
    fence: &'static str,
    /// Why it is not better, empty if all is well.
    note: String,
    /// Whether its GPUs are stand-ins.
    simulated: bool,
    gpus_total: usize,
    gpus: Vec<GpuReport>,
}

/// A GPU that the job may open.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GpuReport {
    index: u32,
    vendor: &'static str,
    model: String,
    /// Empty if it has none.
    uuid: String,
    /// Empty if it has none.
    pci: String,
    devices: Vec<DeviceReport>,
}

/// A device node.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeviceReport {
    /// Empty if unknown.
    path: String,
    major: u32,
    minor: u32,
}

/// Totals of refusals.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Refused {
    /// All.
    total: u64,
    /// Of those, how many never had a line in the log.
    without_line: u64,
    rows: Vec<RowReport>,
    /// Of the total, how many are in no row.
    other: u64,
    /// Operations among them that no library does by accident.
    alarms: BTreeSet<&'static str>,
}

/// Refusals of one kind.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RowReport {
    node: String,
    /// `null` if it is about no device.
    device: Option<DeviceReport>,
    op: &'static str,
    reason: &'static str,
    /// False if it was only noted and let through; then it is in no total.
    refused: bool,
    label: Option<&'static str>,
    total: u64,
}

/// One refusal: a line of `log`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LineReport {
    seq: u64,
    /// Milliseconds since 1970 (UTC).
    at_ms: u64,
    job: u32,
    node: String,
    pid: u32,
    uid: u32,
    command: String,
    /// `null` if it is about no device.
    device: Option<DeviceReport>,
    op: &'static str,
    reason: &'static str,
    target_pid: Option<u32>,
    object: String,
    refused: bool,
    label: Option<&'static str>,
    alarm: bool,
}

/// A job's report.
pub(crate) fn report(facts: &Facts) -> JobReport {
    let job = &facts.job;
    JobReport {
        job: job.id.0,
        name: job.spec.name.clone(),
        user: job.spec.owner.user.clone(),
        uid: job.spec.owner.uid.0,
        state: state(job).to_string(),
        holds: !facts.is_over() && !job.nodes.is_empty(),
        nodes: facts.places.iter().map(node).collect(),
        refused: refused(facts),
    }
}

/// One refusal's report.
pub(crate) fn line(denial: &Denial) -> LineReport {
    let has_device = denial.op.has_device() && (denial.major, denial.minor) != (0, 0);
    LineReport {
        seq: denial.seq,
        at_ms: denial.at.0,
        job: denial.job.0,
        node: denial.node.to_string(),
        pid: denial.pid,
        uid: denial.uid.0,
        command: denial.command.clone(),
        device: has_device.then(|| DeviceReport {
            path: denial.device.clone(),
            major: denial.major,
            minor: denial.minor,
        }),
        op: denial.op.word(),
        reason: denial.reason.word(),
        target_pid: denial.target_pid,
        object: denial.object.clone(),
        refused: !denial.noted,
        label: denial.label.map(|label| label.word()),
        alarm: denial.is_alarm(),
    }
}

fn node(place: &Place) -> NodeReport {
    NodeReport {
        node: place.node.to_string(),
        fence: place.fence_word(),
        note: place
            .fence
            .as_ref()
            .map(|(_, note)| note.clone())
            .unwrap_or_default(),
        simulated: place.simulated,
        gpus_total: place.gpus.len(),
        gpus: place.own().map(gpu).collect(),
    }
}

fn gpu(gpu: &Gpu) -> GpuReport {
    let device = |file: &DeviceFile| DeviceReport {
        path: file.path.clone(),
        major: file.major,
        minor: file.minor,
    };
    GpuReport {
        index: gpu.index,
        vendor: match gpu.vendor {
            GpuVendor::Nvidia => "nvidia",
            GpuVendor::Amd => "amd",
            GpuVendor::Drm => "drm",
            GpuVendor::Simulated => "simulated",
        },
        model: gpu.model.clone(),
        uuid: gpu.uuid.clone(),
        pci: gpu.pci.clone(),
        devices: gpu.files.iter().map(device).collect(),
    }
}

fn refused(facts: &Facts) -> Refused {
    let rows = facts.rows().map(|(place, row)| RowReport {
        node: place.node.to_string(),
        device: has_device(row).then(|| DeviceReport {
            path: row.key.device.clone(),
            major: row.key.major,
            minor: row.key.minor,
        }),
        op: row.key.op.word(),
        reason: row.key.reason.word(),
        refused: !row.key.noted,
        label: row.key.label.map(|label| label.word()),
        total: row.total,
    });
    Refused {
        total: facts.total(),
        without_line: facts.job.denials.suppressed,
        rows: rows.collect(),
        other: facts.others(),
        alarms: facts.alarms().map(|op| op.word()).collect(),
    }
}

fn has_device(row: &spur_core::denial::DenialRow) -> bool {
    (row.key.major, row.key.minor) != (0, 0)
}

//! What `spur fence` prints of a job, word for word.

use super::facts::Facts;
use super::{advice, explain, line, report, show};
use crate::cli::render::tests::samples::{at, mixed, view, wrapped};
use spur_core::api::{JobView, NodeRows, NodeView};
use spur_core::denial::{
    Denial, DenialCount, DenialKey, DenialLabel, DenialReason, DenialRow, DeviceOp,
};
use spur_core::id::{JobId, NodeName, Uid};
use spur_core::job::state::JobState;
use spur_core::resources::{DeviceFile, GpuVendor, IdSet};
use std::sync::Arc;

pub(super) fn node_name() -> NodeName {
    NodeName::new("n0001").unwrap()
}

/// Device number of a GPU's own node on [`node`]s of this vendor.
pub(super) fn number(vendor: GpuVendor, index: u32) -> (u32, u32) {
    match vendor {
        GpuVendor::Nvidia => (195, index),
        GpuVendor::Amd => (226, 128 + 8 * index),
        GpuVendor::Drm => (226, 128 + index),
        GpuVendor::Simulated => (120, index),
    }
}

/// Node `n0001` with eight GPUs of a vendor.
pub(super) fn node(vendor: GpuVendor) -> NodeView {
    let mut node = mixed();
    let file = |path: String, (major, minor)| DeviceFile { path, major, minor };
    for gpu in &mut node.node.inventory.gpus {
        let index = gpu.index;
        let number = number(vendor, index);
        gpu.vendor = vendor;
        gpu.pci = format!("0000:{index:02x}:00.0");
        gpu.files = match vendor {
            GpuVendor::Nvidia => {
                gpu.uuid = format!("GPU-{index}");
                vec![
                    file(format!("/dev/nvidia{index}"), number),
                    file("/dev/nvidiactl".to_owned(), (195, 255)),
                ]
            }
            GpuVendor::Amd => vec![
                file(format!("/dev/dri/renderD{}", number.1), number),
                file("/dev/kfd".to_owned(), (235, 0)),
            ],
            GpuVendor::Drm => vec![file(format!("/dev/dri/renderD{}", number.1), number)],
            GpuVendor::Simulated => vec![file(format!("/dev/gpu{index}"), number)],
        };
    }
    node
}

/// Job 3, with these GPUs of that node.
pub(super) fn job(held: &[u32], total: u64) -> JobView {
    let mut job = wrapped();
    job.nodes[0].share.gpus = held.iter().copied().collect::<IdSet>();
    job.denials = DenialCount {
        total,
        suppressed: total / 2,
    };
    job
}

pub(super) fn row((major, minor): (u32, u32), op: DeviceOp, total: u64) -> DenialRow {
    DenialRow {
        key: DenialKey {
            major,
            minor,
            device: String::new(),
            op,
            reason: DenialReason::NotGranted,
            noted: false,
            label: None,
        },
        total,
    }
}

pub(super) fn denied((major, minor): (u32, u32), op: DeviceOp, pid: u32) -> Denial {
    Denial {
        at: at(5),
        node: node_name(),
        job: JobId(3),
        pid,
        uid: Uid(0),
        command: "python".to_owned(),
        major,
        minor,
        device: String::new(),
        op,
        seq: 7,
        reason: DenialReason::NotGranted,
        target_pid: None,
        object: String::new(),
        noted: false,
        label: None,
    }
}

pub(super) fn facts(
    job: JobView,
    node: NodeView,
    rows: Vec<DenialRow>,
    lines: Vec<Denial>,
) -> Facts {
    let rows = NodeRows {
        node: node_name(),
        rows,
    };
    Facts::new(Arc::new(job), &[Arc::new(node)], vec![rows], lines)
}

/// A PyTorch program on GPUs 0 and 1 that wants GPU 5.
fn story() -> Facts {
    let five = number(GpuVendor::Nvidia, 5);
    let mut opened = row(five, DeviceOp::ReadWrite, 40);
    opened.key.device = "/dev/nvidia5".to_owned();
    let mut signal = row((0, 0), DeviceOp::Signal, 2);
    signal.key.noted = true;
    signal.key.reason = DenialReason::Foreign;
    let mut line = denied(five, DeviceOp::ReadWrite, 77);
    line.device = "/dev/nvidia5".to_owned();
    facts(
        job(&[0, 1], 42),
        node(GpuVendor::Nvidia),
        vec![opened, signal],
        vec![line.clone(), line.clone(), line],
    )
}

#[test]
fn show_says_what_is_open_and_what_was_refused() {
    let expected = "\
Job 3 (wrapped-with-a-long-name) of slurmtest: RUNNING
n0001: 2 of 8 GPUs (index 0-1); the kernel refuses all other GPUs (fence and guard)
    GPU 0 h200 GPU-0 0000:00:00.0
        /dev/nvidia0 (195:0)
        /dev/nvidiactl (195:255)
    GPU 1 h200 GPU-1 0000:01:00.0
        /dev/nvidia1 (195:1)
        /dev/nvidiactl (195:255)
Refused: 42 in all, 21 without a line of their own
    n0001 /dev/nvidia5 (195:5) open-read-write not-granted: 40
    n0001 signal foreign (noted only): 2
    2 more, too many or too fast to tell apart
";
    assert_eq!(show::text(&story()), expected);
}

#[test]
fn json_has_stable_names() {
    let expected = "{\"job\":3,\"name\":\"wrapped-with-a-long-name\",\"user\":\"slurmtest\",\"uid\":1001,\
        \"state\":\"RUNNING\",\"holds\":true,\"nodes\":[{\"node\":\"n0001\",\"fence\":\"guarded\",\"note\":\"\",\
        \"simulated\":false,\"gpus_total\":8,\"gpus\":[\
        {\"index\":0,\"vendor\":\"nvidia\",\"model\":\"h200\",\"uuid\":\"GPU-0\",\"pci\":\"0000:00:00.0\",\"devices\":[\
        {\"path\":\"/dev/nvidia0\",\"major\":195,\"minor\":0},{\"path\":\"/dev/nvidiactl\",\"major\":195,\"minor\":255}]},\
        {\"index\":1,\"vendor\":\"nvidia\",\"model\":\"h200\",\"uuid\":\"GPU-1\",\"pci\":\"0000:01:00.0\",\"devices\":[\
        {\"path\":\"/dev/nvidia1\",\"major\":195,\"minor\":1},{\"path\":\"/dev/nvidiactl\",\"major\":195,\"minor\":255}]}]}],\
        \"refused\":{\"total\":42,\"without_line\":21,\"rows\":[\
        {\"node\":\"n0001\",\"device\":{\"path\":\"/dev/nvidia5\",\"major\":195,\"minor\":5},\"op\":\"open-read-write\",\
        \"reason\":\"not-granted\",\"refused\":true,\"label\":null,\"total\":40},\
        {\"node\":\"n0001\",\"device\":null,\"op\":\"signal\",\"reason\":\"foreign\",\"refused\":false,\"label\":null,\
        \"total\":2}],\"other\":2,\"alarms\":[]}}\n";
    assert_eq!(line(&report::report(&story())), expected);
    let mut received = denied((0, 0), DeviceOp::Receive, 9);
    received.object = "dma-buf".to_owned();
    received.target_pid = Some(5);
    let expected = format!(
        "{{\"seq\":7,\"at_ms\":{},\"job\":3,\"node\":\"n0001\",\"pid\":9,\"uid\":0,\"command\":\"python\",\"device\":null,\
         \"op\":\"receive\",\"reason\":\"not-granted\",\"target_pid\":5,\"object\":\"dma-buf\",\"refused\":true,\
         \"label\":null,\"alarm\":true}}\n",
        at(5).0
    );
    assert_eq!(line(&report::line(&received)), expected);
}

#[test]
fn explain_says_what_it_means() {
    let mut story = story();
    story.lines.truncate(1);
    story.lines[0].label = Some(DenialLabel::KfdProbe);
    let advice = advice::advice(&story);
    let text = explain::text(&view(at(6)), &story, &advice);
    let expected = "\
Job 3 (wrapped-with-a-long-name) of slurmtest: RUNNING
n0001: 2 of 8 GPUs (index 0-1); the kernel refuses all other GPUs (fence and guard)
    may open /dev/nvidia0 (195:0)
    may open /dev/nvidia1 (195:1)
    may open /dev/nvidiactl (195:255)
Refused: 42 in all, 21 without a line of their own
    Denied=2026-11-30T01:41:05 JobId=3 Node=n0001 Pid=77 UserId=root(0) Command=python \
Device=/dev/nvidia5(195:5) Op=open-read-write Reason=not-granted Label=kfd-probe
What this means:
  note: ";
    assert!(text.starts_with(expected), "{text}");
    let json = line(&explain::report(&story, &advice));
    let back: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(back["job"], 3);
    assert_eq!(back["lines"][0]["label"], "kfd-probe");
    assert_eq!(back["advice"].as_array().unwrap().len(), advice.len());
    assert_eq!(back["advice"][0]["level"], "note");
}

#[test]
fn an_ended_job_is_shown_as_it_was_and_a_waiting_one_without_devices() {
    let mut ended = job(&[0], 0);
    ended.state = JobState::Completed;
    let ended = facts(ended, node(GpuVendor::Simulated), Vec::new(), Vec::new());
    let text = explain::text(&view(at(6)), &ended, &[]);
    assert!(
        text.contains("COMPLETED\nIt has ended and holds nothing any more; this is what it had.\nn0001: 1 of 8 GPUs")
            && text.contains("    could open /dev/gpu0 (120:0)\n"),
        "{text}"
    );
    let mut waiting = job(&[], 0);
    waiting.state = JobState::Pending;
    waiting.nodes.clear();
    let waiting = facts(waiting, node(GpuVendor::Simulated), Vec::new(), Vec::new());
    assert_eq!(
        show::text(&waiting),
        "Job 3 (wrapped-with-a-long-name) of slurmtest: PENDING\nIt holds nothing, so no device is open to it.\n\
         Refused: 0 in all, 0 without a line of their own\n"
    );
}

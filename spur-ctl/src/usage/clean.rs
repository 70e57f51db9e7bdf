//! Bounds on what a node may say in a record: a node may be taken over, and what it says is shown to people.

use crate::denials::{clean, clean_sentence};
use spur_core::id::NodeName;
use spur_core::usage::histogram::Histogram;
use spur_core::usage::summary::{GpuUsage, JobUsage};
use spur_core::usage::words::{UsageEvent, UsageEventKind, UsageRecord};

/// Most GPUs of one record: as many as a node may have.
const GPUS_MAX: usize = 1024;
/// Most kinds of errors of one GPU.
const ERRORS_MAX: usize = 64;

/// Cuts a record to size, and makes it the node's own, whatever it says.
pub(super) fn record(node: &NodeName, record: &mut UsageRecord) {
    match record {
        UsageRecord::Step(step) => {
            step.node = node.clone();
            step.coverage = step.coverage.min(1000);
        }
        UsageRecord::Job(job) => {
            job.node = node.clone();
            of_job(job);
        }
        UsageRecord::Event(event) => of_event(event),
    }
}

fn of_job(job: &mut JobUsage) {
    job.coverage = job.coverage.min(1000);
    job.gpus.truncate(GPUS_MAX);
    job.gpus.sort_by_key(|gpu| gpu.index);
    job.gpus.dedup_by_key(|gpu| gpu.index);
    for gpu in &mut job.gpus {
        of_gpu(gpu);
    }
}

fn of_gpu(gpu: &mut GpuUsage) {
    clean(&mut gpu.uuid);
    clean(&mut gpu.model);
    gpu.errors.truncate(ERRORS_MAX);
    gpu.sm_active = gpu.sm_active.map(|share| share.min(1000));
    gpu.utilization = Histogram::from_buckets(gpu.utilization.buckets().to_vec());
}

fn of_event(event: &mut UsageEvent) {
    match &mut event.what {
        UsageEventKind::DeviceError { text, .. } => clean_sentence(text),
        UsageEventKind::DeviceStale { why, .. } | UsageEventKind::Gap { why, .. } => {
            clean_sentence(why);
        }
        UsageEventKind::Idle(idle) => idle.busy = idle.busy.map(|share| share.min(1000)),
        UsageEventKind::Busy | UsageEventKind::OomKill { .. } => {}
    }
}

//! How much waits where in the queue, and when running jobs will probably leave what: sums that follow each event, so that nobody
//! has to look at all jobs to say when one will start.

use crate::job::Job;
use crate::job::state::JobState;
use crate::partition::Partition;
use crate::plan::outlook::{Amount, Place};
use crate::plan::policy::Key;
use crate::plan::predict::{gpus_of, limit_secs};
use crate::time::Millis;
use std::collections::BTreeMap;

/// Ends closer to one another than so many milliseconds are one.
const GRAIN: u64 = 20_000;

/// What a job adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Position of the partition.
    partition: usize,
    width: Amount,
    /// Waiting: its place, and for how many seconds it will run. Running: when it will end, in units of [`GRAIN`].
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Waits(Place, u64),
    Ends(u64),
}

/// A partition's sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// By place: GPUs and CPUs asked for, and seconds of them.
    waiting: BTreeMap<Place, (u32, Amount, Amount)>,
    /// By end, in units of [`GRAIN`]: what running jobs hold until then.
    ends: BTreeMap<u64, (u32, Amount)>,
}

impl Flow {
    /// What waits, in order of the queue: places, what is asked for there, and seconds of it.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Place, Amount, Amount)> {
        let waiting = self.waiting.iter();
        waiting.map(|(place, (_, width, work))| (*place, *width, *work))
    }

    /// When running jobs will probably have left what.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (Millis, Amount)> {
        let ends = self.ends.iter();
        ends.map(|(end, (_, width))| (Millis(end.saturating_add(1).saturating_mul(GRAIN)), *width))
    }
}

/// The sums of all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Flows {
    by_partition: BTreeMap<usize, Flow>,
}

impl Flows {
    pub(super) fn get(&self, partition: usize) -> Option<&Flow> {
        self.by_partition.get(&partition)
    }

    pub(super) fn add(&mut self, load: &Load) {
        let flow = self.by_partition.entry(load.partition).or_default();
        match load.when {
            When::Waits(place, secs) => {
                let (jobs, width, work) = flow.waiting.entry(place).or_default();
                *jobs += 1;
                width.add(load.width);
                work.add(load.width.times(secs));
            }
            When::Ends(end) => {
                let (jobs, width) = flow.ends.entry(end).or_default();
                *jobs += 1;
                width.add(load.width);
            }
        }
    }

    pub(super) fn subtract(&mut self, load: &Load) {
        let Some(flow) = self.by_partition.get_mut(&load.partition) else {
            return;
        };
        match load.when {
            When::Waits(place, secs) => {
                if let Some((jobs, width, work)) = flow.waiting.get_mut(&place) {
                    *jobs -= 1;
                    width.subtract(load.width);
                    work.subtract(load.width.times(secs));
                    if *jobs == 0 {
                        flow.waiting.remove(&place);
                    }
                }
            }
            When::Ends(end) => {
                if let Some((jobs, width)) = flow.ends.get_mut(&end) {
                    *jobs -= 1;
                    width.subtract(load.width);
                    if *jobs == 0 {
                        flow.ends.remove(&end);
                    }
                }
            }
        }
        if *flow == Flow::default() {
            self.by_partition.remove(&load.partition);
        }
    }
}

/// What a job adds, if it waits or runs in a partition that is configured.
pub(super) fn load(job: &Job, key: Option<Key>, partitions: &[Partition]) -> Option<Load> {
    let mut named = partitions.iter();
    let partition = named.position(|partition| partition.name == job.spec.partition)?;
    let limit = limit_secs(&job.spec);
    let expected = job.expected.map(|secs| secs.min(limit.unwrap_or(u64::MAX)));
    let secs = expected.or(limit);
    let (width, when) = match job.state {
        JobState::Pending => {
            // Far beyond what anybody waits for, and small enough to add up.
            const UNKNOWN: u64 = 365 * 86_400;
            let place = Place::of(key?);
            (
                asked(job),
                When::Waits(
                    place,
                    secs.unwrap_or(UNKNOWN)
                        .min(UNKNOWN)
                        .saturating_mul(u64::from(job.tasks())),
                ),
            )
        }
        JobState::Running | JobState::Suspended => {
            let end = job.started?.plus_secs(secs?);
            (held(job), When::Ends(end.0 / GRAIN))
        }
        JobState::Completed
        | JobState::Failed
        | JobState::Cancelled
        | JobState::Timeout
        | JobState::NodeFail
        | JobState::OutOfMemory
        | JobState::Deadline => return None,
    };
    Some(Load {
        partition,
        width,
        when,
    })
}

fn asked(job: &Job) -> Amount {
    Amount::asked(&job.spec, gpus_of(&job.spec))
}

fn held(job: &Job) -> Amount {
    let mut held = Amount::default();
    for share in &job.allocation {
        held.add(Amount {
            gpus: u64::from(share.gpus.len()),
            cpus: u64::from(share.cpus.len()),
        });
    }
    held
}

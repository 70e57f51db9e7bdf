//! Lines as jobs.

use super::{JobLines, NO_TASK, UNLIMITED};
use crate::agent::order::AllocatedNode;
use crate::api::{JobView, StartBasis, StartEstimate};
use crate::id::{JobId, NodeId, NodeName, Uid};
use crate::job::array::{ArrayView, MAX_ARRAY_SIZE_MAX, TaskSet};
use crate::job::het::HetPart;
use crate::job::spec::JobSpec;
use crate::job::state::{JobState, Reason};
use crate::resources::{IdSet, NodeShare};
use crate::slurm::{array, hostlist};
use crate::time::{Millis, TimeLimit};
use std::sync::Arc;

/// What a column says of a line.
fn cell<T: Copy>(column: &[T], at: usize) -> Option<T> {
    match column {
        [only] => Some(*only),
        all => all.get(at).copied(),
    }
}

/// Whether two lines have the same there.
fn alike<T: Copy + PartialEq>(column: &[T], a: usize, b: usize) -> bool {
    column.len() == 1 || column.get(a) == column.get(b)
}

impl JobLines {
    /// A line as a job, with as much as lines tell of it. `None` if lists are too short, or a place is not there.
    pub fn job(&self, at: usize) -> Option<JobView> {
        let mut job = nothing();
        self.read(at, None, &mut job).then_some(job)
    }

    /// Puts a line into a job that was read `before`, of which only what differs is written; into any that has nothing in it if there
    /// is none. False if lists are too short, or a place is not there: the job is of no use then.
    pub fn read(&self, at: usize, before: Option<usize>, job: &mut JobView) -> bool {
        let request = match before {
            Some(before) if self.same_request(at, before) => Some(()),
            before => self.read_request(at, before, Arc::make_mut(&mut job.spec)),
        };
        request.is_some()
            && self.read_lists(at, before, job).is_some()
            && self.read_numbers(at, job).is_some()
    }

    fn word(&self, places: &[u32], at: usize) -> Option<&str> {
        let place = usize::try_from(cell(places, at)?).ok()?;
        self.words.get(place).map(String::as_str)
    }

    /// Whether two jobs ask for the same.
    fn same_request(&self, a: usize, b: usize) -> bool {
        let texts = [
            &self.names,
            &self.partitions,
            &self.users,
            &self.accounts,
            &self.qos,
            &self.uids,
            &self.sizes,
        ];
        let amounts = [&self.limits, &self.begins];
        texts.iter().all(|column| alike(column, a, b))
            && amounts.iter().all(|column| alike(column, a, b))
    }

    fn read_request(&self, at: usize, before: Option<usize>, spec: &mut JobSpec) -> Option<()> {
        let owner = &mut spec.owner;
        for (text, places) in [
            (&mut spec.name, &self.names),
            (&mut spec.partition, &self.partitions),
            (&mut spec.account, &self.accounts),
            (&mut spec.qos, &self.qos),
            (&mut owner.user, &self.users),
        ] {
            if before.is_none_or(|before| !alike(places, at, before)) {
                text.clear();
                text.push_str(self.word(places, at)?);
            }
        }
        owner.uid = Uid(cell(&self.uids, at)?);
        spec.nodes_min = cell(&self.sizes, at)?;
        spec.time_limit = match cell(&self.limits, at)? {
            0 => None,
            UNLIMITED => Some(TimeLimit::Unlimited),
            secs => Some(TimeLimit::Secs(secs)),
        };
        spec.begin = moment(&self.begins, at)?;
        Some(())
    }

    fn read_lists(&self, at: usize, before: Option<usize>, job: &mut JobView) -> Option<()> {
        let fresh = |places: &[u32]| before.is_none_or(|before| !alike(places, at, before));
        if fresh(&self.nodes) {
            job.nodes = held(self.word(&self.nodes, at)?);
        }
        if fresh(&self.unavailable) {
            job.unavailable = names(self.word(&self.unavailable, at)?);
        }
        job.array = self.array(at)?;
        job.expected = moment(&self.expected, at)?.map(|start| StartEstimate {
            start: Some(start),
            basis: StartBasis::Reserved,
            nodes: Vec::new(),
        });
        Some(())
    }

    fn read_numbers(&self, at: usize, job: &mut JobView) -> Option<()> {
        job.id = JobId(cell(&self.ids, at)?);
        job.state = cell(&self.states, at)?;
        job.completing = cell(&self.completing, at)? != 0;
        job.reason = cell(&self.reasons, at)?;
        job.priority = cell(&self.priorities, at)?;
        job.submitted = Millis(cell(&self.submitted, at)?);
        job.eligible = job.submitted;
        job.started = moment(&self.started, at)?;
        job.ended = moment(&self.ended, at)?;
        job.suspended = moment(&self.suspended, at)?;
        job.suspended_ms = cell(&self.stopped, at)?;
        job.het = self.het(at);
        Some(())
    }

    /// What it is of a heterogeneous job.
    fn het(&self, at: usize) -> Option<HetPart> {
        let leader = cell(&self.het_leaders, at).filter(|leader| *leader > 0)?;
        Some(HetPart {
            leader: JobId(leader),
            offset: cell(&self.het_offsets, at)?,
            size: cell(&self.het_sizes, at)?,
        })
    }

    /// What it is of an array; `Some(None)` if of none.
    fn array(&self, at: usize) -> Option<Option<ArrayView>> {
        let job = cell(&self.arrays, at)?;
        if job == 0 {
            return Some(None);
        }
        let index = cell(&self.indices, at)?;
        let text = self.word(&self.tasks, at)?;
        let tasks = match text {
            "" => TaskSet::new(),
            text => array::parse(text, MAX_ARRAY_SIZE_MAX).ok()?.tasks,
        };
        Some(Some(ArrayView {
            job: JobId(job),
            task: (index != NO_TASK).then_some(index),
            tasks,
            throttle: cell(&self.throttles, at)?,
        }))
    }
}

/// A job of which nothing is known.
pub(super) fn nothing() -> JobView {
    JobView {
        id: JobId(0),
        spec: Arc::default(),
        state: JobState::Pending,
        completing: false,
        reason: Reason::None,
        priority: 0,
        submitted: Millis::default(),
        eligible: Millis::default(),
        started: None,
        ended: None,
        nodes: Vec::new(),
        expected: None,
        unavailable: Vec::new(),
        array: None,
        suspended: None,
        suspended_ms: 0,
        turned: None,
        ran_before_ms: 0,
        het: None,
        backfilled: false,
        written: Default::default(),
        reason_text: String::new(),
        gpu_models: Vec::new(),
        steps: Vec::new(),
        exit: Default::default(),
        derived_exit: Default::default(),
        restarts: 0,
        denials: Default::default(),
        generation: Default::default(),
        cancelled_by: None,
        idle: Vec::new(),
        due: Millis::default(),
        avoid: Vec::new(),
        uncleaned: Vec::new(),
        dependency: String::new(),
    }
}

fn moment(column: &[u64], at: usize) -> Option<Option<Millis>> {
    let millis = cell(column, at)?;
    Some((millis > 0).then_some(Millis(millis)))
}

fn names(list: &str) -> Vec<NodeName> {
    if list.is_empty() {
        return Vec::new();
    }
    let names = hostlist::parse(list).unwrap_or_default().into_iter();
    names.filter_map(|name| NodeName::new(name).ok()).collect()
}

/// Nodes of which only the names are known.
fn held(list: &str) -> Vec<AllocatedNode> {
    let share = || NodeShare {
        node: NodeId(0),
        cpus: IdSet::new(),
        memory_mib: 0,
        gpus: IdSet::new(),
        tasks: 0,
    };
    let node = |name| AllocatedNode {
        name,
        share: share(),
    };
    names(list).into_iter().map(node).collect()
}

//! Jobs as short lines: what lists of many jobs show, column by column, so that ten thousand of them travel in a few hundred
//! kilobytes. Texts are kept once and named by their place.

use super::{JobView, StartBasis, StartEstimate};
use crate::agent::order::AllocatedNode;
use crate::id::{JobId, NodeId, NodeName, Uid};
use crate::job::array::{ArrayView, MAX_ARRAY_SIZE_MAX, TaskSet};
use crate::job::het::HetPart;
use crate::job::spec::JobSpec;
use crate::job::state::{JobState, Reason};
use crate::resources::{IdSet, NodeShare};
use crate::slurm::{array, hostlist};
use crate::time::{Millis, TimeLimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// No task: an array's record that stands for several, or a job that is no part of an array.
const NO_TASK: u32 = u32::MAX;
/// A limit without bound; 0 is none yet.
const UNLIMITED: u64 = u64::MAX;

/// See the module. Every list but `words` has one element for each job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLines {
    /// Texts, each once; the first is empty.
    pub words: Vec<String>,
    /// Numbers.
    pub ids: Vec<u32>,
    /// States.
    pub states: Vec<JobState>,
    /// 1 while completing.
    pub completing: Vec<u32>,
    /// Reasons.
    pub reasons: Vec<Reason>,
    /// Names of nodes that a job waits for, folded; places in `words`, as all that follow are.
    pub unavailable: Vec<u32>,
    /// Names.
    pub names: Vec<u32>,
    /// Partitions.
    pub partitions: Vec<u32>,
    /// Users' names.
    pub users: Vec<u32>,
    /// Accounts.
    pub accounts: Vec<u32>,
    /// Qualities of service.
    pub qos: Vec<u32>,
    /// Nodes that are held, folded.
    pub nodes: Vec<u32>,
    /// Tasks that an array's record stands for.
    pub tasks: Vec<u32>,
    /// Users' numbers; no places any more.
    pub uids: Vec<u32>,
    /// Priorities.
    pub priorities: Vec<u32>,
    /// Least numbers of nodes.
    pub sizes: Vec<u32>,
    /// Arrays' numbers, 0 for other jobs.
    pub arrays: Vec<u32>,
    /// Indices of tasks.
    pub indices: Vec<u32>,
    /// Bounds of arrays.
    pub throttles: Vec<u32>,
    /// Limits in seconds.
    pub limits: Vec<u64>,
    /// Moments in milliseconds, 0 if there is none: submitted.
    pub submitted: Vec<u64>,
    /// Begins (`--begin`).
    pub begins: Vec<u64>,
    /// Started.
    pub started: Vec<u64>,
    /// Ended.
    pub ended: Vec<u64>,
    /// Reserved start.
    pub expected: Vec<u64>,
    /// Stopped since.
    pub suspended: Vec<u64>,
    /// Milliseconds for which it was stopped before.
    pub stopped: Vec<u64>,
    /// Leaders of heterogeneous jobs, 0 for other jobs; older controllers tell none of these three.
    #[serde(default)]
    pub het_leaders: Vec<u32>,
    /// Which component.
    #[serde(default)]
    pub het_offsets: Vec<u32>,
    /// Of how many.
    #[serde(default)]
    pub het_sizes: Vec<u32>,
}

/// Fills lines.
#[derive(Debug, Default)]
pub struct LinesMaker {
    lines: JobLines,
    places: BTreeMap<String, u32>,
    /// The last text of each column and its place: mostly the next is the same.
    last: [(String, u32); 8],
}

impl LinesMaker {
    /// No lines.
    pub fn new() -> Self {
        let mut maker = Self::default();
        maker.lines.words.push(String::new());
        maker.places.insert(String::new(), 0);
        maker
    }

    fn place(&mut self, column: usize, text: &str) -> u32 {
        let (last, place) = &self.last[column];
        if last == text {
            return *place;
        }
        let next = u32::try_from(self.lines.words.len()).unwrap_or(u32::MAX);
        let place = match self.places.get(text) {
            Some(place) => *place,
            None => {
                self.lines.words.push(text.to_owned());
                self.places.insert(text.to_owned(), next);
                next
            }
        };
        let (last, known) = &mut self.last[column];
        last.clear();
        last.push_str(text);
        *known = place;
        place
    }

    /// Adds a job. `expected` is the start that is reserved for it.
    pub fn push(&mut self, job: &JobView, expected: Option<Millis>) {
        let spec = &job.spec;
        let places = [
            self.place(0, &spec.name),
            self.place(1, &spec.partition),
            self.place(2, &spec.owner.user),
            self.place(3, &spec.account),
            self.place(4, &spec.qos),
            match job.nodes.as_slice() {
                [] => 0,
                [one] => self.place(5, one.name.as_str()),
                several => {
                    let names: Vec<&str> = several.iter().map(|node| node.name.as_str()).collect();
                    self.place(5, &hostlist::compress(&names))
                }
            },
            match &job.array {
                Some(array) if array.task.is_none() => self.place(6, &array.tasks.to_string()),
                _ => 0,
            },
            if job.unavailable.is_empty() {
                0
            } else {
                let names: Vec<&str> = job.unavailable.iter().map(NodeName::as_str).collect();
                self.place(7, &hostlist::compress(&names))
            },
        ];
        self.numbers(job, places, expected);
    }

    fn numbers(&mut self, job: &JobView, places: [u32; 8], expected: Option<Millis>) {
        let moment = |at: Option<Millis>| at.map_or(0, |at| at.0);
        let (spec, lines) = (&job.spec, &mut self.lines);
        let [
            names,
            partitions,
            users,
            accounts,
            qos,
            nodes,
            tasks,
            unavailable,
        ] = places;
        lines.names.push(names);
        lines.partitions.push(partitions);
        lines.users.push(users);
        lines.accounts.push(accounts);
        lines.qos.push(qos);
        lines.nodes.push(nodes);
        lines.tasks.push(tasks);
        lines.unavailable.push(unavailable);
        lines.ids.push(job.id.0);
        lines.states.push(job.state);
        lines.completing.push(job.completing.into());
        lines.reasons.push(job.reason);
        lines.uids.push(spec.owner.uid.0);
        lines.priorities.push(job.priority);
        lines.sizes.push(spec.nodes_min);
        let array = job.array.as_ref();
        lines.arrays.push(array.map_or(0, |array| array.job.0));
        let index = array.and_then(|array| array.task);
        lines.indices.push(index.unwrap_or(NO_TASK));
        lines
            .throttles
            .push(array.map_or(0, |array| array.throttle));
        lines.limits.push(match spec.time_limit {
            None => 0,
            Some(TimeLimit::Unlimited) => UNLIMITED,
            Some(TimeLimit::Secs(secs)) => secs,
        });
        lines.submitted.push(job.submitted.0);
        lines.begins.push(moment(spec.begin));
        lines.started.push(moment(job.started));
        lines.ended.push(moment(job.ended));
        lines.expected.push(moment(expected));
        lines.suspended.push(moment(job.suspended));
        lines.stopped.push(job.suspended_ms);
        let part = job.het;
        lines.het_leaders.push(part.map_or(0, |part| part.leader.0));
        lines.het_offsets.push(part.map_or(0, |part| part.offset));
        lines.het_sizes.push(part.map_or(0, |part| part.size));
    }

    /// The lines.
    pub fn done(self) -> JobLines {
        self.lines
    }
}

impl JobLines {
    /// The jobs, with as much as lines tell of them. Lists of unequal length, or places that are not there, end them early.
    pub fn jobs(&self) -> Vec<Arc<JobView>> {
        let mut jobs = Vec::with_capacity(self.ids.len());
        let mut spec: Option<Arc<JobSpec>> = None;
        for at in 0..self.ids.len() {
            let shared = spec.take().filter(|_| self.same_request(at));
            let Some(own) = shared.or_else(|| self.request(at).map(Arc::new)) else {
                break;
            };
            let Some(job) = self.job(at, &own) else { break };
            jobs.push(Arc::new(job));
            spec = Some(own);
        }
        jobs
    }

    fn word(&self, places: &[u32], at: usize) -> Option<&str> {
        let place = usize::try_from(*places.get(at)?).ok()?;
        self.words.get(place).map(String::as_str)
    }

    /// Whether a job asks for the same as the one before it.
    fn same_request(&self, at: usize) -> bool {
        let words = [
            &self.names,
            &self.partitions,
            &self.users,
            &self.accounts,
            &self.qos,
        ];
        let counts = [&self.uids, &self.sizes];
        let amounts = [&self.limits, &self.begins];
        let Some(before) = at.checked_sub(1) else {
            return false;
        };
        let mut small = words.into_iter().chain(counts);
        small.all(|column| column.get(at) == column.get(before))
            && amounts
                .iter()
                .all(|column| column.get(at) == column.get(before))
    }

    fn request(&self, at: usize) -> Option<JobSpec> {
        let text = |places: &[u32]| self.word(places, at).map(str::to_owned);
        let mut spec = JobSpec {
            name: text(&self.names)?,
            partition: text(&self.partitions)?,
            account: text(&self.accounts)?,
            qos: text(&self.qos)?,
            nodes_min: *self.sizes.get(at)?,
            time_limit: match *self.limits.get(at)? {
                0 => None,
                UNLIMITED => Some(TimeLimit::Unlimited),
                secs => Some(TimeLimit::Secs(secs)),
            },
            begin: moment(&self.begins, at)?,
            ..JobSpec::default()
        };
        spec.owner.user = text(&self.users)?;
        spec.owner.uid = Uid(*self.uids.get(at)?);
        Some(spec)
    }

    fn job(&self, at: usize, spec: &Arc<JobSpec>) -> Option<JobView> {
        Some(JobView {
            id: JobId(*self.ids.get(at)?),
            spec: Arc::clone(spec),
            state: *self.states.get(at)?,
            completing: *self.completing.get(at)? != 0,
            reason: *self.reasons.get(at)?,
            priority: *self.priorities.get(at)?,
            submitted: Millis(*self.submitted.get(at)?),
            eligible: Millis(*self.submitted.get(at)?),
            started: moment(&self.started, at)?,
            ended: moment(&self.ended, at)?,
            nodes: held(self.word(&self.nodes, at)?),
            expected: moment(&self.expected, at)?.map(|start| StartEstimate {
                start: Some(start),
                basis: StartBasis::Reserved,
                nodes: Vec::new(),
            }),
            unavailable: names(self.word(&self.unavailable, at)?),
            array: self.array(at)?,
            suspended: moment(&self.suspended, at)?,
            suspended_ms: *self.stopped.get(at)?,
            het: self.het(at),
            backfilled: false,
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
        })
    }

    /// What it is of a heterogeneous job.
    fn het(&self, at: usize) -> Option<HetPart> {
        let leader = *self.het_leaders.get(at).filter(|leader| **leader > 0)?;
        Some(HetPart {
            leader: JobId(leader),
            offset: *self.het_offsets.get(at)?,
            size: *self.het_sizes.get(at)?,
        })
    }

    /// What it is of an array; `Some(None)` if of none.
    fn array(&self, at: usize) -> Option<Option<ArrayView>> {
        let job = *self.arrays.get(at)?;
        if job == 0 {
            return Some(None);
        }
        let index = *self.indices.get(at)?;
        let text = self.word(&self.tasks, at)?;
        let tasks = match text {
            "" => TaskSet::new(),
            text => array::parse(text, MAX_ARRAY_SIZE_MAX).ok()?.tasks,
        };
        Some(Some(ArrayView {
            job: JobId(job),
            task: (index != NO_TASK).then_some(index),
            tasks,
            throttle: *self.throttles.get(at)?,
        }))
    }
}

fn moment(column: &[u64], at: usize) -> Option<Option<Millis>> {
    let millis = *column.get(at)?;
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

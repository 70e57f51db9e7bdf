//! Answers: what the record has, with what the board has beyond it. Where both tell, the record counts: it is final.

use super::Usage;
use super::board::{Part, merge};
use super::store::{Found, Page, Wanted};
use crate::readers::View;
use spur_core::agent::order::AllocatedNode;
use spur_core::api::{
    AccountFilter, AccountedJob, GpuNow, JobView, NodeEvent, RunKey, SeriesPoint, SeriesView,
    UsageReport,
};
use spur_core::id::{JobId, NodeName};
use spur_core::job::state::{JobState, Reason};
use spur_core::resources::Gpu;
use spur_core::time::Millis;
use spur_core::usage::metric::Metric;
use spur_core::usage::series::Series;
use spur_core::usage::summary::{JobUsage, StepUsage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most runs in one answer.
pub(super) const PAGE_MAX: usize = 2000;

/// Whether a run is one of those meant. `requeued`: when it ended by going back to the queue.
pub fn matches(filter: &AccountFilter, job: &JobView, requeued: Option<Millis>) -> bool {
    fn any<T: PartialEq>(list: &[T], value: &T) -> bool {
        list.is_empty() || list.contains(value)
    }
    let spec = &job.spec;
    let nodes = filter.nodes.is_empty()
        || job
            .nodes
            .iter()
            .any(|held| filter.nodes.contains(&held.name));
    let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
    let mut accounts = filter.accounts.iter();
    in_time(filter, job, requeued)
        && nodes
        && named(filter, job)
        && any(&filter.users, &spec.owner.uid)
        && (filter.accounts.is_empty() || accounts.any(|name| same(name, &spec.account)))
        && any(&filter.partitions, &spec.partition)
        && any(&filter.names, &spec.name)
}

/// The number of the array or of the heterogeneous job that a job is part of.
pub(super) fn group(job: &JobView) -> Option<JobId> {
    let array = job.array.as_ref().map(|array| array.job);
    array.or(job.het.map(|part| part.leader))
}

/// Whether a job is one of those that are named, by its own number or by that of what it is part of.
fn named(filter: &AccountFilter, job: &JobView) -> bool {
    filter.ids.is_empty()
        || filter.ids.contains(&job.id)
        || group(job).is_some_and(|group| filter.ids.contains(&group))
}

/// Kept back by something other than room or time for as long as it waited.
fn is_kept_back(job: &JobView) -> bool {
    let kept =
        job.priority == 0 || !job.dependency.is_empty() || job.reason == Reason::JobArrayTaskLimit;
    job.started.is_none() && kept
}

/// Whether a job was one of the record at some moment before `until`, or now. As in Slurm, the record begins when a job may start,
/// unless jobs are named: then when it was submitted.
fn has_begun(filter: &AccountFilter, job: &JobView) -> bool {
    if !filter.ids.is_empty() {
        return filter.until.is_none_or(|until| job.submitted < until);
    }
    let ended_first = job.ended.is_some_and(|ended| ended < job.eligible);
    let early = job.started.is_none() && (job.reason == Reason::BeginTime || ended_first);
    !is_kept_back(job) && filter.until.map_or(!early, |until| job.eligible < until)
}

/// Whether a run was, in the window of time, in one of the states that are asked for. As in Slurm's record: it waited or ran at
/// some moment of the window, whatever became of it; or it ended in the window, in that state.
fn in_time(filter: &AccountFilter, job: &JobView, requeued: Option<Millis>) -> bool {
    let ended = requeued.or(job.ended.filter(|_| job.state.is_terminal()));
    let after = |end: Option<Millis>| match (filter.since, end) {
        (Some(since), Some(end)) => end >= since,
        (None, _) | (_, None) => true,
    };
    let before = |start: Millis| filter.until.is_none_or(|until| start <= until);
    if filter.states.is_empty() {
        return has_begun(filter, job) && after(ended);
    }
    filter.states.iter().any(|state| {
        if *state == JobState::Pending {
            !is_kept_back(job) && before(job.eligible) && after(job.started.or(ended))
        } else if *state == JobState::Running {
            job.started.is_some_and(before) && after(ended)
        } else {
            *state == job.state && requeued.is_none() && after(ended) && ended.is_none_or(before)
        }
    })
}

/// Why a question has no answer.
pub(crate) type Unread = String;

impl Usage {
    /// The record, for questions; `None` where there is none.
    fn page(&self) -> Result<Option<Page>, Unread> {
        let Some(place) = self.store.place() else {
            return Ok(None);
        };
        let unread = |error| format!("the accounting record {place} cannot be read: {error}");
        Page::open(place).map(Some).map_err(unread)
    }

    /// Who a job's owner is, if only the record knows it.
    pub(crate) fn recorded(&self, job: JobId) -> Result<Option<Arc<JobView>>, Unread> {
        let Some(page) = self.page()? else {
            return Ok(None);
        };
        let found = page.run(Wanted::Newest(job)).map_err(|e| e.to_string())?;
        Ok(found.map(|found| Arc::new(found.job)))
    }

    /// Runs that are meant, in the record's order. What the cluster knows of a job is newer than what the record has.
    pub(crate) fn accounting(
        &self,
        view: &View,
        filter: &AccountFilter,
        after: Option<RunKey>,
        limit: usize,
    ) -> Result<Vec<AccountedJob>, Unread> {
        let limit = limit.min(PAGE_MAX);
        let page = self.page()?;
        let passes = |job: &JobView, requeued| matches(filter, job, requeued);
        let found = match &page {
            Some(page) => page
                .runs(filter, after, limit, passes)
                .map_err(|e| e.to_string())?,
            None => Vec::new(),
        };
        // Beyond a full page the record may have more that comes before what the cluster has.
        let until = (found.len() == limit).then(|| found.last().map(|last| RunKey::of(&last.job)));
        let until = until.flatten();
        let mut runs: BTreeMap<RunKey, Found> = found
            .into_iter()
            .map(|found| (RunKey::of(&found.job), found))
            .collect();
        let mut all = Vec::new();
        for row in view.jobs.iter() {
            let key = RunKey::of(row);
            let here =
                after.is_none_or(|after| key > after) && until.is_none_or(|until| key <= until);
            let known = runs.remove(&key);
            if here && matches(filter, row, None) {
                all.push(self.accounted(view, Arc::clone(row), known));
            }
        }
        for found in runs.into_values() {
            let job = Arc::new(found.job.clone());
            all.push(self.accounted(view, job, Some(found)));
        }
        all.sort_by_key(|run| RunKey::of(&run.job));
        all.truncate(limit);
        Ok(all)
    }

    /// Everything about a job's newest run.
    pub(crate) fn report(
        &self,
        view: &View,
        row: Arc<JobView>,
        (watch, details): (bool, bool),
    ) -> UsageReport {
        let running = matches!(row.state, JobState::Running | JobState::Suspended);
        if watch && running {
            self.board.watch(row.nodes.iter().map(|held| &held.name));
        }
        let page = self
            .page()
            .inspect_err(|why| tracing::warn!("{why}"))
            .ok()
            .flatten();
        let found = page.as_ref().and_then(|page| {
            let run = page.run(Wanted::Run(RunKey::of(&row)));
            run.inspect_err(|why| tracing::warn!("{why}"))
                .ok()
                .flatten()
        });
        let mut events = Vec::new();
        let mut series: BTreeMap<NodeName, BTreeMap<_, Series>> = BTreeMap::new();
        if let (true, Some(page), Some(found)) = (details, &page, &found) {
            events = page.events(found).unwrap_or_default();
            series = page.series(found).unwrap_or_default().into_iter().collect();
        }
        if details {
            for held in &row.nodes {
                self.with_part(&row, held, |part| {
                    merge(series.entry(held.name.clone()).or_default(), part.entries());
                });
            }
        }
        let now = if running { self.now(&row) } else { Vec::new() };
        UsageReport {
            record: self.accounted(view, row, found),
            now,
            events: shown(events),
            series: views(series),
        }
    }

    /// Does something with what the board has of a job's part of a node.
    fn with_part<T>(
        &self,
        job: &JobView,
        held: &AllocatedNode,
        of: impl FnOnce(&Part) -> T,
    ) -> Option<T> {
        let slot = self.board.find(&held.name)?;
        let state = slot.state();
        let part = state.part(job.id)?;
        (part.generation() == job.generation).then(|| of(part))
    }

    fn accounted(&self, view: &View, job: Arc<JobView>, found: Option<Found>) -> AccountedJob {
        let (requeued, mut nodes, mut steps) = match found {
            Some(found) => (found.requeued, found.nodes, found.steps),
            None => (None, Vec::new(), Vec::new()),
        };
        let runs = matches!(job.state, JobState::Running | JobState::Suspended);
        let mut live = runs && requeued.is_none();
        for held in &job.nodes {
            let missing = !nodes.iter().any(|node| node.node == held.name);
            let (of_node, of_steps) = self.part_of(view, &job, held).unwrap_or_default();
            if missing && let Some(node) = of_node {
                nodes.push(node);
                live = true;
            }
            for step in of_steps {
                let known = |other: &StepUsage| other.step == step.step && other.node == step.node;
                if !steps.iter().any(known) {
                    steps.push(step);
                }
            }
        }
        AccountedJob {
            job,
            requeued,
            nodes,
            steps,
            live,
        }
    }

    /// What the board has of a job's part of a node.
    fn part_of(
        &self,
        view: &View,
        job: &JobView,
        held: &AllocatedNode,
    ) -> Option<(Option<JobUsage>, Vec<StepUsage>)> {
        let started = job.started?;
        let now = crate::driver::now();
        let ended = job.ended.filter(|_| job.state.is_terminal()).unwrap_or(now);
        let slot = self.board.find(&held.name)?;
        let state = slot.state();
        let part = state.part(job.id)?;
        if part.generation() != job.generation {
            return None;
        }
        let coverage = coverage(ended.0.saturating_sub(started.0), state.age().unwrap_or(0));
        let gpus = view
            .node(held.share.node)
            .map(|node| node.node.inventory.gpus.as_slice());
        let gpus = gpus.unwrap_or_default();
        let own = |index: u32| {
            gpus.get(index as usize)
                .and_then(|gpu: &Gpu| part.gpu(gpu, ended))
        };
        let gpus: Vec<_> = held.share.gpus.iter().filter_map(own).collect();
        let used = part.used();
        let usage = (used.is_some() || !gpus.is_empty()).then(|| JobUsage {
            job: job.id,
            generation: job.generation,
            node: held.name.clone(),
            started,
            ended,
            cpus: held.share.cpus.len(),
            memory_mib: held.share.memory_mib,
            used: used.unwrap_or_default(),
            gpus,
            coverage,
        });
        let here = |step: &&spur_core::api::StepView| {
            let mut shares = step.shares.iter();
            shares.any(|share| share.share.node == held.share.node)
        };
        let steps = job.steps.iter().filter(here).filter_map(|step| {
            Some(StepUsage {
                job: job.id,
                step: step.kind,
                generation: job.generation,
                node: held.name.clone(),
                started: step.started,
                ended: step.ended.unwrap_or(now),
                used: part.step(step.kind)?,
                coverage,
            })
        });
        Some((usage, steps.collect()))
    }

    /// The job's GPUs at this moment.
    fn now(&self, job: &JobView) -> Vec<GpuNow> {
        let mut all = Vec::new();
        for held in &job.nodes {
            let Some(slot) = self.board.find(&held.name) else {
                continue;
            };
            let state = slot.state();
            let Some(part) = state.part(job.id) else {
                continue;
            };
            for gpu in held.share.gpus.iter() {
                let (busy, memory) = part.gpu_now(gpu);
                let share = || u16::try_from(state.level(gpu, Metric::HwUtilization)?).ok();
                all.push(GpuNow {
                    node: held.name.clone(),
                    gpu,
                    age: state.age().unwrap_or(u64::MAX),
                    busy: busy.or_else(share),
                    memory: memory.or_else(|| state.level(gpu, Metric::HwMemory)),
                    power: state.level(gpu, Metric::HwPower),
                });
            }
        }
        all
    }
}

/// The part of the time up to the newest value, in thousandths.
fn coverage(elapsed: u64, age: u64) -> u16 {
    let told = elapsed.saturating_sub(age);
    let share = told.saturating_mul(1000).checked_div(elapsed);
    u16::try_from(share.unwrap_or(1000)).unwrap_or(1000)
}

/// Verdicts and their ends stay; everything does. In order of time, whatever the nodes' clocks.
fn shown(mut events: Vec<NodeEvent>) -> Vec<NodeEvent> {
    events.sort_by_key(|event| event.event.at);
    events
}

fn views(
    series: BTreeMap<NodeName, BTreeMap<(spur_core::api::SeriesKind, Option<u32>), Series>>,
) -> Vec<SeriesView> {
    let whole = |value: i64| u64::try_from(value).unwrap_or(0);
    let point = |point: &spur_core::usage::series::Point| SeriesPoint {
        millis: point.millis,
        mean: whole(point.mean().unwrap_or(0)),
        min: whole(point.min),
        max: whole(point.max),
    };
    let of_node = |(node, all): (NodeName, BTreeMap<_, Series>)| {
        let all = all
            .into_iter()
            .map(move |((kind, gpu), series)| SeriesView {
                node: node.clone(),
                kind,
                gpu,
                step: series.step(),
                points: series.points().iter().map(point).collect(),
            });
        all.collect::<Vec<_>>()
    };
    series.into_iter().flat_map(of_node).collect()
}

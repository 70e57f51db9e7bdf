//! Different parts where neither the nodes with the most room for tasks nor those with the most GPUs hold the job, but others do
//! together: every way is looked at. A job that fits must be found to, however much else is free: what is found by luck is lost when
//! something else is taken.

use super::{Found, Part, Source, deal};
use crate::plan::ask::{Ask, GpuAsk, Need};
use crate::plan::slot::Slot;
use std::collections::BTreeMap;

/// Most steps of one search; a job that needs more waits until the nodes with the most room hold it.
const WORK_MOST: usize = 1 << 22;

/// What a node can give: so many units (GPUs, or tasks where GPUs follow them) with room for so many tasks.
type Options = Vec<(u32, u32)>;

/// Units and tasks of a node with this much room; none if the greatest room tells all.
fn options(slot: &Slot<'_>, ask: &Ask<'_>, found: Found) -> Options {
    let all: Options = match ask.gpus {
        GpuAsk::Total(total) => {
            let each = |gpus| (gpus, slot.tasks_with(ask, gpus).min(found.tasks));
            (1..=found.gpus.min(total)).map(each).collect()
        }
        GpuAsk::PerTask(_) if ask.is_bound() => {
            let tasks = 1..=found.tasks;
            let bound = tasks.filter(|tasks| slot.fits(ask, ask.least_with(*tasks)));
            bound.map(|tasks| (tasks, tasks)).collect()
        }
        GpuAsk::PerTask(_) | GpuAsk::PerNode(_) | GpuAsk::No => Vec::new(),
    };
    all.into_iter().filter(|(_, tasks)| *tasks > 0).collect()
}

/// Units that the job needs in all on so many nodes.
fn units(ask: &Ask<'_>, nodes: u32) -> u32 {
    match ask.gpus {
        GpuAsk::Total(total) => total,
        GpuAsk::PerTask(_) | GpuAsk::PerNode(_) | GpuAsk::No => ask.tasks_on(nodes),
    }
}

/// The least number of nodes (the greatest, if it wants many) that hold the job, and what each gives. Those of `found` that are required
/// stand first.
pub(super) fn parts<'a>(
    source: &impl Source<'a>,
    ask: &Ask<'_>,
    found: &[Found],
    nodes: u32,
) -> Option<Vec<Part>> {
    let most = ask.nodes_max.min(u32::try_from(found.len()).ok()?);
    let wanted = units(ask, most);
    if most < nodes || !may_hold(ask, found, most) {
        return None;
    }
    let required = source.required().len();
    let mut alike: BTreeMap<Options, u32> = BTreeMap::new();
    let mut items: Vec<(usize, Options)> = Vec::new();
    for (at, room) in found.iter().enumerate() {
        let options = options(&source.slot(room.at), ask, *room);
        let seen = alike.entry(options.clone()).or_default();
        *seen += 1;
        if at < required || (*seen <= most && !options.is_empty()) {
            items.push((room.at, options));
        }
    }
    let steps: usize = items.iter().map(|(_, options)| options.len()).sum();
    let states = (most as usize).saturating_mul(wanted as usize + 1);
    if steps.saturating_mul(states) > WORK_MOST {
        return None;
    }
    let ways = Ways::of(&items, required, (most, wanted));
    let holds = |nodes: &u32| ways.tasks(*nodes, units(ask, *nodes)) >= Some(ask.tasks_on(*nodes));
    let count = if ask.widen {
        (nodes..=most).rev().find(holds)
    } else {
        (nodes..=most).find(holds)
    };
    let count = count?;
    let mut chosen = ways.back(&items, count, units(ask, count));
    chosen.sort_unstable();
    let room: Vec<u32> = chosen.iter().map(|(_, (_, tasks))| *tasks).collect();
    let tasks = deal(ask.tasks_on(count), &room)?;
    let parts = chosen
        .into_iter()
        .zip(tasks)
        .map(|((slot, (units, _)), tasks)| {
            let need = match ask.gpus {
                GpuAsk::Total(_) => Need { tasks, gpus: units },
                GpuAsk::PerTask(_) | GpuAsk::PerNode(_) | GpuAsk::No => ask.least_with(units),
            };
            Part { slot, need }
        });
    let parts: Vec<Part> = parts.collect();
    let fits = |part: &Part| source.slot(part.slot).fits(ask, part.need);
    parts.iter().all(fits).then_some(parts)
}

/// Whether the room suffices if tasks and GPUs are counted apart: most jobs that do not fit fail this.
fn may_hold(ask: &Ask<'_>, found: &[Found], nodes: u32) -> bool {
    let most = |of: fn(&Found) -> u32| {
        let mut rooms: Vec<u32> = found.iter().map(of).collect();
        rooms.sort_unstable_by(|a, b| b.cmp(a));
        let best = rooms.into_iter().take(nodes as usize).map(u64::from);
        best.sum::<u64>()
    };
    let gpus = match ask.gpus {
        GpuAsk::Total(total) => most(|found| found.gpus) >= u64::from(total),
        GpuAsk::PerTask(_) => ask.is_bound(),
        GpuAsk::PerNode(_) | GpuAsk::No => false,
    };
    gpus && most(|found| found.tasks) >= u64::from(ask.tasks_on(ask.nodes_min))
}

/// For so many nodes that give so many units together, the most tasks that they have room for.
struct Ways {
    /// Units, from none on.
    width: usize,
    best: Vec<Option<u32>>,
    /// By item, then like `best`: what it gives there, 0 if nothing.
    given: Vec<Vec<u32>>,
}

impl Ways {
    fn of(items: &[(usize, Options)], required: usize, (nodes, units): (u32, u32)) -> Self {
        let width = units as usize + 1;
        let mut ways = Self {
            width,
            best: vec![None; width * (nodes as usize + 1)],
            given: Vec::new(),
        };
        ways.best[0] = Some(0);
        for (at, (_, options)) in items.iter().enumerate() {
            ways.add(options, at < required);
        }
        ways
    }

    /// One more node, which may be left out unless it is required.
    fn add(&mut self, options: &Options, required: bool) {
        let width = self.width;
        let mut given = vec![0; self.best.len()];
        for state in (0..self.best.len()).rev() {
            let (nodes, units) = (state / width, state % width);
            let before = self.best[state].filter(|_| !required);
            let with = options.iter().filter_map(|(own, tasks)| {
                let left = units.checked_sub(*own as usize)?;
                let other = nodes.checked_sub(1)? * width + left;
                let sum = self.best[other]?.saturating_add(*tasks);
                Some((sum, *own))
            });
            let with = with.max_by_key(|(sum, own)| (*sum, std::cmp::Reverse(*own)));
            self.best[state] = before;
            if let Some((sum, own)) = with
                && before.is_none_or(|before| sum > before)
            {
                (self.best[state], given[state]) = (Some(sum), own);
            }
        }
        self.given.push(given);
    }

    fn tasks(&self, nodes: u32, units: u32) -> Option<u32> {
        let state = nodes as usize * self.width + units as usize;
        self.best.get(state).copied().flatten()
    }

    /// Which items, and with which of their options.
    fn back(&self, items: &[(usize, Options)], nodes: u32, units: u32) -> Vec<(usize, (u32, u32))> {
        let mut state = nodes as usize * self.width + units as usize;
        let mut chosen = Vec::new();
        for ((at, options), given) in items.iter().zip(&self.given).rev() {
            let own = given[state];
            if let Some(option) = options.iter().find(|(units, _)| *units == own) {
                chosen.push((*at, *option));
                state -= self.width + own as usize;
            }
        }
        chosen
    }
}

//! Which nodes, and how much of each: all or nothing.

mod exact;
mod near;

use super::ask::{Ask, GpuAsk, Need};
use super::slot::Slot;
use super::topology::Fabric;
use std::cmp::Reverse;

/// A part of a job on the slot with this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) slot: usize,
    pub(crate) need: Need,
}

/// Where candidates come from: positions of slots that may serve, in order of preference.
pub(crate) trait Source<'a> {
    /// Positions of slots that might fit such a part, in order; those that do not are sorted out by the caller.
    fn candidates(&self, ask: &Ask<'_>, need: Need) -> impl Iterator<Item = usize>;
    /// The slot at a position.
    fn slot(&self, position: usize) -> Slot<'a>;
    /// Positions that the job must get, in order, and that count as candidates as well.
    fn required(&self) -> &[usize];

    /// How nodes hang together, if that matters; by default all are equally near.
    fn fabric(&self) -> Option<&Fabric> {
        None
    }

    /// The domain of the fabric that the node at a position hangs on.
    fn leaf(&self, _position: usize) -> Option<usize> {
        None
    }

    /// The place of the node at a position among all nodes in order of their names.
    fn rank(&self, position: usize) -> usize {
        position
    }

    /// The weight of the node at a position: lower ones come first, whatever else speaks for others.
    fn weight(&self, _position: usize) -> u32 {
        1
    }
}

/// Finds nodes for the ask: first fit with equal parts; if that fails, the fewest nodes that hold it with unequal parts.
pub(crate) fn pick<'a>(source: &impl Source<'a>, ask: &Ask<'_>) -> Option<Vec<Part>> {
    let wanted = u32::try_from(source.required().len()).ok()?;
    if wanted > ask.nodes_max {
        return None;
    }
    let nodes = ask.nodes_min.max(wanted);
    // Each node gets one at least.
    if matches!(ask.gpus, GpuAsk::Total(total) if total < nodes) {
        return None;
    }
    if !ask.widen
        && let Some(parts) = equal_parts(source, ask, nodes)
    {
        return Some(parts);
    }
    if ask.nodes_max == 1 {
        None
    } else {
        unequal_parts(source, ask, nodes)
    }
}

fn equal_parts<'a>(source: &impl Source<'a>, ask: &Ask<'_>, nodes: u32) -> Option<Vec<Part>> {
    let need = ask.even_part(nodes);
    let required = source.required();
    if !required.iter().all(|at| source.slot(*at).fits(ask, need)) {
        return None;
    }
    let missing = (nodes as usize).checked_sub(required.len())?;
    let mut free = source
        .candidates(ask, need)
        .filter(|at| required.binary_search(at).is_err())
        .filter(|at| source.slot(*at).fits(ask, need));
    if nodes > 1 && (source.fabric().is_some() || ask.contiguous) {
        let chosen = near::together(source, ask, &free.collect::<Vec<_>>(), nodes as usize)?;
        return deal_out(source, ask, chosen);
    }
    let mut chosen = required.to_vec();
    if missing > 0 {
        chosen.extend(free.by_ref().take(missing));
    }
    if chosen.len() < nodes as usize {
        return None;
    }
    deal_out(source, ask, chosen)
}

/// A slot with the tasks and GPUs of the ask that it has room for.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: usize,
    tasks: u32,
    gpus: u32,
}

/// Nodes with different parts: of those that are near to one another, if that matters.
fn unequal_parts<'a>(source: &impl Source<'a>, ask: &Ask<'_>, nodes: u32) -> Option<Vec<Part>> {
    let required = source.required();
    let room = |at: usize| {
        let slot = source.slot(at);
        let gpus = if matches!(ask.gpus, GpuAsk::Total(_)) {
            slot.gpu_room(ask)
        } else {
            0
        };
        let tasks = slot.task_room(ask);
        Found { at, tasks, gpus }
    };
    let mut found: Vec<Found> = required.iter().map(|at| room(*at)).collect();
    if found.iter().any(|found| found.tasks == 0) {
        return None;
    }
    let others = source
        .candidates(ask, ask.least_part())
        .filter(|at| required.binary_search(at).is_err());
    found.extend(others.map(room).filter(|found| found.tasks > 0));
    if found.len() < nodes as usize {
        return None;
    }
    match source.fabric() {
        Some(fabric) if ask.contiguous && fabric.is_block() => {
            near::in_a_row(source, ask, found, nodes)
        }
        // Segments are of equal nodes.
        Some(fabric) if ask.segment > 1 && fabric.is_block() => None,
        Some(fabric) => near::within_domains(source, fabric, ask, &found, nodes),
        None if ask.contiguous => near::in_a_row(source, ask, found, nodes),
        None => by_room(source, ask, found, nodes),
    }
}

/// Candidates by room, roomiest first; the shortest run of them that holds the job (the longest, if it wants many nodes).
/// Required ones stand first.
fn by_room<'a>(
    source: &impl Source<'a>,
    ask: &Ask<'_>,
    mut found: Vec<Found>,
    nodes: u32,
) -> Option<Vec<Part>> {
    // A job that takes as many nodes as it can get takes the first ones, if those hold it.
    if ask.widen {
        let first = found.get(..found.len().min(ask.nodes_max as usize))?;
        if let Some(parts) = run_of(source, ask, first, nodes) {
            return Some(parts);
        }
    }
    let free = found.get_mut(source.required().len()..)?;
    free.sort_by_key(|found| (Reverse((found.tasks, found.gpus)), found.at));
    let by_tasks = run_of(source, ask, &found, nodes);
    let by_gpus = by_tasks.or_else(|| {
        let free = found.get_mut(source.required().len()..)?;
        free.sort_by_key(|found| (Reverse((found.gpus, found.tasks)), found.at));
        run_of(source, ask, &found, nodes)
    });
    by_gpus.or_else(|| exact::parts(source, ask, &found, nodes))
}

fn run_of<'a>(
    source: &impl Source<'a>,
    ask: &Ask<'_>,
    found: &[Found],
    nodes: u32,
) -> Option<Vec<Part>> {
    let (mut tasks, mut gpus) = (0u64, 0u64);
    let mut best = None;
    for (count, room) in (1u32..).zip(found) {
        tasks += u64::from(room.tasks);
        gpus += u64::from(room.gpus);
        if count < nodes {
            continue;
        }
        if count > ask.nodes_max {
            break;
        }
        let enough_gpus = match ask.gpus {
            GpuAsk::Total(total) => gpus >= u64::from(total) && count <= total.max(1),
            GpuAsk::No | GpuAsk::PerNode(_) | GpuAsk::PerTask(_) => true,
        };
        if enough_gpus && tasks >= u64::from(ask.tasks_on(count)) {
            best = Some(count as usize);
            if !ask.widen {
                break;
            }
        }
    }
    let chosen = found.get(..best?)?.iter().map(|found| found.at).collect();
    deal_out(source, ask, chosen)
}

/// Deals tasks and GPUs out over chosen slots, in node order.
fn deal_out<'a>(
    source: &impl Source<'a>,
    ask: &Ask<'_>,
    mut chosen: Vec<usize>,
) -> Option<Vec<Part>> {
    chosen.sort_unstable();
    let nodes = u32::try_from(chosen.len()).ok()?;
    let room: Vec<u32> = chosen
        .iter()
        .map(|at| source.slot(*at).task_room(ask))
        .collect();
    let tasks = deal(ask.tasks_on(nodes), &room)?;
    let gpus = match ask.gpus {
        GpuAsk::No => vec![0; chosen.len()],
        GpuAsk::PerNode(count) => vec![count; chosen.len()],
        GpuAsk::PerTask(count) => tasks
            .iter()
            .map(|tasks| tasks.saturating_mul(count))
            .collect(),
        GpuAsk::Total(total) => {
            let room: Vec<u32> = chosen
                .iter()
                .map(|at| source.slot(*at).gpu_room(ask))
                .collect();
            deal(total, &room)?
        }
    };
    let parts = chosen.into_iter().zip(tasks.into_iter().zip(gpus));
    let parts = parts.map(|(slot, (tasks, gpus))| Part {
        slot,
        need: Need { tasks, gpus },
    });
    let parts: Vec<Part> = parts.collect();
    // Rooms for tasks and for GPUs were counted apart; where they depend on one another, the sum of both may be too much.
    let holds = |part: &Part| source.slot(part.slot).fits(ask, part.need);
    (!ask.is_bound() || parts.iter().all(holds)).then_some(parts)
}

/// Deals `total` things out one at a time, round and round, never more than each has room for. This is how Slurm counts
/// tasks per node also for its block distribution. `None` if the room does not suffice.
pub(crate) fn deal(total: u32, room: &[u32]) -> Option<Vec<u32>> {
    let mut got = vec![0u32; room.len()];
    let mut left = total;
    while left > 0 {
        let open = got
            .iter()
            .zip(room)
            .filter(|(got, room)| got < room)
            .count();
        let open = u32::try_from(open).ok().filter(|open| *open > 0)?;
        let each = (left / open).max(1);
        for (got, room) in got.iter_mut().zip(room) {
            let more = each.min(room - *got).min(left);
            *got += more;
            left -= more;
        }
    }
    Some(got)
}

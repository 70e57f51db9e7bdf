//! Which nodes, and how much of each: all or nothing.

use super::ask::{Ask, GpuAsk, Need};
use super::slot::Slot;

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
}

/// Finds nodes for the ask: first fit with equal parts; if that fails, the fewest nodes that hold it with unequal parts.
pub(crate) fn pick<'a>(source: &impl Source<'a>, ask: &Ask<'_>) -> Option<Vec<Part>> {
    let wanted = u32::try_from(source.required().len()).ok()?;
    if wanted > ask.nodes_max {
        return None;
    }
    let nodes = ask.nodes_min.max(wanted);
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
    let mut chosen = required.to_vec();
    if missing > 0 {
        let free = source
            .candidates(ask, need)
            .filter(|at| !required.contains(at))
            .filter(|at| source.slot(*at).fits(ask, need));
        chosen.extend(free.take(missing));
    }
    if chosen.len() < nodes as usize {
        return None;
    }
    deal_out(source, ask, chosen)
}

/// Candidates by room, roomiest first; the shortest run of them that holds the job (the longest, if it wants many nodes).
fn unequal_parts<'a>(source: &impl Source<'a>, ask: &Ask<'_>, nodes: u32) -> Option<Vec<Part>> {
    let required = source.required();
    let rooms = |at: usize| {
        let slot = source.slot(at);
        let gpus = if matches!(ask.gpus, GpuAsk::Total(_)) {
            slot.gpu_room(ask)
        } else {
            0
        };
        (at, slot.task_room(ask), gpus)
    };
    let mut found: Vec<(usize, u32, u32)> = required.iter().map(|at| rooms(*at)).collect();
    if found.iter().any(|(_, tasks, _)| *tasks == 0) {
        return None;
    }
    let others = source
        .candidates(ask, ask.least_part())
        .filter(|at| !required.contains(at));
    found.extend(others.map(rooms).filter(|(_, tasks, _)| *tasks > 0));
    let fixed = required.len();
    if found.len() < nodes as usize {
        return None;
    }
    // A job that takes as many nodes as it can get takes the first ones, if those hold it.
    if ask.widen {
        let first = found.get(..found.len().min(ask.nodes_max as usize))?;
        if let Some(parts) = run_of(source, ask, first, nodes) {
            return Some(parts);
        }
    }
    by_tasks_then_gpus(&mut found, fixed);
    run_of(source, ask, &found, nodes).or_else(|| {
        found
            .get_mut(fixed..)?
            .sort_by(|a, b| (b.2, b.1, a.0).cmp(&(a.2, a.1, b.0)));
        run_of(source, ask, &found, nodes)
    })
}

fn by_tasks_then_gpus(found: &mut [(usize, u32, u32)], fixed: usize) {
    if let Some(free) = found.get_mut(fixed..) {
        free.sort_by(|a, b| (b.1, b.2, a.0).cmp(&(a.1, a.2, b.0)));
    }
}

fn run_of<'a>(
    source: &impl Source<'a>,
    ask: &Ask<'_>,
    found: &[(usize, u32, u32)],
    nodes: u32,
) -> Option<Vec<Part>> {
    let (mut tasks, mut gpus) = (0u64, 0u64);
    let mut best = None;
    for (count, (_, task_room, gpu_room)) in (1u32..).zip(found) {
        tasks += u64::from(*task_room);
        gpus += u64::from(*gpu_room);
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
    let chosen = found.get(..best?)?.iter().map(|(at, _, _)| *at).collect();
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
    Some(
        parts
            .map(|(slot, (tasks, gpus))| Part {
                slot,
                need: Need { tasks, gpus },
            })
            .collect(),
    )
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

//! Nodes that are near to one another, or follow one another.

use super::{Found, Part, Source, by_room, run_of};
use crate::plan::ask::{Ask, GpuAsk};
use crate::plan::topology::{self, Candidate, Fabric, Wish};
use std::collections::BTreeSet;

/// Of free slots that would do, and those that are required, so many that are near to one another or follow one another; those
/// of higher weight only if the others do not suffice.
pub(super) fn together<'a>(
    source: &impl Source<'a>,
    ask: &Ask<'_>,
    free: &[usize],
    nodes: usize,
) -> Option<Vec<usize>> {
    let mut weights: Vec<u32> = free.iter().map(|at| source.weight(*at)).collect();
    weights.sort_unstable();
    weights.dedup();
    if weights.is_empty() {
        weights.push(u32::MAX);
    }
    let wish = Wish {
        nodes,
        switches: ask.switches as usize,
        segment: ask.segment as usize,
    };
    weights.into_iter().find_map(|most| {
        let light = free.iter().filter(|at| source.weight(**at) <= most);
        let light = light.map(|at| candidate(source, *at, false));
        let fixed = source.required().iter();
        let fixed = fixed.map(|at| candidate(source, *at, true));
        let candidates: Vec<Candidate> = fixed.chain(light).collect();
        if candidates.len() < nodes {
            return None;
        }
        match source.fabric() {
            // As Slurm, whose trees know no order of nodes.
            Some(fabric) if !(ask.contiguous && fabric.is_block()) => {
                topology::choose(fabric, &candidates, wish)
            }
            Some(_) | None => topology::in_a_row(&candidates, |at| source.rank(at), nodes),
        }
    })
}

fn candidate<'a>(source: &impl Source<'a>, position: usize, required: bool) -> Candidate {
    Candidate {
        position,
        leaf: source.leaf(position),
        required,
    }
}

/// Different parts on nodes of the smallest domain that holds them; of a job that takes as many nodes as there are, on those
/// of the smallest that has all it wants, else of the largest.
pub(super) fn within_domains<'a>(
    source: &impl Source<'a>,
    fabric: &Fabric,
    ask: &Ask<'_>,
    found: &[Found],
    nodes: u32,
) -> Option<Vec<Part>> {
    let required = source.required();
    let measured: Vec<(Candidate, [u64; 3])> = found
        .iter()
        .map(|found| {
            let required = required.binary_search(&found.at).is_ok();
            let measure = [1, u64::from(found.tasks), u64::from(found.gpus)];
            (candidate(source, found.at, required), measure)
        })
        .collect();
    let gpus = match ask.gpus {
        GpuAsk::Total(total) => u64::from(total),
        GpuAsk::No | GpuAsk::PerNode(_) | GpuAsk::PerTask(_) => 0,
    };
    let least = |nodes: u32| [u64::from(nodes), u64::from(ask.tasks_on(nodes)), gpus];
    let mut wanted = vec![topology::domains_that_hold(fabric, &measured, least(nodes))];
    if ask.widen {
        wanted[0].reverse();
        let all = topology::domains_that_hold(fabric, &measured, least(ask.nodes_max));
        wanted.insert(0, all);
    }
    wanted.into_iter().flatten().find_map(|domain| {
        let here = found
            .iter()
            .filter(|found| fabric.is_below(source.leaf(found.at), domain));
        let parts = by_room(source, ask, here.copied().collect(), nodes)?;
        let leaves = parts.iter().map(|part| source.leaf(part.slot));
        let leaves: BTreeSet<Option<usize>> = leaves.collect();
        (ask.switches == 0 || leaves.len() <= ask.switches as usize).then_some(parts)
    })
}

/// Different parts on nodes that follow one another.
pub(super) fn in_a_row<'a>(
    source: &impl Source<'a>,
    ask: &Ask<'_>,
    mut found: Vec<Found>,
    nodes: u32,
) -> Option<Vec<Part>> {
    found.sort_by_key(|found| source.rank(found.at));
    let required = source.required();
    let mut runs = found.chunk_by(|a, b| source.rank(a.at) + 1 == source.rank(b.at));
    runs.find_map(|run| {
        (0..run.len()).find_map(|start| {
            let parts = run_of(source, ask, run.get(start..)?, nodes)?;
            let got = parts
                .iter()
                .filter(|part| required.binary_search(&part.slot).is_ok());
            (got.count() == required.len()).then_some(parts)
        })
    })
}

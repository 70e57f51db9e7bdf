//! Nodes that follow one another (`--contiguous`).

use super::Candidate;

/// So many candidates that follow one another in the order of all nodes, with all that are required, from the shortest run that
/// holds them. `rank` is a candidate's place in that order.
pub(crate) fn in_a_row(
    candidates: &[Candidate],
    rank: impl Fn(usize) -> usize,
    nodes: usize,
) -> Option<Vec<usize>> {
    let mut sorted: Vec<(usize, Candidate)> = candidates
        .iter()
        .map(|candidate| (rank(candidate.position), *candidate))
        .collect();
    sorted.sort_unstable_by_key(|(rank, _)| *rank);
    sorted.dedup_by_key(|(rank, _)| *rank);
    let required = candidates
        .iter()
        .filter(|candidate| candidate.required)
        .count();
    let holds = |run: &&[(usize, Candidate)]| {
        let here = run
            .iter()
            .filter(|(_, candidate)| candidate.required)
            .count();
        run.len() >= nodes && here == required
    };
    let runs = sorted.chunk_by(|a, b| a.0 + 1 == b.0);
    let run = runs.filter(holds).min_by_key(|run| run.len())?;
    let first = run.iter().position(|(_, candidate)| candidate.required);
    let start = first.unwrap_or(0).min(run.len() - nodes);
    let chosen = run.get(start..start + nodes)?;
    let got = chosen
        .iter()
        .filter(|(_, candidate)| candidate.required)
        .count();
    let positions = chosen.iter().map(|(_, candidate)| candidate.position);
    (got == required).then(|| positions.collect())
}

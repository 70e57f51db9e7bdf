//! `PMI_process_mapping`: which task is on which node, as MPICH's processes are told: `(vector,(first node,nodes,tasks on each),…)`,
//! repeated until every task has its node.

use super::VALUE_MAX;

/// A run of nodes with as many consecutive tasks each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    node: usize,
    nodes: usize,
    tasks: usize,
}

/// The mapping of a step's tasks, given by node; `None` when it cannot be said in a value, and processes look at host names instead.
pub fn mapping(tasks: &[&[u32]]) -> Option<String> {
    let mut places: Vec<(u32, usize)> = Vec::new();
    for (node, ids) in tasks.iter().enumerate() {
        places.extend(ids.iter().map(|id| (*id, node)));
    }
    places.sort_unstable();
    let whole = blocks(&places);
    let once = blocks(&places[..period(&places)]);
    // Every reader goes round, but what is as short without that is said without.
    let said = if once.len() < whole.len() {
        once
    } else {
        whole
    };
    let text: String = said
        .iter()
        .map(|block| format!(",({},{},{})", block.node, block.nodes, block.tasks))
        .collect();
    let text = format!("(vector{text})");
    (!said.is_empty() && text.len() < VALUE_MAX).then_some(text)
}

fn blocks(places: &[(u32, usize)]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for run in places.chunk_by(|(_, a), (_, b)| a == b) {
        let (node, tasks) = (run[0].1, run.len());
        match blocks.last_mut() {
            Some(last) if last.node + last.nodes == node && last.tasks == tasks => last.nodes += 1,
            Some(_) | None => blocks.push(Block {
                node,
                nodes: 1,
                tasks,
            }),
        }
    }
    blocks
}

/// After how many tasks the nodes come in the same order again: the length less its longest beginning that is also its end.
fn period(places: &[(u32, usize)]) -> usize {
    let node = |at: usize| places[at].1;
    // By length of a beginning: of its own beginnings, the longest that is also its end.
    let mut longest = vec![0; places.len() + 1];
    for at in 1..places.len() {
        let mut same = longest[at];
        while same > 0 && node(same) != node(at) {
            same = longest[same];
        }
        longest[at + 1] = same + usize::from(node(same) == node(at));
    }
    places.len() - longest[places.len()]
}

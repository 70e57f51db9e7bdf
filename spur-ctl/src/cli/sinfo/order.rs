//! The order of `sinfo`'s lines: one stable sort for each letter of `-S`, the last letter first. Letters that mean nothing sort
//! nothing, as in Slurm.

use crate::cli::render::View;
use crate::cli::render::node_columns::{self, TABLE};
use crate::cli::render::node_groups::Group;
use crate::cli::render::node_text::state_number;
use spur_core::slurm::codes::node_state::State;
use std::cmp::Ordering;

/// Order of the lines if none is asked for.
pub const DEFAULT: &str = "#P,-t";
/// The same with one line for each node.
pub const NODES: &str = "N";

/// Sorts the lines.
pub fn sort(view: &View, groups: &mut [Group], list: &str) {
    let letters: Vec<char> = list.chars().collect();
    for (at, letter) in letters.iter().enumerate().rev() {
        if matches!(letter, ',' | '#' | '+' | '-') {
            continue;
        }
        let before = at.checked_sub(1).map(|at| letters[at]);
        let descending = before == Some('-');
        let configured = before == Some('#');
        groups.sort_by(|a, b| {
            let order = compare(view, *letter, configured, a, b);
            if descending { order.reverse() } else { order }
        });
    }
}

fn compare(view: &View, letter: char, configured: bool, a: &Group, b: &Group) -> Ordering {
    let number = |read: fn(&Group) -> u64| read(a).cmp(&read(b));
    match letter {
        'P' | 'R' if configured => a.partition.0.cmp(&b.partition.0),
        'P' | 'R' => a.partition.1.name.cmp(&b.partition.1.name),
        't' | 'T' => number(|group| state(group).into()),
        'N' | 'n' | 'o' => by_first_node(a, b),
        'D' => number(|group| group.nodes.len() as u64),
        'A' | 'F' => {
            number(|group| crate::cli::render::node_groups::node_counts(&group.nodes)[0] as u64)
        }
        'c' => number(|group| least(group, |node| node.inventory.cpus.into())),
        'm' => number(|group| least(group, |node| node.inventory.memory_mib)),
        'e' => number(|group| least(group, |node| node.free_mib)),
        'O' => number(|group| least(group, |node| node.load_x100.into())),
        'X' | 'z' => number(|group| least(group, |node| node.inventory.sockets.into())),
        'Y' => number(|group| least(group, |node| node.inventory.cores_per_socket.into())),
        'Z' => number(|group| least(group, |node| node.inventory.threads_per_core.into())),
        'w' => number(|group| {
            let weights = group.nodes.iter().map(|node| u64::from(node.weight.max(1)));
            weights.min().unwrap_or(0)
        }),
        'l' => a.partition.1.max_time.cmp(&b.partition.1.max_time),
        'p' => a
            .partition
            .1
            .priority_tier
            .cmp(&b.partition.1.priority_tier),
        's' => a.partition.1.min_nodes.cmp(&b.partition.1.min_nodes),
        'S' => number(|group| group.partition.1.priority_job_factor.unwrap_or(1).into()),
        'H' => number(|group| {
            let first = group.nodes.first().and_then(|node| node.node.reason_by);
            first.map_or(0, |(_, at)| at.0)
        }),
        'a' | 'b' | 'E' | 'f' | 'g' | 'h' | 'M' | 'r' | 'u' | 'U' | 'V' => text(view, letter, a, b),
        _ => Ordering::Equal,
    }
}

fn state(group: &Group) -> u32 {
    group
        .nodes
        .first()
        .map_or(0, |node| state_number(&State::of(node)))
}

fn least(group: &Group, read: impl Fn(&spur_core::node::Node) -> u64) -> u64 {
    let all = group.nodes.iter().map(|node| read(&node.node));
    all.min().unwrap_or(0)
}

fn by_first_node(a: &Group, b: &Group) -> Ordering {
    match (a.nodes.first(), b.nodes.first()) {
        (Some(a), Some(b)) => node_columns::by_node(&a.node.name, &b.node.name),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn text(view: &View, letter: char, a: &Group, b: &Group) -> Ordering {
    let column = TABLE.columns().find(|column| column.letter == Some(letter));
    column.map_or(Ordering::Equal, |column| {
        column.text(view, a).cmp(&column.text(view, b))
    })
}

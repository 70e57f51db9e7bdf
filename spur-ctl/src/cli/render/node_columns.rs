//! The columns of `sinfo`.

use super::format::{Column, Key};
use super::node_groups::{Group, cpu_counts, node_counts};
use super::node_text::{comment, features, load, rank, reason_by, topology};
use super::show_partition::limited;
use super::{View, or_null};
use spur_core::api::NodeView;
use spur_core::id::NodeName;
use spur_core::partition::{Partition, PartitionState};
use spur_core::resources::Inventory;
use spur_core::slurm::codes::node_state::{self, State};
use spur_core::slurm::{gres, hostlist, timespec};
use spur_core::time::TimeLimit;
use std::cmp::Ordering;
use std::sync::Arc;

/// `sinfo`; `#` stands for the width of the longest name, at least 9.
pub const DEFAULT: &str = "%#P %.5a %.10l %.6D %.6t %N";
/// `sinfo -l`.
pub const LONG: &str = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N";
/// `sinfo -s`.
pub const SUMMARY: &str = "%#P %.5a %.10l %.16F %N";
/// `sinfo -N`.
pub const NODES: &str = "%#N %.6D %.#P %6t";
/// `sinfo -N -l`.
pub const NODES_LONG: &str = "%#N %.6D %.#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E";
/// `sinfo -R`.
pub const REASONS: &str = "%20E %9u %19H %N";
/// `sinfo -R -l`.
pub const REASONS_LONG: &str = "%20E %12U %19H %6t %N";
/// Order of the lines.
pub const SORT: &str = "P,-t";
/// Order of the lines of `-N`.
pub const SORT_NODES: &str = "N";

type Names = &'static [&'static str];
type Cell = fn(&View, &Group) -> String;

const fn column(letter: char, names: Names, header: &'static str, cell: Cell) -> Column<Group> {
    Column {
        letter: Some(letter),
        names,
        header,
        cell,
        key: None,
    }
}

const fn sorted(
    letter: char,
    names: Names,
    header: &'static str,
    cell: Cell,
    key: fn(&Group) -> Key,
) -> Column<Group> {
    Column {
        letter: Some(letter),
        names,
        header,
        cell,
        key: Some(key),
    }
}

const fn named(names: Names, header: &'static str, cell: Cell) -> Column<Group> {
    Column {
        letter: None,
        names,
        header,
        cell,
        key: None,
    }
}

/// Whether a column says something of the partition.
pub fn of_partition(column: &Column<Group>) -> bool {
    column
        .letter
        .is_some_and(|letter| "aghIlLMpPrRsSB".contains(letter))
}

/// Whether nodes that differ in this column get lines of their own; `exact` adds sizes.
pub fn tells_apart(column: &Column<Group>, exact: bool) -> bool {
    match column.letter {
        Some(letter) => "tTEHuUGfbno".contains(letter) || (exact && "cmdwXYZzOe".contains(letter)),
        None => !matches!(column.names.first(), Some(&"AllocMem")) || exact,
    }
}

/// Names in Slurm's order: by prefix, then by number.
pub fn by_node(a: &NodeName, b: &NodeName) -> Ordering {
    fn parts(name: &NodeName) -> (&str, u64, &str) {
        let name = name.as_str();
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        (
            &name[..digits],
            name[digits..].parse().unwrap_or(u64::MAX),
            name,
        )
    }
    parts(a).cmp(&parts(b))
}

fn partition(group: &Group) -> &Partition {
    &group.partition.1
}

fn marked(_: &View, group: &Group) -> String {
    format!(
        "{}{}",
        partition(group).name,
        if partition(group).default { "*" } else { "" }
    )
}

fn by_partition(group: &Group) -> Key {
    Key::Number(group.partition.0 as i128)
}

fn availability(_: &View, group: &Group) -> String {
    match partition(group).state {
        PartitionState::Up => "up",
        PartitionState::Down => "down",
        PartitionState::Drain => "drain",
        PartitionState::Inactive => "inact",
    }
    .to_owned()
}

fn limit(limit: TimeLimit) -> String {
    match limit {
        TimeLimit::Unlimited => "infinite".to_owned(),
        TimeLimit::Secs(_) => timespec::limit(limit),
    }
}

fn default_limit(_: &View, group: &Group) -> String {
    partition(group)
        .default_time
        .map_or_else(|| "n/a".to_owned(), limit)
}

fn first(group: &Group, text: impl Fn(&NodeView) -> String) -> String {
    group
        .nodes
        .first()
        .map(|node| text(node))
        .unwrap_or_default()
}

/// The least of a size in the group, with `+` if some node has more.
fn least(group: &Group, size: impl Fn(&Inventory) -> u64) -> String {
    let sizes = || group.nodes.iter().map(|node| size(&node.node.inventory));
    match (sizes().min(), sizes().max()) {
        (Some(min), Some(max)) if min < max => format!("{min}+"),
        (Some(min), _) => min.to_string(),
        (None, _) => "0".to_owned(),
    }
}

/// The range of a reading in the group.
fn range<T: Ord + Copy>(
    group: &Group,
    read: impl Fn(&NodeView) -> T,
    show: impl Fn(T) -> String,
) -> String {
    let all = || group.nodes.iter().map(|node| read(node));
    match (all().min(), all().max()) {
        (Some(min), Some(max)) if min < max => format!("{}-{}", show(min), show(max)),
        (Some(min), _) => show(min),
        (None, _) => "N/A".to_owned(),
    }
}

fn state(group: &Group, text: impl Fn(&NodeView) -> String) -> String {
    group
        .nodes
        .first()
        .map_or_else(|| "n/a".to_owned(), |node| text(node))
}

fn by_state(group: &Group) -> Key {
    let rank = group.nodes.first().map(|node| rank(State::of(node).base));
    Key::Number(rank.unwrap_or(0).into())
}

fn node_list(_: &View, group: &Group) -> String {
    let names: Vec<&str> = group
        .nodes
        .iter()
        .map(|node| node.node.name.as_str())
        .collect();
    hostlist::compress(&names)
}

fn by_first_node(group: &Group) -> Key {
    let name = group
        .nodes
        .first()
        .map(|node| node.node.name.as_str())
        .unwrap_or_default();
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    Key::Text(format!("{} {:0>20}", &name[..digits], &name[digits..]))
}

fn shares(counts: &[impl std::fmt::Display]) -> String {
    counts
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("/")
}

fn cpus(_: &View, group: &Group) -> String {
    shares(&cpu_counts(&group.nodes))
}

fn nodes(_: &View, group: &Group) -> String {
    shares(&node_counts(&group.nodes))
}

fn busy_and_free(_: &View, group: &Group) -> String {
    shares(&node_counts(&group.nodes)[..2])
}

fn why(_: &View, group: &Group) -> String {
    let text = first(group, |node| node_state::reason(node).into_owned());
    if text.is_empty() {
        "none".to_owned()
    } else {
        text
    }
}

fn by_whom(view: &View, node: &NodeView, show: impl Fn(u32, String) -> String) -> String {
    let by = node
        .node
        .reason_by
        .map(|(uid, _)| show(uid.0, view.user(uid)));
    by.unwrap_or_else(|| "Unknown".to_owned())
}

fn when(view: &View, node: &NodeView) -> String {
    reason_by(view, node).map_or_else(|| "Unknown".to_owned(), |(_, at)| at)
}

fn gpus(_: &View, group: &Group) -> String {
    first(group, |node| gres::of_node(&node.node.inventory))
}

fn gpus_used(_: &View, group: &Group) -> String {
    first(group, |node| {
        gres::with_index(&node.node.inventory.gpus, &node.node.gpus_used)
    })
}

fn free_memory(_: &View, group: &Group) -> String {
    range(group, |node| node.node.free_mib, |mib| mib.to_string())
}

fn cpu_load(_: &View, group: &Group) -> String {
    range(group, |node| node.node.load_x100, load)
}

fn fixed(text: &'static str) -> String {
    text.to_owned()
}

/// Nodes of a job: `1-infinite`, `2-4`, `2`.
fn job_size(partition: &Partition) -> String {
    match (partition.min_nodes.max(1), partition.max_nodes) {
        (least, 0) => format!("{least}-infinite"),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least}-{most}"),
    }
}

/// The least weight, with `+` if some node has more.
fn weight(_: &View, group: &Group) -> String {
    let weights = || group.nodes.iter().map(|node| node.weight.max(1));
    match (weights().min(), weights().max()) {
        (Some(min), Some(max)) if min < max => format!("{min}+"),
        (Some(min), _) => min.to_string(),
        (None, _) => "0".to_owned(),
    }
}

/// Every column.
pub static COLUMNS: &[Column<Group>] = &[
    column('a', &["Available"], "AVAIL", availability),
    column('b', &["features_act"], "ACTIVE_FEATURES", |_, g| {
        first(g, features)
    }),
    column('c', &["CPUs"], "CPUS", |_, g| {
        least(g, |inventory| inventory.cpus.into())
    }),
    column('d', &["Disk"], "TMP_DISK", |_, _| fixed("0")),
    column('e', &["FreeMem"], "FREE_MEM", free_memory),
    column('f', &["Features"], "AVAIL_FEATURES", |_, g| {
        first(g, features)
    }),
    column('g', &["Groups"], "GROUPS", |_, _| fixed("all")),
    column('h', &["OverSubscribe"], "OVERSUBSCRIBE", |_, _| fixed("NO")),
    column('i', &["Reservation"], "RESERVATION", |_, _| String::new()),
    column('l', &["Time"], "TIMELIMIT", |_, g| {
        limit(partition(g).max_time)
    }),
    column('m', &["Memory"], "MEMORY", |_, g| {
        least(g, |inventory| inventory.memory_mib)
    }),
    column('n', &["NodeHost"], "HOSTNAMES", |_, g| {
        first(g, |n| n.node.hostname.clone())
    }),
    column('o', &["NodeAddr"], "NODE_ADDR", |_, g| {
        first(g, |n| n.node.hostname.clone())
    }),
    column('p', &["PriorityTier"], "PRIO_TIER", |_, g| {
        partition(g).priority_tier.to_string()
    }),
    column('r', &["Root"], "ROOT", |_, _| fixed("no")),
    column('s', &["Size"], "JOB_SIZE", |_, g| job_size(partition(g))),
    sorted(
        't',
        &["StateCompact"],
        "STATE",
        |_, g| state(g, node_state::compact),
        by_state,
    ),
    column('u', &["User"], "USER", |v, g| {
        first(g, |n| by_whom(v, n, |_, name| name))
    }),
    column('v', &["Version"], "VERSION", |_, g| {
        first(g, |n| n.node.version.clone())
    }),
    column('w', &["Weight"], "WEIGHT", weight),
    column('z', &["SocketCoreThread"], "S:C:T", |_, g| {
        first(g, |n| topology(&n.node.inventory))
    }),
    column('A', &["NodeAI"], "NODES(A/I)", busy_and_free),
    column('B', &["MaxCPUsPerNode"], "MAX_CPUS_PER_NODE", |_, g| {
        limited(partition(g).max_cpus_per_node)
    }),
    column('C', &["CPUsState"], "CPUS(A/I/O/T)", cpus),
    sorted(
        'D',
        &["Nodes"],
        "NODES",
        |_, g| g.nodes.len().to_string(),
        |g| Key::Number(g.nodes.len() as i128),
    ),
    column('E', &["Reason"], "REASON", why),
    column('F', &["NodeAIOT"], "NODES(A/I/O/T)", nodes),
    column('G', &["Gres"], "GRES", gpus),
    column('H', &["TimeStamp"], "TIMESTAMP", |v, g| {
        first(g, |n| when(v, n))
    }),
    column('I', &["PriorityJobFactor"], "PRIO_JOB_FACTOR", |_, _| {
        fixed("1")
    }),
    column('L', &["DefaultTime"], "DEFAULTTIME", default_limit),
    column('M', &["PreemptMode"], "PREEMPT_MODE", |_, _| fixed("OFF")),
    sorted('N', &["NodeList"], "NODELIST", node_list, by_first_node),
    column('O', &["CPUsLoad"], "CPU_LOAD", cpu_load),
    sorted('P', &["Partition"], "PARTITION", marked, by_partition),
    sorted(
        'R',
        &["PartitionName"],
        "PARTITION",
        |_, g| partition(g).name.clone(),
        by_partition,
    ),
    column('S', &["AllocNodes"], "ALLOCNODES", |_, _| fixed("all")),
    sorted(
        'T',
        &["StateLong"],
        "STATE",
        |_, g| state(g, node_state::long),
        by_state,
    ),
    column('U', &["UserLong"], "USER", |v, g| {
        first(g, |n| by_whom(v, n, |uid, name| format!("{name}({uid})")))
    }),
    column('V', &["Cluster"], "CLUSTER", |_, _| fixed("N/A")),
    column('X', &["Sockets"], "SOCKETS", |_, g| {
        least(g, |inventory| inventory.sockets.into())
    }),
    column('Y', &["Cores"], "CORES", |_, g| {
        least(g, |inventory| inventory.cores_per_socket.into())
    }),
    column('Z', &["Threads"], "THREADS", |_, g| {
        least(g, |inventory| inventory.threads_per_core.into())
    }),
    named(&["AllocMem"], "ALLOCMEM", |_, g| {
        g.nodes
            .iter()
            .map(|node| node.node.memory_used)
            .sum::<u64>()
            .to_string()
    }),
    named(&["Comment"], "COMMENT", |_, g| {
        first(g, |n| or_null(comment(n).unwrap_or("")).to_owned())
    }),
    named(&["Extra"], "EXTRA", |_, _| fixed("(null)")),
    named(&["Fence"], "FENCE", |_, g| {
        state(g, |n| node_state::fence(n).to_owned())
    }),
    named(&["FenceNote"], "FENCE_NOTE", |_, g| {
        first(g, |n| or_null(&n.node.fence_note).to_owned())
    }),
    named(&["GresUsed"], "GRES_USED", gpus_used),
    named(&["Port"], "PORT", |_, _| fixed("0")),
    named(&["StateComplete"], "STATE", |_, g| {
        state(g, |n| node_state::with_flags(n).to_ascii_lowercase())
    }),
];

/// Replaces `#` in a format by the width of the longest name that its column shows, at least 9.
pub fn with_widths(format: &str, partitions: &[Arc<Partition>], nodes: &[Arc<NodeView>]) -> String {
    let longest = |names: &mut dyn Iterator<Item = usize>| names.max().unwrap_or(0).max(9);
    let partition = longest(
        &mut partitions
            .iter()
            .map(|p| p.name.len() + usize::from(p.default)),
    );
    let node = longest(&mut nodes.iter().map(|n| n.node.name.as_str().len()));
    format
        .replace("#P", &format!("{partition}P"))
        .replace("#N", &format!("{node}N"))
}

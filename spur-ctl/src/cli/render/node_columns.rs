//! The columns of `sinfo`.

use super::format::{Cell, Column, Table};
use super::node_groups::{Group, cpu_counts, node_counts};
use super::node_text::{comment, features, load, reason_by, topology};
use super::show_partition::limited;
use super::{View, or_null};
use spur_core::api::NodeView;
use spur_core::id::NodeName;
use spur_core::partition::{Partition, PartitionState};
use spur_core::resources::Inventory;
use spur_core::slurm::codes::node_state;
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

type Names = &'static [&'static str];
type Text = fn(&View, &Group) -> String;

const fn column(letter: char, names: Names, header: &'static str, cell: Text) -> Column<Group> {
    Column::new(Some(letter), names, header, Cell::Text(cell))
}

const fn named(names: Names, header: &'static str, cell: Text) -> Column<Group> {
    Column::new(None, names, header, Cell::Text(cell))
}

const fn fixed(
    letter: char,
    names: Names,
    header: &'static str,
    text: &'static str,
) -> Column<Group> {
    Column::new(Some(letter), names, header, Cell::Fixed(text))
}

/// `-O all`: every letter, those in upper case with a blank behind, as Slurm has it.
pub const ALL: &str = "%a|%b|%c|%d|%e|%f|%g|%h|%i|%l|%m|%n|%o|%p|%r|%s|%t|%u|%v|%w|%z|\
    %A |%B |%C |%D |%E |%F |%G |%H |%I |%L |%M |%N |%O |%P |%R |%S |%T |%U |%V |%X |%Y |%Z ";

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
        None => true,
    }
}

/// Names in Slurm's order: by prefix, then by number.
pub fn by_node(a: &NodeName, b: &NodeName) -> Ordering {
    by_name(a.as_str(), b.as_str())
}

/// The same of names that are texts.
pub fn by_name(a: &str, b: &str) -> Ordering {
    fn parts(name: &str) -> (&str, u64, &str) {
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

fn availability(_: &View, group: &Group) -> String {
    match partition(group).state {
        PartitionState::Up => "up",
        PartitionState::Down => "down",
        PartitionState::Drain => "drain",
        PartitionState::Inactive => "inactive",
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

fn node_list(_: &View, group: &Group) -> String {
    let names: Vec<&str> = group
        .nodes
        .iter()
        .map(|node| node.node.name.as_str())
        .collect();
    hostlist::compress(&names)
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

/// Nodes of a job: `1-infinite`, `2-4`, `2`.
fn job_size(partition: &Partition) -> String {
    match (partition.min_nodes.max(1), partition.max_nodes) {
        (least, 0) => format!("{least}-infinite"),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least}-{most}"),
    }
}

/// A list of names, or `all`.
fn or_all(names: &[String]) -> String {
    if names.is_empty() {
        "all".to_owned()
    } else {
        names.join(",")
    }
}

fn alloc_nodes(_: &View, group: &Group) -> String {
    match partition(group).alloc_nodes.as_str() {
        "" => "all".to_owned(),
        hosts => hosts.to_owned(),
    }
}

fn preempt_mode(_: &View, group: &Group) -> String {
    match partition(group).preempt_mode.as_str() {
        "" => "OFF".to_owned(),
        mode => mode.to_owned(),
    }
}

fn sharing(partition: &Partition) -> String {
    match partition.over_subscribe.as_str() {
        "" => "NO".to_owned(),
        how => how.to_owned(),
    }
}

fn reserved(node: &NodeView) -> String {
    node.reservations.join(",")
}

/// Memory of the jobs on the last node, as Slurm has it.
fn allocated_memory(_: &View, group: &Group) -> String {
    let last = group.nodes.last().map(|node| node.node.memory_used);
    last.unwrap_or(0).to_string()
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

/// Every column, in the order in which `--helpformat` lists them.
pub static TABLE: Table<Group> = Table {
    parts: &[COLUMNS],
    bad_letter: "Invalid node format specification",
    bad_name: "Invalid job format specification",
};

static COLUMNS: &[Column<Group>] = &[
    named(&["AllocMem"], "ALLOCMEM", allocated_memory),
    column('S', &["AllocNodes"], "ALLOCNODES", alloc_nodes),
    column('a', &["Available"], "AVAIL", availability),
    fixed('V', &["Cluster"], "CLUSTER", "N/A"),
    named(&["Comment"], "COMMENT", |_, g| {
        first(g, |n| or_null(comment(n).unwrap_or("")).to_owned())
    }),
    column('Y', &["Cores"], "CORES", |_, g| {
        least(g, |i| i.cores_per_socket.into())
    }),
    column('c', &["CPUs"], "CPUS", |_, g| least(g, |i| i.cpus.into())),
    column('O', &["CPUsLoad"], "CPU_LOAD", cpu_load),
    column('C', &["CPUsState"], "CPUS(A/I/O/T)", cpus),
    column('L', &["DefaultTime"], "DEFAULTTIME", default_limit),
    fixed('d', &["Disk"], "TMP_DISK", "0"),
    named(&["Extra"], "EXTRA", |_, g| {
        first(g, |n| or_null(&n.extra).to_owned())
    }),
    column('f', &["Features"], "AVAIL_FEATURES", |_, g| {
        first(g, features)
    }),
    column('b', &["features_act"], "ACTIVE_FEATURES", |_, g| {
        first(g, features)
    }),
    column('e', &["FreeMem"], "FREE_MEM", free_memory),
    column('G', &["Gres"], "GRES", gpus),
    column('G', &["GresUsed"], "GRES_USED", gpus_used),
    column('g', &["Groups"], "GROUPS", |_, g| {
        or_all(&partition(g).allow_groups)
    }),
    column('B', &["MaxCPUsPerNode"], "MAX_CPUS_PER_NODE", |_, g| {
        limited(partition(g).max_cpus_per_node)
    }),
    column('m', &["Memory"], "MEMORY", |_, g| {
        least(g, |i| i.memory_mib)
    }),
    column('o', &["NodeAddr"], "NODE_ADDR", |_, g| {
        first(g, |n| n.node.hostname.clone())
    }),
    column('A', &["NodeAI"], "NODES(A/I)", busy_and_free),
    column('F', &["NodeAIOT"], "NODES(A/I/O/T)", nodes),
    column('n', &["NodeHost"], "HOSTNAMES", |_, g| {
        first(g, |n| n.node.hostname.clone())
    }),
    column('N', &["NodeList"], "NODELIST", node_list).whole_if(|_| true),
    column('D', &["Nodes"], "NODES", |_, g| g.nodes.len().to_string()),
    column('h', &["OverSubscribe", "Share"], "OVERSUBSCRIBE", |_, g| {
        sharing(partition(g))
    }),
    column('P', &["Partition"], "PARTITION", marked),
    column('R', &["PartitionName"], "PARTITION", |_, g| {
        partition(g).name.clone()
    }),
    Column::new(None, &["Port"], "PORT", Cell::Fixed("0")),
    column('M', &["PreemptMode"], "PREEMPT_MODE", preempt_mode),
    column('I', &["PriorityJobFactor"], "PRIO_JOB_FACTOR", |_, g| {
        partition(g).priority_job_factor.unwrap_or(1).to_string()
    }),
    column('p', &["PriorityTier"], "PRIO_TIER", |_, g| {
        partition(g).priority_tier.to_string()
    }),
    column('E', &["Reason"], "REASON", why),
    column('i', &["Reservation"], "RESERVATION", |_, g| {
        first(g, reserved)
    }),
    column('r', &["Root"], "ROOT", |_, g| {
        if partition(g).root_only { "yes" } else { "no" }.to_owned()
    }),
    column('s', &["Size"], "JOB_SIZE", |_, g| job_size(partition(g))),
    column('X', &["Sockets"], "SOCKETS", |_, g| {
        least(g, |i| i.sockets.into())
    }),
    column('z', &["SocketCoreThread"], "S:C:T", |_, g| {
        first(g, |n| topology(&n.node.inventory))
    }),
    column('t', &["StateCompact"], "STATE", |_, g| {
        state(g, node_state::compact)
    }),
    named(&["StateComplete"], "STATECOMPLETE", |_, g| {
        state(g, |n| node_state::with_flags(n).to_ascii_lowercase())
    }),
    column('T', &["StateLong"], "STATE", |_, g| {
        state(g, node_state::long)
    }),
    column('Z', &["Threads"], "THREADS", |_, g| {
        least(g, |i| i.threads_per_core.into())
    }),
    column('l', &["Time"], "TIMELIMIT", |_, g| {
        limit(partition(g).max_time)
    }),
    column('H', &["TimeStamp"], "TIMESTAMP", |v, g| {
        first(g, |n| when(v, n))
    }),
    column('u', &["User"], "USER", |v, g| {
        first(g, |n| by_whom(v, n, |_, name| name))
    }),
    column('U', &["UserLong"], "USER", |v, g| {
        first(g, |n| by_whom(v, n, |uid, name| format!("{name}({uid})")))
    }),
    fixed('v', &["Version"], "VERSION", super::SLURM_LEVEL),
    column('w', &["Weight"], "WEIGHT", weight),
    named(&["Fence"], "FENCE", |_, g| {
        state(g, |n| node_state::fence(n).to_owned())
    })
    .hidden(),
    named(&["FenceNote"], "FENCE_NOTE", |_, g| {
        first(g, |n| or_null(&n.node.fence_note).to_owned())
    })
    .hidden(),
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

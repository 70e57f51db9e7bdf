//! `sinfo`.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::render::format::{self, Layout};
use super::render::node_groups::{Group, Grouping, group};
use super::render::{View, node_columns};
use super::resolve::filter;
use super::{output, process, users};
use spur_core::api::{NodeView, Reply, Request};
use spur_core::partition::Partition;
use spur_core::slurm::codes::node_state::{self, State};
use std::sync::Arc;

/// States that `-t` knows: what is written, and the words of `%t` and `%T` that it means.
const STATES: [(&str, &[&str]); 13] = [
    ("all", &[]),
    ("alloc", &["allocated"]),
    ("allocated", &["allocated"]),
    ("comp", &["completing"]),
    ("completing", &["completing"]),
    ("down", &["down"]),
    ("drain", &["drained", "draining"]),
    ("drained", &["drained"]),
    ("draining", &["draining"]),
    ("drng", &["draining"]),
    ("idle", &["idle", "planned"]),
    ("mix", &["mixed"]),
    ("mixed", &["mixed"]),
];
/// States that Slurm knows and no node of ours is ever in.
const NEVER: [&str; 16] = [
    "blocked",
    "fail",
    "failing",
    "future",
    "futr",
    "inval",
    "maint",
    "no_respond",
    "npc",
    "perfctrs",
    "planned",
    "plnd",
    "pow_dn",
    "pow_up",
    "reboot",
    "resv",
];

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    if let Some(text) = help(options) {
        output::print(&text);
        return Ok(0);
    }
    if let Some(word) = options.operands.first() {
        let why = format!("Unrecognized option: {}", word.to_string_lossy());
        return Err(Failure::error(Command::Sinfo, why));
    }
    let states = states(options)?;
    let names = filter::nodes(options, "nodes")?;
    output::repeat(Command::Sinfo, options, || {
        let (mut nodes, partitions) = fetch(options)?;
        nodes.retain(|node| {
            let named = names.is_empty() || names.contains(&node.node.name);
            named && passes(options, states.as_deref(), node)
        });
        let view = view(options, &nodes);
        output::print(&page(options, &view, &nodes, &partitions)?);
        Ok(())
    })
}

fn help(options: &Options) -> Option<String> {
    if options.on("helpformat") {
        return Some(format::letters_help(node_columns::COLUMNS));
    }
    if options.on("helpFormat") {
        return Some(format::names_help(node_columns::COLUMNS));
    }
    if options.on("reservation") {
        return Some("No reservations in the system\n".to_owned());
    }
    let states = || {
        STATES
            .iter()
            .map(|(word, _)| *word)
            .chain(NEVER)
            .collect::<Vec<_>>()
    };
    options.on("helpstate").then(|| states().join("\n") + "\n")
}

/// The words that nodes must show; `None` means any.
fn states(options: &Options) -> Result<Option<Vec<String>>, Failure> {
    let Some(text) = options.value("states") else {
        return Ok(None);
    };
    let mut wanted = Vec::new();
    for word in filter::list(&text.to_ascii_lowercase()) {
        match STATES.iter().find(|(name, _)| *name == word) {
            Some(("all", _)) => return Ok(None),
            Some((_, words)) => wanted.extend(words.iter().map(|word| (*word).to_owned())),
            None if NEVER.contains(&word.as_str()) => wanted.push(word),
            None => {
                let known: Vec<_> = STATES.iter().map(|(word, _)| *word).chain(NEVER).collect();
                let why = format!(
                    "Bad state string: \"{word}\"\nValid node states include: {}",
                    known.join(",")
                );
                return Err(Failure::error(Command::Sinfo, why));
            }
        }
    }
    Ok(Some(wanted))
}

fn passes(options: &Options, states: Option<&[String]>, node: &NodeView) -> bool {
    let state = State::of(node);
    let long = node_state::long(node);
    let word = long.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let wanted = |word: &str| states.is_none_or(|states| states.iter().any(|state| state == word));
    let shown = wanted(word)
        || (word == "planned" && wanted("plnd"))
        || (state.silent && states.is_some_and(|s| s.iter().any(|s| s == "no_respond")));
    let explained = !options.on("list-reasons") || !node_state::reason(node).is_empty();
    let answers =
        (!options.on("dead") || state.silent) && (!options.on("responding") || !state.silent);
    shown && explained && answers
}

type Fetched = (Vec<Arc<NodeView>>, Vec<Arc<Partition>>);

fn fetch(options: &Options) -> Result<Fetched, Failure> {
    let failed =
        |trouble: Trouble| Failure::plain(format!("slurm_load_partitions: {}", trouble.text()), 1);
    let answers = link::question(&Request::Nodes)
        .and_then(|nodes| Ok((nodes, link::question(&Request::Partitions)?)));
    let wanted = options.value("partition").map(filter::list);
    match answers.map_err(failed)? {
        (Reply::Nodes(nodes), Reply::Partitions(mut partitions)) => {
            partitions.retain(|p| wanted.as_ref().is_none_or(|names| names.contains(&p.name)));
            Ok((nodes, partitions.into_iter().map(Arc::new).collect()))
        }
        (_, _) => Err(failed(link::unexpected())),
    }
}

fn view(options: &Options, nodes: &[Arc<NodeView>]) -> View {
    let givers = nodes
        .iter()
        .filter_map(|node| node.node.reason_by)
        .map(|(uid, _)| uid);
    View {
        clock: process::clock(),
        users: users::names(givers),
        raw_sizes: options.on("noconvert"),
    }
}

/// What is printed, given the nodes that pass the filters.
fn page(
    options: &Options,
    view: &View,
    nodes: &[Arc<NodeView>],
    partitions: &[Arc<Partition>],
) -> Result<String, Failure> {
    let layout = layout(options, nodes, partitions);
    output::complain(&output::errors("sinfo", &layout.errors));
    // A partition of which no node passes is still shown, with none; not where single nodes are asked for.
    let by_node = ["nodes", "list-reasons", "Node"];
    let how = Grouping {
        each_node: options.on("Node"),
        exact: options.on("exact"),
        empty_partitions: !by_node.iter().any(|long| options.on(long)),
    };
    let mut groups: Vec<Group> = group(view, &layout, partitions, nodes, how);
    let sort = options.value("sort").unwrap_or(match options.on("Node") {
        true => node_columns::SORT_NODES,
        false => node_columns::SORT,
    });
    format::sort(&mut groups, sort, node_columns::COLUMNS, view)
        .map_err(|why| Failure::error(Command::Sinfo, why))?;
    let mut text = output::heading(options, view, &layout.header());
    for group in &groups {
        text.push_str(&layout.row(view, group));
        text.push('\n');
    }
    Ok(text)
}

fn layout(
    options: &Options,
    nodes: &[Arc<NodeView>],
    partitions: &[Arc<Partition>],
) -> Layout<Group> {
    let table = node_columns::COLUMNS;
    match output::format(options) {
        Some(output::Format::Names(list)) => return Layout::names(&list, table),
        Some(output::Format::Letters(format)) => return Layout::letters(&format, table),
        None => {}
    }
    let long = options.on("long");
    let format = match (
        options.on("list-reasons"),
        options.on("summarize"),
        options.on("Node"),
    ) {
        (true, ..) if long => node_columns::REASONS_LONG,
        (true, ..) => node_columns::REASONS,
        (_, true, _) => node_columns::SUMMARY,
        (_, _, true) if long => node_columns::NODES_LONG,
        (_, _, true) => node_columns::NODES,
        (false, false, false) if long => node_columns::LONG,
        (false, false, false) => node_columns::DEFAULT,
    };
    Layout::letters(&node_columns::with_widths(format, partitions, nodes), table)
}

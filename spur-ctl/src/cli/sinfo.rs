//! `sinfo`.

pub mod data;
pub mod order;
pub mod states;

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::render::data as structured;
use super::render::format::{self, Layout};
use super::render::node_groups::{Group, Grouping, group};
use super::render::{View, node_columns, show_reservation};
use super::resolve::filter;
use super::{output, process, users};
use spur_core::api::{NodeView, Reply, Request};
use spur_core::partition::Partition;
use spur_core::slurm::codes::node_state::State;
use spur_core::slurm::timespec;
use std::sync::Arc;

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
    exclusive(options)?;
    let states = match options.value("states").map(states::read) {
        Some(states) => states?,
        None => options.on("list-reasons").then(states::with_reasons),
    };
    let names = filter::nodes(options, "nodes")?;
    let asked = structured::asked(options)?;
    output::repeat(Command::Sinfo, options, || {
        if options.on("reservation") {
            return reservations(options);
        }
        let (all, partitions) = fetch(options)?;
        let mut nodes = all.clone();
        nodes.retain(|node| {
            let named = names.is_empty() || names.contains(&node.node.name);
            named && passes(options, states.as_ref(), node)
        });
        let view = view(options, &nodes);
        if let Some(asked) = asked {
            let layout = Layout::names(data::COLUMNS, &node_columns::TABLE);
            let groups = groups(options, &view, &layout, &nodes, &partitions);
            return data::show(asked, &view, &groups, &all);
        }
        output::print(&page(options, &view, &nodes, &partitions));
        Ok(())
    })
}

fn help(options: &Options) -> Option<String> {
    if options.on("helpformat") {
        return Some(format::letters_help(&node_columns::TABLE));
    }
    if options.on("helpFormat") {
        return Some(format::names_help(&node_columns::TABLE));
    }
    let listed = || states::LISTED.join("\n") + "\n";
    options.on("helpstate").then(listed)
}

/// Options that do not go together.
fn exclusive(options: &Options) -> Result<(), Failure> {
    let given = |long: &str| output::on_command_line(options, long);
    if given("long") && (given("format") || given("Format")) {
        let why = "Options -o(--format) and -l(--long) are mutually exclusive. Please remove one and retry.";
        return Err(Failure::fatal(Command::Sinfo, why));
    }
    if given("all") && given("partition") {
        let why = "Conflicting options, -a and -p, specified. Please choose one or the other.";
        return Err(Failure::error(Command::Sinfo, why));
    }
    Ok(())
}

/// `sinfo -T`.
fn reservations(options: &Options) -> Result<(), Failure> {
    let failed = |trouble: Trouble| {
        Failure::plain(
            format!("slurm_load_reservations error: {}", trouble.text()),
            1,
        )
    };
    let Reply::Reservations(all) = link::question(&Request::Reservations).map_err(failed)? else {
        return Err(failed(link::unexpected()));
    };
    if all.is_empty() {
        output::print("No reservations in the system\n");
        return Ok(());
    }
    let view = View::new(process::clock());
    let widths = all.iter().map(|one| one.name.len());
    let width = widths.max().unwrap_or(0).max(9);
    let mut text = String::new();
    let mut line = |cells: [&str; 6]| {
        let [name, state, start, end, duration, nodes] = cells;
        text.push_str(&format!(
            "{name:<width$}  {state:>8}  {start:>19}  {end:>19}  {duration:>11}  {nodes}\n"
        ));
    };
    if !options.on("noheader") {
        line([
            "RESV_NAME",
            "STATE",
            "START_TIME",
            "END_TIME",
            "DURATION",
            "NODELIST",
        ]);
    }
    for one in &all {
        line([
            &one.name,
            show_reservation::state(&view, one),
            &view.clock.stamp(one.start),
            &view.clock.stamp(one.end),
            &timespec::elapsed_long(one.end.secs_since(one.start)),
            &show_reservation::node_list(one),
        ]);
    }
    output::print(&text);
    Ok(())
}

fn passes(options: &Options, states: Option<&states::States>, node: &NodeView) -> bool {
    let silent = State::of(node).silent;
    let answers = (!options.on("dead") || silent) && (!options.on("responding") || !silent);
    answers && states.is_none_or(|states| states.has(node))
}

/// What is said when something cannot be had.
fn load_error(trouble: &Trouble) -> Failure {
    Failure::plain(format!("slurm_load_partitions: {}", trouble.text()), 1)
}

type Fetched = (Vec<Arc<NodeView>>, Vec<Arc<Partition>>);

fn fetch(options: &Options) -> Result<Fetched, Failure> {
    let failed = |trouble: Trouble| load_error(&trouble);
    let answers = link::question(&Request::Nodes)
        .and_then(|nodes| Ok((nodes, link::question(&Request::Partitions)?)));
    let wanted = options.value("partition").map(filter::list);
    match answers.map_err(failed)? {
        (Reply::Nodes(nodes), Reply::Partitions(mut partitions)) => {
            let hidden = !options.on("all");
            partitions.retain(|partition| match &wanted {
                Some(names) => names.contains(&partition.name),
                None => !(partition.hidden && hidden),
            });
            Ok((nodes, partitions.into_iter().map(Arc::new).collect()))
        }
        (_, _) => Err(failed(link::unexpected())),
    }
}

fn view(options: &Options, nodes: &[Arc<NodeView>]) -> View {
    let givers = nodes.iter().filter_map(|node| node.node.reason_by);
    let mut view = View::new(process::clock());
    view.users = users::names(givers.map(|(uid, _)| uid));
    view.raw_sizes = options.on("noconvert");
    view
}

/// The lines in order, of the nodes that pass the filters.
fn groups(
    options: &Options,
    view: &View,
    layout: &Layout<Group>,
    nodes: &[Arc<NodeView>],
    partitions: &[Arc<Partition>],
) -> Vec<Group> {
    // A partition of which no node passes is still shown, with none; not where single nodes are asked for.
    let how = Grouping {
        each_node: options.on("Node"),
        exact: options.on("exact"),
        without_partitions: options.on("list-reasons"),
        empty_partitions: !options.on("Node") && !options.on("list-reasons"),
    };
    let mut groups: Vec<Group> = group(view, layout, partitions, nodes, how);
    let sort = options.value("sort").unwrap_or(match options.on("Node") {
        true => order::NODES,
        false => order::DEFAULT,
    });
    order::sort(view, &mut groups, sort);
    groups
}

/// What is printed, given the nodes that pass the filters.
fn page(
    options: &Options,
    view: &View,
    nodes: &[Arc<NodeView>],
    partitions: &[Arc<Partition>],
) -> String {
    let layout = layout(options, nodes, partitions);
    complain(&layout);
    let groups = groups(options, view, &layout, nodes, partitions);
    let mut text = output::heading(options, view, &layout.header());
    for group in &groups {
        layout.write(view, group, &mut text);
        text.push('\n');
    }
    text
}

/// A letter that means nothing is named without the command's name, as in Slurm.
fn complain(layout: &Layout<Group>) {
    let letters = node_columns::TABLE.bad_letter;
    for error in &layout.errors {
        if error.starts_with(letters) {
            output::complain(std::slice::from_ref(error));
        } else {
            output::complain(&output::errors("sinfo", std::slice::from_ref(error)));
        }
    }
}

fn layout(
    options: &Options,
    nodes: &[Arc<NodeView>],
    partitions: &[Arc<Partition>],
) -> Layout<Group> {
    let table = &node_columns::TABLE;
    match output::format(options) {
        Some(output::Format::Names(list)) => return named(&list),
        Some(output::Format::Letters(format)) if format.eq_ignore_ascii_case("%all") => {
            return Layout::letters(node_columns::ALL, table);
        }
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

/// `-O`: the word `all` stands for every letter, and is complained of all the same, as in Slurm.
fn named(list: &str) -> Layout<Group> {
    let table = &node_columns::TABLE;
    let layout = Layout::names(list, table);
    let mut words = list.split(',').filter_map(|word| word.split(':').next());
    match words.any(|word| word.eq_ignore_ascii_case("all")) {
        true => layout.after(Layout::letters(node_columns::ALL, table)),
        false => layout,
    }
}

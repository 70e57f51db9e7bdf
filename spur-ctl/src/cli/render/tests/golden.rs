//! Next to the recordings, where they are at hand. What only differs by being another moment or another machine is blanked
//! on both sides.

use super::samples::{at, big, drained, held, mixed, node, nodes, partition, train, view, wrapped};
use crate::cli::render::format::{Layout, letters_help, names_help};
use crate::cli::render::job_row::JobRow;
use crate::cli::render::node_groups::{Grouping, group};
use crate::cli::render::show_job::Details;
use crate::cli::render::{job_columns, node_columns, show_job, show_node, show_partition};
use crate::cli::sinfo::order;
use spur_core::api::{JobView, NodeView};
use std::path::Path;
use std::sync::Arc;

/// The standard output of a recording; `None` where there are none.
pub(crate) fn recorded(name: &str) -> Option<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/slurm-golden");
    let text = std::fs::read_to_string(dir.join(name)).ok()?;
    let (_, rest) = text.split_once("--- stdout\n")?;
    Some(rest.split_once("--- stderr\n")?.0.to_owned())
}

/// Keys whose values belong to the machine, the moment, or to things that we do not have.
const BLANKED: [&str; 11] = [
    "AccrueTime",
    "BootTime",
    "EligibleTime",
    "FreeMem",
    "LastBusyTime",
    "LastSchedEval",
    "NodeAddr",
    "Port",
    "RunTime",
    "Scheduler",
    "SlurmdStartTime",
];

fn blanked(text: &str) -> String {
    let word = |word: &str| match word.split_once('=') {
        Some((key, _)) if BLANKED.contains(&key) => format!("{key}=?"),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn same(name: &str, ours: &str) {
    if let Some(theirs) = recorded(name) {
        assert_eq!(blanked(ours), blanked(&theirs), "{name}");
    }
}

#[test]
fn job_records() {
    let view = view(at(7));
    let none = Details { denials: &[] };
    same(
        "scontrol-show-job-running.txt",
        &show_job::record(&view, &train(), None, false),
    );
    same(
        "scontrol-show-job-oneliner.txt",
        &show_job::record(&view, &train(), None, true),
    );
    same(
        "scontrol-show-job-held.txt",
        &show_job::record(&view, &held(), None, false),
    );
    for (name, job) in [
        ("scontrol-show-job-d-running.txt", train()),
        ("scontrol-show-job-gres.txt", wrapped()),
    ] {
        same(name, &show_job::record(&view, &job, Some(&none), false));
    }
}

#[test]
fn a_pending_job_has_no_forecast_yet() {
    let Some(theirs) = recorded("scontrol-show-job-pending.txt") else {
        return;
    };
    let forecast = "StartTime=2026-11-30T04:11:01 EndTime=2026-11-30T04:41:01";
    let theirs = theirs
        .replace(forecast, "StartTime=Unknown EndTime=Unknown")
        .replace(" SchedNodeList=n[0001-0004]", "");
    let ours = show_job::record(&view(at(7)), &big(), None, false);
    assert_eq!(blanked(&ours), blanked(&theirs));
}

#[test]
fn node_records() {
    let view = view(at(7));
    let (plain, slurms) = (show_node::Details::None, show_node::Details::Slurms);
    let record =
        |node: &NodeView, details, one_line| show_node::record(&view, node, details, one_line);
    same("scontrol-show-node.txt", &record(&node(1), plain, false));
    same(
        "scontrol-show-node-oneliner.txt",
        &record(&node(1), plain, true),
    );
    same(
        "scontrol-show-node-mixed.txt",
        &record(&mixed(), plain, false),
    );
    same(
        "scontrol-show-node-d-mixed.txt",
        &record(&mixed(), slurms, false),
    );
    same(
        "scontrol-show-node-drained.txt",
        &record(&drained(), plain, false),
    );
}

#[test]
fn the_partition_record() {
    let ours = show_partition::record(&view(at(7)), &partition(), &nodes(), false);
    same("scontrol-show-partition.txt", &ours);
}

/// Lines of a format, header first.
fn job_lines(format: &str, jobs: &[JobView]) -> Vec<String> {
    let layout = Layout::letters(format, &job_columns::TABLE);
    let view = view(at(4));
    let rows = jobs
        .iter()
        .map(|job| layout.row(&view, &JobRow::new(Arc::new(job.clone()))));
    std::iter::once(layout.header()).chain(rows).collect()
}

/// Every one of our lines must be among the recorded ones.
#[track_caller]
fn within(name: &str, ours: &[String]) {
    let Some(theirs) = recorded(name) else { return };
    for line in ours {
        assert!(
            theirs.lines().any(|other| other == line),
            "{name} has no line {line:?}"
        );
    }
}

#[test]
fn job_lists() {
    let jobs = [big(), held(), wrapped(), train()];
    within(
        "squeue.txt",
        &job_lines(job_columns::DEFAULT, &[big(), held()]),
    );
    within(
        "squeue-l.txt",
        &job_lines(job_columns::LONG, &[big(), held()]),
    );
    within("squeue-l.txt", &at_three(job_columns::LONG, &jobs));
    within(
        "squeue-start.txt",
        &job_lines(job_columns::START, &[held()]),
    );
    let format = "%i|%P|%j|%u|%T|%M|%l|%D|%C|%m|%b|%R";
    // Slurm counts the CPUs of a pending job by its tasks; that of a running one by what it holds.
    within("squeue-h-o.txt", &at_three_from(format, &jobs, 5)[1..]);
    let theirs = recorded("squeue-o-all.txt").unwrap_or_default();
    let ours = Layout::letters("%all", &job_columns::TABLE).header();
    assert!(theirs.is_empty() || theirs.starts_with(&ours), "{ours}");
}

fn at_three(format: &str, jobs: &[JobView]) -> Vec<String> {
    at_three_from(format, jobs, 4)
}

fn at_three_from(format: &str, jobs: &[JobView], now: u64) -> Vec<String> {
    let layout = Layout::letters(format, &job_columns::TABLE);
    let view = view(at(now));
    let rows = jobs
        .iter()
        .map(|job| layout.row(&view, &JobRow::new(Arc::new(job.clone()))));
    std::iter::once(layout.header()).chain(rows).collect()
}

/// `sinfo` as it would print.
fn sinfo(format: &str, nodes: &[Arc<NodeView>], how: Grouping, order: &str) -> String {
    let partitions = [Arc::new(partition())];
    let format = node_columns::with_widths(format, &partitions, nodes);
    let layout = Layout::letters(&format, &node_columns::TABLE);
    let view = view(at(7));
    let mut groups = group(&view, &layout, &partitions, nodes, how);
    order::sort(&view, &mut groups, order);
    let rows = groups.iter().map(|group| layout.row(&view, group) + "\n");
    std::iter::once(layout.header() + "\n")
        .chain(rows)
        .collect()
}

/// The recordings of long lists begin with the date.
#[track_caller]
fn same_but_date(name: &str, ours: &str) {
    if let Some(theirs) = recorded(name) {
        assert_eq!(
            Some(ours),
            theirs.split_once('\n').map(|(_, rest)| rest),
            "{name}"
        );
    }
}

#[test]
fn node_lists() {
    let (plain, each) = (
        Grouping::default(),
        Grouping {
            each_node: true,
            ..Grouping::default()
        },
    );
    same(
        "sinfo-idle.txt",
        &sinfo(node_columns::DEFAULT, &nodes(), plain, order::DEFAULT),
    );
    same_but_date(
        "sinfo-l.txt",
        &sinfo(node_columns::LONG, &nodes(), plain, order::DEFAULT),
    );
    let ours = sinfo(node_columns::NODES_LONG, &nodes(), each, order::NODES);
    same_but_date("sinfo-N-l.txt", &ours);
    let ours = sinfo("%N %T %G %c %m %C", &nodes(), each, "N");
    same("sinfo-N-o-gres.txt", &ours);
}

#[test]
fn node_lists_by_state() {
    let plain = Grouping::default();
    let mut planned = node(2);
    planned.planned = true;
    let all = [mixed(), planned, drained(), node(4)].map(Arc::new);
    same(
        "sinfo-drained.txt",
        &sinfo(node_columns::DEFAULT, &all, plain, order::DEFAULT),
    );
    let each = Grouping {
        each_node: true,
        ..plain
    };
    let ours = sinfo(node_columns::NODES_LONG, &all, each, order::NODES);
    same_but_date("sinfo-N-l-drained.txt", &ours);
    let drained = [Arc::new(drained())];
    let reasons = Grouping {
        without_partitions: true,
        ..plain
    };
    same(
        "sinfo-R-drained.txt",
        &sinfo(node_columns::REASONS, &drained, reasons, order::DEFAULT),
    );
}

#[test]
fn named_columns() {
    let layout = Layout::names("NodeList,Gres,GresUsed,StateLong", &node_columns::TABLE);
    let (view, partitions) = (view(at(7)), [Arc::new(partition())]);
    let groups = group(&view, &layout, &partitions, &nodes(), Grouping::default());
    let rows: String = groups
        .iter()
        .map(|group| layout.row(&view, group) + "\n")
        .collect();
    same("sinfo-O-gres.txt", &format!("{}\n{rows}", layout.header()));
    let layout = Layout::names("jobid:10,name:.20,tres-alloc:60", &job_columns::TABLE);
    within("squeue-O-widths.txt", &[layout.header()]);
}

#[test]
fn help_lists_letters_and_names_as_recorded() {
    let (jobs, nodes) = (&job_columns::TABLE, &node_columns::TABLE);
    same("squeue-helpformat.txt", &letters_help(jobs));
    same("squeue-helpFormat.txt", &names_help(jobs));
    same("sinfo-helpformat.txt", &letters_help(nodes));
    same("sinfo-helpFormat.txt", &names_help(nodes));
}

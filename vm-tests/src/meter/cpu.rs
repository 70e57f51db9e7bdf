//! CPU time and block I/O of many short processes, against `cpu.stat` and `io.stat`.

use super::Row;
use super::groups::{self, Groups};
use super::printer::Printer;
use crate::cluster::SOON;
use crate::user::{self, Output, User};
use crate::{probe, wait};
use std::path::Path;

/// Numbers of processes.
pub const LOADS: [u32; 5] = [1, 10, 100, 1000, 10_000];

/// Microseconds that each computes, at least.
const EACH: u32 = 1000;

/// Microseconds that all of them compute, at least: a percent of less than this is a matter of single switches of tasks.
const ALL: u32 = 50_000;

/// Runs every load and compares. With a disk, each process also writes and reads a block of it.
pub fn check(printer: &mut Printer, loads: &[u32], disk: Option<&str>) -> Vec<Row> {
    let groups = Groups::new();
    let dir = tempfile::tempdir().expect("a folder");
    let probe = probe::install(dir.path()).to_string_lossy().into_owned();
    let mut rows = Vec::new();
    for load in loads {
        let group = groups.make(&format!("load{load}"));
        printer.add(&group);
        let (count, each) = (load.to_string(), EACH.max(ALL / load).to_string());
        let at = group.to_string_lossy();
        let mut args = vec![probe.as_str(), "in", &at, "spawn", &count, &each];
        args.extend(disk);
        Output::of(user::command(User::Root, &args).spawn().expect("it starts")).good();
        rows.extend(compare(printer, *load, &group, disk.is_some()));
    }
    rows
}

fn compare(printer: &mut Printer, load: u32, group: &Path, disk: bool) -> Vec<Row> {
    // The last process is on its way out when its parent knows of its end.
    let mut last = None;
    let usage = wait::until("the group is at rest", SOON, || {
        let now = groups::number(group, "cpu.stat", "usage_usec ");
        (last.replace(now) == Some(now)).then_some(now)
    });
    let reading = printer.read();
    let row = |what, name, truth| Row {
        point: 2,
        case: format!("{load} processes"),
        what,
        measured: reading.counter(group, name),
        truth,
    };
    let mut rows = vec![
        row("cpu ns", "cpu_ns", usage * 1000),
        // Those, and the one that starts them.
        row("processes", "ends", u64::from(load) + 1),
    ];
    if disk {
        let io = |key| groups::io(group, key);
        rows.push(row("read bytes", "read_bytes", io("rbytes")));
        rows.push(row("write bytes", "write_bytes", io("wbytes")));
        rows.push(row("reads", "reads", io("rios")));
        rows.push(row("writes", "writes", io("wios")));
    }
    rows
}

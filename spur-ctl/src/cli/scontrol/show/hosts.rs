//! `scontrol show hostnames`, `hostlist` and `hostlistsorted`.

use crate::cli::failure::Failure;
use crate::cli::{output, process};
use spur_core::slurm::hostlist;

/// One name a line: of the list given, or of the job's own nodes.
pub fn names(which: Option<String>) -> Result<u8, Failure> {
    let own = || process::var("SLURM_JOB_NODELIST").or_else(|| process::var("SLURM_NODELIST"));
    let Some(list) = which.or_else(own) else {
        return Err(Failure::plain("host list is empty", 1));
    };
    let names = hostlist::parse(&list)
        .map_err(|_| Failure::plain(format!("Invalid hostlist: {list}"), 1))?;
    let lines: String = names.into_iter().map(|name| name + "\n").collect();
    output::print(&lines);
    Ok(0)
}

/// The list given, folded: of names, or of the lines of a file named by its path.
pub fn fold(which: Option<String>, sorted: bool) -> Result<u8, Failure> {
    let Some(list) = which else {
        return Err(Failure::plain("invalid encode argument", 1));
    };
    let list = if list.starts_with('/') {
        let read = std::fs::read_to_string(&list);
        let text = read.map_err(|why| Failure::plain(format!("cannot read {list}: {why}"), 1))?;
        text.split_whitespace().collect::<Vec<_>>().join(",")
    } else {
        list
    };
    let bad = |_| Failure::plain(format!("Invalid hostlist: {list}"), 1);
    let mut names = hostlist::parse(&list).map_err(bad)?;
    if sorted {
        names.sort();
    }
    output::print(&format!("{}\n", hostlist::compress(&names)));
    Ok(0)
}

// What each fuzz target does with its bytes: it must neither panic nor hang. Shared with the test that replays the corpus.
#![allow(dead_code, reason = "each target uses one of them")]

use spur_core::slurm::{
    array, constraint, dependency, directive, export, filename, gres, hostlist, mail, raw, signal,
    size, timespec, tres,
};
use spur_core::time::Millis;
use spur_ctl::cli::flags::Command;
use spur_ctl::cli::flags::getopt::{Options, Source, environment, parse};
use spur_ctl::cli::render::format::Layout;
use spur_ctl::cli::render::job_columns;
use spur_ctl::cli::resolve::input::Surroundings;
use spur_ctl::cli::resolve::{filter, het, job, notice, script, step};
use spur_ctl::cli::squeue::{order, query};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A name, and what it does.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: [Target; 9] = [
    ("flags", flags),
    ("directive", directive),
    ("hostlist", hostlist),
    ("gres", gres),
    ("time", time),
    ("memory", memory),
    ("format", format),
    ("array", array),
    ("dependency", dependency),
];

fn here() -> Surroundings {
    Surroundings {
        env: Vec::new(),
        cwd: "/w".to_owned(),
        host: "h".to_owned(),
        session: 1,
        uid: 1,
        gid: 1,
        now: Millis(1_796_002_864_000),
        utc_offset: 3600,
        niceness: 0,
        umask: 0o022,
        submit_line: String::new(),
        request_id: 0,
        rlimits: Vec::new(),
    }
}

fn used(options: &Options) {
    let _notices = notice::review(options);
    if options.command.submits() {
        let _spec = job::spec(options, &here(), "name", "command");
        let _step = step::of_allocation(options, "command", 1);
        let _limits = job::limits(options, &here());
    } else if options.command == Command::Squeue {
        let _query = query::read(options, spur_core::id::Uid(1), |_| None);
        let _order = options.value("sort").map(order::read);
    }
}

/// The first byte chooses a command, the rest are its arguments, parted by zero bytes.
pub(crate) fn flags(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let commands: Vec<Command> = Command::all().collect();
    let command = commands[usize::from(*first) % commands.len()];
    let args: Vec<OsString> = rest
        .split(|byte| *byte == 0)
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect();
    if let Ok(options) = parse(command, &args, Source::CommandLine) {
        used(&options);
    }
    let text = raw::text(rest);
    used(&environment(command, |_| Some(text.clone())));
}

pub(crate) fn directive(data: &[u8]) {
    let _checked = directive::check(data);
    let _words = directive::directives(data);
    let fresh = || Options::none(Command::Sbatch);
    let mut parts = vec![fresh()];
    if script::read_options("s.sh", data, &mut parts, fresh).is_ok() {
        het::settle(&mut parts);
        parts.iter().for_each(used);
    }
}

pub(crate) fn hostlist(data: &[u8]) {
    let text = raw::text(data);
    if let Ok(names) = hostlist::parse(&text) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let short = hostlist::compress(&names);
        assert!(names.is_empty() || !short.is_empty());
    }
}

pub(crate) fn gres(data: &[u8]) {
    let text = raw::text(data);
    let _all = (
        gres::parse_gres(&text),
        gres::parse_gpus(&text),
        tres::parse_per_task(&text),
    );
    let _features = constraint::parse(&text);
}

pub(crate) fn time(data: &[u8]) {
    let text = raw::text(data);
    let (now, offset) = (Millis(1_796_002_864_000), 3600);
    let _moments = (
        timespec::begin::parse_begin(&text, now, offset),
        timespec::begin::parse_past(&text, now, offset),
    );
    if let Ok(limit) = timespec::parse_limit(&text) {
        assert_eq!(
            timespec::parse_limit(&timespec::limit_long(limit)),
            Ok(limit)
        );
    }
    let _span = timespec::parse_span(&text);
    let _signal = signal::parse_warning(&text);
}

pub(crate) fn memory(data: &[u8]) {
    let text = raw::text(data);
    let _mib = size::parse_mib(&text);
    let _events = mail::Events::default().with(&text);
    let _export = export::apply(&text, &[]);
    let _each = filename::per_task(&text);
}

pub(crate) fn format(data: &[u8]) {
    let text = raw::text(data);
    let _letters = Layout::letters(&text, &job_columns::TABLE);
    let _names = Layout::names(&text, &job_columns::TABLE);
}

pub(crate) fn array(data: &[u8]) {
    let text = raw::text(data);
    let _array = array::parse(&text, 1001);
    let _targets = array::targets(&text);
    let _named = filter::named(&text);
}

pub(crate) fn dependency(data: &[u8]) {
    let text = raw::text(data);
    let _list = filter::list(&text);
    let _dependency = dependency::parse(&text);
}

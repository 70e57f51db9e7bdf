// What each fuzz target does with its bytes: it must neither panic nor hang. Shared with the test that replays the corpus.
#![allow(dead_code, reason = "each target uses one of them")]

use spur_core::id::StepKind;
use spur_core::pmi::node::{Effect, Layout as Told, Server};
use spur_core::pmi::step::Exchange;
use spur_core::pmi::wire::{Decoder, Dialect};
use spur_core::pmix::Message;
use spur_core::pmix::step::Hub;
use spur_core::resources::IdSet;
use spur_core::slurm::{
    array, bind, constraint, crontab, dependency, directive, export, filename, gres, hostlist,
    mail, multi_prog, raw, signal, size, timespec, tres,
};
use spur_core::time::Millis;
use spur_ctl::cli::flags::Command;
use spur_ctl::cli::flags::getopt::{Options, Source, environment, parse};
use spur_ctl::cli::named;
use spur_ctl::cli::render::format::Layout;
use spur_ctl::cli::render::job_columns;
use spur_ctl::cli::resolve::input::Surroundings;
use spur_ctl::cli::resolve::{filter, het, job, notice, script, step};
use spur_ctl::cli::squeue::{order, query};
use spur_proto::frame::read_frame;
use spur_proto::wire::Pmix;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A name, and what it does.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: [Target; 18] = [
    ("flags", flags),
    ("directive", directive),
    ("hostlist", hostlist),
    ("gres", gres),
    ("time", time),
    ("memory", memory),
    ("format", format),
    ("array", array),
    ("dependency", dependency),
    ("pmi", pmi),
    ("pmix", pmix),
    ("crontab", crontab),
    ("multi_prog", multi_prog),
    ("bind", bind),
    ("constraint", constraint),
    ("filename", filename),
    ("signal", signal),
    ("mail", mail),
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
}

pub(crate) fn memory(data: &[u8]) {
    let text = raw::text(data);
    let _mib = size::parse_mib(&text);
    let _export = export::apply(&text, &[]);
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
    let _named = named::read(&text);
}

pub(crate) fn dependency(data: &[u8]) {
    let text = raw::text(data);
    let _list = filter::list(&text);
    let _dependency = dependency::parse(&text);
}

/// What the tasks of a node send, in turn, parted by zero bytes. Each answer is one message that a task can read.
pub(crate) fn pmi(data: &[u8]) {
    let told = Told {
        job: "1.0".to_owned(),
        size: 2,
        universe: 2,
        program: 0,
        mapping: "(vector,(0,1,2))".to_owned(),
    };
    let (mut server, mut step) = (Server::new(told, 0..2), Exchange::new(1));
    for (task, said) in (0..2).cycle().zip(data.split(|byte| *byte == 0)) {
        match server.hear(task, said) {
            Ok(effects) => carried_out(&mut server, &mut step, effects),
            Err(_broken) => break,
        }
    }
    for task in 0..2 {
        let (_inside, effects) = server.ended(task);
        carried_out(&mut server, &mut step, effects);
        let _stuck = step.ended(task);
    }
}

fn carried_out(server: &mut Server, step: &mut Exchange, mut effects: Vec<Effect>) {
    while let Some(effect) = effects.pop() {
        match effect {
            Effect::Send { bytes, .. } => {
                let mut decoder = Decoder::default();
                if !bytes.starts_with(b"cmd=") {
                    decoder.speak(Dialect::Lengths);
                }
                decoder.push(&bytes);
                // Two values as long as may be are more than may be sent here.
                if bytes.len() < 1 << 14 {
                    assert!(matches!(decoder.take(), Ok(Some(_))), "{bytes:?}");
                    assert!(matches!(decoder.take(), Ok(None)), "{bytes:?}");
                }
            }
            Effect::Exchange { entries, last } => {
                if let Ok(Some(all)) = step.hear(0, entries, last) {
                    let opened = server.exchanged(all, true);
                    effects.extend(opened.expect("one node has room for what it sent itself"));
                }
            }
            Effect::Ask { id, name, request } => {
                let found = step.name(name, request);
                effects.extend(server.answered(id, found));
            }
            Effect::Stuck { .. } | Effect::Abort { .. } => {}
        }
    }
}

/// Frames that the PMIx servers of three nodes send to srun, in turn.
pub(crate) fn pmix(mut data: &[u8]) {
    let mut hub = Hub::new(vec![vec![0, 2], vec![1], Vec::new()]);
    for node in (0..3).cycle() {
        let Ok(Some(frame)) = read_frame::<Pmix>(&mut data) else {
            break;
        };
        let Ok(message) = Message::try_from(frame) else {
            break;
        };
        let Ok(delivery) = hub.hear(node, message) else {
            break;
        };
        for message in delivery.into_iter().flat_map(|all| all.messages) {
            let there = Message::try_from(Pmix::from(message.clone()));
            assert_eq!(there.ok(), Some(message));
        }
    }
    for rank in 0..3 {
        let _stuck = hub.ended(rank);
    }
}

pub(crate) fn crontab(data: &[u8]) {
    let text = raw::text(data);
    if let Ok(entries) = crontab::parse(&text) {
        for entry in entries.iter().take(8) {
            let _next = entry.times.next(Millis(1_796_002_864_000), 3600);
            let written = format!("{} a", entry.times);
            let read = crontab::Times::read(&written).map(|(times, _)| times);
            assert_eq!(read, Ok(entry.times));
        }
        if let Some(entry) = entries.first() {
            let off = crontab::disabled(&text, entry.first, entry.last, "#BAD: ");
            let left = crontab::parse(&off).map(|left| left.len());
            assert_eq!(left.ok(), Some(entries.len() - 1));
        }
    }
}

/// The first byte says how many tasks there are: none that nobody says, the last very many.
pub(crate) fn multi_prog(data: &[u8]) {
    let Some((tasks, rest)) = data.split_first() else {
        return;
    };
    let tasks = match tasks {
        0 => None,
        255 => Some(u32::MAX),
        some => Some(u32::from(*some)),
    };
    if let Ok(file) = multi_prog::read(&raw::text(rest), "file", tasks) {
        for task in 0..file.tasks.min(8) {
            assert!(file.argv(task).is_some_and(|argv| !argv.is_empty()));
        }
    }
}

pub(crate) fn bind(data: &[u8]) {
    let text = raw::text(data);
    let all = [4, 5, 6, 7];
    let bind = bind::CpuBind::parse(&text);
    for local in [0, 1, 5] {
        let own = bind.of(local, 6, &all);
        assert!(!own.is_empty() && own.iter().all(|cpu| all.contains(cpu)));
        assert!(bind.of(local, 6, &[]).is_empty());
        let gpus: IdSet = [2, 3].into_iter().collect();
        if let Some(own) = bind::gpus(&text, local, &gpus) {
            assert!(own.iter().all(|gpu| gpus.contains(gpu)));
        }
    }
}

pub(crate) fn constraint(data: &[u8]) {
    let text = raw::text(data);
    if let Ok(constraint) = constraint::parse(&text) {
        let names: Vec<&str> = constraint.names().collect();
        assert!(names.iter().all(|name| !name.is_empty()));
        let _all = (constraint.matches(&names), constraint.matches(&[]));
        let counts = constraint.counts().iter().map(|(group, _)| group);
        for group in constraint.alternatives().iter().chain(counts) {
            let _some = group.matches(|name| names.first() == Some(&name));
        }
    }
}

pub(crate) fn filename(data: &[u8]) {
    let text = raw::text(data);
    for array in [None, Some((7, u32::MAX))] {
        let names = filename::Names {
            job: u32::MAX,
            array,
            step: StepKind::Batch,
            task: 1,
            node: 2,
            host: "n1",
            name: "%x\\",
            user: "u",
        };
        let _name = filename::expand(&text, &names);
    }
    let _each = filename::per_task(&text);
    let _target = filename::Target::parse(&text, 4);
}

pub(crate) fn signal(data: &[u8]) {
    let text = raw::text(data);
    if let Ok(signal) = signal::parse(&text) {
        assert_eq!(signal::parse(&signal::name(signal)), Ok(signal));
    }
    let _warning = signal::parse_warning(&text);
}

pub(crate) fn mail(data: &[u8]) {
    let text = raw::text(data);
    if let Some(events) = mail::Events::default().with(&text) {
        let again = mail::Events::default().with(&events.to_string());
        assert_eq!(again, Some(events));
    }
    let _each = mail::each_task(&text);
}

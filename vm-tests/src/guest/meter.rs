//! The meter on a real kernel, against a GPU that knows how long it was busy for whom, and against the kernel's own books.

use super::Outcome;
use super::lab::{ALICE, BOB};
use super::late;
use super::testgpu::{self, TestGpus};
use crate::cluster::SOON;
use crate::daemons::Daemons;
use crate::meter::groups::Groups;
use crate::meter::printer::{self, Printer};
use crate::meter::{Row, cpu, hold};
use crate::user::{self, Output, User};
use crate::vm::LATE_DIR;
use crate::{host, probe, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Child;

/// Loads of the test; `cargo xtask meter-check` has more.
const FEW: [u32; 3] = [1, 10, 100];

/// A disk in memory, of 64 MiB.
const DISK: (&str, &str) = ("brd", "rd_nr=1 rd_size=65536");
const DISK_NODE: &str = "/dev/ram0";

/// Jobs of different lengths and numbers, for either side.
const WORK: [(u32, u32); 2] = [(40_000, 30), (25_000, 48)];

/// What jobs call their work.
const TAGS: [u64; 3] = [1, 2, 3];

pub(super) fn gpu_time() -> Outcome {
    with_printer(|printer| testgpu::with(|gpus| hold(&gpu_rows(printer, gpus))))
}

pub(super) fn cpu_and_disk() -> Outcome {
    with_printer(|printer| {
        hold(&cpu_rows(printer, &FEW));
        Outcome::Held
    })
}

/// The same through a whole cluster.
pub(super) fn through_a_cluster() -> Outcome {
    testgpu::with(|gpus| hold(&cluster_rows(gpus)))
}

/// Two users' jobs that hold a GPU each, and a job that holds two and uses one, and what is said of them when they are over.
fn cluster_rows(gpus: &TestGpus) -> Vec<Row> {
    let daemons = Daemons::start("");
    let jobs = [(ALICE, 1), (BOB, 1), (ALICE, 2)];
    settled(|| {
        gpus.begin_anew();
        let started = [0, 1, 2].map(|at: usize| {
            let (user, count) = jobs[at];
            let gres = format!("--gres=gpu:spur_testgpu:{count}");
            let work = submit(TAGS[at], "compute", WORK[at % 2]);
            // On the first node that it may open.
            let on = |gpu: usize| {
                let (probe, node) = (daemons.probe(), &gpus.nodes[gpu]);
                format!("{probe} gpu {node} {work} wait")
            };
            daemons.wrap(user, &[&gres], &format!("{} || {}", on(0), on(1)))
        });
        let row = |at: usize| job_row(gpus, &daemons, &started[at], TAGS[at], jobs[at].1);
        vec![row(0), row(1), row(2)]
    })
}

/// What the job's report says, once it is final, beside the truth by the job's tag.
fn job_row(gpus: &TestGpus, daemons: &Daemons, job: &str, tag: u64, held: u64) -> Row {
    daemons.await_state(job, "COMPLETED");
    let report: String = wait::until(&format!("the usage of job {job} is final"), SOON, || {
        let shown = daemons.run(User::Root, &["spur", "usage", "--json", job]);
        shown.out.contains("\"live\": false").then_some(shown.out)
    });
    let busy = [0, 1].map(|gpu| gpus.by_tag(gpu, "compute", tag).busy_ns);
    assert!(busy.contains(&0), "job {job} used one GPU: {busy:?}");
    assert_eq!(field(&report, "gpus"), Some(held), "{report}");
    assert_eq!(field(&report, "gpus_used"), Some(1), "{report}");
    Row {
        point: 1,
        case: format!("a cluster's job {tag}, which holds {held}"),
        what: "gpu busy ns",
        measured: field(&report, "gpu_busy_us").map(|us| us * 1000),
        truth: busy.iter().sum(),
    }
}

/// A number of a report, by its first mention.
fn field(report: &str, name: &str) -> Option<u64> {
    let prefix = format!("\"{name}\": ");
    let line = report
        .lines()
        .find_map(|line| line.trim().strip_prefix(&prefix));
    line?.trim_end_matches(',').parse().ok()
}

/// Everything, printed; whether all is within the promise.
pub fn check(loads: &[u32]) -> bool {
    let Some(program) = printer::program() else {
        println!("meter-check: the meter's printer is not here");
        return false;
    };
    let mut printer = Printer::start(&program);
    let mut rows = cpu_rows(&mut printer, loads);
    if in_guest() {
        testgpu::with(|gpus| rows.extend(gpu_rows(&mut printer, gpus)));
        testgpu::with(|gpus| rows.extend(cluster_rows(gpus)));
    }
    for line in printer.coverage() {
        println!("meter: {line}");
    }
    for row in &rows {
        println!("{row}");
    }
    !rows.is_empty() && rows.iter().all(Row::good)
}

/// Modules can be loaded, and the whole machine is ours.
fn in_guest() -> bool {
    Path::new(LATE_DIR).is_dir()
}

fn with_printer(test: impl FnOnce(&mut Printer) -> Outcome) -> Outcome {
    match printer::program() {
        Some(program) => test(&mut Printer::start(&program)),
        None => Outcome::Skipped("the meter's printer is not packed".into()),
    }
}

fn cpu_rows(printer: &mut Printer, loads: &[u32]) -> Vec<Row> {
    if !in_guest() || !host::has_controller("io") {
        return cpu::check(printer, loads, None);
    }
    if let Some(why) = late::missing(DISK.0) {
        println!("meter: {why}");
        return cpu::check(printer, loads, None);
    }
    let disk = late::load(DISK.0, DISK.1);
    let rows = cpu::check(printer, loads, Some(DISK_NODE));
    drop(disk);
    rows
}

/// The two jobs of a comparison: a group each.
struct Pair<'a> {
    gpus: &'a TestGpus,
    probe: &'a str,
    name: &'a str,
    groups: [PathBuf; 2],
}

impl Pair<'_> {
    /// The probe with these words, born in one of the groups.
    fn start(&self, side: usize, words: &[&str]) -> Child {
        let group = self.groups[side].to_string_lossy();
        let mut args = vec![self.probe, "in", &group];
        args.extend(words);
        user::command(User::Root, &args).spawn().expect("it starts")
    }

    /// What the meter charged each side for a ring of a GPU, beside the truth by tag; and that it charged nothing else.
    fn compare(
        &self,
        printer: &mut Printer,
        ring: &str,
        gpus: [usize; 2],
        tags: [u64; 2],
    ) -> Vec<Row> {
        let reading = printer.read();
        let row = |side: usize| {
            let group = &self.groups[side];
            let busy = reading.busy_ns(group, &testgpu::name(gpus[side]), ring);
            assert_eq!(busy, reading.busy_in_all_ns(group), "{reading:?}");
            Row {
                point: 1,
                case: format!("{}, job {}", self.name, side + 1),
                what: "gpu busy ns",
                measured: Some(busy),
                truth: self.gpus.by_tag(gpus[side], ring, tags[side]).busy_ns,
            }
        };
        let rows = vec![row(0), row(1)];
        assert_eq!(reading.lost(), 0, "{reading:?}");
        rows
    }
}

/// A comparison: two jobs do something at the same time, on a ring of these GPUs.
type Case<'a> = (
    &'a str,
    &'a str,
    [usize; 2],
    fn(&Pair<'_>, &str, [usize; 2], [u64; 2]),
);

const CASES: [Case<'static>; 6] = [
    ("one GPU, one at a time", "compute", [0, 0], side_by_side),
    ("one GPU, queued ahead", "copy", [0, 0], side_by_side),
    ("a GPU each, one at a time", "compute", [0, 1], side_by_side),
    ("a GPU each, queued ahead", "copy", [0, 1], side_by_side),
    ("queued by children", "compute", [0, 0], children),
    ("a client that was passed on", "compute", [0, 0], passed),
];

/// How often a case is measured until it holds. An emulated machine on a busy host is now and then stopped for tens of milliseconds
/// between two instructions: when those are the scheduler's word that a job is handed over and the hardware's start, that time is
/// the meter's error in one reading. An error of the meter's own is in all of them.
const ATTEMPTS: usize = 3;

fn gpu_rows(printer: &mut Printer, gpus: &TestGpus) -> Vec<Row> {
    let groups = Groups::new();
    let dir = tempfile::tempdir().expect("a folder");
    let probe = probe::install(dir.path()).to_string_lossy().into_owned();
    // The scheduler's module came with the GPUs.
    printer.attach_late();
    let (mut all, mut number) = (Vec::new(), 0);
    for (name, ring, at, act) in CASES {
        all.extend(settled(|| {
            number += 1;
            gpus.begin_anew();
            let made = ["a", "b"].map(|side| groups.make(&format!("{number}{side}")));
            for group in &made {
                printer.add(group);
            }
            let pair = Pair {
                gpus,
                probe: &probe,
                name,
                groups: made,
            };
            let tags = [TAGS[0], TAGS[1]];
            act(&pair, ring, at, tags);
            pair.compare(printer, ring, at, tags)
        }));
    }
    all
}

/// Rows that hold, or those of the last attempt.
fn settled(mut measure: impl FnMut() -> Vec<Row>) -> Vec<Row> {
    let mut rows = measure();
    for _ in 1..ATTEMPTS {
        if rows.iter().all(Row::good) {
            break;
        }
        for row in &rows {
            println!("meter: measured again: {row}");
        }
        rows = measure();
    }
    rows
}

fn submit(tag: u64, ring: &str, (micros, count): (u32, u32)) -> String {
    format!("submit:{tag}:{ring}:{micros}:{count}")
}

fn side_by_side(pair: &Pair<'_>, ring: &str, at: [usize; 2], tags: [u64; 2]) {
    let running = [0, 1].map(|side| {
        let work = submit(tags[side], ring, WORK[side]);
        pair.start(side, &["gpu", &pair.gpus.nodes[at[side]], &work, "wait"])
    });
    for child in running {
        Output::of(child).good();
    }
}

/// Work is whoever's who queues it: a child's is its group's, and when it has gone to another group, that one's.
fn children(pair: &Pair<'_>, ring: &str, at: [usize; 2], tags: [u64; 2]) {
    let [mine, theirs] = [0, 1].map(|side| submit(tags[side], ring, WORK[side]));
    let other = format!("group:{}", pair.groups[1].display());
    let node = &pair.gpus.nodes[at[0]];
    let steps = ["gpu", node, &mine, "child", &mine, &other, &theirs, "wait"];
    Output::of(pair.start(0, &steps)).good();
}

/// The one who opened it does nothing; two others use its descriptor.
fn passed(pair: &Pair<'_>, ring: &str, at: [usize; 2], tags: [u64; 2]) {
    let name = format!("spur-meter-{}", pair.groups[0].display());
    let name = name.replace('/', "-");
    let mut holder = pair.start(0, &["hold", &name, &pair.gpus.nodes[at[0]]]);
    let from = format!("from:{name}");
    wait::until_true("the holder listens", SOON, || {
        host::read(Path::new("/proc/net/unix")).contains(&name)
    });
    let running = [0, 1].map(|side| {
        let work = submit(tags[side], ring, WORK[side]);
        pair.start(side, &["gpu", &from, &work, "wait"])
    });
    for child in running {
        Output::of(child).good();
    }
    // `timeout` passes it on.
    let pid = Pid::from_child(&holder);
    kill_process(pid, Signal::TERM).expect("it runs");
    holder.wait().expect("a child can be waited for");
}

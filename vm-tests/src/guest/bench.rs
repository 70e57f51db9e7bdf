//! What the fence and the guard cost on a device that is granted: an open, an ioctl and a mapping of `vgem`'s render node, with
//! none, with the fence, and with both, in turns.

use super::lab::{ALICE, Lab, VGEM};
use crate::cluster::SOON;
use crate::user::{self, Output, User};
use crate::wait;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Turns of all three; the least figure of each counts, for a busy machine only ever adds.
const TURNS: usize = 3;

/// Operations of one batch.
const COUNT: &str = "100";

const OPERATIONS: [&str; 3] = ["open", "ioctl", "mmap"];

/// Where a process stands.
const PLACES: [&str; 4] = [
    "none",
    "fence",
    "fence and guard",
    "outside, beside the guard",
];

/// Least nanoseconds so far, by place and operation.
type Least = BTreeMap<(&'static str, &'static str), f64>;

/// Measures and prints lines `bench: …`.
pub fn run() {
    let mut lab = Lab::start();
    let guarded = lab.guarded;
    let home = lab.daemons.home(ALICE);
    let probe = lab.daemons.probe();
    // One job through all turns: on request it measures.
    let line = format!(
        "while ! test -e stop; do if test -e go; then rm -f go; {probe} bench {VGEM} {COUNT} > new; mv new done; fi; sleep 0.05; done"
    );
    let job = lab.daemons.wrap(ALICE, &["--gres=gpu:vgem:1"], &line);
    lab.daemons.await_state(&job, "RUNNING");
    let inside = || {
        fs::remove_file(home.join("done")).ok();
        // The folder is the user's, and the file must be the user's to remove.
        fs::write(home.join("go"), "").expect("a file can be made");
        wait::until("the job has measured", SOON, || {
            fs::read_to_string(home.join("done")).ok()
        })
    };
    let (mut least, mut pins) = (Least::new(), 0);
    for _ in 0..TURNS {
        if guarded {
            note(&mut least, "fence and guard", &inside());
            note(&mut least, "outside, beside the guard", &outside(&lab));
            lab.daemons.kill_agent();
            pins = take_guard_down(&lab);
        }
        note(&mut least, "fence", &inside());
        note(&mut least, "none", &outside(&lab));
        if guarded {
            lab.daemons.start_agent();
            // What the controller says may be older than the agent: the pins are the new agent's.
            wait::until_true("the guard is pinned again", SOON, || {
                guard_pins(&lab).is_some_and(|folder| super::files_below(&folder) >= pins)
            });
            lab.await_guard();
        }
    }
    fs::write(home.join("stop"), "").expect("a file can be made");
    lab.await_end(&job);
    print(&least);
}

/// The same, by root in a group beside the jobs: what groups themselves cost is no cost of the fence.
fn outside(lab: &Lab) -> String {
    let group = crate::host::cgroup2()
        .expect("it is mounted")
        .join("bench/none");
    fs::create_dir_all(&group).expect("root may make groups");
    // As below the agent's own folder: every controller that there is.
    let list = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    for name in list.split_whitespace() {
        fs::write(
            "/sys/fs/cgroup/bench/cgroup.subtree_control",
            format!("+{name}"),
        )
        .ok();
    }
    let line = format!(
        "echo $$ > {}/cgroup.procs; exec {} bench {VGEM} {COUNT}",
        group.display(),
        lab.daemons.probe()
    );
    let mut command = user::command(User::Root, &["sh", "-c", &line]);
    command.env("PATH", "/usr/bin");
    Output::of(command.spawn().expect("timeout(1) is installed")).good()
}

/// How many BPF programs the machine has. Those of a link outlive it until the kernel asks them no more.
fn programs(lab: &Lab) -> usize {
    lab.outside(User::Root, &["programs"])
        .outcomes("program", "open")
        .len()
}

/// The folder of the guard's pins, once there is one.
fn guard_pins(lab: &Lab) -> Option<PathBuf> {
    let mut folders = vec![lab.daemons.dir().join("bpf")];
    while let Some(folder) = folders.pop() {
        if folder.ends_with("guard") {
            return Some(folder);
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| path.is_dir()),
        );
    }
    None
}

/// The guard's programs hang on their pins once the agent is dead. Returns how many files that were.
fn take_guard_down(lab: &Lab) -> usize {
    let folder = guard_pins(lab).expect("a guarded node has pins of the guard");
    let count = super::files_below(&folder);
    let before = programs(lab);
    fs::remove_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    wait::until_true("the guard's programs are gone", SOON, || {
        programs(lab) + 8 < before
    });
    count
}

fn note(least: &mut Least, place: &'static str, text: &str) {
    for operation in OPERATIONS {
        let prefix = format!("bench {operation} ");
        let figure: Option<f64> = text
            .lines()
            .find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok());
        let figure = figure.unwrap_or_else(|| panic!("no figure of {operation} in {text:?}"));
        let known = least.entry((place, operation)).or_insert(figure);
        *known = known.min(figure);
    }
}

fn print(least: &Least) {
    println!("bench: nanoseconds, and ratio to none; least of {TURNS} turns");
    for place in PLACES {
        let cell = |operation| {
            let (figure, none) = (
                least.get(&(place, operation))?,
                least.get(&("none", operation))?,
            );
            Some(format!("{operation} {figure:.0} ({:.2})", figure / none))
        };
        let cells: Option<Vec<String>> = OPERATIONS.into_iter().map(cell).collect();
        match cells {
            Some(cells) => println!("bench: {place:<26} {}", cells.join("  ")),
            None => println!("bench: {place:<26} not on this kernel"),
        }
    }
}

//! Jobs that come and go leave nothing: no cgroup, pin, link, map, descriptor, folder, and no memory in the agent.
//!
//! 200 jobs run with the other tests. `SPUR_LEAK_JOBS=10000 cargo nextest run -p spur-agent leave_nothing --no-capture` runs as many
//! as that says and prints what it measured.

use super::node::{Node, possible, wait};
use super::orders::run;
use spur_core::agent::order::{FromAgent, Report};
use std::collections::BTreeMap;
use std::time::Instant;

/// Jobs that are there at the same time.
const WIDTH: u32 = 8;

/// Growth of the agent's memory that is no leak: pages that its allocator keeps, and its journal's reports.
const GROWTH_KIB_MAX: u64 = 4096;

/// The agent's own threads, and those for slow work.
const THREADS_MAX: u64 = 64 + 8;

/// What an agent has: kinds of descriptors with their number, memory in KiB.
#[derive(Debug)]
struct Measured {
    descriptors: BTreeMap<String, usize>,
    resident_kib: u64,
    threads: u64,
}

fn measure(pid: u32) -> Measured {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = |key: &str| -> u64 {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut descriptors = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
    {
        let Ok(target) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let text = target.to_string_lossy().into_owned();
        let kind = text.split(":[").next().unwrap_or_default().to_owned();
        *descriptors.entry(kind).or_default() += 1;
    }
    Measured {
        descriptors,
        resident_kib: number("VmRSS:"),
        threads: number("Threads:"),
    }
}

/// The same once no file is being put in place of another: its draft, the file that it replaces and their folder are open for
/// a moment only.
fn settled(node: &Node) -> Measured {
    let passing = |name: &String| {
        name.ends_with(".new") || name.ends_with(" (deleted)") || name.ends_with("/spool")
    };
    wait("no file is being replaced", || {
        let measured = measure(node.agent_pid());
        (!measured.descriptors.keys().any(passing)).then_some(measured)
    })
}

/// BPF objects of the whole machine that belong to this fence: links of its program.
fn links(node: &Node) -> usize {
    let fence = spur_ebpf::Fence::open_or_load(&node.pins()).unwrap();
    spur_ebpf::doctor::links_of(fence.program_id())
}

fn cleaned(node: &Node, from: u32) -> u32 {
    let heard = node.controller.heard(|message| match message {
        FromAgent::Report {
            report: Report::Cleaned { job, .. },
            ..
        } if job.0 >= from => Some(()),
        _ => None,
    });
    u32::try_from(heard.len()).unwrap()
}

/// Runs jobs with these numbers to their end.
fn run_all(node: &Node, numbers: std::ops::Range<u32>) {
    let first = numbers.start;
    for number in numbers.clone() {
        run(
            node,
            number,
            u64::from(number) + 5,
            &[number % WIDTH],
            "exit 0",
        );
        wait("a place is free", || {
            let ended = node.controller.heard(|message| match message {
                FromAgent::Report {
                    report:
                        Report::StepEnded {
                            job, generation, ..
                        },
                    ..
                } if job.0 >= first => Some((*job, *generation)),
                _ => None,
            });
            for (job, generation) in ended {
                node.controller.revoke_once(job.0, generation.0);
            }
            (number - first < cleaned(node, first) + WIDTH).then_some(())
        });
    }
    wait("the last job has ended", || {
        let ended = node.controller.heard(|message| match message {
            FromAgent::Report {
                report:
                    Report::StepEnded {
                        job, generation, ..
                    },
                ..
            } if job.0 >= first => Some((*job, *generation)),
            _ => None,
        });
        for (job, generation) in ended {
            node.controller.revoke_once(job.0, generation.0);
        }
        (cleaned(node, first) >= numbers.end - first).then_some(())
    });
}

#[test]
fn jobs_that_come_and_go_leave_nothing() {
    if !possible() {
        return;
    }
    let jobs: u32 = std::env::var("SPUR_LEAK_JOBS").ok().map_or(200, |text| {
        text.parse().expect("SPUR_LEAK_JOBS is a number")
    });
    let warm_up = (jobs / 10).clamp(20, 1000);
    let node = Node::start("");
    run_all(&node, 1..warm_up + 1);
    node.controller.forget();
    let (before, links_before) = (settled(&node), links(&node));
    let begun = Instant::now();
    // In parts, so that this test's own memory stays small too.
    let mut next = warm_up + 1;
    while next <= jobs {
        let end = (next + 500).min(jobs + 1);
        run_all(&node, next..end);
        node.controller.forget();
        next = end;
    }
    let after = settled(&node);
    eprintln!(
        "{} jobs in {:?} ({:?} each): {before:?} -> {after:?}",
        jobs - warm_up,
        begun.elapsed(),
        begun.elapsed() / (jobs - warm_up)
    );
    let group = node.job_cgroup(1);
    let groups: Vec<_> = std::fs::read_dir(group.parent().unwrap())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    assert!(groups.is_empty(), "{groups:?}");
    let pins: Vec<_> = std::fs::read_dir(spur_ebpf::links_folder(&node.pins()))
        .unwrap()
        .flatten()
        .collect();
    assert!(pins.is_empty(), "{pins:?}");
    let steps: Vec<_> = std::fs::read_dir(node.dir.path().join("state/steps"))
        .unwrap()
        .flatten()
        .collect();
    assert!(steps.is_empty(), "{steps:?}");
    assert_eq!((links_before, links(&node)), (0, 0), "links in the kernel");
    assert_eq!(before.descriptors, after.descriptors, "descriptors");
    assert!(after.threads <= THREADS_MAX, "{} threads", after.threads);
    let grown = after.resident_kib.saturating_sub(before.resident_kib);
    assert!(grown <= GROWTH_KIB_MAX, "grew by {grown} KiB");
    node.finish();
}

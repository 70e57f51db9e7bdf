//! The tests that run in the virtual machine: pure version 2 control groups with every controller, a real render node, and a
//! kernel that loads the BPF LSM.

mod dev;
mod fence;
mod launch;
mod limits;
mod restart;

use std::panic;
use std::time::Instant;

/// What a test is told when it cannot be made on this kernel.
pub enum Outcome {
    /// It held.
    Held,
    /// This kernel lacks what it needs.
    Skipped(String),
}

/// A test: panics when it does not hold.
type Test = fn() -> Outcome;

/// All of them, in order: the plain ones first, so that the first failure is the one to look at.
const TESTS: &[(&str, Test)] = &[
    (
        "where_nothing_fences_the_probe_gets_through",
        fence::unfenced,
    ),
    ("a_granted_render_node_answers", fence::granted),
    (
        "a_render_node_that_is_not_granted_is_refused",
        fence::not_granted,
    ),
    (
        "every_way_to_a_refused_render_node_is_closed",
        fence::every_way,
    ),
    ("a_refusal_is_reported", fence::reported),
    ("a_job_is_its_user", launch::identity),
    ("a_job_keeps_its_exit_code", launch::exit_code),
    ("memory_is_limited", limits::memory),
    ("processes_are_limited", limits::processes),
    ("cpus_are_limited", limits::cpus),
    ("a_killed_agent_lets_nothing_through", restart::agent),
    ("a_killed_controller_loses_nothing", restart::controller),
    ("what_ignores_signals_is_killed", restart::stubborn),
    ("a_dev_cluster_leaves_nothing", dev::leaves_nothing),
    (
        "a_dev_cluster_leaves_nothing_after_kill_9",
        dev::leaves_nothing_after_kill,
    ),
];

/// Runs all tests, or those whose name contains one of the words. Returns whether none failed.
pub fn run(words: &[String]) -> bool {
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        let started = Instant::now();
        let result = panic::catch_unwind(test);
        let ms = started.elapsed().as_millis();
        match result {
            Ok(Outcome::Held) => println!("guest: {name} ok in {ms} ms"),
            Ok(Outcome::Skipped(why)) => println!("guest: {name} skipped {why}"),
            Err(cause) => {
                failed += 1;
                let text = cause.downcast_ref::<String>().map(String::as_str);
                let text = text
                    .or_else(|| cause.downcast_ref::<&str>().copied())
                    .unwrap_or("panic");
                println!(
                    "guest: {name} FAILED after {ms} ms: {}",
                    text.lines().next().unwrap_or("")
                );
            }
        }
    }
    failed == 0
}

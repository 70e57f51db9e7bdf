//! The tests that run in the virtual machine: pure version 2 control groups with every controller, a real render node, and a
//! kernel that loads the BPF LSM.

pub mod bench;
mod change;
mod dev;
mod fence;
mod holders;
pub mod kernel;
mod lab;
mod late;
mod launch;
mod limits;
mod lockdown;
pub mod meter;
mod passing;
mod reaching;
mod restart;
mod systemd;
mod testgpu;

use crate::daemons::Daemons;
use lab::Lab;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::time::Instant;

/// What a test is told when it cannot be made on this kernel.
pub enum Outcome {
    /// It held.
    Held,
    /// This kernel lacks what it needs.
    Skipped(String),
}

/// A test: panics when it does not hold.
enum Test {
    /// On the cluster that all of these share: starting one takes longer than most tests.
    Lab(fn(&Lab) -> Outcome),
    /// On a cluster of exactly this machine, which these share.
    Plain(fn(&Daemons) -> Outcome),
    /// With a cluster of its own, or none.
    Own(fn() -> Outcome),
}
use Test::{Lab as InLab, Own, Plain};

/// The clusters that tests share; never two at once.
#[derive(Default)]
struct Shared {
    lab: Option<Lab>,
    plain: Option<Daemons>,
}

/// All of them, in order: the plain ones first, so that the first failure is the one to look at. Those that share a cluster stand
/// together.
const TESTS: &[(&str, Test)] = &[
    (
        "where_nothing_fences_the_probe_gets_through",
        Own(fence::unfenced),
    ),
    (
        "the_node_says_how_well_it_is_closed",
        InLab(reaching::state),
    ),
    ("a_granted_render_node_answers", InLab(fence::granted)),
    (
        "a_render_node_that_is_not_granted_is_refused",
        InLab(fence::not_granted),
    ),
    (
        "every_way_to_a_refused_render_node_is_closed",
        InLab(fence::every_way),
    ),
    ("a_refusal_is_reported", InLab(fence::reported)),
    (
        "a_gpu_is_granted_by_its_identity",
        InLab(holders::by_identity),
    ),
    (
        "a_descriptor_does_not_pass_over_a_socket",
        InLab(passing::by_socket),
    ),
    (
        "descriptors_pass_within_a_job",
        InLab(passing::within_a_job),
    ),
    (
        "a_descriptor_is_not_taken_from_another_process",
        InLab(passing::by_process),
    ),
    ("a_gpu_buffer_does_not_pass", InLab(passing::buffers)),
    ("nothing_open_is_inherited", InLab(passing::inherited)),
    ("a_job_next_door_is_not_traced", InLab(reaching::trace)),
    ("signals_are_left_to_the_users", InLab(reaching::signals)),
    (
        "a_ring_with_a_kernel_thread_opens_nothing",
        InLab(reaching::poll_thread),
    ),
    ("a_job_takes_no_fence_down", InLab(reaching::take_down)),
    (
        "raw_memory_is_refused_to_root_too",
        InLab(reaching::raw_memory),
    ),
    (
        "the_files_of_a_pci_device_are_refused",
        InLab(reaching::sysfs),
    ),
    ("mounts_and_overlays_lead_nowhere", InLab(reaching::mounts)),
    ("a_holder_has_no_primary_node", InLab(reaching::cards)),
    ("everyday_devices_are_free", InLab(reaching::everyday)),
    ("first_acts_are_refused", InLab(reaching::first_acts)),
    (
        "who_has_a_gpu_open_keeps_it_from_the_next_job",
        InLab(holders::outside_holder),
    ),
    ("jobs_leave_nothing", InLab(holders::nothing_piles_up)),
    (
        "a_minor_that_changes_hands_leaves_its_holder",
        InLab(change::swapped_minors),
    ),
    (
        "a_driver_that_is_reloaded_gives_and_takes_by_identity",
        InLab(change::reloaded_driver),
    ),
    (
        "programs_detached_by_hand_come_back",
        InLab(restart::detached),
    ),
    ("a_job_is_its_user", InLab(launch::identity)),
    ("a_job_keeps_its_exit_code", InLab(launch::exit_code)),
    ("memory_is_limited", Plain(limits::memory)),
    ("processes_are_limited", Plain(limits::processes)),
    ("cpus_are_limited", Plain(limits::cpus)),
    ("what_ignores_signals_is_killed", Plain(restart::stubborn)),
    ("systemd_reloads_and_changes_nothing", Own(systemd::reloads)),
    ("a_killed_agent_lets_nothing_through", Own(restart::agent)),
    (
        "a_killed_controller_loses_nothing",
        Own(restart::controller),
    ),
    (
        "a_test_gpu_takes_the_time_it_says",
        Own(testgpu::takes_time),
    ),
    (
        "what_a_killed_client_queued_on_a_test_gpu_is_dropped",
        Own(testgpu::killed),
    ),
    (
        "a_job_keeps_one_test_gpu_busy_and_opens_no_other",
        Own(testgpu::fenced),
    ),
    (
        "the_meter_knows_each_jobs_time_on_a_gpu",
        Own(meter::gpu_time),
    ),
    (
        "a_jobs_usage_says_how_long_its_gpu_was_busy",
        Own(meter::through_a_cluster),
    ),
    (
        "the_meter_knows_each_jobs_cpu_time_and_block_io",
        Own(meter::cpu_and_disk),
    ),
    ("a_dev_cluster_leaves_nothing", Own(dev::leaves_nothing)),
    (
        "a_dev_cluster_leaves_nothing_after_kill_9",
        Own(dev::leaves_nothing_after_kill),
    ),
    ("lockdown_is_lived_with_or_said", Own(lockdown::both_levels)),
];

/// The names of all tests.
pub fn names() -> impl Iterator<Item = &'static str> {
    TESTS.iter().map(|(name, _)| *name)
}

/// How many files a folder and those below it have.
fn files_below(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                files_below(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

/// Runs one test, with the shared cluster if it wants that; a failure takes the cluster down, for nobody knows its state.
fn run_one(test: &Test, shared: &mut Shared) -> Result<Outcome, String> {
    let result = panic::catch_unwind(AssertUnwindSafe(|| match test {
        Own(test) => {
            *shared = Shared::default();
            test()
        }
        InLab(test) => {
            shared.plain.take();
            test(shared.lab.get_or_insert_with(Lab::start))
        }
        Plain(test) => {
            shared.lab.take();
            test(shared.plain.get_or_insert_with(|| Daemons::start("")))
        }
    }));
    result.map_err(|cause| {
        for daemons in shared
            .lab
            .iter()
            .map(|lab| &lab.daemons)
            .chain(&shared.plain)
        {
            println!("{}", daemons.logs());
        }
        *shared = Shared::default();
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| cause.downcast_ref::<&str>().copied())
            .unwrap_or("panic");
        text.lines().next().unwrap_or("").to_owned()
    })
}

/// Runs all tests, or those whose name contains one of the words. Returns whether none failed.
pub fn run(words: &[String]) -> bool {
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let (mut failed, mut shared) = (0, Shared::default());
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        let started = Instant::now();
        let result = run_one(test, &mut shared);
        let ms = started.elapsed().as_millis();
        match result {
            Ok(Outcome::Held) => println!("guest: {name} ok in {ms} ms"),
            Ok(Outcome::Skipped(why)) => println!("guest: {name} skipped {why}"),
            Err(why) => {
                failed += 1;
                println!("guest: {name} FAILED after {ms} ms: {why}");
            }
        }
    }
    failed == 0
}

//! Daemons killed at random under a mixed workload.

use crate::possible;
use vm_tests::chaos;

/// What the gate runs; `cargo xtask chaos` sets others.
const SEED: u64 = 20_261_130;
const KILLS: u32 = 200;

#[test]
fn every_job_ends_once_and_as_it_must_whatever_is_killed() {
    if !possible() {
        return;
    }
    let seed = set("SPUR_CHAOS_SEED").unwrap_or(SEED);
    let kills = set("SPUR_CHAOS_KILLS").and_then(|kills| kills.try_into().ok());
    let outcome = chaos::run(seed, kills.unwrap_or(KILLS));
    let (controller, agents) = outcome.kills;
    println!(
        "seed {seed}: {} jobs, the controller killed {controller} times, agents {agents} times, {} wrong",
        outcome.jobs,
        outcome.wrong.len()
    );
    assert!(outcome.wrong.is_empty(), "{}", outcome.wrong.join("\n"));
    let least = usize::try_from(kills.unwrap_or(KILLS)).expect("a usize");
    assert!(
        outcome.jobs >= least,
        "{} jobs were acknowledged, fewer than kills",
        outcome.jobs
    );
}

fn set(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

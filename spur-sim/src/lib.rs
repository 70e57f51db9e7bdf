//! Deterministic simulation of a whole cluster on the real core: one seed decides the workload, every delay and every fault.
//!
//! The state machine, the planner and the agents' reconciler are the real ones; what is simulated is around them: the disk
//! (what was not durable is lost in a crash), the network (delays, cuts, late messages of old streams), machines that reboot,
//! agents and a controller that die at any moment, clients and an operator. After every event the rules of
//! [`spur_core::check`] are checked, and the oracle's own: an acknowledged job is never lost, a number is never used twice, a
//! device is never held twice on a machine, a step never runs twice in a placement. Then faults stop, and everything must
//! drain.
//!
//! ```
//! let outcome = spur_sim::run(7, &spur_sim::Params::default());
//! assert_eq!(outcome.failure, None);
//! ```
#![forbid(unsafe_code)]

mod client;
mod controller;
mod faults;
mod machine;
mod oracle;
mod outcome;
mod params;
pub mod place;
mod queue;
pub mod replay;
mod rng;
mod workload;
mod world;

pub use outcome::{Failure, Outcome, Summary};
pub use params::{Faults, Params};

/// Runs one simulation to its end. The same seed and parameters give the same outcome on every machine.
pub fn run(seed: u64, params: &Params) -> Outcome {
    world::World::new(seed, params).run()
}

/// Runs every seed of `seeds` until one fails.
pub fn sweep(seeds: std::ops::Range<u64>, params: &Params) -> Result<Summary, Failure> {
    let mut summary = Summary::default();
    for seed in seeds {
        summary.add(run(seed, params))?;
    }
    Ok(summary)
}

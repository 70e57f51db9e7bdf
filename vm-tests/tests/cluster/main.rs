//! What a cluster must show, by its commands, on the machine that builds it. As root; each test makes its own cluster and
//! leaves nothing. `cargo xtask test` runs them one at a time: they share one kernel.

mod bad_input;
mod behaviours;
mod canary;
mod chaos;
mod clients;
mod daemons;
mod fence;
mod first_act;
mod full_disk;
mod gangs;
mod golden;
mod het;
mod leftovers;
mod log_tail;
mod mpi;
mod names;
mod odd;
mod operators;
mod records;
mod steps;
mod surface;
mod teardown;
mod usage;
mod waiting;

use vm_tests::host;

/// Whether a cluster can be made here; says why if not.
fn possible() -> bool {
    if !host::is_root() {
        host::skip("fencing takes root");
    } else if host::cgroup2().is_none() {
        host::skip("no version 2 tree of control groups is mounted");
    } else {
        return true;
    }
    false
}

//! The agent as a process, on the running kernel, against a controller made for the tests. Needs root and a cgroup v2 tree.

#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of the tests"
)]

mod agent {
    pub mod controller;
    pub mod doctor;
    pub mod fences;
    pub mod leaks;
    pub mod metering;
    pub mod node;
    pub mod orders;
    pub mod programs;
    pub mod restarts;
    pub mod steps;
    pub mod unfenced;
    pub mod watchdog;
}

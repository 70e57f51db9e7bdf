//! Steps under real supervisors on the real kernel. Needs root and a cgroup v2 tree.

#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    reason = "helpers of the tests"
)]

mod launch {
    pub mod attach;
    pub mod control;
    pub mod fence;
    pub mod hooks;
    pub mod identity;
    pub mod mpi;
    pub mod streams;
    pub mod support;
    pub mod terminal;
}

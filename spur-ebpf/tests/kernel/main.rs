//! The fence in the running kernel. Needs root, a cgroup v2 tree and Linux 5.10 or newer.

#![expect(
    clippy::unwrap_used,
    reason = "a test panics, so that its failure keeps its stack"
)]

mod actor;
mod adoption;
mod audit;
mod budget;
mod drm;
mod guard;
mod lab;
mod looper;
mod meter;
mod nested;
mod policy;
mod proof;
mod refusal;
mod stacking;
mod upgrade;
mod uring;
mod watch;

//! The whole of spur's thinking, and nothing else.
//!
//! Here live the types, Slurm's grammars, the cluster state machine, the planner and the node reconciler.
//! Never here: I/O, a clock, randomness, threads, async, `unsafe`. Time enters as a [`time::Millis`] argument.
#![forbid(unsafe_code)]

pub mod agent;
pub mod api;
pub mod check;
pub mod cluster;
pub mod denial;
pub mod effect;
pub mod event;
#[cfg(test)]
mod fixture;
pub mod id;
pub mod job;
pub mod manage;
pub mod mesh;
pub mod node;
pub mod partition;
pub mod plan;
pub mod pmi;
pub mod pmix;
pub mod resources;
pub mod slurm;
pub mod time;
pub mod topology;
pub mod usage;
pub mod view;

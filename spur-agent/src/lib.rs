//! The node agent spurd: discover, fence, launch, meter, stream, mesh.

pub mod act;
pub mod agent;
pub mod audit;
pub mod cgroup;
pub mod clients;
pub mod compose;
pub mod config;
pub mod discover;
pub mod fence;
pub mod hollow;
pub mod journal;
pub mod keys;
pub mod launch;
pub mod link;
pub mod meter;
pub mod node;
pub mod pmix;
pub mod programs;
pub mod stuck;
pub mod supervise;
pub mod sys;
#[cfg(test)]
mod testing;
pub mod uevents;
pub mod watchdog;

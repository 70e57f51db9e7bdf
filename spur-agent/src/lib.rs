//! The node agent spurd: discover, fence, launch, meter, stream, mesh.

pub mod cgroup;
pub mod compose;
pub mod config;
pub mod discover;
pub mod fence;
pub mod journal;
pub mod launch;
pub mod supervise;
pub mod sys;
#[cfg(test)]
mod testing;

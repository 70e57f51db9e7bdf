//! The node agent spurd: discover, fence, launch, meter, stream, mesh.

pub mod cgroup;
pub mod config;
pub mod discover;
pub mod fence;
pub mod launch;
pub mod supervise;
pub mod sys;

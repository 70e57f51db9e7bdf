//! Keeping each job to its GPUs: which device numbers are fenced, which belong to a GPU now, and the proof that the fence holds.

pub mod bits;
pub mod canary;
pub mod classes;
pub mod node;
pub mod probe;
pub mod resolve;
pub mod standin;

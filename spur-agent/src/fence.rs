//! Keeping each job to its GPUs: which device numbers are fenced, which belong to a GPU now, and the proof that the fence holds.

pub mod bits;
pub mod canary;
pub mod change;
pub mod classes;
pub mod guarding;
pub mod holders;
pub mod mount;
pub mod node;
pub mod probe;
pub mod resolve;
pub mod revoke;
pub mod standin;
pub mod table;
pub mod watch;
pub mod watched;

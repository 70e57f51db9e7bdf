//! x
pub mod vm;

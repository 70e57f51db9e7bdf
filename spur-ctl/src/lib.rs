//! The controller and every command, one binary spur with many names.

pub mod cli;

//! Every command, one binary spur with many names, and the controller, the binary spurctld.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod denials;
pub mod dev;
pub mod driver;
pub mod error;
pub mod front;
pub mod hooks;
pub mod links;
pub mod mail;
pub mod programs;
pub mod readers;
pub mod service;
pub mod store;
pub mod usage;

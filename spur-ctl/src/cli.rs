//! The commands: parse ([`flags`]), resolve, act, render.

pub mod failure;
pub mod flags;
pub mod render;
pub mod resolve;

//! The node agent's pure half: what a node was told, what it observes, and the ordered actions between the two.

pub mod desired;
pub mod order;
pub mod programs;
pub mod reconcile;
pub mod roll;

#[cfg(test)]
mod fixtures;

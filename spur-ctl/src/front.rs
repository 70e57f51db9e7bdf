//! Fronts: what carries requests. They translate, find out who asks, and decide nothing.

pub mod accept;
pub mod agents;
pub mod auth;
pub mod calls;
pub mod door;
mod places;
pub mod socket;

//! Deterministic simulation of a whole cluster on the real core.

//! Views of values like those of the recorded cluster, next to what the real commands printed.

pub(crate) mod golden;
pub(crate) mod samples;
mod words;

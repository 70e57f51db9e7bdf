//! Structured output: `--json` and `--yaml` in the shapes of Slurm's data parsers. A [`Document`] is written from front to back
//! without a tree in memory: ten thousand jobs are some ninety megabytes.

pub mod asked;
pub mod envelope;
pub mod job;
mod json;
pub mod node;
pub mod partition;
pub mod reservation;
pub mod step;
mod writer;
mod yaml;

pub use asked::{Asked, Parser, asked};
pub use envelope::{Meta, Problem};
pub use writer::{Document, Number};

/// A text without the words that stand for nothing.
pub fn bare(text: &str) -> &str {
    match text {
        "(null)" | "N/A" => "",
        text => text,
    }
}

#[cfg(test)]
mod tests;

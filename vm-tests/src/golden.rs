//! What the real Slurm prints, held against ours: plays recorded commands (`../shared/slurm-golden`, never copied here) in the
//! situation in which they were recorded, and compares standard output, standard error and exit code.
//!
//! ```text
//!  record   a recorded file: the command, who ran it, what came of it
//!  scene    the situations: which steps come in which order, and what must be so before a view is taken
//!  site     the cluster of the recording: four nodes, one user, its folders, in name spaces of its own
//!  play     runs scenes, keeps what came of each file
//!  mask     times, process numbers and what else is never the same, by rule, on both sides alike
//!  judge    which files match; which differ on purpose (`intended.tsv`), which are known to differ (`known.tsv`), and how
//! ```
//!
//! The bin `golden` is the command; `cargo xtask golden` and the cluster tests run it.

pub mod judge;
pub mod mask;
pub mod play;
pub mod record;
pub mod scene;
pub mod site;

#[cfg(test)]
mod tests;

//! From values of the core to text: pure, so that every column and record can be tested without a controller.

pub mod accounts;
pub mod clock;
pub mod data;
pub mod format;
pub mod job_columns;
pub mod job_row;
pub mod job_text;
pub mod node_columns;
pub mod node_groups;
pub mod node_text;
pub mod record;
pub mod show_job;
pub mod show_node;
pub mod show_partition;
pub mod show_reservation;
pub mod show_step;
pub mod show_topology;
pub mod step_columns;

/// The level of Slurm's behaviour that is claimed.
pub const SLURM_LEVEL: &str = "24.11.5";

/// What every view needs beside the values.
#[derive(Debug)]
pub struct View {
    /// The present, and how moments are written.
    pub clock: clock::Clock,
    /// Names of users by number, for values that carry only the number.
    pub users: std::collections::BTreeMap<u32, String>,
    /// Sizes stay in MiB (`--noconvert`).
    pub raw_sizes: bool,
    /// Name of the cluster, where a view shows it.
    pub cluster: String,
    /// Names of files with their symbols replaced (`--expand-patterns`).
    pub expand_patterns: bool,
}

impl View {
    /// Of a clock, with nothing else known.
    pub fn new(clock: clock::Clock) -> Self {
        Self {
            clock,
            users: std::collections::BTreeMap::new(),
            raw_sizes: false,
            cluster: String::new(),
            expand_patterns: false,
        }
    }

    /// A size in MiB, in the largest unit that divides it.
    pub fn mib(&self, mib: u64) -> String {
        let mut text = String::new();
        self.write_mib(mib, &mut text);
        text
    }

    /// Adds the same.
    pub fn write_mib(&self, mib: u64, out: &mut String) {
        if self.raw_sizes {
            spur_core::slurm::digits::push(out, mib);
            out.push('M');
        } else {
            spur_core::slurm::size::write_mib(mib, out);
        }
    }

    /// The name of a user, or the number.
    pub fn user(&self, uid: spur_core::id::Uid) -> String {
        self.users
            .get(&uid.0)
            .cloned()
            .unwrap_or_else(|| uid.to_string())
    }
}

/// Slurm's way of writing that there is nothing.
pub(crate) fn or_null(text: &str) -> &str {
    if text.is_empty() { "(null)" } else { text }
}

#[cfg(test)]
pub(crate) mod tests;

//! MPI's process management interface (PMI): what the processes of an MPI program ask whoever started them, on one socket each.
//!
//! [`wire`] is the grammar of both protocols (PMI-1, which MPICH speaks by itself, and PMI-2), [`node`] answers the tasks of one
//! node, [`step`] is the other half, in srun: it brings together what the nodes say. The words are those of MPICH's clients.

pub mod mapping;
pub mod node;
pub mod step;
pub mod wire;

/// Most bytes of keys and values that a step may hold; what goes beyond is refused to the task that puts it.
pub const STORE_MAX: usize = 16 << 20;

/// Longest key, with its end (PMI-1's `keylen_max`).
pub const KEY_MAX: usize = 256;

/// Longest value, with its end (PMI-1's `vallen_max`).
pub const VALUE_MAX: usize = 1024;

/// Most names that a step may publish.
pub const NAMES_MAX: usize = 1024;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// What entries count towards [`STORE_MAX`].
fn weight(entries: &[Entry]) -> usize {
    entries
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum()
}

/// The exit code of a step that a task ends with this one: whoever aborts has not succeeded.
pub fn abort_code(code: i64) -> u8 {
    u8::try_from(code.rem_euclid(256)).unwrap_or(1).max(1)
}

/// What a task asks of the step's names (`MPI_Publish_name`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameRequest {
    /// Let others find this port under the name.
    Publish {
        /// The port's name.
        port: Vec<u8>,
    },
    /// Forget the name.
    Unpublish,
    /// Which port has the name?
    Lookup,
}

#[cfg(test)]
mod tests;

//! PMIx, by which Open MPI's processes find each other: what is pure about it. The protocol itself is OpenPMIx's library's, which each
//! node of a step loads into a process of its own.
//!
//! [`layout`] is what those servers are told of their step, [`step`] is srun's half: it brings together what the nodes say.

pub mod layout;
pub mod step;

/// Bytes of data that travel as one message.
pub const CHUNK: usize = 64 << 10;

/// Most bytes that the tasks of a step may have on their way to a meeting; beyond, the step ends.
pub const GATHERED_MAX: usize = 256 << 20;

/// Why all tasks of a node that take part in something wait for those of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A barrier, at which each brings what it has put.
    Fence,
    /// They mean to share their fate.
    Connect,
    /// They do no more.
    Disconnect,
}

/// A meeting: what for, and the ranks that take part, in order; none: every rank of the step.
pub type Meeting = (Purpose, Vec<u32>);

/// What the servers of a step's nodes tell each other, by way of srun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Every task of this node that takes part is there, and they bring this; on the way back, what all brought.
    Meet {
        /// Which.
        meeting: Meeting,
        /// A piece of it.
        data: Vec<u8>,
        /// There is no more.
        last: bool,
    },
    /// What has this rank put?
    Ask {
        /// To be given back with the answer.
        id: u32,
        /// Whose.
        rank: u32,
    },
    /// The answer.
    Told {
        /// Of the question.
        id: u32,
        /// PMIx's, 0 is success.
        status: i32,
        /// A piece of it.
        data: Vec<u8>,
        /// There is no more.
        last: bool,
    },
}

/// PMIx's statuses that are given here (`pmix_common.h`).
pub mod status {
    /// `PMIX_SUCCESS`.
    pub const SUCCESS: i32 = 0;
    /// `PMIX_ERR_NOT_FOUND`.
    pub const NOT_FOUND: i32 = -46;
    /// `PMIX_ERR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: i32 = -47;
    /// `PMIX_ERR_OUT_OF_RESOURCE`.
    pub const OUT_OF_RESOURCE: i32 = -29;
}

/// Cuts data into messages; there is always a last one.
pub fn pieces(data: &[u8], message: impl Fn(Vec<u8>, bool) -> Message) -> Vec<Message> {
    let mut pieces: Vec<Message> = Vec::new();
    let mut rest = data;
    while rest.len() > CHUNK {
        let (piece, more) = rest.split_at(CHUNK);
        pieces.push(message(piece.to_vec(), false));
        rest = more;
    }
    pieces.push(message(rest.to_vec(), true));
    pieces
}

#[cfg(test)]
mod tests;

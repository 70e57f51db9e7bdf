//! What agent and child say to each other over their socket: a length (4 bytes), then MessagePack.

use crate::meter::device::DeviceLook;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Longest message in bytes: a look at a GPU with thousands of processes.
const BYTES_MAX: usize = 4 << 20;

/// Which GPU is meant, whatever number NVML gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Which {
    /// Its index in the inventory.
    pub index: u32,
    /// UUID, empty if it is not known.
    pub uuid: String,
    /// PCI address; empty if it must be found by its UUID.
    pub pci: String,
    /// It is a MIG instance.
    #[serde(default)]
    pub part: bool,
}

/// Agent to child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Begin. Answered with [`Answer::Ready`].
    Begin,
    /// Look at this GPU. Answered with [`Answer::Look`].
    Look {
        /// Which.
        which: Which,
        /// Also at what changes seldom.
        deep: bool,
        /// Also at what is costly.
        costly: bool,
    },
}

/// Child to agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Whether NVML works.
    Ready(Result<(), String>),
    /// The look, or why there is none.
    Look {
        /// The look.
        look: Result<Box<DeviceLook>, String>,
        /// CPU time of the child so far, µs.
        cpu_us: u64,
        /// Its memory, bytes.
        memory: u64,
    },
}

/// Writes a message.
pub fn write(into: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(body);
    into.write_all(&bytes)
}

/// Reads a message; `None` at the stream's end.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > BYTES_MAX {
        return Err(io::Error::other("the message is too long"));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    rmp_serde::from_slice(&body)
        .map(Some)
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_come_through() {
        let mut bytes = Vec::new();
        let answer = Answer::Look {
            look: Ok(Box::default()),
            cpu_us: 7,
            memory: 9,
        };
        write(&mut bytes, &answer).unwrap();
        write(&mut bytes, &Answer::Ready(Err("no".into()))).unwrap();
        let mut from = bytes.as_slice();
        assert_eq!(read::<Answer>(&mut from).unwrap(), Some(answer));
        assert_eq!(
            read::<Answer>(&mut from).unwrap(),
            Some(Answer::Ready(Err("no".into())))
        );
        assert_eq!(read::<Answer>(&mut from).unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_break_a_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read::<Answer>(&mut bytes.as_slice()).ok();
            let mut framed = u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
            framed.extend(&bytes);
            read::<Answer>(&mut framed.as_slice()).ok();
        }
    }
}

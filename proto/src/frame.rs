//! Length-delimited messages on a byte stream: a varint length, then the message, as `prost` and every protobuf library write
//! them. Blocking and tokio forms.

use prost::Message;
use std::io::{self, Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest message (8 MiB): bounds what a peer can make us allocate. Linux starts no program with more than 6 MiB of arguments
/// and environment (`execve(2)`), so every step that can run fits. Senders split stdio well below it.
pub const FRAME_MAX: usize = 8 << 20;

/// A varint of a length up to [`FRAME_MAX`] has at most this many bytes.
const PREFIX_MAX: u32 = 4;

fn encode(message: &impl Message) -> io::Result<Vec<u8>> {
    let len = message.encoded_len();
    if len > FRAME_MAX {
        return Err(too_long(len));
    }
    Ok(message.encode_length_delimited_to_vec())
}

fn decode<M: Message + Default>(body: &[u8]) -> io::Result<M> {
    M::decode(body).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

fn too_long(len: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("message of {len} bytes is longer than {FRAME_MAX}"),
    )
}

/// A varint that arrives byte by byte.
#[derive(Default)]
struct Prefix {
    value: usize,
    bytes: u32,
}

impl Prefix {
    /// Takes a byte; gives the length once it is whole.
    fn push(&mut self, byte: u8) -> io::Result<Option<usize>> {
        self.value |= usize::from(byte & 0x7f) << (7 * self.bytes);
        self.bytes += 1;
        if byte & 0x80 != 0 {
            return if self.bytes < PREFIX_MAX {
                Ok(None)
            } else {
                Err(too_long(self.value))
            };
        }
        if self.value > FRAME_MAX {
            Err(too_long(self.value))
        } else {
            Ok(Some(self.value))
        }
    }
}

/// Writes one message. Fails with `InvalidData` if it is longer than [`FRAME_MAX`].
pub fn write_frame(out: &mut impl Write, message: &impl Message) -> io::Result<()> {
    out.write_all(&encode(message)?)
}

/// Reads one message; `None` at a clean end of the stream. An end within a message is `UnexpectedEof`.
pub fn read_frame<M: Message + Default>(from: &mut impl Read) -> io::Result<Option<M>> {
    let mut prefix = Prefix::default();
    let len = loop {
        let mut byte = [0];
        match from.read(&mut byte) {
            Ok(0) if prefix.bytes == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                if let Some(len) = prefix.push(byte[0])? {
                    break len;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    };
    let mut body = vec![0; len];
    from.read_exact(&mut body)?;
    decode(&body).map(Some)
}

/// [`write_frame`] on tokio. Not safe to cancel half way: a frame may then be cut.
pub async fn write_frame_async(
    out: &mut (impl AsyncWrite + Unpin),
    message: &impl Message,
) -> io::Result<()> {
    out.write_all(&encode(message)?).await
}

/// [`read_frame`] on tokio. Not safe to cancel half way: part of a frame may then be lost; keep it in a task of its own.
pub async fn read_frame_async<M: Message + Default>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<M>> {
    let mut prefix = Prefix::default();
    let len = loop {
        let mut byte = [0];
        if from.read(&mut byte).await? == 0 {
            return if prefix.bytes == 0 {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        if let Some(len) = prefix.push(byte[0])? {
            break len;
        }
    };
    let mut body = vec![0; len];
    from.read_exact(&mut body).await?;
    decode(&body).map(Some)
}

/// Takes one whole message off the front of a buffer: for non-blocking readers that keep their own. `None` means that more
/// bytes are needed; otherwise the message and how many bytes it took.
pub fn take_frame<M: Message + Default>(buffer: &[u8]) -> io::Result<Option<(M, usize)>> {
    let mut prefix = Prefix::default();
    for (at, byte) in buffer.iter().enumerate() {
        let Some(len) = prefix.push(*byte)? else {
            continue;
        };
        let start = at + 1;
        return match buffer.get(start..start + len) {
            Some(body) => Ok(Some((decode(body)?, start + len))),
            None => Ok(None),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FromStep, Output, ToStep, from_step};

    fn output(len: usize) -> FromStep {
        let output = Output {
            task: 1,
            stderr: true,
            data: vec![7; len],
        };
        FromStep {
            kind: Some(from_step::Kind::Output(output)),
        }
    }

    #[test]
    fn frames_come_back_whole_in_every_form() {
        let messages = [
            output(0),
            output(100),
            output(200_000),
            FromStep { kind: None },
        ];
        let mut bytes = Vec::new();
        for message in &messages {
            write_frame(&mut bytes, message).unwrap();
        }
        let mut from = bytes.as_slice();
        let mut taken = 0;
        for message in &messages {
            assert_eq!(
                read_frame::<FromStep>(&mut from).unwrap().as_ref(),
                Some(message)
            );
            let (other, len) = take_frame::<FromStep>(&bytes[taken..]).unwrap().unwrap();
            assert_eq!(&other, message);
            taken += len;
        }
        assert_eq!(read_frame::<FromStep>(&mut from).unwrap(), None);
        assert_eq!(taken, bytes.len());
    }

    #[test]
    fn a_cut_frame_is_an_error_and_asks_take_for_more() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &output(300)).unwrap();
        for len in 1..bytes.len() {
            let cut = read_frame::<FromStep>(&mut &bytes[..len]).unwrap_err();
            assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof, "cut at {len}");
            assert!(take_frame::<FromStep>(&bytes[..len]).unwrap().is_none());
        }
    }

    #[test]
    fn too_long_is_refused_on_both_sides() {
        assert_eq!(
            write_frame(&mut Vec::new(), &output(FRAME_MAX))
                .unwrap_err()
                .kind(),
            io::ErrorKind::InvalidData
        );
        for prefix in [
            &[0xff, 0xff, 0xff, 0x7f][..],
            &[0x81, 0x80, 0x80, 0x04],
            &[0xff; 10],
        ] {
            let long = read_frame::<ToStep>(&mut &prefix[..]).unwrap_err();
            assert_eq!(long.kind(), io::ErrorKind::InvalidData, "{prefix:?}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_async_form_speaks_the_same() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let message = output(5000);
        let writer = async {
            write_frame_async(&mut near, &message).await.unwrap();
            drop(near);
        };
        let reader = async {
            assert_eq!(
                read_frame_async::<FromStep>(&mut far)
                    .await
                    .unwrap()
                    .as_ref(),
                Some(&message)
            );
            assert_eq!(read_frame_async::<FromStep>(&mut far).await.unwrap(), None);
        };
        tokio::join!(writer, reader);
    }
}

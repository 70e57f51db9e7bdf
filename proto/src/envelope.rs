//! Questions to the controller and its answers on a byte stream: four bytes of length, highest first, then the message. One
//! question at a time on a connection; closing it gives up the answer.
//!
//! Unlike [`crate::frame`], which bounds what a step's client can make a supervisor hold, answers may be hundreds of MiB long.

use prost::Message;
use std::io::{self, Read, Write};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes of the length.
const PREFIX: usize = 4;
/// What is reserved before a byte of the message has come: a peer that only announces much gets no more than this.
const RESERVE_MAX: usize = 64 << 10;

/// The message with its length. Fails with `InvalidInput` if it is longer than `max` bytes.
pub fn seal(message: &impl Message, max: usize) -> io::Result<Vec<u8>> {
    seal_with(message.encoded_len(), max, |out| message.encode_raw(out))
}

/// The same of a message of `len` bytes, which `write` adds.
pub(crate) fn seal_with(
    len: usize,
    max: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> io::Result<Vec<u8>> {
    let fits = |len| u32::try_from(checked(len, max).ok()?).ok();
    // Told from what comes in too long: this was never sent.
    let unsent = || io::Error::new(io::ErrorKind::InvalidInput, too_long(len, max).to_string());
    let prefix = fits(len).ok_or_else(unsent)?;
    let mut bytes = Vec::with_capacity(PREFIX + len);
    bytes.extend(prefix.to_be_bytes());
    write(&mut bytes);
    Ok(bytes)
}

fn checked(len: usize, max: usize) -> io::Result<usize> {
    if len > max {
        return Err(too_long(len, max));
    }
    Ok(len)
}

fn too_long(len: usize, max: usize) -> io::Error {
    let text = format!("a message of {len} bytes is longer than {max}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn length(prefix: [u8; PREFIX], max: usize) -> io::Result<usize> {
    let len = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
    checked(len, max)
}

fn whole(body: Vec<u8>, len: usize) -> io::Result<Vec<u8>> {
    if body.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

/// The message of a body. Other bytes are `InvalidData`.
pub fn decode<M: Message + Default>(body: &[u8]) -> io::Result<M> {
    M::decode(body).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Adds what a body says to a message.
pub(crate) fn merge(message: &mut impl Message, body: &[u8]) -> io::Result<()> {
    let merged = message.merge(body);
    merged.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Writes one message of at most `max` bytes.
pub fn write(out: &mut impl Write, message: &impl Message, max: usize) -> io::Result<()> {
    out.write_all(&seal(message, max)?)
}

/// Reads one message of at most `max` bytes. An end of the stream is `UnexpectedEof`.
pub fn read<M: Message + Default>(from: &mut impl Read, max: usize) -> io::Result<M> {
    decode(&read_bytes(from, max)?)
}

/// The same, not decoded.
pub fn read_bytes(from: &mut impl Read, max: usize) -> io::Result<Vec<u8>> {
    let mut prefix = [0; PREFIX];
    from.read_exact(&mut prefix)?;
    let len = length(prefix, max)?;
    let mut body = Vec::with_capacity(len.min(RESERVE_MAX));
    from.take(len as u64).read_to_end(&mut body)?;
    whole(body, len)
}

/// [`write`] on tokio. Not safe to cancel half way: the message may then be cut, and the connection has to be closed.
pub async fn write_async(
    out: &mut (impl AsyncWrite + Unpin),
    message: &impl Message,
    max: usize,
) -> io::Result<()> {
    out.write_all(&seal(message, max)?).await
}

/// [`read`] on tokio. Not safe to cancel half way: the connection has to be closed then.
pub async fn read_async<M: Message + Default>(
    from: &mut (impl AsyncRead + Unpin),
    max: usize,
) -> io::Result<M> {
    let len = read_length(from, max).await?;
    decode(&read_body(from, len).await?)
}

/// The first part of [`read_async`]: how long the message is that follows.
pub async fn read_length(from: &mut (impl AsyncRead + Unpin), max: usize) -> io::Result<usize> {
    let mut prefix = [0; PREFIX];
    from.read_exact(&mut prefix).await?;
    length(prefix, max)
}

/// The second part: the bytes of the message.
pub async fn read_body(from: &mut (impl AsyncRead + Unpin), len: usize) -> io::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(len.min(RESERVE_MAX));
    from.take(len as u64).read_to_end(&mut body).await?;
    whole(body, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Output, Refusal};

    fn message(len: usize) -> Output {
        Output {
            task: 1,
            stderr: true,
            data: vec![7; len],
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn messages_come_back_whole_in_both_forms() {
        let mut bytes = Vec::new();
        for len in [0, 1, 70_000] {
            write(&mut bytes, &message(len), 1 << 20).unwrap();
        }
        let mut twin = Vec::new();
        for len in [0, 1, 70_000] {
            write_async(&mut twin, &message(len), 1 << 20)
                .await
                .unwrap();
        }
        assert_eq!(bytes, twin);
        let (mut blocking, mut asynchronous) = (bytes.as_slice(), bytes.as_slice());
        for len in [0, 1, 70_000] {
            assert_eq!(
                read::<Output>(&mut blocking, 1 << 20).unwrap(),
                message(len)
            );
            assert_eq!(
                read_async::<Output>(&mut asynchronous, 1 << 20)
                    .await
                    .unwrap(),
                message(len)
            );
        }
        let end = read::<Output>(&mut blocking, 1 << 20).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_cut_message_and_other_bytes_are_errors() {
        let bytes = seal(&message(300), 1000).unwrap();
        for len in 0..bytes.len() {
            let cut = read::<Output>(&mut &bytes[..len], 1000).unwrap_err();
            assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof, "cut at {len}");
        }
        let foreign = read::<Refusal>(&mut &[0, 0, 0, 2, 0xff, 0xff][..], 1000).unwrap_err();
        assert_eq!(foreign.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn too_long_is_refused_on_both_sides_before_anything_is_held() {
        let long = seal(&message(1000), 999).unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidInput);
        // What another protocol says first reads as a length of a thousand million.
        let other = read::<Output>(&mut &b"PRI * HTTP/2.0\r\n"[..], 1 << 24).unwrap_err();
        assert_eq!(other.kind(), io::ErrorKind::InvalidData);
    }
}

//! What is drawn by lot, by the kernel.

use rustix::rand::{GetRandomFlags, getrandom};
use spur_core::mesh::{MeshKey, MeshPrefix};
use spur_proto::invitation::Secret;
use x25519_dalek::{PublicKey, StaticSecret};

fn draw(bytes: &mut [u8]) -> Result<(), String> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = bytes.get_mut(filled..).unwrap_or_default();
        let more = getrandom(rest, GetRandomFlags::empty());
        filled += more.map_err(|why| format!("drawing random numbers: {why}"))?;
    }
    Ok(())
}

/// A new key and its public half.
pub(super) fn pair() -> Result<(Secret, MeshKey), String> {
    let mut bytes = [0; 32];
    draw(&mut bytes)?;
    // As every WireGuard tool writes a private key.
    bytes[0] &= 0xf8;
    bytes[31] = (bytes[31] & 0x7f) | 0x40;
    let public = PublicKey::from(&StaticSecret::from(bytes));
    Ok((Secret(bytes), MeshKey(public.to_bytes())))
}

/// A network that nobody else is likely to have (RFC 4193): 40 bits by lot, and subnet 0.
pub(super) fn prefix() -> Result<MeshPrefix, String> {
    let mut bytes = [0; 8];
    draw(bytes.get_mut(1..6).unwrap_or_default())?;
    bytes[0] = 0xfd;
    Ok(MeshPrefix(u64::from_be_bytes(bytes)))
}

//! Keys of members: X25519, written in base64 as every WireGuard tool writes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use boringtun::x25519;
use std::fmt;
use std::str::FromStr;

/// Bytes of a key.
pub const KEY_LEN: usize = 32;

/// Names a member to all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_LEN]);

impl PublicKey {
    /// The key with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    pub(crate) fn x25519(self) -> x25519::PublicKey {
        x25519::PublicKey::from(self.0)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no WireGuard key: it must be 32 bytes in base64")]
pub struct NoKey(String);

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        // A text of any length may come from a file: an error must not carry all of it.
        let wrong = || NoKey(text.chars().take(KEY_LEN * 2).collect());
        decode(text).map(Self).ok_or_else(wrong)
    }
}

fn decode(text: &str) -> Option<[u8; KEY_LEN]> {
    STANDARD.decode(text.trim()).ok()?.try_into().ok()
}

/// The secret half of a key. It is wiped when dropped, and neither printed nor compared.
#[derive(Clone)]
pub struct PrivateKey(x25519::StaticSecret);

impl PrivateKey {
    /// A new key from the kernel's random numbers.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub fn generate() -> std::io::Result<Self> {
        let mut bytes = [0; KEY_LEN];
        let mut filled = 0;
        while filled < KEY_LEN {
            let rest = bytes.get_mut(filled..).unwrap_or_default();
            filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self::from_bytes(bytes))
    }

    /// The key with these bytes, clamped as X25519 wants them.
    #[must_use]
    pub fn from_bytes(mut bytes: [u8; KEY_LEN]) -> Self {
        bytes[0] &= 0xf8;
        bytes[KEY_LEN - 1] = (bytes[KEY_LEN - 1] & 0x7f) | 0x40;
        Self(x25519::StaticSecret::from(bytes))
    }

    /// Its bytes, to be kept where only root reads.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; KEY_LEN] {
        self.0.to_bytes()
    }

    /// Its text, to be kept where only root reads.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0.as_bytes())
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519::PublicKey::from(&self.0).to_bytes())
    }

    pub(crate) const fn x25519(&self) -> &x25519::StaticSecret {
        &self.0
    }
}

impl FromStr for PrivateKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        // The error says nothing of the text: it may be a secret with a slip in it.
        let wrong = || NoKey("(a private key)".to_owned());
        decode(text).map(Self::from_bytes).ok_or_else(wrong)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey(of {})", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_wireguard_tools_write_them() {
        let secret = PrivateKey::from_str("YAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=");
        let secret = secret.expect("a key from wg(8)");
        assert_eq!(
            secret.to_base64(),
            "YAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="
        );
        let public = secret.public().to_string();
        assert_eq!(public.parse(), Ok(secret.public()));
        assert_eq!(public.len(), 44);
    }

    #[test]
    fn what_is_no_key_is_refused_and_a_secret_is_never_shown() {
        for text in ["", "AAAA", "no key at all", &"A".repeat(4000)] {
            let error = PublicKey::from_str(text).expect_err(text).to_string();
            assert!(error.len() < 200, "{error}");
            let shown = PrivateKey::from_str(text).expect_err(text).to_string();
            assert!(text.is_empty() || !shown.contains(text), "{shown}");
        }
        let secret = PrivateKey::generate().expect("random numbers");
        assert!(!format!("{secret:?}").contains(&secret.to_base64()));
    }

    #[test]
    fn no_two_generated_keys_are_equal() {
        let key = || PrivateKey::generate().expect("random numbers").public();
        assert_ne!(key(), key());
    }
}

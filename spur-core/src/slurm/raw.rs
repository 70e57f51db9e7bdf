//! Bytes as text, and back without loss. Names, comments and paths are any bytes but NUL to Slurm; ours are `String`s. A byte
//! that is not part of valid UTF-8 stands there as one character of a private range (`U+10FE00` and the byte), and so do the
//! bytes of a character of that range itself, so that [`bytes`] gives back exactly what [`text`] was given.

use std::borrow::Cow;

/// Where the private range begins.
const BASE: u32 = 0x10_fe00;
/// Where it ends, exclusive.
const END: u32 = BASE + 0x100;
/// The first byte of every character of the range in UTF-8: a text without it needs no second look.
const LEAD: u8 = 0xf4;

/// Bytes as a text.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        if valid.as_bytes().contains(&LEAD) {
            valid.chars().for_each(|c| push(&mut text, c));
        } else {
            text.push_str(valid);
        }
        text.extend(chunk.invalid().iter().map(|byte| stand_in(*byte)));
    }
    text
}

fn push(text: &mut String, c: char) {
    if (BASE..END).contains(&u32::from(c)) {
        let mut buffer = [0; 4];
        let bytes = c.encode_utf8(&mut buffer).bytes();
        text.extend(bytes.map(stand_in));
    } else {
        text.push(c);
    }
}

fn stand_in(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).expect("the range has no surrogates")
}

/// The bytes that a text stands for.
pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.as_bytes().contains(&LEAD) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u8::try_from(u32::from(c).wrapping_sub(BASE)) {
            Ok(byte) => bytes.push(byte),
            Err(_) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// Whether a character stands for one byte.
pub fn is_byte(c: char) -> bool {
    (BASE..END).contains(&u32::from(c))
}

/// Whether a text has bytes that are not UTF-8 in it.
pub fn has_bytes(text: &str) -> bool {
    text.as_bytes().contains(&LEAD) && text.chars().any(is_byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_itself_and_other_bytes_come_back() {
        assert_eq!(text("naïve\n".as_bytes()), "naïve\n");
        assert!(matches!(bytes("naïve"), Cow::Borrowed(_)));
        let odd = b"a\xff\xfe\xf4\x8f\xb8\x80b\xc3";
        assert_eq!(bytes(&text(odd)).as_ref(), odd);
        assert_eq!(text(b"\xff").chars().count(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(any: Vec<u8>, near in proptest::collection::vec(prop_oneof![Just(0xf4u8), Just(0x8f), Just(0xb8), Just(0xbf), 0x80u8..=0xff], 0..12)) {
            for given in [any, near] {
                prop_assert_eq!(bytes(&text(&given)).into_owned(), given);
            }
        }

        #[test]
        fn any_text_is_bytes(given in "\\PC*") {
            prop_assert_eq!(text(&bytes(&given)), given);
        }
    }
}

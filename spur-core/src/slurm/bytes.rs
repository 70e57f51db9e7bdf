//! Bytes that are not UTF-8, kept in text. Names, comments and paths come from the command line as bytes; the types that carry
//! them are `String`s. A byte that is not part of valid UTF-8 becomes one character of a private plane ([`keep`]) and turns back
//! into the byte where text leaves for a terminal, a file or the kernel ([`restore`]). Nothing is lost: those characters
//! themselves, if somebody writes them, are kept byte by byte as well.

use std::borrow::Cow;

/// The character that stands for byte 0; bytes below 0x80 are always valid and have none.
const BASE: u32 = 0x10_FF00;
/// First byte of the UTF-8 form of every character that stands for a byte.
const LEAD: u8 = 0xF4;

/// The bytes as text.
pub fn keep(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.as_bytes().contains(&LEAD)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if kept(c).is_some() {
                let mut form = [0; 4];
                c.encode_utf8(&mut form)
                    .bytes()
                    .for_each(|byte| text.push(stands_for(byte)));
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().map(|byte| stands_for(*byte)));
    }
    Cow::Owned(text)
}

/// The bytes that a text was made from.
pub fn restore(text: &str) -> Cow<'_, [u8]> {
    if !holds_bytes(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match kept(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// Whether a text has bytes that are not UTF-8 in it.
pub fn holds_bytes(text: &str) -> bool {
    text.as_bytes().contains(&LEAD) && text.chars().any(|c| kept(c).is_some())
}

/// The byte that a character stands for.
pub fn kept(c: char) -> Option<u8> {
    u8::try_from(u32::from(c).checked_sub(BASE)?)
        .ok()
        .filter(|byte| *byte >= 0x80)
}

fn stands_for(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_left_alone() {
        for text in ["", "train", "näive 名", "a\nb|c=d"] {
            assert_eq!(keep(text.as_bytes()), text);
            assert_eq!(restore(text).as_ref(), text.as_bytes());
        }
        let emoji = "\u{10F000}x";
        assert_eq!(keep(emoji.as_bytes()), emoji);
    }

    #[test]
    fn other_bytes_stay_in_place() {
        assert_eq!(keep(b"a\xffb").chars().count(), 3);
        assert!(holds_bytes(&keep(b"a\xffb")));
        assert!(!holds_bytes("\u{10F000}"));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(bytes: Vec<u8>, private in "[\u{10FF70}-\u{10FFFF}a]{0,4}") {
            prop_assert_eq!(restore(&keep(&bytes)).into_owned(), bytes);
            prop_assert_eq!(restore(&keep(private.as_bytes())).into_owned(), private.as_bytes());
        }
    }
}

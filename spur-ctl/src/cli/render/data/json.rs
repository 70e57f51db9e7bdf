//! Texts in JSON, escaped as Slurm's are: slashes and control characters; all else as it is. JSON has no form for bytes that are not
//! UTF-8: each is a replacement character, so that nobody's name keeps others from reading the document.

use spur_core::slurm::raw;
use std::borrow::Cow;

/// Adds a text in quotes.
pub(super) fn text(out: &mut String, text: &str) {
    let text: Cow<'_, str> = if raw::has_bytes(text) {
        let whole = text.chars();
        let whole = whole.map(|c| if raw::is_byte(c) { '\u{fffd}' } else { c });
        Cow::Owned(whole.collect())
    } else {
        Cow::Borrowed(text)
    };
    out.push('"');
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'/' => "\\/",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0C => "\\f",
            0..=0x1F => "",
            _ => continue,
        };
        out.push_str(&text[done..at]);
        done = at + 1;
        if escape.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[done..]);
    out.push('"');
}

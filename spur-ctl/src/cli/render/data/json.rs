//! Texts in JSON, escaped as Slurm's are: slashes and control characters; all else as it is. JSON has no form for bytes that are not
//! UTF-8: each is a replacement character, so that nobody's name keeps others from reading the document.

use spur_core::slurm::raw;
use std::borrow::Cow;

/// Adds a text in quotes.
pub(super) fn text(out: &mut String, text: &str) {
    if text.is_empty() {
        return out.push_str("\"\"");
    }
    let text: Cow<'_, str> = if raw::has_bytes(text) {
        let whole = text.chars();
        let whole = whole.map(|c| if raw::is_byte(c) { '\u{fffd}' } else { c });
        Cow::Owned(whole.collect())
    } else {
        Cow::Borrowed(text)
    };
    out.push('"');
    let mut rest = &*text;
    while let Some(at) = rest.bytes().position(|byte| ESCAPED[usize::from(byte)]) {
        out.push_str(&rest[..at]);
        escape(out, rest.as_bytes()[at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Which bytes do not stand as they are.
const ESCAPED: [bool; 256] = {
    let mut table = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = true;
        control += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'/' as usize] = true;
    table
};

fn escape(out: &mut String, byte: u8) {
    out.push_str(match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'/' => "\\/",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        0x08 => "\\b",
        0x0C => "\\f",
        other => return out.push_str(&format!("\\u{other:04x}")),
    });
}

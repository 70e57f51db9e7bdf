//! Cutting and filling a cell within its line. Widths count bytes, as Slurm's do, but no character is ever cut in two.

use spur_core::slurm::raw;

/// Fits what was added to the line since `start` to the width: cut if it is longer, filled with blanks if it is shorter. Width 0
/// leaves it as it is, a width below 0 adds one blank. On the right, a text that is to stay `whole` is not cut.
pub(super) fn fit(line: &mut String, start: usize, width: i32, right: bool, whole: bool) {
    let Ok(width) = usize::try_from(width) else {
        line.push(' ');
        return;
    };
    let text = &line[start..];
    let length = measure(text);
    if length > width && width > 0 && !(whole && right) {
        line.truncate(start + boundary(text, width));
        // A character that would be cut in two is left out whole.
        let left = measure(&line[start..]);
        fill(line, None, width - left);
    } else if length < width {
        fill(line, right.then_some(start), width - length);
    }
}

/// Adds blanks, at a place or at the end.
fn fill(line: &mut String, at: Option<usize>, count: usize) {
    const BLANKS: &str = "                                                                ";
    let mut left = count;
    while left > 0 {
        let now = &BLANKS[..left.min(BLANKS.len())];
        match at {
            Some(at) => line.insert_str(at, now),
            None => line.push_str(now),
        }
        left -= now.len();
    }
}

/// Bytes of a character where it is printed.
fn size(c: char) -> usize {
    if raw::is_byte(c) { 1 } else { c.len_utf8() }
}

fn measure(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(size).sum()
}

/// Where to cut so that at most `width` bytes are left.
fn boundary(text: &str, width: usize) -> usize {
    if text.is_ascii() {
        return width.min(text.len());
    }
    let mut printed = 0;
    for (at, c) in text.char_indices() {
        printed += size(c);
        if printed > width {
            return at;
        }
    }
    text.len()
}

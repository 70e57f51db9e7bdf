//! Cutting and filling a cell within its line. Widths count bytes, as Slurm's do, but no character is ever cut in two.

use spur_core::slurm::raw;

/// Fits what was added to the line since `start` to the width: cut if it is longer, filled with blanks if it is shorter. Width 0
/// leaves it as it is, a width below 0 adds one blank. On the right, a text that is to stay `whole` is not cut.
pub(super) fn fit(line: &mut String, start: usize, width: i32, right: bool, whole: bool) {
    let Ok(width) = usize::try_from(width) else {
        line.push(' ');
        return;
    };
    if width == 0 {
        return;
    }
    let text = &line[start..];
    let plain = text.is_ascii();
    let mut length = if plain { text.len() } else { measure(text) };
    let mut cut_short = false;
    if length > width && !(whole && right) {
        let end = if plain { width } else { boundary(text, width) };
        line.truncate(start + end);
        length = if plain {
            width
        } else {
            measure(&line[start..])
        };
        cut_short = true;
    }
    let fill = width.saturating_sub(length);
    if fill == 0 {
        return;
    }
    if right && !cut_short {
        insert_blanks(line, start, fill);
    } else {
        blanks(fill).for_each(|blanks| line.push_str(blanks));
    }
}

fn insert_blanks(line: &mut String, start: usize, count: usize) {
    blanks(count).for_each(|blanks| line.insert_str(start, blanks));
}

/// So many blanks, in pieces.
fn blanks(count: usize) -> impl Iterator<Item = &'static str> {
    const BLANKS: &str = "                                                                ";
    let whole = std::iter::repeat_n(BLANKS, count / BLANKS.len());
    whole.chain(std::iter::once(&BLANKS[..count % BLANKS.len()]))
}

/// Bytes of a character where it is printed.
fn size(c: char) -> usize {
    if raw::is_byte(c) { 1 } else { c.len_utf8() }
}

fn measure(text: &str) -> usize {
    text.chars().map(size).sum()
}

/// Where to cut so that at most `width` bytes are left.
fn boundary(text: &str, width: usize) -> usize {
    let mut printed = 0;
    for (at, c) in text.char_indices() {
        printed += size(c);
        if printed > width {
            return at;
        }
    }
    text.len()
}

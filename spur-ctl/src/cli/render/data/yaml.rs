//! Texts in YAML 1.1, plain where they may be, in single quotes where not, in double quotes where characters need an escape, and
//! folded at blanks beyond column 80. Bytes that are not UTF-8 have YAML's own form for bytes.

use spur_core::slurm::raw;

/// Texts are folded at the first single blank beyond this column.
const WIDTH: usize = 80;

/// Adds a tag and a text. `column` is where the line stands, `indent` where a folded line goes on.
pub(super) fn text(out: &mut String, text: &str, column: usize, indent: usize) {
    if raw::has_bytes(text) {
        out.push_str("!!binary ");
        return base64(out, &raw::bytes(text));
    }
    out.push_str("!!str");
    if text.is_empty() {
        return;
    }
    out.push(' ');
    let mut folder = Folder {
        out,
        column: column + "!!str ".len(),
        indent,
    };
    match style(text) {
        Style::Plain => folder.plain(text),
        Style::Single => folder.single(text),
        Style::Double => folder.double(text),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
}

/// Characters that may stand unescaped: printable ASCII and the line feed.
fn printable(c: char) -> bool {
    c == '\n' || (' '..='~').contains(&c)
}

/// The first of plain, single and double quotes in which a text may be written.
fn style(text: &str) -> Style {
    let edge = |c: Option<char>| c.is_none_or(|c| matches!(c, ' ' | '\n'));
    if !text.chars().all(printable) || text.contains(" \n") {
        return Style::Double;
    }
    if text.contains("\n ") {
        return Style::Double;
    }
    let indicated = text.starts_with("---") || text.starts_with("...") || indicators(text);
    if indicated || text.contains('\n') || edge(text.chars().next()) || edge(text.chars().last()) {
        return Style::Single;
    }
    Style::Plain
}

/// Whether something in the text would mean something in YAML.
fn indicators(text: &str) -> bool {
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        let parted = chars.peek().is_none_or(|next| matches!(next, ' ' | '\n'));
        let means = match c {
            '#' => before == ' ' || before == '\n',
            ':' => parted,
            '?' | '-' => first && parted,
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`' => first,
            _ => false,
        };
        if means {
            return true;
        }
        (before, first) = (c, false);
    }
    false
}

struct Folder<'a> {
    out: &'a mut String,
    column: usize,
    indent: usize,
}

impl Folder<'_> {
    fn push(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', self.indent));
        self.column = self.indent;
    }

    fn plain(&mut self, text: &str) {
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let fold = c == ' ' && !spaces && self.column > WIDTH && chars.peek() != Some(&' ');
            spaces = c == ' ';
            if fold {
                self.new_line();
            } else {
                self.push(c);
            }
        }
    }

    fn single(&mut self, text: &str) {
        self.push('\'');
        let (mut spaces, mut breaks, mut first) = (false, false, true);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let inner = !first && chars.peek().is_some_and(|next| *next != ' ');
            match c {
                ' ' if !spaces && inner && self.column > WIDTH => self.new_line(),
                '\n' => {
                    // The first of several line feeds is written twice: one alone would read as a blank.
                    if !breaks {
                        self.out.push('\n');
                    }
                    self.out.push('\n');
                    self.column = 0;
                }
                c => {
                    if breaks {
                        self.out.extend(std::iter::repeat_n(' ', self.indent));
                        self.column = self.indent;
                    }
                    if c == '\'' {
                        self.push('\'');
                    }
                    self.push(c);
                }
            }
            (spaces, breaks, first) = (c == ' ', c == '\n', false);
        }
        if breaks {
            self.out.extend(std::iter::repeat_n(' ', self.indent));
        }
        self.push('\'');
    }

    fn double(&mut self, text: &str) {
        self.push('"');
        let (mut spaces, mut first) = (false, true);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if !printable(c) || matches!(c, '\n' | '"' | '\\') {
                self.escape(c);
                spaces = false;
            } else if c == ' ' && !spaces && !first && self.column > WIDTH && chars.peek().is_some()
            {
                self.new_line();
                if chars.peek() == Some(&' ') {
                    self.push('\\');
                }
                spaces = true;
            } else {
                self.push(c);
                spaces = c == ' ';
            }
            first = false;
        }
        self.push('"');
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{B}' => 'v',
            '\u{C}' => 'f',
            '\r' => 'r',
            '\u{1B}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{A0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => '\u{FFFD}',
        };
        let code = u32::from(c);
        let text = match code {
            _ if short != '\u{FFFD}' => format!("\\{short}"),
            0..=0xFF => format!("\\x{code:02X}"),
            0x100..=0xFFFF => format!("\\u{code:04X}"),
            _ => format!("\\U{code:08X}"),
        };
        self.out.push_str(&text);
        self.column += text.len();
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let number = chunk
            .iter()
            .fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        let number = number << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (number >> (18 - 6 * digit)) & 63;
            let shown = digit <= chunk.len();
            out.push(if shown {
                char::from(DIGITS[index as usize])
            } else {
                '='
            });
        }
    }
}

//! Columns of lists that tell of the machine or of the moment: its load, its free memory (a range where nodes do not tell the same), and
//! how long a job may still run. They are known by their headers, parted by bars or as wide as their columns.

const HEADERS: [&str; 3] = ["CPU_LOAD", "FREE_MEM", "TIME_LEFT"];

/// Replaces what stands below these headers.
pub(super) fn masked(text: &str) -> String {
    HEADERS
        .iter()
        .fold(text.to_owned(), |text, header| one(&text, header))
}

fn one(text: &str, header: &str) -> String {
    let words = |line: &str| {
        let mut words = line.split(|c: char| c == '|' || c.is_whitespace());
        words.any(|word| word == header)
    };
    let mut head: Option<&str> = None;
    let lines = text.split_inclusive('\n').map(|line| match head {
        None => {
            head = words(line).then_some(line);
            line.to_owned()
        }
        Some(_) if line.starts_with("--- ") => line.to_owned(),
        Some(head) if head.contains('|') => in_bars(head, line, header),
        Some(head) => in_column(head, line, header),
    });
    lines.collect()
}

fn in_bars(head: &str, line: &str, header: &str) -> String {
    let own = head.split('|').position(|cell| cell.trim() == header);
    let mut cells: Vec<&str> = line.split('|').collect();
    let count = cells.len();
    let cell = own.filter(|at| at + 1 < count).map(|at| &mut cells[at]);
    if let Some(cell) = cell.filter(|cell| !matches!(cell.trim(), "UNLIMITED" | "NOT_SET")) {
        *cell = "*";
    }
    cells.join("|")
}

/// A cell that begins where its header does.
fn in_column(head: &str, line: &str, header: &str) -> String {
    let from = head.find(header).unwrap_or(0);
    let rest = line.get(from..).unwrap_or_default();
    let cell = rest.find(char::is_whitespace).unwrap_or(rest.len());
    if cell == 0 || !line[..from].ends_with([' ']) && from > 0 {
        return line.to_owned();
    }
    let (before, after) = (&line[..from], &rest[cell..]);
    format!("{before}{:cell$}{after}", '*')
}

//! The order of `squeue`'s lines, exactly as Slurm has it: one stable sort for each letter of `-S`, the last letter first, after a
//! sort by start. What has no start goes behind what has one, each time in reverse.

use crate::cli::render::View;
use crate::cli::render::job_row::JobRow;
use crate::cli::render::job_text as text;
use crate::cli::render::node_columns::by_name;
use spur_core::time::{Millis, TimeLimit};
use std::cmp::Ordering;
use std::collections::HashMap;

/// Order of the lines if none is asked for.
pub const DEFAULT: &str = "P,t,-p";
/// The same for `--start`.
pub const START: &str = "S";

/// What sorts rows.
enum How {
    Number(fn(&View, &JobRow) -> i128),
    /// By text; what has none comes first.
    Text(fn(&JobRow) -> Option<&str>, fn(&str, &str) -> Ordering),
    Start,
    /// A letter that means something and sorts nothing.
    Nothing,
}

/// One sort.
struct Sort {
    how: How,
    descending: bool,
}

/// How rows lie before the first sort.
enum Base {
    ByStart,
    /// The last that came first.
    Reverse,
}

/// An order that was asked for.
pub struct Order {
    base: Base,
    sorts: Vec<Sort>,
}

/// What sorts rows, noted of one after another: the rows themselves need not be there any more when they are put in order.
#[derive(Default)]
pub struct Keys {
    starts: Vec<Option<u64>>,
    /// For each sort.
    columns: Vec<Column>,
}

/// What one sort goes by.
#[derive(Default)]
struct Column {
    /// A number of each row; of a text, where it is in `words`.
    values: Vec<i128>,
    words: Words,
}

/// Texts, each once.
#[derive(Default)]
struct Words {
    known: HashMap<String, i128>,
    last: (String, i128),
}

/// Reads a `-S` list. The error names a letter that means nothing.
pub fn read(list: &str) -> Result<Order, String> {
    // There is one cluster: its word sorts nothing.
    let list = list.replace("cluster", "");
    let mut sorts = Vec::new();
    let mut before = ' ';
    for letter in list.chars() {
        if !matches!(letter, ',' | '+' | '-') {
            let how = how(letter).ok_or_else(|| format!("Invalid sort specification: {letter}"))?;
            let descending = before == '-';
            sorts.push(Sort { how, descending });
        }
        before = letter;
    }
    let base = Base::ByStart;
    Ok(Order { base, sorts })
}

/// By state, the newest first among those of the same: what is shown where nothing but states is known.
pub fn by_state() -> Order {
    let sort = how('t').map(|how| Sort {
        how,
        descending: false,
    });
    Order {
        base: Base::Reverse,
        sorts: sort.into_iter().collect(),
    }
}

fn how(letter: char) -> Option<How> {
    let number: fn(&View, &JobRow) -> i128 = match letter {
        'C' => |_, row| text::cpu_count(&row.job).into(),
        'd' => |_, row| row.job.spec.extras().tmp_mib.into(),
        'D' => |_, row| text::node_count(&row.job).into(),
        'e' => |view, row| text::end(view, &row.job).map_or(-1, |at| at.0.into()),
        'G' => |_, row| row.job.spec.owner.gid.0.into(),
        'i' => |_, row| by_id(row),
        'l' => |_, row| limit(row),
        'L' => |view, row| limit(row) - i128::from(text::run_secs(view, &row.job)),
        'm' => |_, row| text::memory_request(&row.job).1.into(),
        'M' => |view, row| text::run_secs(view, &row.job).into(),
        'p' | 'Q' => |_, row| pair(row.tier, row.job.priority),
        'U' => |_, row| row.job.spec.owner.uid.0.into(),
        'V' => |_, row| row.job.submitted.secs().into(),
        'H' | 'z' => |_, row| row.job.spec.sockets_per_node.into(),
        'I' => |_, row| row.job.spec.extras().cores_per_socket.into(),
        'J' => |_, row| row.job.spec.extras().threads_per_core.into(),
        'S' => return Some(How::Start),
        'b' | 'c' | 'f' | 'h' | 'n' | 'O' => return Some(How::Nothing),
        letter => return by_text(letter),
    };
    Some(How::Number(number))
}

fn by_text(letter: char) -> Option<How> {
    let plain: fn(&str, &str) -> Ordering = str::cmp;
    Some(match letter {
        'B' => How::Text(|row| text::batch_host(&row.job), plain),
        'g' => How::Text(|row| Some(&row.job.spec.owner.group), plain),
        'j' => How::Text(|row| Some(&row.job.spec.name), plain),
        'N' => How::Text(|row| text::batch_host(&row.job), by_name),
        'P' => How::Text(|row| Some(&row.job.spec.partition), plain),
        't' => How::Text(|row| Some(text::state_compact(&row.job)), plain),
        'T' => How::Text(|row| Some(text::state(&row.job)), plain),
        'u' => How::Text(|row| Some(&row.job.spec.owner.user), plain),
        'v' => How::Text(|row| Some(&row.job.spec.extras().reservation), plain),
        _ => return None,
    })
}

impl Order {
    /// Notes what sorts a row: the next one.
    pub fn note(&self, view: &View, row: &JobRow, keys: &mut Keys) {
        let start = text::start_shown(view, &row.job);
        keys.starts.push(start.map(Millis::secs));
        keys.columns.resize_with(self.sorts.len(), Column::default);
        for (sort, column) in self.sorts.iter().zip(&mut keys.columns) {
            match sort.how {
                How::Number(number) => column.values.push(number(view, row)),
                How::Text(text, _) => column.values.push(column.words.place(text(row))),
                How::Start | How::Nothing => {}
            }
        }
    }

    /// The rows of which that was noted, by their place, in order.
    pub fn arranged(&self, keys: Keys) -> Vec<usize> {
        let Keys {
            starts,
            mut columns,
        } = keys;
        let mut rows: Vec<usize> = (0..starts.len()).collect();
        match self.base {
            Base::ByStart => by_start(&starts, &mut rows, true),
            Base::Reverse => rows.reverse(),
        }
        for (sort, column) in self.sorts.iter().zip(&mut columns).rev() {
            match sort.how {
                How::Start => by_start(&starts, &mut rows, sort.descending),
                How::Nothing => {}
                How::Number(_) => by_number(&column.values, &mut rows, sort.descending),
                How::Text(_, compare) => {
                    column.words.rank(&mut column.values, compare);
                    by_number(&column.values, &mut rows, sort.descending);
                }
            }
        }
        rows
    }
}

fn by_number(column: &[i128], rows: &mut [usize], descending: bool) {
    if descending {
        rows.sort_by(|a, b| column[*b].cmp(&column[*a]));
    } else {
        rows.sort_by(|a, b| column[*a].cmp(&column[*b]));
    }
}

fn by_start(starts: &[Option<u64>], rows: &mut Vec<usize>, descending: bool) {
    let mut known: Vec<(u64, usize)> = Vec::new();
    let mut unknown = Vec::new();
    for row in rows.drain(..) {
        match starts[row] {
            Some(at) => known.push((at, row)),
            None => unknown.push(row),
        }
    }
    known.sort_by(|(a, _), (b, _)| if descending { b.cmp(a) } else { a.cmp(b) });
    rows.extend(known.into_iter().map(|(_, row)| row));
    rows.extend(unknown.into_iter().rev());
}

impl Words {
    /// Where a text is; -1 for none.
    fn place(&mut self, text: Option<&str>) -> i128 {
        let Some(text) = text else { return -1 };
        if self.known.is_empty() || self.last.0 != text {
            let next = i128::try_from(self.known.len()).unwrap_or(i128::MAX);
            let place = match self.known.get(text) {
                Some(place) => *place,
                None => *self.known.entry(text.to_owned()).or_insert(next),
            };
            self.last.0.clear();
            self.last.0.push_str(text);
            self.last.1 = place;
        }
        self.last.1
    }

    /// Puts in the place of each text of a column where it comes among all.
    fn rank(&self, column: &mut [i128], compare: fn(&str, &str) -> Ordering) {
        let mut sorted: Vec<(&str, i128)> = Vec::with_capacity(self.known.len());
        sorted.extend(self.known.iter().map(|(text, at)| (text.as_str(), *at)));
        sorted.sort_by(|(a, _), (b, _)| compare(a, b));
        let mut ranks = vec![0; sorted.len()];
        let (mut rank, mut before) = (0, None);
        for (text, place) in sorted {
            if before.is_some_and(|before| compare(before, text).is_ne()) {
                rank += 1;
            }
            before = Some(text);
            if let Ok(place) = usize::try_from(place) {
                ranks[place] = rank;
            }
        }
        for value in column {
            if let Ok(place) = usize::try_from(*value) {
                *value = ranks[place];
            }
        }
    }
}

/// Two numbers, of which the first counts most.
fn pair(first: u32, second: u32) -> i128 {
    i128::from(first) << u32::BITS | i128::from(second)
}

fn limit(row: &JobRow) -> i128 {
    match row.job.spec.time_limit {
        Some(TimeLimit::Secs(secs)) => secs.into(),
        Some(TimeLimit::Unlimited) | None => u64::MAX.into(),
    }
}

fn by_id(row: &JobRow) -> i128 {
    match (&row.job.array, row.job.het) {
        (None, None) => pair(row.job.id.0, 0),
        (None, Some(part)) => pair(part.leader.0, part.offset),
        (Some(array), _) => pair(array.job.0, row.index().unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests;

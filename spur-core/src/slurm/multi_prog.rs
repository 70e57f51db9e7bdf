//! The file of `srun --multi-prog`: which tasks run which program.
//!
//! Each line has the numbers of tasks (`0-3,5`, or `*` for all that no line named), a program and its arguments. In these, `%t`
//! is the task's number and `%o` its place among the line's numbers; single quotes keep blanks, a backslash keeps the character
//! after it, and one at the end of a line continues it. Lines that begin with `#` are comments.

use std::collections::BTreeSet;

/// Greatest number of a task that is taken, so that a mistyped number does not ask for millions.
pub const TASK_MAX: u32 = 65_535;

/// One line's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ranks {
    All,
    Ranges(Vec<(u32, u32)>),
}

/// A piece of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Task,
    Offset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    ranks: Ranks,
    argv: Vec<Vec<Piece>>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiProg {
    /// How many tasks there are; 0 if nobody said and every task runs the same.
    pub tasks: u32,
    lines: Vec<Line>,
}

/// Reads the file `name`. Without a number of tasks there are as many as it names.
///
/// # Errors
/// It makes no sense, or names not all tasks or others: Slurm's lines about that.
pub fn read(text: &str, name: &str, tasks: Option<u32>) -> Result<MultiProg, Vec<String>> {
    let mut lines = Vec::new();
    let mut named = Named {
        fixed: tasks.is_some(),
        tasks: tasks.unwrap_or(0),
        all: false,
        seen: BTreeSet::new(),
    };
    for (number, text) in logical(text) {
        let invalid = |why: Option<String>| {
            let line = format!("Line {number} of configuration file {name} invalid");
            why.into_iter().chain([line]).collect::<Vec<_>>()
        };
        let text = text.trim_start();
        let at = text.find(char::is_whitespace).unwrap_or(text.len());
        let (ranks, rest) = text.split_at(at);
        let argv = words(rest).map_err(|why| invalid(Some(why)))?;
        if argv.is_empty() {
            return Err(invalid(None));
        }
        let ranks = named.take(ranks).map_err(|why| invalid(Some(why)))?;
        lines.push(Line { ranks, argv });
    }
    let mut tasks = 0..named.tasks.max(1);
    let missing = tasks.find(|task| !named.seen.contains(task));
    if let Some(task) = missing.filter(|_| !named.all) {
        return Err(vec![format!(
            "Configuration file {name} invalid, no record for task id {task}"
        )]);
    }
    let tasks = named.tasks;
    Ok(MultiProg { tasks, lines })
}

impl MultiProg {
    /// Program and arguments of a task; `None` if the file has none for it.
    pub fn argv(&self, task: u32) -> Option<Vec<String>> {
        let found = |line: &Line| Some((line.ranks.offset(task)?, line.argv.clone()));
        let (offset, argv) = self.lines.iter().find_map(found)?;
        let word = |pieces: Vec<Piece>| {
            let text = |piece: Piece| match piece {
                Piece::Text(text) => text,
                Piece::Task => task.to_string(),
                Piece::Offset => offset.to_string(),
            };
            pieces.into_iter().map(text).collect()
        };
        Some(argv.into_iter().map(word).collect())
    }
}

impl Ranks {
    /// A task's place among these; `None` if it is not one of them.
    fn offset(&self, task: u32) -> Option<u32> {
        let Self::Ranges(ranges) = self else {
            return Some(task);
        };
        let mut passed = 0;
        for (low, high) in ranges {
            if (low..=high).contains(&&task) {
                return Some(passed + task - low);
            }
            passed += high - low + 1;
        }
        None
    }
}

/// Which tasks were named.
struct Named {
    /// The number of tasks was given, or is fixed by `*`.
    fixed: bool,
    tasks: u32,
    all: bool,
    seen: BTreeSet<u32>,
}

impl Named {
    fn take(&mut self, text: &str) -> Result<Ranks, String> {
        if text == "*" {
            (self.fixed, self.all) = (true, true);
            return Ok(Ranks::All);
        }
        let ranges = text.split(',').filter(|range| !range.is_empty());
        let ranges = ranges.map(|range| self.range(range));
        let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
        if ranges.is_empty() {
            return Err(invalid_range(text));
        }
        Ok(Ranks::Ranges(ranges))
    }

    fn range(&mut self, text: &str) -> Result<(u32, u32), String> {
        if self.all {
            return Err("Task range specification with asterisk must be last".to_owned());
        }
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            let number = digits.parse::<u32>().ok().filter(|_| plain);
            number.ok_or_else(|| invalid_range(text))
        };
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(format!("Invalid task range, {low}-{high}"));
        }
        if high >= self.tasks && self.fixed {
            return Err(format!("Invalid task id, {high} >= ntasks"));
        }
        if high > TASK_MAX {
            return Err(format!("Invalid task id, {high} > {TASK_MAX}"));
        }
        self.tasks = self.tasks.max(high + 1);
        match (low..=high).find(|task| !self.seen.insert(*task)) {
            Some(task) => Err(format!("Duplicate record for task {task}")),
            None => Ok((low, high)),
        }
    }
}

fn invalid_range(text: &str) -> String {
    format!("Invalid task range specification ({text})")
}

/// The lines that say something, each with those that continue it, and the number of its first.
fn logical(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, before)) => {
                before.push('\n');
                before.push_str(line);
            }
            None => lines.push((number, line.to_owned())),
        }
        goes_on = line.ends_with('\\');
    }
    lines.retain(|(_, line)| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#')
    });
    lines
}

/// A program and its arguments.
fn words(text: &str) -> Result<Vec<Vec<Piece>>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<Piece>> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let pieces = word.get_or_insert_default();
        match (c, rest.peek().copied()) {
            ('\\', next) => {
                rest.next();
                if let Some(kept) = next.filter(|next| *next != '\n') {
                    push(pieces, kept);
                } else if pieces.is_empty() {
                    // Only the line goes on.
                    word = None;
                }
            }
            ('%', Some('t')) => {
                rest.next();
                pieces.push(Piece::Task);
            }
            ('%', Some('o')) => {
                rest.next();
                pieces.push(Piece::Offset);
            }
            ('\'', _) => {
                pieces.push(Piece::Text(String::new()));
                loop {
                    match (rest.next(), rest.peek()) {
                        (Some('\''), _) => break,
                        (Some('\\'), Some('\n')) => drop(rest.next()),
                        (Some(quoted), _) => push(pieces, quoted),
                        (None, _) => {
                            let text = text.trim();
                            return Err(format!(
                                "Program arguments specification format invalid: {text}."
                            ));
                        }
                    }
                }
            }
            (plain, _) => push(pieces, plain),
        }
    }
    words.extend(word);
    Ok(words)
}

fn push(pieces: &mut Vec<Piece>, c: char) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        Some(Piece::Task | Piece::Offset) | None => pieces.push(Piece::Text(c.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, tasks: Option<u32>) -> Vec<String> {
        let file = read(text, "f", tasks).unwrap();
        let argv = |task| file.argv(task).unwrap().join("|");
        (0..file.tasks).map(argv).collect()
    }

    fn wrong(text: &str, tasks: Option<u32>) -> String {
        read(text, "f", tasks).unwrap_err().join("; ")
    }

    #[test]
    fn tasks_run_what_their_line_says() {
        let file =
            "# who does what\n\n  4-6   hostname\n1,7\techo task:%t\n0,2-3 echo offset:%o %t%o\n";
        assert_eq!(
            shown(file, Some(8)),
            [
                "echo|offset:0|00",
                "echo|task:1",
                "echo|offset:1|21",
                "echo|offset:2|32",
                "hostname",
                "hostname",
                "hostname",
                "echo|task:7",
            ]
        );
        assert_eq!(
            shown("1 a\n* b %t %o", Some(3)),
            ["b|0|0", "a", "b|2|2"],
            "an asterisk is the rest"
        );
    }

    #[test]
    fn the_file_says_how_many_tasks_there_are_unless_somebody_else_does() {
        assert_eq!(shown("0 a\n1-2 b", None), ["a", "b", "b"]);
        let rest = read("* b", "f", None).unwrap();
        assert_eq!((rest.tasks, rest.argv(5)), (0, Some(vec!["b".to_owned()])));
        assert_eq!(
            wrong("0-2 a", Some(2)),
            "Invalid task id, 2 >= ntasks; Line 1 of configuration file f invalid"
        );
    }

    #[test]
    fn quotes_backslashes_and_lines_that_go_on() {
        let file =
            "0 echo 'a b'c\\ d '' '%t' %% %x \\\n  next \\%t \\\\ end\n1 sh -c 'one\\\ntwo'\n";
        assert_eq!(
            shown(file, None),
            ["echo|a bc d||%t|%%|%x|next|%t|\\|end", "sh|-c|onetwo"]
        );
        assert_eq!(
            shown("# left out \\\n0 too\n0 true\n", None),
            ["true"],
            "comments go on as well"
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, why) in [
            ("0", "Line 1 of configuration file f invalid"),
            (
                "\n0-1 a\n1 b",
                "Duplicate record for task 1; Line 3 of configuration file f invalid",
            ),
            (
                "x a",
                "Invalid task range specification (x); Line 1 of configuration file f invalid",
            ),
            (
                "2-x a",
                "Invalid task range specification (2-x); Line 1 of configuration file f invalid",
            ),
            (
                "-1 a",
                "Invalid task range specification (-1); Line 1 of configuration file f invalid",
            ),
            (
                "3-1 a",
                "Invalid task range, 3-1; Line 1 of configuration file f invalid",
            ),
            (
                "* a\n0 b",
                "Task range specification with asterisk must be last; Line 2 of configuration file f invalid",
            ),
            (
                "0 echo 'a",
                "Program arguments specification format invalid: echo 'a.; Line 1 of configuration file f invalid",
            ),
            (
                "4000000000 a",
                "Invalid task id, 4000000000 > 65535; Line 1 of configuration file f invalid",
            ),
            (
                "1 a",
                "Configuration file f invalid, no record for task id 0",
            ),
            ("", "Configuration file f invalid, no record for task id 0"),
        ] {
            assert_eq!(wrong(text, None), why, "{text}");
        }
    }
}

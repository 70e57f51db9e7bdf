//! The order of jobs among equals is timing, and no interface: where a command lists jobs or steps and was not told an order, what it
//! lists is sorted, on both sides alike; and so are the parts of what several tasks wrote to one file, and the lines of those who
//! tell of one end. Nothing is left out.

/// How a list is parted.
enum Parts {
    Lines,
    Paragraphs,
    Json,
    Yaml,
    Tasks,
}

/// With what is listed in an order of its own.
pub(super) fn unordered(command: &str, text: &str) -> String {
    let Some(parts) = parts(command) else {
        return text.to_owned();
    };
    match parts {
        Parts::Lines => sections(text, |section| {
            let mut lines: Vec<&str> = section.split_inclusive('\n').collect();
            lines.sort_unstable();
            lines.concat()
        }),
        Parts::Tasks => sections(text, tasks),
        Parts::Paragraphs => {
            let mut all: Vec<&str> = text.split("\n\n").collect();
            all.sort_unstable();
            all.join("\n\n")
        }
        Parts::Json => elements(
            text,
            |line| line == "    {\n",
            |line| line == "    }\n" || line == "    },\n",
        ),
        Parts::Yaml => elements(text, |line| line == "- !!map\n", |_| false),
    }
}

fn parts(command: &str) -> Option<Parts> {
    let told = ["-S", "--sort"].iter().any(|word| command.contains(word));
    let jobs = [
        "squeue",
        "show job",
        "show step",
        "listjobs",
        "liststeps",
        "sacct ",
    ];
    let lists = jobs.iter().any(|word| command.contains(word)) && !told;
    // What is cancelled is told of by the job, by its step and by srun, each by itself.
    let cancelled = command.starts_with("sbatch") && command.contains("scancel");
    if command.starts_with("srun") || cancelled {
        return Some(Parts::Lines);
    }
    if several_tasks(command) {
        return Some(Parts::Tasks);
    }
    if !lists {
        return None;
    }
    Some(if command.contains("--json") {
        Parts::Json
    } else if command.contains("--yaml") {
        Parts::Yaml
    } else if command.contains("show") {
        Parts::Paragraphs
    } else {
        Parts::Lines
    })
}

/// Whether a batch job has tasks that write side by side: those of an array, or of a step.
fn several_tasks(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let many = |text: &str| text.parse().is_ok_and(|tasks: u32| tasks > 1);
    let says_several = |(at, word): (usize, &&str)| match *word {
        "-n" | "--ntasks" => words.get(at + 1).is_some_and(|next| many(next)),
        word => {
            let tasks = word.strip_prefix("-n").or(word.strip_prefix("--ntasks="));
            tasks.is_some_and(many)
        }
    };
    words.first() == Some(&"sbatch")
        && (is_array(&words) || words.iter().enumerate().any(says_several))
}

fn is_array(words: &[&str]) -> bool {
    let mut words = words.iter();
    words.any(|word| matches!(*word, "-a" | "--array") || word.starts_with("--array="))
}

/// A line on its own, or what one task wrote.
enum Piece {
    Line(String),
    Part(String),
}

/// What tasks wrote to each file that is shown (`[out.txt]`), part by part. A task's part begins as the first one does, up to `=`.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut first: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let key = line.split_once('=').map(|(key, _)| key);
        match (key, pieces.last_mut()) {
            (None, _) => {
                pieces.push(Piece::Line(line.to_owned()));
                first = None;
            }
            (Some(_), Some(Piece::Part(part))) if first != key => part.push_str(line),
            (Some(_), _) => {
                pieces.push(Piece::Part(line.to_owned()));
                first = key;
            }
        }
    }
    pieces
}

/// Sorts what tasks wrote to one file.
fn tasks(section: &str) -> String {
    let mut pieces = pieces(section);
    let is_part = |piece: &Piece| matches!(piece, Piece::Part(_));
    for run in pieces.chunk_by_mut(|one, next| is_part(one) && is_part(next)) {
        run.sort_by(|one, next| one.text().cmp(next.text()));
    }
    pieces.iter().map(Piece::text).collect()
}

impl Piece {
    fn text(&self) -> &str {
        let (Self::Line(text) | Self::Part(text)) = self;
        text
    }
}

/// Of their output what may be compared with ours: where each task of an array empties the same file as it starts, what is left
/// of the others is chance. One task's part is always left.
pub(in crate::golden) fn comparable(command: &str, theirs: &str, ours: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut pairs = words.iter().zip(words.iter().skip(1));
    let one_file = pairs.any(|(option, file)| *option == "-o" && !file.contains('%'));
    let pieces = pieces(theirs);
    let left = |piece: &&Piece| match piece {
        Piece::Line(_) => true,
        Piece::Part(part) => ours.contains(part.as_str()),
    };
    let kept: Vec<&Piece> = pieces.iter().filter(left).collect();
    let some = kept.iter().any(|piece| matches!(piece, Piece::Part(_)));
    if one_file && some && is_array(&words) {
        kept.into_iter().map(Piece::text).collect()
    } else {
        theirs.to_owned()
    }
}

/// Does something to each of standard output and standard error.
fn sections(text: &str, change: impl Fn(&str) -> String) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut section = String::new();
    for line in text.split_inclusive('\n') {
        if line.starts_with("--- ") {
            changed.push_str(&change(&section));
            changed.push_str(line);
            section.clear();
        } else {
            section.push_str(line);
        }
    }
    changed + &change(&section)
}

/// Sorts the elements of the outermost list, from a line that begins one to a line that ends it, or to the next.
fn elements(text: &str, begins: fn(&str) -> bool, ends: fn(&str) -> bool) -> String {
    let (mut head, mut all, mut tail) = (String::new(), Vec::new(), String::new());
    let mut open: Option<String> = None;
    for line in text.split_inclusive('\n') {
        if begins(line) {
            all.extend(open.replace(line.to_owned()));
        } else if open.is_some() && ends(line) {
            all.extend(open.take());
        } else if open.is_some() && line.starts_with("!!str") {
            // What follows a list in YAML stands at its column.
            all.extend(open.take());
            tail.push_str(line);
        } else if let Some(element) = &mut open {
            element.push_str(line);
        } else if all.is_empty() {
            head.push_str(line);
        } else {
            tail.push_str(line);
        }
    }
    all.extend(open);
    all.sort_unstable();
    head + &all.concat() + &tail
}

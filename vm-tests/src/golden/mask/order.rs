//! The order of jobs among equals is timing, and no interface: where a command lists jobs or steps and was not told an order, what it
//! lists is sorted, on both sides alike. Nothing is left out.

/// How a list is parted.
enum Parts {
    Lines,
    Paragraphs,
    Json,
    Yaml,
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
    if command.starts_with("srun") {
        return Some(Parts::Lines);
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

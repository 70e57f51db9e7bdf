//! What is never the same twice: times, process numbers, ports, load, versions, the recording's own folders. Each rule replaces a
//! value by a word of its kind, of the same width where columns depend on it, in the recording and in ours alike. No rule
//! removes a line.

mod columns;
mod cores;
mod installed;
mod order;

pub(super) use order::comparable;

/// Values after these words and `=` or `: ` are the machine's or the moment's.
const VOLATILE: [&str; 33] = [
    "CPULoad",
    "FreeMem",
    "OS",
    "NodeAddr",
    "Port",
    "AllocNode:Sid",
    "SLURM_TASK_PID",
    "SLURM_CONF",
    "SLURM_SRUN_COMM_HOST",
    "SLURM_SRUN_COMM_PORT",
    "SLURM_STEP_LAUNCHER_PORT",
    "SLURM_LAUNCH_NODE_IPADDR",
    "\"cpu_load\"",
    "\"port\"",
    "\"pid\"",
    "\"operating_system\"",
    "!!str cpu_load",
    "!!str port",
    "!!str pid",
    "!!str operating_system",
    "\"address\"",
    "!!str address",
    "\"allocating_node\"",
    "\"elapsed\"",
    "\"microseconds\"",
    "\"seconds\"",
    "!!str elapsed",
    "!!str microseconds",
    "!!str seconds",
    "!!str allocating_node",
    "\"latency\"",
    "!!str latency",
    "SLURM_SUBMIT_HOST",
];

/// Replaces what is never the same in what this command wrote.
pub fn mask(command: &str, text: &str) -> String {
    // Everywhere else `0:15` is an exit status.
    let queue = command.contains("squeue");
    let text = text
        .replace(r"\/tmp\/slurm-base\/work", r"\/home\/slurmtest\/jobs")
        .replace("/tmp/slurm-base/work", "/home/slurmtest/jobs")
        .replace("slurm-wlm ", "slurm ")
        // All daemons of the recording were on one host, and went by its loopback address.
        .replace("127.0.0.1", "vm");
    let mut lines: Vec<String> = columns::masked(&cores::masked(&text))
        .split_inclusive('\n')
        .map(|text| line(text, queue))
        .collect();
    // Tasks write at the same time: what is labelled is put in the order of the labels.
    for run in lines.chunk_by_mut(|one, next| label(one).is_some() && label(next).is_some()) {
        run.sort_by_key(|line| label(line));
    }
    nested(&mut lines);
    let text = lines.concat();
    if command.starts_with("sdiag") {
        return counters(&text);
    }
    if command.starts_with("scontrol show config") {
        return installed::masked(&text);
    }
    order::unordered(command, &text)
}

/// Counters and measured times, of whatever size.
fn counters(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_ascii_digit() {
            masked.push(c);
        } else if !masked.ends_with('#') {
            masked.push('#');
        }
    }
    masked
}

/// Numbers that may be missing, of how long a job waited, of how long a step has run, and of memory that is free at the moment.
fn nested(lines: &mut [String]) {
    let is = |line: &str| {
        let line = line.trim();
        let names = ["planned", "free_mem", "minimum", "maximum", "running"];
        names
            .iter()
            .any(|name| line == format!("\"{name}\": {{") || line == format!("!!str {name}: !!map"))
    };
    let load = |line: &str| matches!(line.trim(), "\"load\": {" | "!!str load: !!map");
    for at in (0..lines.len())
        .filter(|at| load(&lines[*at]))
        .collect::<Vec<_>>()
    {
        for line in lines.iter_mut().skip(at + 1).take(2) {
            *line = counters(line);
        }
    }
    let starts: Vec<usize> = (0..lines.len()).filter(|at| is(&lines[*at])).collect();
    for at in starts {
        let Some(number) = lines.get_mut(at + 3) else {
            continue;
        };
        if let Some((name, _)) = number.split_once("number") {
            *number = format!("{name}number: *\n");
        }
    }
}

/// The task whose line it is, with `srun -l`.
fn label(line: &str) -> Option<u32> {
    let (number, _) = line.split_once(": ")?;
    let plain = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| plain)
}

fn line(line: &str, queue: bool) -> String {
    let line = by_shape(line, "####-##-##T##:##:##", "YYYY-MM-DDThh:mm:ss");
    let line = by_shape(
        &line,
        "@@@ @@@ ## ##:##:## ####",
        "Www Mmm dd hh:mm:ss yyyy",
    );
    let line = by_shape(
        &line,
        "@@@ @@@  # ##:##:## ####",
        "Www Mmm dd hh:mm:ss yyyy",
    );
    let line = by_shape(&line, "##########", "EEEEEEEEEE");
    let line = by_shape(&line, "24.11.#", "24.11.N");
    let line = after(&line, "IDX:", |c| c.is_ascii_digit() || ",-".contains(c));
    let line = after(&line, "CPU_IDs=", |c| {
        c.is_ascii_digit() || ",-".contains(c)
    });
    let line = after(&line, "Scheduler=", |c| {
        c.is_ascii_alphabetic() || ":*".contains(c)
    });
    let line = elapsed(&affinity(&line));
    volatile(&if queue { time_used(&line) } else { line })
}

/// Replaces what follows a word, as long as these characters last: which of equal devices, cores or schedulers it was.
fn after(line: &str, word: &str, of: impl Fn(char) -> bool) -> String {
    let mut masked = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(word) {
        let from = at + word.len();
        masked.push_str(&rest[..from]);
        rest = rest[from..].trim_start_matches(&of);
        masked.push('*');
    }
    masked + rest
}

/// Which sockets GPUs are near is told by hardware, or by a `gres.conf` that the recording did not have.
fn affinity(line: &str) -> String {
    let mut line = line.to_owned();
    while let Some(at) = line.find("(S:") {
        let Some(length) = line[at..].find(')') else {
            break;
        };
        let end = at + length + 1;
        // A column is as wide as before.
        let column = line[end..].starts_with("  ");
        let fill = if column {
            " ".repeat(end - at)
        } else {
            String::new()
        };
        line.replace_range(at..end, &fill);
    }
    line
}

/// Replaces every place that looks like `shape` (`#` a digit, `@` a letter, else itself) and is not part of a longer word. Ten
/// digits are a moment only if they are one of these years.
fn by_shape(line: &str, shape: &str, mask: &str) -> String {
    let (text, shape) = (line.as_bytes(), shape.as_bytes());
    let fits = |at: usize| {
        let Some(part) = text.get(at..at + shape.len()) else {
            return false;
        };
        let one = |(have, want): (&u8, &u8)| match want {
            b'#' => have.is_ascii_digit(),
            b'@' => have.is_ascii_alphabetic(),
            other => have == other,
        };
        let edge = |at: Option<usize>| {
            let byte = at.and_then(|at| text.get(at));
            byte.is_none_or(|byte| !byte.is_ascii_digit())
        };
        let moment = shape != b"##########" || part.starts_with(b"17") || part.starts_with(b"18");
        part.iter().zip(shape).all(one)
            && edge(at.checked_sub(1))
            && edge(Some(at + shape.len()))
            && moment
    };
    replace(line, shape.len(), fits, mask)
}

/// How long something has run so far: `00:01:10`. Nothing in the scenes runs for ten minutes, and no limit is below that.
fn elapsed(line: &str) -> String {
    let text = line.as_bytes();
    let digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let clear = |at: Option<usize>| {
        let byte = at.and_then(|at| text.get(at));
        byte.is_none_or(|byte| !byte.is_ascii_digit() && *byte != b':' && *byte != b'-')
    };
    let starts = |at: usize, with: &str| text[at..].starts_with(with.as_bytes());
    let long = |at: usize| {
        starts(at, "00:0")
            && digit(at + 4)
            && starts(at + 5, ":")
            && digit(at + 6)
            && digit(at + 7)
            && clear(at.checked_sub(1))
            && clear(Some(at + 8))
    };
    replace(line, 8, |at| at + 8 <= text.len() && long(at), "hh:mm:ss")
}

/// The same as the queue shows it: `0:07`.
fn time_used(line: &str) -> String {
    let text = line.as_bytes();
    let digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let clear = |at: Option<usize>| {
        let byte = at.and_then(|at| text.get(at));
        byte.is_none_or(|byte| !byte.is_ascii_digit() && !matches!(byte, b':' | b'-' | b'.'))
    };
    let short = |at: usize| {
        at + 4 <= text.len()
            && digit(at)
            && text[at + 1] == b':'
            && digit(at + 2)
            && digit(at + 3)
            && clear(at.checked_sub(1))
            && clear(Some(at + 4))
    };
    replace(line, 4, short, "m:ss")
}

fn replace(line: &str, width: usize, fits: impl Fn(usize) -> bool, mask: &str) -> String {
    let mut masked = String::with_capacity(line.len());
    let (mut from, mut at) = (0, 0);
    while at + width <= line.len() {
        if line.is_char_boundary(at) && fits(at) {
            masked.push_str(&line[from..at]);
            masked.push_str(mask);
            at += width;
            from = at;
        } else {
            at += 1;
        }
    }
    masked.push_str(&line[from..]);
    masked
}

/// The values of [`VOLATILE`] words, up to the next blank or comma; that of an operating system has blanks and goes on to `@0`.
fn volatile(line: &str) -> String {
    let mut line = line.to_owned();
    for word in VOLATILE {
        for mark in ["=", ": "] {
            let Some(at) = line.find(&format!("{word}{mark}")) else {
                continue;
            };
            let alone = at == 0 || !line.as_bytes()[at - 1].is_ascii_alphanumeric();
            if !alone {
                continue;
            }
            let from = at + word.len() + mark.len();
            let rest = &line[from..];
            let end = match word {
                "OS" => rest.find(" @").or_else(|| rest.find(['\n'])),
                "\"operating_system\"" => rest.find('\n'),
                word if word.starts_with("!!str") => rest.find('\n'),
                _ => rest.find([' ', ',', '\n']),
            };
            let end = from + end.unwrap_or(rest.len());
            line.replace_range(from..end, "*");
        }
    }
    line
}

//! Signals by name and number, and how a process that ended is described.

use crate::job::extras::Warning;
use crate::job::state::ExitStatus;

/// A signal's number, its name without `SIG`, and what the C library's `strsignal` calls it. Linux, `signal(7)`.
const SIGNALS: [(u8, &str, &str); 31] = [
    (1, "HUP", "Hangup"),
    (2, "INT", "Interrupt"),
    (3, "QUIT", "Quit"),
    (4, "ILL", "Illegal instruction"),
    (5, "TRAP", "Trace/breakpoint trap"),
    (6, "ABRT", "Aborted"),
    (7, "BUS", "Bus error"),
    (8, "FPE", "Floating point exception"),
    (9, "KILL", "Killed"),
    (10, "USR1", "User defined signal 1"),
    (11, "SEGV", "Segmentation fault"),
    (12, "USR2", "User defined signal 2"),
    (13, "PIPE", "Broken pipe"),
    (14, "ALRM", "Alarm clock"),
    (15, "TERM", "Terminated"),
    (16, "STKFLT", "Stack fault"),
    (17, "CHLD", "Child exited"),
    (18, "CONT", "Continued"),
    (19, "STOP", "Stopped (signal)"),
    (20, "TSTP", "Stopped"),
    (21, "TTIN", "Stopped (tty input)"),
    (22, "TTOU", "Stopped (tty output)"),
    (23, "URG", "Urgent I/O condition"),
    (24, "XCPU", "CPU time limit exceeded"),
    (25, "XFSZ", "File size limit exceeded"),
    (26, "VTALRM", "Virtual timer expired"),
    (27, "PROF", "Profiling timer expired"),
    (28, "WINCH", "Window changed"),
    (29, "IO", "I/O possible"),
    (30, "PWR", "Power failure"),
    (31, "SYS", "Bad system call"),
];

/// The highest signal number of Linux (`SIGRTMAX`).
const LAST: u8 = 64;

/// A text that is no signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unknown job signal: {0}")]
pub struct BadSignal(pub String);

/// The number of `TERM`, `SIGTERM`, `sigterm` or `15`; 1 to 64.
pub fn parse(text: &str) -> Result<u8, BadSignal> {
    let bad = || BadSignal(text.to_owned());
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text
            .parse()
            .ok()
            .filter(|number| (1..=LAST).contains(number))
            .ok_or_else(bad);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = SIGNALS.iter().find(|(_, known, _)| *known == name);
    known.map(|(number, ..)| *number).ok_or_else(bad)
}

/// How long before the limit a signal comes if `--signal` does not say, in seconds.
const WARN_BEFORE: u32 = 60;
/// The longest time before the limit, in seconds.
const WARN_MAX: u32 = 65_535;

/// `--signal`: `[{R|B|RB}:]SIGNAL[@SECONDS]`.
pub fn parse_warning(text: &str) -> Result<Warning, BadSignal> {
    let bad = || BadSignal(text.to_owned());
    let (flags, rest) = text.split_once(':').unwrap_or(("", text));
    let (signal, before) = match rest.split_once('@') {
        Some((signal, before)) => (signal, seconds(before).ok_or_else(bad)?),
        None => (rest, WARN_BEFORE),
    };
    let (mut batch, mut reservation) = (false, false);
    for flag in flags.chars() {
        match flag {
            'B' | 'b' => batch = true,
            'R' | 'r' => reservation = true,
            _ => return Err(bad()),
        }
    }
    if flags.is_empty() && text.contains(':') {
        return Err(bad());
    }
    Ok(Warning {
        signal: parse(signal)?,
        before,
        batch,
        reservation,
    })
}

fn seconds(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| plain && *n <= WARN_MAX)
}

/// `TERM` for 15; the number itself for one without a name.
pub fn name(signal: u8) -> String {
    let known = SIGNALS.iter().find(|(number, ..)| *number == signal);
    known.map_or_else(|| signal.to_string(), |(_, name, _)| (*name).to_owned())
}

/// `Terminated` for 15, as `strsignal` says it.
pub fn describe(signal: u8) -> String {
    let known = SIGNALS.iter().find(|(number, ..)| *number == signal);
    known.map_or_else(
        || format!("Unknown signal {signal}"),
        |(.., text)| (*text).to_owned(),
    )
}

/// The code that a shell, and `srun`, makes of a status: the exit code, or 128 and the signal.
pub fn shell_code(status: ExitStatus) -> u8 {
    if status.signal == 0 {
        status.code
    } else {
        status.signal.saturating_add(128)
    }
}

/// What `srun` exits with: the highest code of its tasks.
pub fn srun_code(statuses: impl IntoIterator<Item = ExitStatus>) -> u8 {
    statuses
        .into_iter()
        .map(shell_code)
        .max()
        .unwrap_or_default()
}

/// `CODE:SIGNAL`, as views show it.
pub fn pair(status: ExitStatus) -> String {
    format!("{}:{}", status.code, status.signal)
}

/// A task that ended, for [`task_report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTask<'a> {
    /// Where it ran.
    pub host: &'a str,
    /// Its number within the step.
    pub task: u32,
    /// How it ended.
    pub status: ExitStatus,
    /// Whether the kernel dumped its core.
    pub core_dumped: bool,
}

/// What `srun` says (after `srun: error: `) of tasks that did not end with 0, in their order: neighbours on one host with one
/// status share a line, as in `n1: tasks 1-2: Killed`.
pub fn task_report(ended: &[EndedTask<'_>]) -> Vec<String> {
    let failed: Vec<_> = ended
        .iter()
        .filter(|task| task.status != ExitStatus::default())
        .collect();
    let alike = failed
        .chunk_by(|a, b| (a.host, a.status, a.core_dumped) == (b.host, b.status, b.core_dumped));
    alike
        .filter_map(|tasks| {
            let first = tasks.first()?;
            let numbers: crate::resources::IdSet = tasks.iter().map(|ended| ended.task).collect();
            let core = if first.core_dumped {
                " (core dumped)"
            } else {
                ""
            };
            let word = if tasks.len() == 1 { "task" } else { "tasks" };
            let numbers = if tasks.len() == 1 {
                first.task.to_string()
            } else {
                numbers.to_string()
            };
            Some(format!(
                "{}: {word} {numbers}: {}{core}",
                first.host,
                outcome(first.status)
            ))
        })
        .collect()
}

/// `Exited with exit code 3`, or the signal's description.
pub fn outcome(status: ExitStatus) -> String {
    match status.signal {
        0 => format!("Exited with exit code {}", status.code),
        signal => describe(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for (text, number) in [
            ("TERM", 15),
            ("SIGTERM", 15),
            ("sigkill", 9),
            ("15", 15),
            ("1", 1),
            ("64", 64),
            ("usr1", 10),
        ] {
            assert_eq!(parse(text), Ok(number), "{text}");
        }
        for text in [
            "",
            "0",
            "65",
            "FOO",
            "SIG",
            "-1",
            "+9",
            "SIG9",
            "1e1",
            "999999999999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(
            BadSignal("FOO".to_owned()).to_string(),
            "Unknown job signal: FOO"
        );
        assert_eq!((name(15), name(40)), ("TERM".to_owned(), "40".to_owned()));
        for (number, name, _) in SIGNALS {
            assert_eq!(parse(name), Ok(number));
        }
    }

    #[test]
    fn warnings_are_read() {
        let warning = |signal, before, batch, reservation| Warning {
            signal,
            before,
            batch,
            reservation,
        };
        for (text, wanted) in [
            ("USR2@90", Some(warning(12, 90, false, false))),
            ("B:USR1", Some(warning(10, 60, true, false))),
            ("RB:15@0", Some(warning(15, 0, true, true))),
            ("b:int@30", Some(warning(2, 30, true, false))),
            ("", None),
            (":USR1", None),
            ("X:USR1", None),
            ("USR1@", None),
            ("USR1@65536", None),
            ("USR1@-1", None),
            ("NOPE", None),
        ] {
            assert_eq!(parse_warning(text).ok(), wanted, "{text}");
        }
    }

    const fn exited(code: u8) -> ExitStatus {
        ExitStatus { code, signal: 0 }
    }

    const fn killed(signal: u8) -> ExitStatus {
        ExitStatus { code: 0, signal }
    }

    #[test]
    fn statuses_become_codes_and_words() {
        for (status, code, pair_text, words) in [
            (exited(3), 3, "3:0", "Exited with exit code 3"),
            (killed(9), 137, "0:9", "Killed"),
            (killed(11), 139, "0:11", "Segmentation fault"),
            (killed(15), 143, "0:15", "Terminated"),
        ] {
            assert_eq!(
                (
                    shell_code(status),
                    pair(status).as_str(),
                    outcome(status).as_str()
                ),
                (code, pair_text, words)
            );
        }
    }

    #[test]
    fn srun_exits_with_the_highest_code() {
        assert_eq!(srun_code([]), 0);
        assert_eq!(srun_code([exited(0), exited(3), exited(1)]), 3);
        assert_eq!(srun_code([exited(3), killed(9), exited(200)]), 200);
        assert_eq!(srun_code([exited(3), killed(15)]), 143);
    }

    #[test]
    fn failed_tasks_are_reported_by_host_and_status() {
        let ended = |host, task, status| EndedTask {
            host,
            task,
            status,
            core_dumped: status.signal == 11,
        };
        let tasks = [
            ended("n1", 0, exited(0)),
            ended("n1", 1, exited(1)),
            ended("n1", 2, exited(1)),
            ended("n1", 3, exited(2)),
            ended("n2", 4, exited(2)),
            ended("n2", 5, killed(9)),
            ended("n2", 6, killed(11)),
        ];
        let lines = [
            "n1: tasks 1-2: Exited with exit code 1",
            "n1: task 3: Exited with exit code 2",
            "n2: task 4: Exited with exit code 2",
            "n2: task 5: Killed",
            "n2: task 6: Segmentation fault (core dumped)",
        ];
        assert_eq!(task_report(&tasks), lines);
        assert!(task_report(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*", number: u8) {
            let _parsed = (parse(&text), parse_warning(&text));
            prop_assert_eq!(parse(&name(number)).ok(), (1..=LAST).contains(&number).then_some(number));
        }
    }
}

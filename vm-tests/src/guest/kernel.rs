//! The tests of the BPF programs themselves, which `spur-ebpf` has as an ordinary test program: run here, told in the guest's words.

use crate::user::LIMIT;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the host packs them, if it does.
const PROGRAM: &str = "/usr/bin/kernel-tests";

/// What a test that cannot be made on this kernel prints before the reason.
const SKIPPED: &str = "skipped: ";

/// Runs those whose names contain one of the words, or all; `guarded` demands that the guard can be had. Returns whether none failed.
pub fn run(words: &[String], guarded: bool) -> bool {
    if !Path::new(PROGRAM).exists() {
        return true;
    }
    let mut command = Command::new("timeout");
    // They are many, and each is as long as one of ours.
    command
        .args([
            "--kill-after=5",
            &(10 * LIMIT).to_string(),
            PROGRAM,
            "--test-threads=1",
            "--show-output",
        ])
        .args(words);
    if guarded {
        command.env("SPUR_TEST_GUARD", "required");
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("timeout(1) is installed");
    let output = child.stdout.take().expect("it was asked for");
    let mut report = Report::default();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        for said in report.read(&line) {
            println!("{said}");
        }
    }
    let ended = child.wait().expect("a child can be waited for");
    for said in report.end() {
        println!("{said}");
    }
    if !ended.success() && !report.failed {
        println!("guest: spur-ebpf FAILED: its tests ended with {ended}");
    }
    ended.success()
}

/// Reads what cargo's test programs print. What passed is known at once; whether it was skipped, when its output is shown at the end.
#[derive(Default)]
struct Report {
    /// Tests that passed, with the reason if they were skipped.
    passed: Vec<(String, Option<String>)>,
    /// Whose output is being shown.
    shown: Option<String>,
    failed: bool,
}

impl Report {
    /// Takes in a line; returns what to say.
    fn read(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["test", name, "...", "ok"] => self.passed.push((last(name), None)),
            ["test", name, "...", "FAILED"] => {
                self.failed = true;
                return vec![format!("guest: spur-ebpf::{} FAILED", last(name))];
            }
            ["----", name, "stdout", "----"] => self.shown = Some(last(name)),
            _ => {
                let why = line.trim().strip_prefix(SKIPPED);
                let test = self
                    .shown
                    .as_ref()
                    .and_then(|name| self.passed.iter_mut().find(|(known, _)| known == name));
                match (test, why) {
                    (Some((_, reason)), Some(why)) => *reason = Some(why.to_owned()),
                    // What a failed test says is for people.
                    _ if self.failed => return vec![line.to_owned()],
                    _ => {}
                }
            }
        }
        Vec::new()
    }

    /// What is to say of those that passed.
    fn end(&self) -> Vec<String> {
        let line = |(name, skipped): &(String, Option<String>)| match skipped {
            Some(why) => format!("guest: spur-ebpf::{name} skipped {why}"),
            None => format!("guest: spur-ebpf::{name} ok"),
        };
        self.passed.iter().map(line).collect()
    }
}

/// A test's name without its modules.
fn last(path: &str) -> String {
    path.rsplit("::").next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_have_not_passed() {
        let mut report = Report::default();
        let lines = [
            "running 3 tests",
            "test guard::attacks::a ... ok",
            "test guard::b ... ok",
            "test c ... FAILED",
            "successes:",
            "---- guard::b stdout ----",
            "skipped: no trampolines",
        ];
        let said: Vec<String> = lines.iter().flat_map(|line| report.read(line)).collect();
        assert!(
            said.contains(&"guest: spur-ebpf::c FAILED".to_owned()),
            "{said:?}"
        );
        assert_eq!(
            report.end(),
            [
                "guest: spur-ebpf::a ok",
                "guest: spur-ebpf::b skipped no trampolines"
            ]
        );
    }
}

//! Counting what several test runners say.

use anyhow::Result;
use std::fmt;

/// Numbers, and the lists behind them.
#[derive(Default)]
pub(super) struct Tally {
    /// Tests that ran and held.
    pub(super) passed: u64,
    /// Tests that ran and did not.
    pub(super) failed: u64,
    skips: Vec<String>,
    failures: Vec<String>,
}

impl Tally {
    /// Counts one thing that is done as a whole.
    pub(super) fn step(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(error) => {
                self.failed += 1;
                self.failures.push(format!("{name}: {error:#}"));
            }
        }
    }

    /// Notes something that could not be checked here.
    pub(super) fn skip(&mut self, what: &str) {
        self.skips.push(what.to_owned());
    }

    /// Takes in a line of nextest's or of cargo's own test runner.
    pub(super) fn read_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() == Some(&"Summary") {
            self.passed += number_before(&words, "passed");
            self.failed += number_before(&words, "failed") + number_before(&words, "timed");
        } else if let Some(rest) = line.strip_prefix("test result:") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            self.passed += number_before(&words, "passed;");
            self.failed += number_before(&words, "failed;");
        } else if matches!(words[..], ["FAIL" | "TIMEOUT", ..]) {
            let name = words.split_off_bracket().join(" ");
            if !self.failures.contains(&name) {
                self.failures.push(name);
            }
        } else if let ["test", name, "...", "FAILED"] = words[..] {
            self.failures.push(name.to_owned());
        }
    }

    /// Takes in a line of the guest's console: `guest: NAME ok|FAILED …|skipped …`.
    pub(super) fn read_guest(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("guest: ") else {
            return;
        };
        match rest
            .split_once(' ')
            .map(|(name, rest)| (name, rest.split_once(' ').unwrap_or((rest, ""))))
        {
            Some((_, ("ok", _))) => self.passed += 1,
            Some((name, ("FAILED", why))) => {
                self.failed += 1;
                self.failures.push(format!("in the guest: {name}: {why}"));
            }
            Some((name, ("skipped", why))) => {
                self.skips.push(format!("in the guest: {name}: {why}"))
            }
            _ => {}
        }
    }

    /// Takes in what tests noted that they could not check.
    pub(super) fn read_skips(&mut self, notes: &str) {
        self.skips.extend(
            notes
                .lines()
                .filter(|line| !line.is_empty())
                .map(str::to_owned),
        );
    }

    /// A runner that failed without naming a failed test (it did not build, it crashed) counts as one failure.
    pub(super) fn settle(&mut self, what: &str, ok: bool, failed_before: u64) {
        if !ok && self.failed == failed_before {
            self.failed += 1;
            self.failures
                .push(format!("{what}: did not build, or ended early"));
        }
    }
}

/// `FAIL [ 0.1s] crate test` without its first words.
trait AfterBracket<'a> {
    fn split_off_bracket(&self) -> Vec<&'a str>;
}

impl<'a> AfterBracket<'a> for Vec<&'a str> {
    fn split_off_bracket(&self) -> Vec<&'a str> {
        let close = self
            .iter()
            .position(|word| word.ends_with(']'))
            .map_or(1, |at| at + 1);
        let rest = self[close..].iter().copied();
        rest.skip_while(|word| word.starts_with('(') || word.ends_with(')'))
            .collect()
    }
}

fn number_before(words: &[&str], word: &str) -> u64 {
    let at = words.iter().position(|w| w.trim_end_matches(',') == word);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok())
        .unwrap_or(0)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [("Failed:", &self.failures), ("Not run here:", &self.skips)];
        for (title, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            writeln!(f, "{title}")?;
            for item in list {
                writeln!(f, "  {item}")?;
            }
        }
        let Self {
            passed,
            failed,
            skips,
            ..
        } = self;
        write!(
            f,
            "{passed} passed, {failed} failed, {} skipped",
            skips.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_are_understood() {
        let mut tally = Tally::default();
        for line in [
            "     Summary [   0.361s] 22 tests run: 21 passed (1 slow), 1 failed, 3 skipped",
            "        FAIL [   0.004s] (3/22) spur-core id::tests::names",
            "test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
            "test cluster::fence ... FAILED",
        ] {
            tally.read_line(line);
        }
        for line in [
            "guest: launch ok",
            "guest: oom FAILED no kill seen",
            "guest: lsm skipped no bpf",
            "noise",
        ] {
            tally.read_guest(line);
        }
        tally.settle("build", false, tally.failed);
        let text = tally.to_string();
        assert!(text.ends_with("26 passed, 4 failed, 1 skipped"), "{text}");
        assert!(
            text.contains("\n  spur-core id::tests::names\n  cluster::fence\n"),
            "{text}"
        );
        assert!(text.contains("in the guest: oom: no kill seen"), "{text}");
    }
}

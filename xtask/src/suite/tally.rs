//! Counting what several test runners say.

use anyhow::Result;
use std::fmt;

/// Numbers, and the lists behind them.
#[derive(Default)]
pub(crate) struct Tally {
    /// Tests that ran and held.
    pub(super) passed: u64,
    /// Tests that ran and did not.
    pub(super) failed: u64,
    not_really_passed: u64,
    passes: Vec<String>,
    skips: Vec<String>,
    failures: Vec<String>,
    second: Vec<String>,
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

    /// Adds a runner's own sums.
    pub(super) fn add(&mut self, passed: u64, failed: u64) {
        self.passed += passed;
        self.failed += failed;
    }

    /// Names a passed test that a runner's sums count; it may yet say that it was skipped.
    pub(super) fn name_pass(&mut self, name: &str) {
        self.passes.push(name.to_owned());
    }

    /// Tests by name that passed, or were skipped.
    pub(crate) fn passes(&self) -> &[String] {
        &self.passes
    }

    /// Tests that failed, by name.
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// What was skipped, by name and reason.
    pub(crate) fn skips(&self) -> &[String] {
        &self.skips
    }

    /// The numbers alone.
    pub(crate) fn sums(&self) -> String {
        let passed = self.passed.saturating_sub(self.not_really_passed);
        format!(
            "{passed} passed, {} failed, {} skipped",
            self.failed,
            self.skips.len()
        )
    }

    /// Names a failed test that a runner's sums count. Runners may name it twice.
    pub(super) fn name_failure(&mut self, name: &str) {
        if !self.failures.iter().any(|known| known == name) {
            self.failures.push(name.to_owned());
        }
    }

    /// Names a test that failed and then passed: its runner's sums count it as passed.
    pub(super) fn name_second(&mut self, name: &str) {
        self.failures.retain(|known| known != name);
        self.second.push(name.to_owned());
    }

    /// A test counted as passed that said it was skipped.
    pub(super) fn skip_passed(&mut self, what: &str) {
        // Its runner's sum may come later.
        self.not_really_passed += 1;
        self.skip(what);
    }

    /// Takes in a line of the guest's console: `guest: NAME ok|FAILED …|skipped …`.
    pub(crate) fn read_guest(&mut self, line: &str) {
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

    /// A runner that failed without naming a failed test (it did not build, it crashed) counts as one failure.
    pub(super) fn settle(&mut self, what: &str, ok: bool, failed_before: u64) {
        if !ok && self.failed == failed_before {
            self.failed += 1;
            self.failures
                .push(format!("{what}: did not build, or ended early"));
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What failed comes last: whoever keeps only the end of a long output should see it.
        let lists = [
            ("Not run here:", &self.skips),
            ("Passed only when tried again:", &self.second),
            ("Failed:", &self.failures),
        ];
        for (title, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            writeln!(f, "{title}")?;
            for item in list {
                writeln!(f, "  {item}")?;
            }
        }
        f.write_str(&self.sums())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_is_understood_and_the_last_line_is_plain() {
        let mut tally = Tally::default();
        tally.add(25, 2);
        tally.name_failure("spur-core id::tests::names");
        tally.name_failure("spur-core id::tests::names");
        let guest = [
            "launch ok in 3 ms",
            "oom FAILED no kill seen",
            "lsm skipped no bpf",
        ];
        for line in guest {
            tally.read_guest(&format!("guest: {line}"));
        }
        tally.read_guest("noise");
        tally.settle("build", false, tally.failed);
        let text = tally.to_string();
        assert!(text.ends_with("26 passed, 4 failed, 1 skipped"), "{text}");
        assert_eq!(text.matches("id::tests::names").count(), 1, "{text}");
        assert!(text.contains("in the guest: oom: no kill seen"), "{text}");
    }
}

//! Reading nextest's output, or that of cargo's own test programs: sums, failures, and which passing tests said that they
//! were skipped.

use super::tally::Tally;

/// What a test that cannot be made here writes, before the reason.
const SKIPPED: &str = "skipped: ";

/// Where in the output we are.
#[derive(Default)]
pub(super) struct Listener {
    /// The passed test whose output this is.
    passed: Option<String>,
    /// Whether it was skipped already.
    counted: bool,
    /// Whether libtest shows what failed, in the same form as what passed.
    failures: bool,
}

impl Listener {
    /// Takes in a line; returns whether people should see it.
    pub(super) fn read(&mut self, line: &str, tally: &mut Tally) -> bool {
        if let Some((passed, failed)) = sums(line) {
            tally.add(passed, failed);
            (self.passed, self.failures) = (None, false);
            return true;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["PASS" | "SLOW" | "FLAKY", ..] if line.starts_with(' ') => {
                self.enter(name(&words), tally)
            }
            ["----", name, "stdout", "----"] if !self.failures => {
                self.enter(name.to_owned(), tally)
            }
            ["TRY", _, "PASS" | "SLOW", ..] => {
                tally.name_second(&name(&words));
                self.enter(name(&words), tally)
            }
            ["FAIL" | "TIMEOUT" | "ABORT" | "SIGKILL" | "SIGSEGV", ..]
            | [
                "TRY",
                _,
                "FAIL" | "TIMEOUT" | "ABORT" | "SIGKILL" | "SIGSEGV",
                ..,
            ] => {
                self.passed = None;
                tally.name_failure(&name(&words));
            }
            // Indented, it is nextest that quotes libtest.
            ["test", name, "...", "FAILED"] if !line.starts_with(' ') => tally.name_failure(name),
            // From here on libtest shows what failed; its successes come first.
            ["failures:"] if !line.starts_with(' ') => (self.passed, self.failures) = (None, true),
            ["successes:"] => return false,
            _ => self.skipped(line, tally),
        }
        self.passed.is_none() && !matches!(words[..], ["test", _, "...", "ok"])
    }

    fn enter(&mut self, name: String, tally: &mut Tally) {
        tally.name_pass(&name);
        self.passed = Some(name);
        self.counted = false;
    }

    fn skipped(&mut self, line: &str, tally: &mut Tally) {
        let Some((name, why)) = self.passed.as_ref().zip(line.trim().strip_prefix(SKIPPED)) else {
            return;
        };
        let what = format!("{name}: {why}");
        if self.counted {
            tally.skip(&what)
        } else {
            tally.skip_passed(&what)
        }
        self.counted = true;
    }
}

/// `PASS [ 0.1s] (3/9) crate test` without its first words.
fn name(words: &[&str]) -> String {
    let close = words
        .iter()
        .position(|word| word.ends_with(']'))
        .map_or(1, |at| at + 1);
    let rest = words[close..]
        .iter()
        .skip_while(|word| word.starts_with('(') || word.ends_with(')'));
    rest.copied().collect::<Vec<_>>().join(" ")
}

/// Passed and failed, from the line that ends a run.
fn sums(line: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |word: &str| {
        let at = words
            .iter()
            .position(|w| w.trim_end_matches([',', ';']) == word);
        at.and_then(|at| words.get(at.checked_sub(1)?)?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let ends = line.starts_with("test result:") || words.first() == Some(&"Summary");
    ends.then(|| (before("passed"), before("failed") + before("timed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[&str]) -> (String, Vec<String>) {
        let mut tally = Tally::default();
        let mut listener = Listener::default();
        let shown = lines.iter().filter(|line| listener.read(line, &mut tally));
        let shown = shown.map(|line| (*line).to_owned()).collect();
        (tally.to_string(), shown)
    }

    #[test]
    fn nextest_is_understood() {
        let (text, shown) = shown(&[
            "        PASS [   0.004s] ( 1/22) spur-core id::tests::a",
            "  stderr ───",
            "    noise",
            "        PASS [   0.004s] ( 2/22) spur-agent fence::b",
            "    skipped: device nodes need root",
            "        FAIL [   0.004s] ( 3/22) spur-core id::tests::c",
            "    test id::tests::c ... FAILED",
            "    why it failed",
            "────────────",
            "     Summary [   0.361s] 22 tests run: 21 passed (1 slow), 1 failed, 3 skipped",
            "        FAIL [   0.004s] ( 3/22) spur-core id::tests::c",
        ]);
        assert!(
            text.contains("  spur-agent fence::b: device nodes need root\n"),
            "{text}"
        );
        assert!(text.ends_with("20 passed, 1 failed, 1 skipped"), "{text}");
        assert_eq!(text.matches("id::tests::c").count(), 1, "{text}");
        assert!(shown.contains(&"    why it failed".to_owned()), "{shown:?}");
        assert!(
            !shown.iter().any(|line| line.contains("noise")),
            "{shown:?}"
        );
    }

    #[test]
    fn a_second_try_is_named_and_counts() {
        let (text, _) = shown(&[
            "  TRY 1 FAIL [   0.004s] ( 3/22) spur-core id::tests::c",
            "    why it failed",
            "  TRY 2 PASS [   0.004s] ( 3/22) spur-core id::tests::c",
            "  TRY 1 FAIL [   0.004s] ( 4/22) spur-core id::tests::d",
            "  TRY 2 FAIL [   0.004s] ( 4/22) spur-core id::tests::d",
            "     Summary [   0.361s] 22 tests run: 21 passed (1 flaky), 1 failed, 0 skipped",
            "  TRY 2 FAIL [   0.004s] ( 4/22) spur-core id::tests::d",
        ]);
        let end = "Passed only when tried again:\n  spur-core id::tests::c\nFailed:\n  spur-core id::tests::d\n\
                   21 passed, 1 failed, 0 skipped";
        assert_eq!(text, end);
    }

    #[test]
    fn cargo_test_is_understood() {
        let (text, shown) = shown(&[
            "test fence::a ... ok",
            "test fence::b ... FAILED",
            "successes:",
            "---- fence::a stdout ----",
            "skipped: needs root",
            "failures:",
            "---- fence::b stdout ----",
            "why it failed",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        ]);
        assert!(text.ends_with("0 passed, 1 failed, 1 skipped"), "{text}");
        assert!(
            text.contains("  fence::a: needs root\n") && text.contains("  fence::b\n"),
            "{text}"
        );
        assert!(
            !shown.contains(&"test fence::a ... ok".to_owned()),
            "{shown:?}"
        );
    }
}

//! What Ctrl-C means: the first shows where the tasks are, a second within a second is passed on, one more ends the step.
//! Pure: the present is an argument.

use std::time::{Duration, Instant};

/// Within this time a further Ctrl-C means more.
const WINDOW: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Show the states of the tasks.
    Show,
    /// Pass the interrupt on to the tasks.
    Pass,
    /// End the step.
    End,
}

/// The history of Ctrl-C.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interrupts {
    no_status: bool,
    quit: bool,
    last: Option<Instant>,
    passed: Option<Instant>,
}

impl Interrupts {
    /// With `no_status` (`--disable-status`) all are passed on; with `quit` (`--quit-on-interrupt`) the first counts as the
    /// second.
    pub fn new(no_status: bool, quit: bool) -> Self {
        Self {
            no_status,
            quit,
            last: None,
            passed: None,
        }
    }

    /// Another Ctrl-C.
    pub fn next(&mut self, now: Instant) -> Answer {
        let recent = |then: Option<Instant>| then.is_some_and(|then| now - then <= WINDOW);
        if !self.quit && !recent(self.last) {
            self.last = Some(now);
            return if self.no_status {
                Answer::Pass
            } else {
                Answer::Show
            };
        }
        if recent(self.passed) {
            return Answer::End;
        }
        self.last = Some(now);
        self.passed = Some(now);
        Answer::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(mut interrupts: Interrupts, at_ms: &[u64]) -> Vec<Answer> {
        let start = Instant::now();
        at_ms
            .iter()
            .map(|ms| interrupts.next(start + Duration::from_millis(*ms)))
            .collect()
    }

    #[test]
    fn one_shows_two_pass_three_end() {
        use Answer::{End, Pass, Show};
        assert_eq!(
            answers(Interrupts::default(), &[0, 500, 900]),
            [Show, Pass, End]
        );
        assert_eq!(
            answers(Interrupts::default(), &[0, 2000, 4000]),
            [Show, Show, Show]
        );
        let quit = Interrupts::new(false, true);
        assert_eq!(answers(quit, &[0, 500]), [Pass, End]);
        let plain = Interrupts::new(true, false);
        assert_eq!(answers(plain, &[0, 2000]), [Pass, Pass]);
        assert_eq!(answers(plain, &[0, 300, 600]), [Pass, Pass, End]);
    }
}

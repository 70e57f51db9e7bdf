//! What Ctrl-C means: the first shows where the tasks are, a second within a second is passed on and ends the step.
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
    /// Pass the interrupt on, and end the step.
    End,
}

/// The history of Ctrl-C.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interrupts {
    no_status: bool,
    quit: bool,
    last: Option<Instant>,
}

impl Interrupts {
    /// With `no_status` (`--disable-status`) the first is passed on; with `quit` (`--quit-on-interrupt`) it counts as the second.
    pub fn new(no_status: bool, quit: bool) -> Self {
        Self {
            no_status,
            quit,
            last: None,
        }
    }

    /// Another Ctrl-C.
    pub fn next(&mut self, now: Instant) -> Answer {
        if self.quit || self.last.is_some_and(|then| now - then <= WINDOW) {
            return Answer::End;
        }
        self.last = Some(now);
        if self.no_status {
            Answer::Pass
        } else {
            Answer::Show
        }
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
    fn one_shows_and_two_within_a_second_end() {
        use Answer::{End, Pass, Show};
        assert_eq!(
            answers(Interrupts::default(), &[0, 500, 900]),
            [Show, End, End]
        );
        assert_eq!(
            answers(Interrupts::default(), &[0, 2000, 4000]),
            [Show, Show, Show]
        );
        let quit = Interrupts::new(false, true);
        assert_eq!(answers(quit, &[0, 5000]), [End, End]);
        let plain = Interrupts::new(true, false);
        assert_eq!(answers(plain, &[0, 2000, 4000]), [Pass, Pass, Pass]);
        assert_eq!(answers(plain, &[0, 2000, 2300]), [Pass, Pass, End]);
    }
}

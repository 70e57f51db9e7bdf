//! Waiting for a level, with a deadline: never a sleep that hopes.

use std::time::{Duration, Instant};

/// Between two looks; every level waited for lasts far longer.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until there is a value; panics with `what` at the deadline.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(
            Instant::now() < end,
            "waited {} s in vain: {what}",
            limit.as_secs()
        );
        std::thread::sleep(PAUSE);
    }
}

/// Looks until it is so.
pub fn until_true(what: &str, limit: Duration, mut look: impl FnMut() -> bool) {
    until(what, limit, || look().then_some(()));
}

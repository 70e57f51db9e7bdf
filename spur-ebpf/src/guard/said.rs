//! What libbpf says while it loads: kept for the reason of a refusal, instead of going to the process's standard error.

use libbpf_rs::{PrintLevel, set_print};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes kept; the verifier's last words are the ones that count.
const KEPT_MAX: usize = 16 * 1024;
/// libbpf begins the verifier's log with this.
const LOG: &str = "BEGIN PROG LOAD LOG";

static SAID: Mutex<String> = Mutex::new(String::new());
/// libbpf has one place for all messages, so one listens at a time.
static TURN: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(_level: PrintLevel, text: String) {
    let mut said = lock(&SAID);
    if said.len() + text.len() > KEPT_MAX {
        said.clear();
    }
    said.push_str(&text[text.len().saturating_sub(KEPT_MAX)..]);
}

/// Runs a call of libbpf and returns its result with what was said meanwhile.
pub(crate) fn listen<T>(call: impl FnOnce() -> T) -> (T, String) {
    let _turn = lock(&TURN);
    lock(&SAID).clear();
    let before = set_print(Some((PrintLevel::Warn, keep)));
    let result = call();
    set_print(before);
    (result, std::mem::take(&mut lock(&SAID)))
}

/// The verifier's own last line, if it was the verifier that refused.
pub(crate) fn verifier(said: &str) -> Option<&str> {
    let (_, log) = said.split_once(LOG)?;
    let lines = log.lines().map(str::trim);
    let words = lines.filter(|line| {
        !line.is_empty() && !line.starts_with("processed ") && !line.contains("PROG LOAD LOG")
    });
    words
        .take_while(|line| !line.starts_with("libbpf:"))
        .last()
        .or(Some("the verifier gave no reason"))
}

#[cfg(test)]
mod tests {
    use super::verifier;

    #[test]
    fn the_verifiers_last_line_is_its_reason() {
        let said = "libbpf: prog 'x': BPF program load failed: Invalid argument\n\
                    libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n\
                    0: (bf) r1 = r10\nunknown func bpf_get_current_ancestor_cgroup_id#123\n\
                    processed 1 insns (limit 1000000)\n-- END PROG LOAD LOG --\n\
                    libbpf: prog 'x': failed to load: -22\n";
        assert_eq!(
            verifier(said),
            Some("unknown func bpf_get_current_ancestor_cgroup_id#123")
        );
        assert_eq!(
            verifier("libbpf: permission error while running as root"),
            None
        );
    }
}

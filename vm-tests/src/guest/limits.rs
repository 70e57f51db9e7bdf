//! Limits that the kernel enforces, where version 2 controllers exist.

use super::Outcome;
use crate::daemons::Daemons;
use crate::host;
use crate::user::User;

const ALICE: User = User::Id(1000);

/// The test if the controller is there.
fn with(controller: &str, test: impl FnOnce(&Daemons)) -> Outcome {
    if !host::has_controller(controller) {
        return Outcome::Skipped(format!("no controller {controller}"));
    }
    test(&Daemons::start(""));
    Outcome::Held
}

pub(super) fn memory() -> Outcome {
    with("memory", |daemons| {
        let hold = |mib: &str| format!("{} holdmem {mib}", daemons.probe());
        let fits = daemons.wrap(ALICE, &["--mem=200"], &hold("50"));
        daemons.await_state(&fits, "COMPLETED");
        let burst = daemons.wrap(ALICE, &["--mem=100"], &hold("300"));
        daemons.await_state(&burst, "OUT_OF_MEMORY");
    })
}

pub(super) fn processes() -> Outcome {
    with("pids", |daemons| {
        // More than any machine gives: the limit must answer first.
        let output = daemons
            .run(ALICE, &["srun", &daemons.probe(), "forks", "100000"])
            .good();
        let made = output
            .trim()
            .strip_prefix("children ")
            .and_then(|n| n.parse::<u32>().ok());
        assert!(
            made.is_some_and(|made| (1..100_000).contains(&made)),
            "{output}"
        );
    })
}

pub(super) fn cpus() -> Outcome {
    with("cpuset", |daemons| {
        let one = daemons.run(ALICE, &["srun", "-n1", "-c1", "nproc"]).good();
        let two = daemons.run(ALICE, &["srun", "-n1", "-c2", "nproc"]).good();
        assert_eq!((one.trim(), two.trim()), ("1", "2"));
    })
}

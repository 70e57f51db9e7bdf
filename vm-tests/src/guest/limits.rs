//! Limits that the kernel enforces, where version 2 controllers exist.

use super::Outcome;
use crate::daemons::Daemons;
use crate::host;
use crate::user::User;
use std::fs;

const ALICE: User = User::Id(1000);

/// The test if the controller is there.
fn with(daemons: &Daemons, controller: &str, test: impl FnOnce(&Daemons)) -> Outcome {
    if !host::has_controller(controller) {
        return Outcome::Skipped(format!("no controller {controller}"));
    }
    test(daemons);
    Outcome::Held
}

pub(super) fn memory(daemons: &Daemons) -> Outcome {
    with(daemons, "memory", |daemons| {
        let hold = |mib: &str| format!("{} holdmem {mib}", daemons.probe());
        let fits = daemons.wrap(ALICE, &["--mem=200"], &hold("50"));
        daemons.await_state(&fits, "COMPLETED");
        let burst = daemons.wrap(ALICE, &["--mem=100"], &hold("300"));
        daemons.await_state(&burst, "OUT_OF_MEMORY");
    })
}

/// The kernel's switch for how many process numbers there are, and how many this test leaves it: few, so that it is soon over.
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
const FEW: u32 = 4096;

pub(super) fn processes(daemons: &Daemons) -> Outcome {
    let before = fs::read_to_string(PID_MAX).expect("the kernel has numbers");
    fs::write(PID_MAX, FEW.to_string()).expect("root may lower it");
    let outcome = with(daemons, "pids", |daemons| {
        let output = daemons
            .run(
                ALICE,
                &["srun", &daemons.probe(), "forks", &FEW.to_string()],
            )
            .good();
        let made = output
            .trim()
            .strip_prefix("children ")
            .and_then(|n| n.parse::<u32>().ok());
        // Half are the job's: less its own first processes, and far more than the kernel's last ones.
        assert!(
            made.is_some_and(|made| (FEW / 4..=FEW / 2).contains(&made)),
            "{output}"
        );
    });
    fs::write(PID_MAX, before).expect("root may raise it");
    outcome
}

pub(super) fn cpus(daemons: &Daemons) -> Outcome {
    with(daemons, "cpuset", |daemons| {
        let one = daemons.run(ALICE, &["srun", "-n1", "-c1", "nproc"]).good();
        let two = daemons.run(ALICE, &["srun", "-n1", "-c2", "nproc"]).good();
        assert_eq!((one.trim(), two.trim()), ("1", "2"));
    })
}

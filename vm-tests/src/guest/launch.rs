//! Who a job is, and how it ends.

use super::Outcome;
use super::lab::Lab;
use crate::user::User;

pub(super) fn identity(lab: &Lab) -> Outcome {
    let daemons = &lab.daemons;
    let alice = User::Id(1000);
    let script = "id -u; id -g; id -G; pwd; grep -E '^(NoNewPrivs|CapEff):' /proc/self/status";
    let output = daemons.run(alice, &["srun", "sh", "-c", script]).good();
    let lines: Vec<&str> = output.lines().collect();
    let home = daemons.home(alice).to_string_lossy().into_owned();
    // The second group is in the user database only: the agent must have looked.
    assert_eq!(
        lines[..4],
        ["1000", "1000", "1000 2000", home.as_str()],
        "{output}"
    );
    assert!(lines[4..].contains(&"NoNewPrivs:\t1"), "{output}");
    assert!(
        lines[4..].contains(&"CapEff:\t0000000000000000"),
        "{output}"
    );
    Outcome::Held
}

pub(super) fn exit_code(lab: &Lab) -> Outcome {
    let daemons = &lab.daemons;
    let alice = User::Id(1000);
    assert_eq!(daemons.run(alice, &["srun", "sh", "-c", "exit 3"]).code, 3);
    let job = daemons.wrap(alice, &[], "exit 7");
    daemons.await_state(&job, "FAILED");
    assert_eq!(daemons.job_field(&job, "ExitCode").as_deref(), Some("7:0"));
    Outcome::Held
}

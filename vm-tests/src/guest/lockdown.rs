//! Kernels that trust root less: lockdown. It cannot be taken back, so this is the last test of a boot.

use super::Outcome;
use super::lab::{ALICE, Lab, VGEM};
use crate::cluster::SOON;
use crate::daemons::Daemons;
use crate::user::User;
use crate::wait;
use std::fs;

const SWITCH: &str = "/sys/kernel/security/lockdown";

/// Row 38: "integrity" changes nothing for the fence; under "confidentiality" it cannot be, and the node says so and takes no job.
pub(super) fn both_levels() -> Outcome {
    if fs::write(SWITCH, "integrity").is_err() {
        return Outcome::Skipped("no lockdown on this kernel".to_owned());
    }
    let lab = Lab::start();
    lab.probe(ALICE, &[], &["devices", VGEM])
        .expect(VGEM, "open", &["EPERM"]);
    lab.probe(ALICE, &["--gres=gpu:vgem:1"], &["devices", VGEM])
        .expect(VGEM, "open", &["OPENED"]);
    drop(lab);

    fs::write(SWITCH, "confidentiality").expect("it can only be raised");
    let daemons = Daemons::start_unready();
    let shown = || {
        daemons
            .run(User::Root, &["scontrol", "-dd", "show", "node", "n1"])
            .out
    };
    wait::until_true("the node says that it has no fence", SOON, || {
        shown().contains("Fence=unfenced")
    });
    assert!(shown().contains("Reason="), "{}", shown());
    let refused = daemons.run(ALICE, &["srun", "--immediate=2", "true"]);
    assert_ne!(refused.code, 0, "a job ran without a fence: {refused:?}");
    Outcome::Held
}

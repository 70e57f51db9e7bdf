//! Who holds a GPU, by which number, and until when.

use super::Outcome;
use super::lab::{ALICE, BOB, Lab, NVIDIA, NVIDIA_CONTROL};
use crate::cluster::SOON;
use crate::user::User;
use crate::wait;
use std::fs;

/// Rows 23 and 26: a GPU's node is looked up by its identity (here minors and order differ), and its control node comes with it.
pub(super) fn by_identity(lab: &Lab) -> Outcome {
    let all = [NVIDIA[0], NVIDIA[1], NVIDIA_CONTROL];
    let mut words = vec!["devices"];
    words.extend(all);
    let none = lab.probe(ALICE, &[], &words);
    for path in all {
        none.expect(path, "open", &["EPERM"]);
    }
    // The first GPU on the bus has the second minor.
    let said = lab.probe(ALICE, &["--gres=gpu:h200:1"], &words);
    said.expect(NVIDIA[1], "open", &["OPENED"]);
    said.expect(NVIDIA_CONTROL, "open", &["OPENED"]);
    said.expect(NVIDIA[0], "open", &["EPERM"]);
    Outcome::Held
}

/// Rows 33 and 1: a process outside the job that got the descriptor keeps the GPU from the next job.
pub(super) fn outside_holder(lab: &Lab) -> Outcome {
    let all = ["--gres=gpu:h200:2"];
    let holder = lab.hold(ALICE, &all, "keeper", &[NVIDIA[0]]);
    // A process of the machine's own keeps what it takes; where the guard lets nothing leave the job, what it opened itself.
    let what = if lab.guarded {
        format!("hold outside {}", NVIDIA[0])
    } else {
        format!("keep {}", holder.name)
    };
    let script = format!(
        "{} {what} > {}",
        lab.daemons.probe(),
        lab.daemons.dir().join("kept").display()
    );
    let mut keeper = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("exec {script}"))
        .spawn()
        .expect("sh starts");
    let kept = lab.daemons.dir().join("kept");
    wait::until_true("the descriptor is outside", SOON, || {
        let said = fs::read_to_string(&kept).unwrap_or_default();
        said.contains(if lab.guarded { "pid " } else { "GOT" })
    });
    lab.daemons
        .run(User::Root, &["scancel", &holder.job])
        .good();
    let next = lab.daemons.wrap(BOB, &all, "true");
    // The first job's processes are gone, and still its GPU is not free.
    wait::until_true("the holder is dead", SOON, || {
        !crate::procs::alive(holder.pid)
    });
    let state = || lab.daemons.job_field(&next, "JobState").unwrap_or_default();
    for _ in 0..5 {
        assert_ne!(
            state(),
            "RUNNING",
            "the GPU was granted while somebody had it open"
        );
        assert_ne!(
            state(),
            "COMPLETED",
            "the GPU was granted while somebody had it open"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    keeper.kill().expect("a child can be killed");
    keeper.wait().expect("and waited for");
    lab.daemons.await_state(&next, "COMPLETED");
    Outcome::Held
}

/// Rows 13 and 35: jobs come and go, and leave no pin and no group. Thousands of them are tried where spur is built.
pub(super) fn nothing_piles_up(lab: &Lab) -> Outcome {
    let pins = lab.daemons.dir().join("bpf");
    let count = || super::files_below(&pins);
    lab.daemons.run(ALICE, &["srun", "true"]).good();
    lab.daemons.await_idle();
    let before = count();
    let line = "for i in 1 2 3 4 5 6 7 8 9 10; do srun -n1 true || exit 1; done";
    lab.daemons.run(ALICE, &["sh", "-c", line]).good();
    lab.daemons.await_idle();
    wait::until_true("pins are as many as before", SOON, || count() <= before);
    Outcome::Held
}

//! Daemons that are killed, and processes that do not want to be.

use super::Outcome;
use super::lab::{BOB, Lab};
use crate::cluster::SOON;
use crate::daemons::Daemons;
use crate::user::User;
use crate::{procs, wait};
use std::fs;
use std::time::Instant;

const ALICE: User = User::Id(1000);
const NODE: &str = "/dev/dri/renderD128";

pub(super) fn agent() -> Outcome {
    let mut daemons = Daemons::start("");
    let home = daemons.home(ALICE);
    // Tries the device that it does not hold, over and over, and says each time what happened.
    let line = format!(
        "while ! test -e go; do {} drm {NODE} >> tries; sleep 0.1; done; exit 7",
        daemons.probe()
    );
    let job = daemons.wrap(ALICE, &[], &line);
    let tries = || fs::read_to_string(home.join("tries")).unwrap_or_default();
    wait::until_true("the job tries", SOON, || tries().lines().count() > 2);
    daemons.kill_agent();
    let before = tries().lines().count();
    wait::until_true("the job tries without an agent", SOON, || {
        tries().lines().count() > before + 3
    });
    daemons.start_agent();
    let before = tries().lines().count();
    wait::until_true("the job tries under a new agent", SOON, || {
        tries().lines().count() > before + 3
    });
    fs::write(home.join("go"), "").expect("a file can be made");
    daemons.await_state(&job, "FAILED");
    assert_eq!(daemons.job_field(&job, "ExitCode").as_deref(), Some("7:0"));
    let refused = format!("{NODE} open EPERM");
    assert!(tries().lines().all(|line| line == refused), "{}", tries());
    daemons.await_idle();
    Outcome::Held
}

pub(super) fn controller() -> Outcome {
    let mut daemons = Daemons::start("");
    let home = daemons.home(ALICE);
    let running = daemons.wrap(ALICE, &[], "while ! test -e go; do sleep 0.1; done; exit 5");
    daemons.await_state(&running, "RUNNING");
    let held: Vec<String> = (0..20)
        .map(|_| daemons.wrap(ALICE, &["--exclusive"], "true"))
        .collect();
    daemons.replace_controller();
    wait::until_true("the new controller answers", SOON, || {
        daemons.run(ALICE, &["squeue", "-h"]).code == 0
    });
    let shown = daemons.run(ALICE, &["squeue", "-h", "-o", "%i"]).good();
    let ids: Vec<&str> = shown.lines().map(str::trim).collect();
    let lost: Vec<&String> = held
        .iter()
        .filter(|id| !ids.contains(&id.as_str()))
        .collect();
    assert!(lost.is_empty(), "lost {lost:?} of {ids:?}");
    fs::write(home.join("go"), "").expect("a file can be made");
    daemons.await_state(&running, "FAILED");
    assert_eq!(
        daemons.job_field(&running, "ExitCode").as_deref(),
        Some("5:0")
    );
    Outcome::Held
}

pub(super) fn stubborn(daemons: &Daemons) -> Outcome {
    let home = daemons.home(ALICE);
    let job = daemons.wrap(
        ALICE,
        &["--gres=gpu:1"],
        &format!("{} linger {NODE} > pid", daemons.probe()),
    );
    let pid = wait::until("the job has gone its way", SOON, || {
        let text = fs::read_to_string(home.join("pid")).ok()?;
        text.trim().strip_prefix("pid ")?.parse::<i32>().ok()
    });
    assert!(procs::alive(pid));
    daemons.run(ALICE, &["scancel", &job]).good();
    wait::until_true("it is gone", SOON, || !procs::alive(pid));
    daemons.await_idle();
    Outcome::Held
}

/// Root takes every program and every pin away by hand. The agent notices, starts nothing meanwhile, puts all back, and says so.
pub(super) fn detached(lab: &Lab) -> Outcome {
    let daemons = &lab.daemons;
    let home = daemons.home(BOB);
    let line = format!(
        "while ! test -e stop; do {} devices {NODE} >> tries; done",
        daemons.probe()
    );
    let job = daemons.wrap(BOB, &[], &line);
    let tries = || fs::read_to_string(home.join("tries")).unwrap_or_default();
    wait::until_true("the job tries", SOON, || tries().lines().count() > 2);
    let log = || fs::read_to_string(daemons.dir().join("spurd.log")).unwrap_or_default();

    let started = Instant::now();
    let said = lab.outside(User::Root, &["detach"]);
    said.expect("link", "open", &["GOT"]);
    assert!(
        said.outcomes("link", "detach").contains(&"DETACHED"),
        "{}",
        said.text
    );
    wait::until_true("the agent notices", SOON, || {
        log().contains("taken off by hand")
    });
    let noticed = started.elapsed().as_millis();
    wait::until_true("the fence is back", SOON, || {
        log().contains("the fence is back and proven")
    });
    let back = started.elapsed().as_millis();
    println!("guest-tests: detached by hand: noticed after {noticed} ms, back after {back} ms");

    let before = tries().lines().count();
    wait::until_true("the job tries on, or was ended", SOON, || {
        tries().lines().count() > before + 3
            || daemons.job_field(&job, "JobState").as_deref() != Some("RUNNING")
    });
    let text = tries();
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    assert!(last.iter().all(|line| line.ends_with("EPERM")), "{last:?}");
    let shown = daemons
        .run(User::Root, &["scontrol", "-dd", "show", "node", "n1"])
        .out;
    assert!(
        shown.contains("put back"),
        "the node says nothing of it: {shown}"
    );
    // And takes jobs again.
    let refused = lab.probe(BOB, &[], &["devices", NODE]);
    refused.expect(NODE, "open", &["EPERM"]);
    fs::write(home.join("stop"), "").expect("a file can be made");
    lab.await_end(&job);
    Outcome::Held
}

//! The fence on a real device: the render node of `vgem`.

use super::Outcome;
use super::lab::{ALICE, Lab, VGEM as NODE};
use crate::probe::{self, Verdict, verdicts, within_the_job};
use crate::user::{self, Output, User};

/// What the other tests stand on: where nothing fences, the probe gets through in every way.
pub(super) fn unfenced() -> Outcome {
    let dir = tempfile::tempdir().expect("a folder");
    let probe = probe::install(dir.path()).to_string_lossy().into_owned();
    let run =
        |args: &[&str]| Output::of(user::command(User::Root, args).spawn().expect("it starts"));
    assert_eq!(
        run(&[&probe, "drm", NODE]).good(),
        format!("{NODE} driver vgem\n")
    );
    let scan = run(&[&probe, "scan", &dir.path().to_string_lossy(), NODE]).good();
    for way in [
        "read", "write", "both", "procfd", "uring", "hardlink", "symlink", "mknod", "userns",
        "orphan", "nested",
    ] {
        let line = format!("{NODE} {way} ");
        let outcome = scan.lines().find_map(|l| l.strip_prefix(&line));
        // Hard links across file systems and rings on old kernels are not ways.
        assert!(
            matches!(outcome, None | Some("OPENED" | "NORING")),
            "{way}: {outcome:?} in {scan}"
        );
    }
    assert!(scan.matches("OPENED").count() >= 8, "{scan}");
    Outcome::Held
}

pub(super) fn granted(lab: &Lab) -> Outcome {
    let daemons = &lab.daemons;
    let output = daemons.run(
        ALICE,
        &["srun", "--gres=gpu:vgem:1", &daemons.probe(), "drm", NODE],
    );
    assert_eq!(output.good(), format!("{NODE} driver vgem\n"));
    Outcome::Held
}

pub(super) fn not_granted(lab: &Lab) -> Outcome {
    let daemons = &lab.daemons;
    for user in [ALICE, User::Root] {
        let output = daemons.run(user, &["srun", &daemons.probe(), "drm", NODE]);
        assert_eq!(output.out, format!("{NODE} open EPERM\n"), "{output:?}");
        assert_eq!(output.code, 1, "{output:?}");
    }
    Outcome::Held
}

pub(super) fn every_way(lab: &Lab) -> Outcome {
    let daemons = &lab.daemons;
    for user in [ALICE, User::Root] {
        let home = daemons.home(user).to_string_lossy().into_owned();
        let output = daemons.run(
            user,
            &[
                "srun",
                &daemons.probe(),
                "scan",
                &home,
                NODE,
                "/dev/dri/card0",
            ],
        );
        let scan = output.good();
        // The guard keeps root's processes in their groups as well.
        let scan = if user == User::Root && !lab.guarded {
            within_the_job(&scan)
        } else {
            scan
        };
        let verdicts = verdicts(&scan);
        assert_eq!(verdicts.len(), 2, "{verdicts:?}");
        assert!(
            verdicts
                .values()
                .all(|verdict| *verdict == Verdict::Refused),
            "{verdicts:?}"
        );
    }
    Outcome::Held
}

pub(super) fn reported(lab: &Lab) -> Outcome {
    let daemons = &lab.daemons;
    let job = daemons.wrap(ALICE, &[], &format!("{} drm {NODE}", daemons.probe()));
    daemons.await_state(&job, "FAILED");
    crate::wait::until_true("the refusal is shown", crate::cluster::SOON, || {
        let log = daemons.run(ALICE, &["spur", "fence", "log"]).out;
        log.lines().any(|line| {
            line.contains("probe") && line.contains("renderD128") && line.contains(&job)
        })
    });
    if lab.guarded {
        guard_reported(lab);
    }
    Outcome::Held
}

/// What the guard refuses is told in its own words, and explained.
fn guard_reported(lab: &Lab) {
    let daemons = &lab.daemons;
    lab.probe(ALICE, &[], &["sqpoll", NODE])
        .expect(NODE, "make-sqpoll", &["EPERM"]);
    // Which of its commands get as far as the guard depends on the kernel; asking for a pin does everywhere.
    lab.probe(ALICE, &[], &["bpf", "/sys/fs/bpf/no-such-pin"])
        .never("GOT");
    for (option, operation, says) in [
        (
            "--json",
            "\"op\":\"io_uring-sqpoll\",\"reason\":\"forbidden\"",
            "IORING_SETUP_SQPOLL",
        ),
        (
            "--alarms",
            "Op=bpf Reason=forbidden",
            "alarm: bpf() is refused",
        ),
    ] {
        let shown = || {
            daemons
                .run(User::Root, &["spur", "fence", "log", option])
                .out
        };
        crate::wait::until_true(operation, crate::cluster::SOON, || {
            shown().contains(operation)
        });
        let shown = shown();
        let line = shown.lines().rfind(|line| line.contains(operation));
        let job = line.and_then(|line| {
            let after = line
                .split("\"job\":")
                .nth(1)
                .or_else(|| line.split("JobId=").nth(1))?;
            after.split(|c: char| !c.is_ascii_digit()).next()
        });
        let explained = daemons
            .run(ALICE, &["spur", "fence", "explain", job.expect("a job")])
            .good();
        assert!(explained.contains(says), "{explained}");
    }
}

//! Descriptors of a job that holds a GPU, in the hands of another.

use super::Outcome;
use super::lab::{ALICE, BOB, Lab, NVIDIA, VIRTIO};
use crate::user::User;

/// All GPUs of the lab.
const ALL: &[&str] = &["--gres=gpu:4"];

/// What a test says where only the fence stands, after it has seen its attack go through: a test that can fail.
pub(super) fn open_without_guard(what: &str) -> Outcome {
    Outcome::Skipped(format!(
        "no guard on this kernel: {what} (seen to get through)"
    ))
}

/// Row 1: over a socket.
pub(super) fn by_socket(lab: &Lab) -> Outcome {
    let holder = lab.hold(ALICE, ALL, "rights", &[VIRTIO, NVIDIA[0]]);
    let control = lab.outside(User::Root, &["take", &holder.name]);
    for path in [VIRTIO, NVIDIA[0]] {
        // Not even to a process of root's outside: it would outlive the job.
        if lab.guarded {
            control.expect(path, "rights", &["WITHHELD"]);
        } else {
            control.expect(path, "rights", &["GOT"]);
            control.expect(path, "ioctl", &["ANSWERED"]);
        }
    }
    for thief in [ALICE, BOB, User::Root] {
        let said = lab.probe(thief, &[], &["take", &holder.name]);
        for path in [VIRTIO, NVIDIA[0]] {
            if lab.guarded {
                said.expect(path, "rights", &["WITHHELD"]);
                said.never("ANSWERED");
            } else {
                said.expect(path, "ioctl", &["ANSWERED"]);
            }
        }
    }
    if lab.guarded {
        Outcome::Held
    } else {
        open_without_guard("a passed descriptor")
    }
}

/// Within one job descriptors pass: frameworks share GPUs' memory so.
pub(super) fn within_a_job(lab: &Lab) -> Outcome {
    let probe = lab.daemons.probe();
    let buffer = format!("buffer:{VIRTIO}");
    let line = format!(
        "{probe} hold within {VIRTIO} {} {buffer} > held & while ! grep -q pid held; do sleep 0.1; done; {probe} take within > taken; kill $!",
        NVIDIA[0]
    );
    let job = lab.daemons.wrap(ALICE, ALL, &line);
    lab.await_end(&job);
    let text = std::fs::read_to_string(lab.daemons.home(ALICE).join("taken")).unwrap_or_default();
    let said = super::lab::Said::of(&crate::user::Output {
        code: 0,
        out: text,
        err: String::new(),
    });
    for what in [VIRTIO, NVIDIA[0], &buffer] {
        said.expect(what, "rights", &["GOT"]);
        said.expect(what, "ioctl", &["ANSWERED"]);
    }
    said.expect(&buffer, "mmap", &["MAPPED"]);
    Outcome::Held
}

/// Rows 2 and 4: out of another process.
pub(super) fn by_process(lab: &Lab) -> Outcome {
    let holder = lab.hold(ALICE, ALL, "process", &[VIRTIO, NVIDIA[0]]);
    let mut refused = true;
    for (path, fd) in &holder.fds {
        let words = ["steal", &holder.pid(), &fd.to_string(), path];
        let control = lab.outside(User::Root, &words);
        control.expect(path, "pidfd", &[if lab.guarded { "EPERM" } else { "GOT" }]);
        for thief in [ALICE, BOB, User::Root] {
            let said = lab.probe(thief, &[], &words);
            // A fresh open is the fence's; where the guard does not let us look into the process, it is not even reached.
            said.expect(path, "procfd", &["EPERM", "EACCES"]);
            if lab.guarded || thief != ALICE {
                said.expect(path, "pidfd", &["EPERM"]);
                said.never("ANSWERED");
            } else {
                said.expect(path, "ioctl", &["ANSWERED"]);
                refused = false;
            }
        }
    }
    if refused {
        Outcome::Held
    } else {
        open_without_guard("pidfd_getfd of one's own other job")
    }
}

/// Row 5: a buffer of the GPU's, which has no device number.
pub(super) fn buffers(lab: &Lab) -> Outcome {
    let buffer = format!("buffer:{VIRTIO}");
    let holder = lab.hold(ALICE, ALL, "buffer", &[&buffer]);
    let fd = holder.fds[&buffer].to_string();
    let control = lab.outside(User::Root, &["take", &holder.name]);
    if lab.guarded {
        control.expect(&buffer, "rights", &["WITHHELD"]);
    } else {
        control.expect(&buffer, "mmap", &["MAPPED"]);
    }
    for thief in [ALICE, BOB] {
        let said = lab.probe(thief, &[], &["take", &holder.name]);
        if !lab.guarded {
            said.expect(&buffer, "mmap", &["MAPPED"]);
            return open_without_guard("a passed buffer");
        }
        said.expect(&buffer, "rights", &["WITHHELD"]);
        let said = lab.probe(thief, &[], &["steal", &holder.pid(), &fd, &buffer]);
        said.never("GOT");
    }
    Outcome::Held
}

/// Row 3: what is open where a job is started, or asked to be its input, does not come along.
pub(super) fn inherited(lab: &Lab) -> Outcome {
    let probe = lab.daemons.probe();
    let line = format!(
        "exec 7<>{VIRTIO} 8<>{}; exec srun {probe} inherited",
        NVIDIA[0]
    );
    for user in [ALICE, User::Root] {
        let output = lab.daemons.run(user, &["sh", "-c", &line]);
        let said = super::lab::Said::of(&output);
        assert!(said.text.contains("0 inherited"), "{}", said.text);
        assert!(
            !said.text.contains("/dev/dri") && !said.text.contains("/dev/nvidia"),
            "{}",
            said.text
        );
        // Redirections are opened inside the fence, or not at all.
        let job = lab.daemons.wrap(
            user,
            &["-i", VIRTIO, "-o", "input"],
            &format!("{probe} inherited"),
        );
        lab.await_end(&job);
        let text =
            std::fs::read_to_string(lab.daemons.home(user).join("input")).unwrap_or_default();
        assert!(!text.contains("/dev/dri"), "{text}");
    }
    Outcome::Held
}

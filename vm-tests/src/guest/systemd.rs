//! A real systemd, as process 1 of a namespace of its own, that owns a device program above the jobs and reloads all the time.

use super::Outcome;
use super::lab::{ALICE, Lab, VGEM, VIRTIO};
use crate::cluster::SOON;
use crate::user::{self, Output, User};
use crate::wait;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What must have been on the machine that built the guest.
const SYSTEMD: &str = "/usr/lib/systemd/systemd";
const NEEDED: [&str; 4] = [
    SYSTEMD,
    "/usr/bin/systemctl",
    "/usr/bin/unshare",
    "/usr/bin/nsenter",
];

/// How often it reloads, and takes its program off for another, while jobs open devices.
const ROUNDS: u32 = 4;

/// The slice that jobs run below. Its devices are closed, but for what jobs need and may be granted.
const SLICE: &str = "spurjobs.slice";
const ALLOWED: [&str; 2] = [
    "DeviceAllow=/dev/dri/renderD128 rwm",
    "DeviceAllow=char-pts rw",
];

/// Systemd; stopped when dropped.
struct Systemd(Child);

impl Systemd {
    fn start() -> Self {
        let units = Path::new("/run/systemd/system");
        fs::create_dir_all(units).expect("a folder");
        let slice = format!("[Slice]\nDevicePolicy=closed\n{}\n", ALLOWED.join("\n"));
        for (name, text) in [
            (SLICE, slice.as_str()),
            ("spur.target", "[Unit]\nWants=spurjobs.slice\n"),
        ] {
            fs::write(units.join(name), text).expect("a unit can be written");
        }
        fs::write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
            .expect("a file can be written");
        let mut command = Command::new("unshare");
        command.args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--mount-proc",
            SYSTEMD,
            "--system",
        ]);
        command.args([
            "--unit=spur.target",
            "--log-target=console",
            "--log-level=warning",
            "--show-status=no",
        ]);
        command.env("container", "spur").stdin(Stdio::null());
        let systemd = Self(command.spawn().expect("unshare starts"));
        wait::until_true("systemd answers and has its slice", SOON, || {
            systemd.ctl(&["is-active", SLICE]).out.trim() == "active"
        });
        systemd
    }

    /// `systemctl`, in systemd's namespaces: it talks to nobody whom it cannot see.
    fn ctl(&self, words: &[&str]) -> Output {
        let children = format!("/proc/{0}/task/{0}/children", self.0.id());
        let inside = fs::read_to_string(children).unwrap_or_default();
        let mut args = vec![
            "nsenter",
            "--target",
            inside.trim(),
            "--pid",
            "--mount",
            "systemctl",
        ];
        args.extend(words);
        let mut command = user::command(User::Root, &args);
        command.env("PATH", "/usr/bin");
        Output::of(command.spawn().expect("timeout(1) is installed"))
    }

    /// Replaces the list of devices that the slice lets through, and with it the program.
    fn allow(&self, more: &[&str]) {
        let mut words = vec!["set-property", "--runtime", SLICE, "DeviceAllow="];
        words.extend(ALLOWED);
        words.extend(more);
        self.ctl(&words).good();
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // With the first process of its namespace all others go.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What a process below the slice that has no fence of ours is told of the other render node: that is systemd's program speaking.
fn control(lab: &Lab) -> String {
    let group = crate::host::cgroup2()
        .expect("it is mounted")
        .join(SLICE)
        .join("control");
    fs::create_dir_all(&group).expect("root may make groups");
    let line = format!(
        "echo $$ > {}/cgroup.procs; exec {} devices {VIRTIO}",
        group.display(),
        lab.daemons.probe()
    );
    let mut command = user::command(User::Root, &["sh", "-c", &line]);
    command.env("PATH", "/usr/bin");
    Output::of(command.spawn().expect("timeout(1) is installed")).good()
}

/// Rows 10 and 11: jobs below systemd's own program. Whatever it takes off and puts on, who has no grant is refused, and who has one
/// keeps it.
pub(super) fn reloads() -> Outcome {
    if let Some(missing) = NEEDED.into_iter().find(|path| !Path::new(path).exists()) {
        return Outcome::Skipped(format!("the machine that built this has no {missing}"));
    }
    let systemd = Systemd::start();
    let lab = Lab::start_in(SLICE);
    let home = lab.daemons.home(ALICE);
    let line = |name: &str| {
        format!(
            "while ! test -e stop; do {} devices {VGEM} >> {name}; done",
            lab.daemons.probe()
        )
    };
    let with = lab
        .daemons
        .wrap(ALICE, &["--gres=gpu:vgem:1"], &line("with"));
    let without = lab.daemons.wrap(ALICE, &[], &line("without"));
    let tries = |name: &str| fs::read_to_string(home.join(name)).unwrap_or_default();
    for name in ["with", "without"] {
        wait::until_true("both jobs try", SOON, || tries(name).lines().count() > 2);
    }
    for _ in 0..ROUNDS {
        systemd.allow(&["DeviceAllow=/dev/dri/renderD129 rwm"]);
        assert_eq!(control(&lab), format!("{VIRTIO} open OPENED\n"));
        systemd.ctl(&["daemon-reload"]).good();
        systemd.allow(&[]);
        assert_eq!(control(&lab), format!("{VIRTIO} open EPERM\n"));
    }
    let before = tries("with").lines().count();
    wait::until_true("both go on", SOON, || {
        tries("with").lines().count() > before + 3
    });
    fs::write(home.join("stop"), "").expect("a file can be made");
    for job in [&with, &without] {
        lab.await_end(job);
    }
    let all = |name: &str, outcome: &str| {
        let text = tries(name);
        assert!(
            text.lines()
                .all(|line| line == format!("{VGEM} open {outcome}")),
            "{name}: {text}"
        );
    };
    all("with", "OPENED");
    all("without", "EPERM");
    Outcome::Held
}

//! A real systemd, as process 1 of a namespace of its own, that owns a device program above the jobs and reloads all the time.

use super::Outcome;
use super::lab::{ALICE, Lab, VGEM};
use crate::cluster::SOON;
use crate::user::{self, Output, User};
use crate::wait;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SYSTEMD: &str = "/usr/lib/systemd/systemd";

/// How often it reloads while jobs open devices.
const RELOADS: u32 = 20;

/// The slice that jobs run below. Its devices are closed, but for what jobs need and may be granted.
const SLICE: &str =
    "[Slice]\nDevicePolicy=closed\nDeviceAllow=/dev/dri/renderD128 rwm\nDeviceAllow=char-pts rw\n";
const SLICE_NAME: &str = "spurjobs.slice";

/// Systemd; stopped when dropped.
struct Systemd(Child);

impl Systemd {
    fn start() -> Self {
        let units = Path::new("/run/systemd/system");
        fs::create_dir_all(units).expect("a folder");
        for (name, text) in [
            (SLICE_NAME, SLICE),
            ("spur.target", "[Unit]\nWants=spurjobs.slice\n"),
        ] {
            fs::write(units.join(name), text).expect("a unit can be written");
        }
        fs::write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
            .expect("a file can be written");
        let log = fs::File::create("/tmp/systemd.log").expect("a log can be written");
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
            "--log-level=info",
            "--show-status=no",
        ]);
        command
            .env("container", "spur")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log);
        let systemd = Self(command.spawn().expect("unshare starts"));
        wait::until_true("systemd answers and has its slice", SOON, || {
            systemctl(&["is-active", SLICE_NAME]).out.trim() == "active"
        });
        systemd
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "--- systemd\n{}",
                fs::read_to_string("/tmp/systemd.log").unwrap_or_default()
            );
        }
        // With the first process of its namespace all others go.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn systemctl(words: &[&str]) -> Output {
    let mut args = vec!["systemctl"];
    args.extend(words);
    let mut command = user::command(User::Root, &args);
    command.env("PATH", "/usr/bin");
    Output::of(command.spawn().expect("timeout(1) is installed"))
}

/// Rows 10 and 11: jobs below systemd's own program. Whatever it takes off and puts on, who has no grant is refused, and who has one
/// keeps it.
pub(super) fn reloads() -> Outcome {
    if !Path::new(SYSTEMD).exists() || !Path::new("/usr/bin/unshare").exists() {
        return Outcome::Skipped("the machine that built this has no systemd".to_owned());
    }
    let _systemd = Systemd::start();
    let lab = Lab::start_below(SLICE_NAME);
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
    for _ in 0..RELOADS {
        systemctl(&["daemon-reload"]).good();
    }
    // The control: systemd's program is there, and this loop does change it.
    systemctl(&[
        "set-property",
        "--runtime",
        SLICE_NAME,
        "DeviceAllow=/dev/null rwm",
    ])
    .good();
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

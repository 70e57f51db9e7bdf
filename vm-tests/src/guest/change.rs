//! Devices that change under their holders: numbers that pass to other GPUs, drivers that go and come back.

use super::Outcome;
use super::lab::{ALICE, Lab, NVIDIA, VGEM};
use crate::cluster::SOON;
use crate::vm::MODULE_DIR;
use crate::wait;
use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;

/// Tells whoever listens that DRM devices have changed: the kernel sends the event that a driver would.
fn say_changed() {
    fs::write("/sys/class/drm/card0/uevent", "change").expect("root may");
}

/// Rows 7 and 26: the minor of a GPU becomes another GPU's while a job has it open.
pub(super) fn swapped_minors(lab: &Lab) -> Outcome {
    let home = lab.daemons.home(ALICE);
    let probe = lab.daemons.probe();
    let line = format!(
        "{probe} work {1} stop > work & while ! test -e stop; do {probe} devices {0} {1} > now; mv now seen; sleep 0.1; done; wait",
        NVIDIA[0], NVIDIA[1]
    );
    let job = lab.daemons.wrap(ALICE, &["--gres=gpu:h200:1"], &line);
    let work = || fs::read_to_string(home.join("work")).unwrap_or_default();
    let seen = || fs::read_to_string(home.join("seen")).unwrap_or_default();
    let opens = |path: &str, outcome: &str| seen().contains(&format!("{path} open {outcome}\n"));
    wait::until_true("the job uses its GPU", SOON, || {
        work().contains("ioctl ANSWERED") && opens(NVIDIA[1], "OPENED") && opens(NVIDIA[0], "EPERM")
    });

    lab.swap_minors();
    say_changed();
    // The GPU that it was given has the other node now.
    wait::until_true("opens follow the GPU", SOON, || {
        opens(NVIDIA[1], "EPERM") && opens(NVIDIA[0], "OPENED")
    });
    if lab.guarded {
        wait::until_true("the open descriptor is of no use any more", SOON, || {
            work().contains("ioctl EPERM")
        });
        assert!(work().contains("mmap EPERM"), "{}", work());
    } else {
        assert!(!work().contains("ioctl EPERM"), "{}", work());
    }
    lab.swap_minors();
    say_changed();
    wait::until_true("opens follow the GPU back", SOON, || {
        opens(NVIDIA[1], "OPENED") && opens(NVIDIA[0], "EPERM")
    });
    fs::write(home.join("stop"), "").expect("a file can be made");
    lab.await_end(&job);
    fs::remove_file(home.join("stop")).expect("it is there");
    Outcome::Held
}

/// Row 27: a real driver is unloaded and loaded again while its GPU is granted.
pub(super) fn reloaded_driver(lab: &Lab) -> Outcome {
    let home = lab.daemons.home(ALICE);
    let probe = lab.daemons.probe();
    let node = lab.daemons.dir().join("vgem-node");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &node,
        rustix::fs::FileType::CharacterDevice,
        0o666.into(),
        rustix::fs::makedev(226, 128),
    )
    .expect("root may make nodes");
    fs::set_permissions(&node, std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .expect("root may");
    let node = node.display().to_string();
    let line = format!(
        "while ! test -e stop; do {probe} devices {node} > now; mv now seen; sleep 0.1; done"
    );
    let job = lab.daemons.wrap(ALICE, &["--gres=gpu:vgem:1"], &line);
    let opens = |outcome: &str| {
        fs::read_to_string(home.join("seen"))
            .unwrap_or_default()
            .contains(&format!("{node} open {outcome}\n"))
    };
    wait::until_true("the job opens its GPU", SOON, || opens("OPENED"));
    // While somebody has it open it cannot go: between two opens it can.
    wait::until_true("the driver is unloaded", SOON, || {
        rustix::system::delete_module(c"vgem", 0).is_ok()
    });
    // Not "no such device": what nobody has is nobody's.
    wait::until_true("the number is closed", SOON, || opens("EPERM"));
    load(c"vgem");
    wait::until_true("the driver is back", SOON, || {
        std::path::Path::new(VGEM).exists()
    });
    fs::set_permissions(VGEM, std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .expect("root may");
    wait::until_true("the same GPU is the job's again", SOON, || opens("OPENED"));
    fs::write(home.join("stop"), "").expect("a file can be made");
    lab.await_end(&job);
    fs::remove_file(home.join("stop")).expect("it is there");
    fs::remove_file(node).expect("it is there");
    Outcome::Held
}

/// Loads one of the modules that the machine was booted with.
fn load(name: &CStr) {
    let wanted = format!("-{}", name.to_str().expect("a plain name"));
    let mut files = fs::read_dir(MODULE_DIR)
        .expect("modules are there")
        .flatten();
    let path: Option<PathBuf> = files
        .find(|entry| entry.file_name().to_string_lossy().ends_with(&wanted))
        .map(|entry| entry.path());
    let image = fs::read(path.expect("it was loaded at boot")).expect("it can be read");
    rustix::system::init_module(&image, c"").expect("root may load it");
}

//! Ways past the fence that need no descriptor of somebody else's: other processes, rings, BPF, raw memory, sysfs, mounts.

use super::Outcome;
use super::lab::{ALICE, BOB, Lab, NVIDIA, VGEM, VIRTIO};
use super::passing::open_without_guard;
use crate::host;
use crate::user::User;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Row 18: into the memory of a job next door.
pub(super) fn trace(lab: &Lab) -> Outcome {
    let holder = lab.hold(ALICE, &["--gres=gpu:h200:1"], "trace", &["/dev/null"]);
    lab.outside(User::Root, &["trace", &holder.pid()])
        .expect("process", "mem", &["READ"]);
    for spy in [ALICE, BOB, User::Root] {
        let said = lab.probe(spy, &[], &["trace", &holder.pid()]);
        if lab.guarded || spy == BOB {
            for way in ["mem", "readv", "seize", "attach"] {
                said.expect("process", way, &["EPERM", "EACCES"]);
            }
            said.never("READ");
        } else if spy == ALICE {
            said.expect("process", "seize", &["TRACED"]);
        }
    }
    // A debugger within the job is nobody's business.
    let line = format!(
        "{0} hold own /dev/null > own & while ! grep -q pid own; do sleep 0.1; done; {0} trace $! > traced; kill $!",
        lab.daemons.probe()
    );
    let job = lab.daemons.wrap(ALICE, &[], &line);
    lab.await_end(&job);
    let text = fs::read_to_string(lab.daemons.home(ALICE).join("traced")).unwrap_or_default();
    assert!(
        text.contains("process mem READ") && text.contains("process seize TRACED"),
        "{text}"
    );
    if lab.guarded {
        Outcome::Held
    } else {
        open_without_guard("ptrace of one's own other job")
    }
}

/// Row 19: signals go where the user's permission lets them; the guard writes them down.
pub(super) fn signals(lab: &Lab) -> Outcome {
    let holder = lab.hold(ALICE, &[], "signal", &["/dev/null"]);
    lab.probe(BOB, &[], &["strike", &holder.pid()])
        .expect("process", "signal", &["EPERM"]);
    lab.probe(ALICE, &[], &["strike", &holder.pid()])
        .expect("process", "signal", &["SENT"]);
    Outcome::Held
}

/// Row 17: the kernel's own thread opens for a ring.
pub(super) fn poll_thread(lab: &Lab) -> Outcome {
    // The control: where nothing fences, the thread opens, or this kernel has no such rings.
    let control = lab.outside(User::Root, &["sqpoll", VGEM]);
    let possible = !control.outcomes(VGEM, "sqpoll").is_empty();
    if possible {
        control.expect(VGEM, "sqpoll", &["OPENED"]);
    }
    for user in [ALICE, User::Root] {
        let said = lab.probe(user, &[], &["sqpoll", VGEM]);
        said.never("OPENED");
        if lab.guarded {
            said.expect(VGEM, "make-sqpoll", &["EPERM"]);
        }
    }
    if possible {
        Outcome::Held
    } else {
        Outcome::Skipped("no rings with a polling thread".to_owned())
    }
}

/// Rows 14 and 15: bpf(2) and the pins, as a user and as root.
pub(super) fn take_down(lab: &Lab) -> Outcome {
    let pins = pins(&lab.daemons.dir().join("bpf"));
    assert!(!pins.is_empty(), "a fenced node has pins");
    lab.outside(User::Root, &["load"])
        .expect("program", "load", &["LOADED"]);
    for user in [ALICE, User::Root] {
        let said = lab.probe(user, &[], &["bpf", &pins]);
        said.expect("program", "load", &["EPERM"]);
        for good in ["LISTED", "DETACHED", "LOADED", "ATTACHED"] {
            said.never(good);
        }
        // Without the guard some kernels let root's job have the pins.
        if user == User::Root && !lab.guarded && said.outcomes("pin", "get").contains(&"GOT") {
            return open_without_guard("root's job at the pins");
        }
        said.expect("pin", "get", &["EPERM", "EACCES"]);
    }
    Outcome::Held
}

/// Every pin, joined by commas.
fn pins(dir: &Path) -> String {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path())
            } else {
                found.push(entry.path().display().to_string())
            }
        }
    }
    found.join(",")
}

/// Row 20: physical memory, ports and VFIO.
pub(super) fn raw_memory(lab: &Lab) -> Outcome {
    let nodes = [
        ("mem", 1, 1),
        ("kmem", 1, 2),
        ("port", 1, 4),
        ("vfio", 10, 196),
    ];
    let dir = lab.daemons.dir().join("raw");
    fs::create_dir_all(&dir).expect("a folder");
    let mut words = vec!["raw".to_owned()];
    for (name, major, minor) in nodes {
        let path = dir.join(name);
        if !path.exists() {
            let device = rustix::fs::makedev(major, minor);
            rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::CharacterDevice,
                0o666.into(),
                device,
            )
            .expect("root may make nodes");
            fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).expect("root may");
        }
        words.push(path.display().to_string());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let control = lab.outside(User::Root, &words);
    control.expect(words[1], "raw", &["OPENED"]);
    for user in [ALICE, User::Root] {
        let said = lab.probe(user, &[], &words);
        for path in &words[1..] {
            said.expect(path, "raw", &["EPERM"]);
        }
    }
    Outcome::Held
}

/// Rows 20 and 21: what sysfs offers of a GPU on the PCI bus. Files of root's, so it is root's job that tries.
pub(super) fn sysfs(lab: &Lab) -> Outcome {
    let device = fs::canonicalize("/sys/class/drm/renderD129/device")
        .expect("virtio's render node has a device");
    let pci = device
        .ancestors()
        .find(|dir| dir.join("config").exists())
        .expect("on a PCI bus")
        .to_owned();
    let mut files = vec![
        "config".to_owned(),
        "remove".to_owned(),
        "reset".to_owned(),
        "driver/unbind".to_owned(),
        "driver/new_id".to_owned(),
    ];
    files.extend((0..6).map(|bar| format!("resource{bar}")));
    let mut paths: Vec<String> = files
        .iter()
        .map(|name| pci.join(name))
        .filter(|path| path.exists())
        .map(|path| path.display().to_string())
        .collect();
    for file in ["/sys/bus/pci/rescan", "/sys/bus/pci/drivers_probe"] {
        paths.push(file.to_owned());
    }
    let bars: Vec<&String> = paths
        .iter()
        .filter(|path| path.contains("/resource"))
        .collect();
    assert!(!bars.is_empty(), "a PCI device has BARs: {paths:?}");
    let mut words = vec!["raw"];
    words.extend(paths.iter().map(String::as_str));
    lab.outside(User::Root, &words)
        .expect(bars[0], "raw", &["OPENED"]);
    let said = lab.probe(ALICE, &[], &words);
    said.never("OPENED");
    let said = lab.probe(User::Root, &[], &words);
    if lab.guarded {
        for path in &paths {
            said.expect(path, "raw", &["EPERM"]);
        }
        return Outcome::Held;
    }
    said.expect(bars[0], "raw", &["OPENED"]);
    open_without_guard("root's job at the files of sysfs")
}

/// Rows 16 and 40: bind mounts, devtmpfs and overlays of the job's own, and an overlay and a link that root made.
pub(super) fn mounts(lab: &Lab) -> Outcome {
    let dir = lab.daemons.dir().join("overlay");
    for folder in ["upper", "work", "merged"] {
        fs::create_dir_all(dir.join(folder)).expect("a folder");
    }
    let at = dir.join("merged");
    let options = format!(
        "lowerdir=/dev/dri,upperdir={0}/upper,workdir={0}/work",
        dir.display()
    );
    let options = std::ffi::CString::new(options).expect("no zero in a path");
    // An upper layer on tmpfs may be refused by old kernels: then only the lower ones are stacked.
    let flags = rustix::mount::MountFlags::empty();
    let lower = std::ffi::CString::new(format!("lowerdir=/dev/dri:{}/work", dir.display()))
        .expect("no zero in a path");
    rustix::mount::mount("overlay", &at, "overlay", flags, options.as_c_str())
        .or_else(|_| rustix::mount::mount("overlay", &at, "overlay", flags, lower.as_c_str()))
        .expect("root may mount an overlay");
    let stacked = at.join("renderD128").display().to_string();
    let link = dir.join("link");
    if !link.exists() {
        symlink(VGEM, &link).expect("a link can be made");
    }
    let link = link.display().to_string();
    lab.outside(User::Root, &["devices", &stacked, &link])
        .expect(&stacked, "open", &["OPENED"]);
    for user in [ALICE, User::Root] {
        let said = lab.probe(user, &[], &["devices", &stacked, &link, NVIDIA[0]]);
        for path in [&stacked, &link, NVIDIA[0]] {
            said.expect(path, "open", &["EPERM"]);
        }
        let own = lab.daemons.home(user).join("mounts");
        fs::create_dir_all(&own).expect("a folder");
        fs::set_permissions(&own, PermissionsExt::from_mode(0o777)).expect("root may");
        lab.probe(user, &[], &["mounts", &own.display().to_string(), VGEM])
            .never("OPENED");
    }
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH).expect("root may");
    Outcome::Held
}

/// Row 22: a holder of the render node has not the node that sets modes and knows other clients' buffers by number.
pub(super) fn cards(lab: &Lab) -> Outcome {
    let said = lab.probe(
        ALICE,
        &["--gres=gpu:4"],
        &["devices", "/dev/dri/card0", "/dev/dri/card1", VGEM, VIRTIO],
    );
    said.expect("/dev/dri/card0", "open", &["EPERM"]);
    said.expect("/dev/dri/card1", "open", &["EPERM"]);
    said.expect(VGEM, "open", &["OPENED"]);
    said.expect(VIRTIO, "open", &["OPENED"]);
    Outcome::Held
}

/// Row 41: what everybody needs opens in a job as it does outside.
pub(super) fn everyday(lab: &Lab) -> Outcome {
    let all = [
        "null",
        "zero",
        "full",
        "random",
        "urandom",
        "tty",
        "ptmx",
        "fuse",
        "net/tun",
        "cuse",
        "loop-control",
    ];
    let paths: Vec<String> = all
        .iter()
        .map(|name| format!("/dev/{name}"))
        .filter(|path| Path::new(path).exists())
        .collect();
    assert!(paths.len() >= 7, "{paths:?}");
    let mut words = vec!["devices"];
    words.extend(paths.iter().map(String::as_str));
    let outside = lab.outside(ALICE, &words);
    let inside = lab.probe(ALICE, &[], &words);
    for path in &paths {
        assert_eq!(
            inside.outcomes(path, "open"),
            outside.outcomes(path, "open"),
            "{path}: {}",
            inside.text
        );
    }
    inside.expect("/dev/null", "open", &["OPENED"]);
    Outcome::Held
}

/// Row 6: the first act of many processes. With whole jobs it is tried where spur is built, ten thousand times.
pub(super) fn first_acts(lab: &Lab) -> Outcome {
    // `SPUR_FIRST_ACTS` asks for more than fits a quick run.
    let count = std::env::var("SPUR_FIRST_ACTS").unwrap_or_else(|_| "1000".to_owned());
    let output = lab.daemons.run(
        ALICE,
        &["srun", &lab.daemons.probe(), "firsts", VGEM, &count],
    );
    assert_eq!(
        output.out,
        format!("refused {count} of {count}\n"),
        "{output:?}"
    );
    Outcome::Held
}

/// Rows 36 to 39: the node says what stands between its jobs, and it is what this kernel can.
pub(super) fn state(lab: &Lab) -> Outcome {
    let wanted = host::kernel() >= (6, 1);
    assert_eq!(
        lab.guarded,
        wanted,
        "kernel {:?}; guarded: {}\n{}",
        host::kernel(),
        lab.guarded,
        lab.daemons.logs()
    );
    Outcome::Held
}

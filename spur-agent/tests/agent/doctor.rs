//! `spurd doctor` beside running jobs: it looks, and leaves them and what is theirs alone.

use super::node::{Node, SPURD, possible, wait};
use super::orders::run;
use std::process::{Command, Stdio};

const WAITING: &str = "echo started > started; while [ ! -e end ]; do sleep 0.02; done";

#[test]
fn jobs_outlive_a_doctor_that_finds_no_pins() {
    if !possible() {
        return;
    }
    for more in ["", "require = \"none\""] {
        let mut node = Node::start(more);
        run(&node, 1, 5, &[2], WAITING);
        node.text("started");
        let before = node.procs(1);
        node.kill_agent();
        std::fs::remove_dir_all(node.pins()).unwrap();
        let doctor = node.spurd("doctor");
        let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(text.contains("job 1         NOT FENCED"), "{text}");
        let after = node.procs(1);
        assert!(
            before.iter().filter(|pid| after.contains(pid)).count() > 0,
            "{before:?} and then {after:?}: {text}"
        );
        assert!(!node.pins().exists(), "its own pins are gone");
        assert!(node.dir.path().join("state/steps").exists());
        node.finish();
    }
}

#[test]
fn a_doctor_with_pins_of_its_own_leaves_nothing_beside_an_agent() {
    if !possible() {
        return;
    }
    let node = Node::start("");
    run(&node, 1, 5, &[2], WAITING);
    node.text("started");
    let config = std::fs::read_to_string(node.dir.path().join("spurd.toml")).unwrap();
    let pins = node.pins();
    let name = pins.file_name().unwrap().to_str().unwrap();
    let other = config.replace(
        &format!("pins = \"{name}\""),
        &format!("pins = \"{name}-other\""),
    );
    assert_ne!(config, other);
    let file = node.dir.path().join("other.toml");
    std::fs::write(&file, other).unwrap();
    let bits = std::fs::read(node.dir.path().join("state/grant-bits")).unwrap();
    let doctor = Command::new(SPURD)
        .args(["doctor", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(text.contains("job 1         NOT FENCED"), "{doctor:?}");
    assert!(!pins.with_file_name(format!("{name}-other")).exists());
    assert!(pins.exists() && !node.procs(1).is_empty());
    assert_eq!(
        std::fs::read(node.dir.path().join("state/grant-bits")).unwrap(),
        bits
    );
    // The agent's own fence is as it was.
    run(&node, 2, 6, &[3], &node.try_all("opened"));
    assert_eq!(node.text("opened"), "3\n");
    std::fs::write(node.out("end"), "").unwrap();
    for (number, generation) in [(1, 5), (2, 6)] {
        node.controller.revoke(number, generation);
        node.controller.cleaned(number);
    }
    assert!(!node.log().contains("taken off by hand"), "{}", node.log());
    node.finish();
}

#[test]
fn a_doctor_on_a_fresh_node_leaves_no_cgroup_pin_or_mount() {
    if !possible() {
        return;
    }
    let mut node = Node::start("");
    node.stop_agent();
    assert!(node.spurd("leftovers").status.success());
    let doctor = node.spurd("doctor");
    assert!(doctor.status.success(), "{doctor:?}");
    assert!(!node.job_cgroup(1).parent().unwrap().exists());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&*node.dir.path().to_string_lossy()));
    node.finish();
}

#[test]
fn a_doctor_that_cannot_be_heard_or_may_not_look_says_so() {
    use std::os::unix::process::CommandExt;
    if !possible() {
        return;
    }
    let node = Node::start("");
    let config = node.dir.path().join("spurd.toml");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    for args in [&["doctor"][..], &["--help"], &["--version"]] {
        let deaf = Command::new(SPURD)
            .args(args)
            .arg("--config")
            .arg(&config)
            .stdout(full.try_clone().unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&deaf.stderr).into_owned();
        assert_eq!(deaf.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.contains("spurd: error: writing ") && said.contains("standard output"),
            "{args:?}: {said}"
        );
    }
    // A copy that an ordinary user may run.
    let program = node.out("spurd");
    std::fs::copy(SPURD, &program).unwrap();
    let user = wait("the copy can be run", || {
        let mut command = Command::new(&program);
        command.args(["doctor", "--config"]).arg(&config);
        command.uid(65534).gid(65534).output().ok()
    });
    let said = String::from_utf8_lossy(&user.stderr).into_owned();
    assert!(
        user.status.code() == Some(1) && said.contains("run it as root"),
        "{said}"
    );
    node.finish();
}

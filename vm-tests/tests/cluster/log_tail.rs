//! A controller's log, cut off anywhere.

use crate::possible;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{self, NOBODY, Output, User};
use vm_tests::{host, wait};

/// Places to cut at, spread over the log; the store's own tests cut at every byte.
const CUTS: u64 = 24;

/// Jobs in the log.
const JOBS: usize = 20;

#[test]
fn a_log_cut_off_anywhere_never_stops_the_controller() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let jobs: Vec<String> = (0..JOBS)
        .map(|_| cluster.sbatch(NOBODY, &["-N1", "--exclusive"], "sleep 1000"))
        .collect();
    let controller = cluster.kill("spurctld");
    let config = controller
        .args
        .iter()
        .skip_while(|arg| *arg != "--config")
        .nth(1);
    let config = host::read(
        config
            .expect("the controller was given its configuration")
            .as_ref(),
    );
    let state = key(&config, "state_dir");
    let wal = longest_wal(&state);
    let length = used(&wal);
    assert!(
        length > 0,
        "{} is empty: nothing would be tested",
        wal.display()
    );

    let mut kept = BTreeSet::new();
    for cut in (0..=CUTS)
        .map(|step| length * step / CUTS)
        .chain([length - 1])
    {
        let copy = tempfile::tempdir().expect("a folder");
        copy_flat(&state, copy.path());
        let wal = copy.path().join(wal.file_name().expect("a log has a name"));
        fs::OpenOptions::new()
            .write(true)
            .open(&wal)
            .and_then(|file| file.set_len(cut))
            .expect("it can be cut");
        let seen = ids_after_restart(copy.path(), &config);
        // What is kept is a beginning of what was acknowledged.
        let prefix = jobs
            .iter()
            .take(seen.len())
            .cloned()
            .collect::<BTreeSet<_>>();
        assert_eq!(seen, prefix, "cut at {cut} of {length}");
        kept.insert(seen.len());
    }
    assert!(
        kept.contains(&JOBS),
        "even the whole log gave {kept:?} jobs"
    );
    cluster.down();
}

/// Starts a controller on a copy of the state, asks it for its jobs, and kills it.
fn ids_after_restart(copy: &Path, config: &str) -> BTreeSet<String> {
    let socket = copy.join("client.sock");
    let mut text = String::new();
    for line in config.lines() {
        let name = line.split('=').next().unwrap_or("").trim();
        let line = match name {
            "state_dir" => format!("state_dir = \"{}\"", copy.display()),
            "client_socket" => format!("client_socket = \"{}\"", socket.display()),
            "agent_socket" => format!("agent_socket = \"{}\"", copy.join("agents.sock").display()),
            _ => line.to_owned(),
        };
        text += &line;
        text.push('\n');
    }
    let file = copy.join("spur.toml");
    fs::write(&file, text).expect("a configuration can be written");
    let mut controller = start(&file);
    let spur = host::bins().join("spur").to_string_lossy().into_owned();
    let shown = wait::until("the controller answers", SOON, || {
        assert!(
            controller
                .try_wait()
                .expect("a child can be asked")
                .is_none(),
            "the controller gave up"
        );
        let mut squeue = user::command(User::Root, &[&spur, "squeue", "-h", "-o", "%i"]);
        squeue.env("SPUR_CONTROLLER", format!("unix:{}", socket.display()));
        let output = Output::of(squeue.spawn().expect("timeout(1) is installed"));
        (output.code == 0).then_some(output.out)
    });
    controller.kill().expect("a child can be killed");
    controller.wait().expect("and waited for");
    shown.lines().map(|id| id.trim().to_owned()).collect()
}

fn start(config: &Path) -> Child {
    let mut command = Command::new(host::bins().join("spurctld"));
    command.arg("--config").arg(config);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("a controller starts")
}

fn key(config: &str, name: &str) -> PathBuf {
    let line = config
        .lines()
        .find(|line| line.split('=').next().is_some_and(|key| key.trim() == name));
    let value = line.and_then(|line| line.split('"').nth(1));
    value
        .unwrap_or_else(|| panic!("no {name} in {config}"))
        .into()
}

/// Bytes of a log without the zeros that lie ahead of it.
fn used(wal: &Path) -> u64 {
    let bytes = fs::read(wal).expect("the log is there");
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last as u64 + 1)
}

fn longest_wal(state: &Path) -> PathBuf {
    let files = fs::read_dir(state)
        .expect("the state is there")
        .map(|entry| entry.expect("readable").path());
    let wals = files.filter(|path| path.to_string_lossy().ends_with("-wal"));
    let longest = wals.max_by_key(|path| fs::metadata(path).map_or(0, |data| data.len()));
    longest.unwrap_or_else(|| panic!("no write-ahead log in {}", state.display()))
}

fn copy_flat(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the state is there") {
        let path = entry.expect("readable").path();
        // The index of the log is rebuilt from it.
        if path.is_file() && !path.to_string_lossy().ends_with("-shm") {
            let name = path.file_name().expect("a file has a name");
            fs::copy(&path, to.join(name)).expect("a file can be copied");
        }
    }
}

//! Names and comments of any bytes: every view gives them back unharmed, whatever the language of the caller.

use crate::possible;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::NOBODY;
use vm_tests::wait;

/// Bytes that have broken programs before.
fn texts() -> Vec<Vec<u8>> {
    vec![
        b"two\nlines".to_vec(),
        b"a|b=c d;e'f\"g".to_vec(),
        "é".repeat(150).into_bytes(),
        vec![b'x'; 300],
        b"caf\xe9 \xff\xfe".to_vec(),
    ]
}

/// The languages of callers.
const LANGUAGES: [&str; 2] = ["C", "C.UTF-8"];

/// Standard output of a command that must go well.
fn bytes(cluster: &Cluster, language: &str, args: &[&OsStr]) -> Vec<u8> {
    let mut command = cluster.command(NOBODY, args);
    command.env("LANG", language).env("LC_ALL", language);
    let output = command.output().expect("timeout(1) is installed");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {err}");
    output.stdout
}

fn submit(cluster: &Cluster, language: &str, text: &[u8]) -> String {
    let text = OsString::from_vec(text.to_vec());
    let words = ["sbatch", "--parsable", "-o", "/dev/null", "-J"].map(OsStr::new);
    let mut args = words.to_vec();
    args.push(&text);
    args.push(OsStr::new("--comment"));
    args.push(&text);
    args.extend(["--wrap", "true"].map(OsStr::new));
    let id = bytes(cluster, language, &args);
    String::from_utf8(id).expect("digits").trim().to_owned()
}

fn has(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|part| part == needle)
}

#[test]
fn names_and_comments_of_any_bytes_go_through_every_view() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    for text in texts() {
        for language in LANGUAGES {
            let id = submit(&cluster, language, &text);
            cluster.await_state(&id, &["COMPLETED"]);
            check_text(&cluster, language, &id, &text);
            // JSON has no form for bytes that are no text: one character stands for each.
            let text = String::from_utf8_lossy(&text).into_owned();
            check_json(&cluster, language, &id, &text);
        }
    }
    cluster.down();
}

#[test]
fn jobs_run_in_folders_of_any_name() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    for text in texts().iter().filter(|text| text.len() < 256) {
        let mut line = cluster.home(NOBODY).into_os_string().into_vec();
        line.push(b'/');
        line.extend(text);
        let folder = OsString::from_vec(line.clone());
        let made = [OsStr::new("mkdir"), OsStr::new("--"), &folder];
        bytes(&cluster, "C", &made);
        let mut args = ["srun", "-D"].map(OsStr::new).to_vec();
        args.extend([&folder, OsStr::new("pwd")]);
        line.push(b'\n');
        assert_eq!(bytes(&cluster, "C", &args), line, "{folder:?}");
        let words = ["sbatch", "--parsable", "-o", "out", "--wrap", "pwd", "-D"];
        let mut args = words.map(OsStr::new).to_vec();
        args.push(&folder);
        let id = String::from_utf8(bytes(&cluster, "C", &args)).expect("digits");
        cluster.await_state(id.trim(), &["COMPLETED"]);
        let out = std::fs::read(std::path::Path::new(&folder).join("out")).unwrap();
        assert_eq!(out, line, "{folder:?}");
    }
    cluster.down();
}

#[test]
fn files_of_an_arrays_steps_are_named_as_those_of_its_jobs() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    // The first is opened by srun, the second by the node.
    let script = "srun -n1 -o %A_%a.out echo one; srun -n2 -o %A-%2a-%t.out echo two";
    let job = cluster.sbatch(
        NOBODY,
        &["-n2", "--array=3", "--wait", "-o", "batch"],
        script,
    );
    let home = cluster.home(NOBODY);
    for (name, text) in [
        ("_3.out", "one\n"),
        ("-03-0.out", "two\n"),
        ("-03-1.out", "two\n"),
    ] {
        let path = home.join(format!("{job}{name}"));
        let found = std::fs::read_to_string(&path);
        let batch = std::fs::read_to_string(home.join("batch"));
        assert_eq!(found.ok().as_deref(), Some(text), "{path:?}: {batch:?}");
    }
    cluster.down();
}

/// The views in text.
fn check_text(cluster: &Cluster, language: &str, id: &str, text: &[u8]) {
    let ask = |line: &[&str]| {
        let args: Vec<&OsStr> = line.iter().map(OsStr::new).collect();
        bytes(cluster, language, &args)
    };
    let line = [text, b"\n"].concat();
    let shown = OsStr::from_bytes(text);
    assert_eq!(
        ask(&["squeue", "-h", "-t", "all", "-j", id, "-o", "%j"]),
        line,
        "{shown:?}"
    );
    assert_eq!(
        ask(&["squeue", "-h", "-t", "all", "-j", id, "-o", "%k"]),
        line,
        "{shown:?}"
    );
    let wide = ask(&["squeue", "-h", "-t", "all", "-j", id, "-O", "name:400"]);
    assert!(wide.starts_with(text), "{shown:?}");
    let record = ask(&["scontrol", "show", "job", id]);
    assert!(has(&record, &[b"JobName=", text].concat()), "{shown:?}");
    assert!(has(&record, &[b"Comment=", text].concat()), "{shown:?}");
    wait::until_true("the record has the job", SOON, || {
        let row = ask(&["sacct", "-n", "-P", "-X", "-j", id, "-o", "JobName,Comment"]);
        row == [text, b"|", text, b"\n"].concat()
    });
}

/// The views as JSON, which is always UTF-8.
fn check_json(cluster: &Cluster, language: &str, id: &str, text: &str) {
    let views: [&[&str]; 3] = [
        &["squeue", "-t", "all", "-j", id, "--json"],
        &["scontrol", "show", "job", id, "--json"],
        &["sacct", "-j", id, "--json"],
    ];
    for view in views {
        let args: Vec<&OsStr> = view.iter().map(OsStr::new).collect();
        let json: serde_json::Value =
            serde_json::from_slice(&bytes(cluster, language, &args)).expect("JSON");
        let name = json["jobs"][0]["name"].as_str().expect("a name");
        assert_eq!(name, text, "{view:?}");
    }
}

//! Joining a step that runs.

use super::support::{Bench, Client, Heard, eventually, stdin_all, tasks, wait_gone};
use spur_proto::frame::{read_frame, write_frame};
use spur_proto::wire::{FromStep, Stdin, ToStep, from_step, to_step};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Most that may be attached at once.
const VIEWERS_MAX: usize = 16;

fn attach(client: &Client) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    // Only so many orders wait at once.
    eventually("there is room for an order", || {
        let sent = client.supervisor.attach(theirs.as_fd());
        let full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(sent.as_ref().err().is_none_or(full), "{sent:?}");
        sent.is_ok()
    });
    ours
}

fn next(socket: &UnixStream) -> Option<from_step::Kind> {
    let mut socket = socket;
    let message = read_frame::<FromStep>(&mut socket).unwrap();
    message.map(|message| message.kind.unwrap())
}

fn rest(socket: &UnixStream) -> Heard {
    let mut heard = Heard::default();
    while let Some(kind) = next(socket) {
        heard.take(kind);
    }
    heard
}

fn input(socket: &UnixStream, text: &str, task: Option<u32>, eof: bool) {
    let (data, mut socket) = (text.as_bytes().to_vec(), socket);
    let kind = Some(to_step::Kind::Stdin(Stdin { data, eof, task }));
    write_frame(&mut socket, &ToStep { kind }).unwrap();
}

#[test]
fn those_who_attach_hear_what_was_said_last_and_what_comes() {
    let bench = Bench::new();
    let mut spec = bench.sh("echo before; read line; echo \"after $line\"; echo wrong >&2; exit 3");
    stdin_all(&mut spec);
    let client = bench.connect(&spec);
    client.read_until("before");
    let viewers = [attach(&client), attach(&client)];
    for viewer in &viewers {
        assert!(matches!(next(viewer), Some(from_step::Kind::Started(_))));
    }
    // One that leaves changes nothing.
    drop(attach(&client));
    client.send(to_step::Kind::Stdin(Stdin {
        data: b"word\n".to_vec(),
        eof: true,
        task: None,
    }));
    let own = client.finish();
    assert_eq!(own.text(), "after word\n");
    for viewer in &viewers {
        let heard = rest(viewer);
        assert_eq!(
            (heard.text(), heard.stderr.as_str()),
            ("before\nafter word\n", "wrong\n")
        );
        assert_eq!(heard.exits[0].code, 3);
        assert!(heard.ended.is_some());
    }
}

#[test]
fn input_of_those_who_attach_reaches_whom_it_is_for_and_does_not_end_there() {
    let bench = Bench::new();
    let mut spec = bench.sh("");
    spec.tasks = tasks(2, "while read line; do echo \"$SLURM_PROCID:$line;\"; done");
    stdin_all(&mut spec);
    let client = bench.connect(&spec);
    client.receive();
    let viewer = attach(&client);
    next(&viewer);
    input(&viewer, "one\n", Some(1), false);
    client.read_until("1:one;");
    input(&viewer, "", None, true);
    input(&viewer, "all\n", None, false);
    let mut heard = String::new();
    while !(heard.contains("0:all;") && heard.contains("1:all;")) {
        if let from_step::Kind::Output(output) = next(&viewer).unwrap() {
            heard.push_str(std::str::from_utf8(&output.data).unwrap());
        }
    }
    assert!(!heard.contains("0:one"), "{heard}");
    client.send(to_step::Kind::Stdin(Stdin {
        data: Vec::new(),
        eof: true,
        task: None,
    }));
    assert_eq!(client.finish().exits.len(), 2);
}

#[test]
fn somebody_slow_who_attached_slows_nobody_and_learns_what_passed_by() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let mut spec = bench.sh(
        "until test -e go; do sleep 0.01; done; head -c 50000000 /dev/zero | tr '\\0' x; echo end >&2; \
         until test -e leave; do sleep 0.01; done",
    );
    spec.work_dir = dir.clone();
    let client = bench.connect(&spec);
    client.receive();
    let viewer = attach(&client);
    next(&viewer);
    std::fs::write(dir.join("go"), "").unwrap();
    // The client hears everything, though the other has taken nothing yet.
    let (mut heard, mut count) = (Heard::default(), 0);
    while heard.stderr != "end\n" {
        heard.take(client.receive().unwrap());
        count += std::mem::take(&mut heard.stdout).len();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.supervisor.pid()));
    let status = status.unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let rss: u64 = rss.unwrap().trim().trim_end_matches(" kB").parse().unwrap();
    assert!(rss < 24 << 10, "{rss} KiB");
    std::fs::write(dir.join("leave"), "").unwrap();
    let reader = std::thread::spawn(move || rest(&viewer));
    count += client.finish().stdout.len();
    assert_eq!(count, 50_000_000);
    let late = reader.join().unwrap();
    assert!(late.skipped > 0 && late.ended.is_some());
    let shown = u64::try_from(late.stdout.len() + late.stderr.len()).unwrap();
    assert_eq!(shown + late.skipped, 50_000_004);
}

#[test]
fn one_who_never_reads_does_not_keep_a_step_from_ending_and_places_are_limited() {
    let bench = Bench::new();
    let mut spec = bench.sh("read line; head -c 3000000 /dev/zero");
    stdin_all(&mut spec);
    let client = bench.connect(&spec);
    client.receive();
    let viewers: Vec<UnixStream> = (0..VIEWERS_MAX).map(|_| attach(&client)).collect();
    let late = attach(&client);
    assert!(next(&late).is_none(), "there is no place for one more");
    client.send(to_step::Kind::Stdin(Stdin {
        data: b"\n".to_vec(),
        eof: true,
        task: None,
    }));
    let mut count = 0;
    while let Some(kind) = client.receive() {
        if let from_step::Kind::Output(output) = kind {
            count += output.data.len();
        }
    }
    assert_eq!(count, 3_000_000);
    wait_gone(&client.supervisor);
    eventually("the record is there", || {
        spur_agent::launch::exit_record(&client.dir)
            .unwrap()
            .is_some()
    });
    drop(viewers);
}

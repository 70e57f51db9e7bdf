//! What a supervisor takes from tasks and clients that speak MPI's interfaces, and what not.

use super::support::{Bench, Client, Heard, log, owner, wait};
use rustix::process::{Pid, Signal, kill_process};
use spur_agent::launch::{Mpi, Pmix, PmixNode, StepLaunch};
use spur_core::pmi::node::HELD_MAX;
use spur_proto::frame::write_frame;
use spur_proto::wire::{self, Exchange, KvsEntry, PmixTold, ToStep, from_step, to_step};
use std::fs;
use std::time::Duration;

/// A user that every system knows.
const NOBODY: u32 = 65_534;

/// A step of one task that finds its interface, or a PMIx server.
fn step(bench: &Bench, pmix: bool, command: &str) -> StepLaunch {
    let pmix = pmix.then(|| Pmix {
        version: 0,
        nodes: vec![PmixNode {
            name: "n1".into(),
            tasks: vec![0],
            program: 0,
        }],
    });
    StepLaunch {
        kill_wait: 0,
        mpi: Some(Mpi {
            job: "7.0".into(),
            size: 1,
            universe: 1,
            program: 0,
            mapping: String::new(),
            pmix,
        }),
        ..bench.sh(command)
    }
}

/// What one message tells of a barrier.
fn piece(at: usize) -> Exchange {
    let entries = (at * 64..(at + 1) * 64).map(|at| KvsEntry {
        key: format!("{at:06}").into_bytes(),
        value: vec![b'v'; 1000],
    });
    Exchange {
        entries: entries.collect(),
        last: false,
    }
}

/// Reads until a task is at the barrier.
fn await_barrier(client: &Client) {
    loop {
        let kind = client.receive().expect("the stream ended early");
        if matches!(kind, from_step::Kind::Exchange(_)) {
            return;
        }
        assert!(matches!(kind, from_step::Kind::Started(_)), "{kind:?}");
    }
}

#[test]
fn a_barrier_that_nobody_is_at_is_refused() {
    let bench = Bench::new();
    let client = bench.connect(&step(&bench, false, "echo up; sleep 1000"));
    client.read_until("up");
    client.send(to_step::Kind::Exchange(piece(0)));
    while client.receive().is_some() {}
    assert!(wait(&client.supervisor).cancelled);
    let log = log(&client.supervisor);
    assert!(log.contains("keys and values came for no barrier"), "{log}");
}

#[test]
fn what_is_brought_to_a_barrier_has_an_end() {
    let bench = Bench::new();
    let script = "printf 'cmd=barrier_in\\n' >&5; sleep 1000";
    let client = bench.connect(&step(&bench, false, script));
    await_barrier(&client);
    // One more than there is room for.
    for at in 0..=HELD_MAX / (64 * (6 + 1000 + 128)) {
        client.send(to_step::Kind::Exchange(piece(at)));
    }
    let mut heard = Heard::default();
    while let Some(kind) = client.receive() {
        heard.take(kind);
    }
    assert!(
        heard.stderr.contains("more keys and values than fit"),
        "{heard:?}"
    );
    assert_eq!(wait(&client.supervisor).exit.code, 1);
}

/// The step's PMIx server.
fn server(bench: &Bench, spec: &StepLaunch) -> Pid {
    let procs = bench.job.step(spec.step.step).unwrap().procs().unwrap();
    let is_one = |pid: &i32| {
        let args = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        args.split(|byte| *byte == 0)
            .any(|arg| arg == b"pmix-server")
    };
    let found = procs.into_iter().find(is_one);
    found.and_then(Pid::from_raw).expect("it has a server")
}

#[test]
fn a_pmix_server_that_takes_nothing_keeps_its_client_waiting() {
    let bench = Bench::new();
    let spec = StepLaunch {
        // OpenPMIx wants to be told by the system who its user is.
        owner: owner(NOBODY, NOBODY, &[NOBODY]),
        ..step(&bench, true, "echo up; sleep 1000")
    };
    let client = bench.connect(&spec);
    let mut heard = Heard::default();
    while heard.text() != "up\n" {
        match client.receive() {
            Some(kind) => heard.take(kind),
            None if heard.errors.iter().any(|why| why.text.contains("libpmix2")) => {
                eprintln!("skipped: libpmix2 is not installed");
                wait(&client.supervisor);
                return;
            }
            None => panic!("the step did not begin: {heard:?}"),
        }
    }
    let folder = client.dir.join("pmix");
    assert_eq!(
        std::os::unix::fs::MetadataExt::uid(&fs::metadata(&folder).unwrap()),
        NOBODY
    );
    let server = server(&bench, &spec);
    kill_process(server, Signal::STOP).unwrap();
    let told = wire::pmix::Kind::Told(PmixTold {
        data: vec![0; 64 << 10],
        last: true,
        ..Default::default()
    });
    let message = ToStep {
        kind: Some(to_step::Kind::Pmix(wire::Pmix { kind: Some(told) })),
    };
    let mut socket = client.socket.as_ref().unwrap();
    socket
        .set_write_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let most = (64 << 20) / (64 << 10);
    let taken = (0..most).find(|_| write_frame(&mut socket, &message).is_err());
    assert!(taken.is_some_and(|taken| taken < most / 8), "{taken:?}");
    // Its end is noticed all the same.
    let Client {
        socket, supervisor, ..
    } = client;
    drop(socket);
    assert!(wait(&supervisor).cancelled);
    assert!(!folder.exists());
}

#[test]
fn what_tasks_are_told_is_no_longer_than_what_they_put() {
    let bench = Bench::new();
    let mut spec = step(&bench, false, "");
    if let Some(mpi) = &mut spec.mpi {
        mpi.job = "7".repeat(2000);
    }
    let refused = bench.launcher().start(&spec, &bench.dir(&spec), None);
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("longer than any value"), "{why}");
}

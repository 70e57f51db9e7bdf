//! Standard streams: whole, in order, bounded.

use super::support::{Bench, Heard, bytes, stdin_all, tasks};
use spur_agent::launch::{Input, Output, StdinTo};
use spur_proto::wire::{Stdin, to_step};

fn rss_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Bytes that the processes of a group have written so far.
fn written(cgroup: &std::path::Path) -> u64 {
    let procs = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap();
    let io = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let count = |io: String| {
        let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        line.and_then(|count| count.parse::<u64>().ok())
            .unwrap_or(0)
    };
    procs.lines().map(|pid| count(io(pid))).sum()
}

#[test]
fn a_hundred_megabytes_come_whole_through_little_memory() {
    let bench = Bench::new();
    let spec = bench.sh("head -c 104857600 /dev/zero | tr '\\0' 'x'; echo end >&2");
    let client = bench.connect(&spec);
    let (mut heard, mut count, mut peak) = (Heard::default(), 0, 0);
    while let Some(kind) = client.receive() {
        heard.take(kind);
        if heard.stdout.len() > (8 << 20) || heard.ended.is_some() {
            if heard.ended.is_none() {
                peak = peak.max(rss_kib(client.supervisor.pid()));
            }
            assert!(heard.stdout.iter().all(|byte| *byte == b'x'));
            count += std::mem::take(&mut heard.stdout).len();
        }
    }
    assert_eq!(count, 100 << 20);
    assert_eq!(heard.stderr, "end\n");
    assert!(peak < 24 << 10, "{peak} KiB");
}

#[test]
fn a_slow_reader_slows_the_task_and_costs_little_memory() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let mut spec = bench.sh("head -c 50000000 /dev/zero; echo done > done; sleep 1000");
    spec.work_dir = dir.clone();
    let client = bench.connect(&spec);
    client.receive();
    // Nothing is read: the task cannot finish writing, while the supervisor still takes orders.
    super::support::eventually("the writer has to wait", || {
        let before = written(&spec.cgroup);
        std::thread::sleep(std::time::Duration::from_millis(50));
        before > 64 << 10 && written(&spec.cgroup) == before
    });
    super::support::cancel(&client.supervisor, super::support::PATIENCE);
    let pid = client.supervisor.pid();
    super::support::eventually("the task is asked to end", || {
        let procs = std::fs::read_to_string(spec.cgroup.join("cgroup.procs")).unwrap();
        !procs.is_empty() && rss_kib(pid) > 0 && procs.lines().count() < 2 || procs.is_empty()
    });
    assert!(rss_kib(pid) < 24 << 10);
    assert!(!dir.join("done").exists());
    let heard = client.finish();
    assert!(heard.stdout.len() < 4 << 20, "{}", heard.stdout.len());
    assert!(heard.record.cancelled);
}

#[test]
fn standard_input_goes_around_to_whom_it_is_meant() {
    let bench = Bench::new();
    let mut spec = bench.sh("");
    spec.tasks = tasks(3, "printf \"$SLURM_PROCID:%s;\" \"$(cat | cksum)\"");
    let sum = |data: &[u8]| {
        let file = bench.state.path().join("data");
        std::fs::write(&file, data).unwrap();
        let out = std::process::Command::new("cksum")
            .stdin(std::fs::File::open(file).unwrap())
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let (full, none) = (sum(&data), sum(b""));
    for to in [StdinTo::All, StdinTo::Task(1)] {
        spec.step = bench.sh("").step;
        spec.cgroup = bench.job.step(spec.step.step).unwrap().path().into();
        spec.stdio.stdin = Input::Stream(to);
        let client = bench.connect(&spec);
        for chunk in data.chunks(50_000) {
            client.send(to_step::Kind::Stdin(Stdin {
                data: chunk.into(),
                eof: false,
                task: None,
            }));
        }
        client.send(to_step::Kind::Stdin(Stdin {
            data: Vec::new(),
            eof: true,
            task: None,
        }));
        let heard = client.finish();
        for id in 0..3 {
            let expected = if to == StdinTo::All || id == 1 {
                &full
            } else {
                &none
            };
            assert!(
                heard.text().contains(&format!("{id}:{expected};")),
                "{to:?}: {}",
                heard.text()
            );
        }
    }
}

#[test]
fn a_half_closed_client_ends_input_but_hears_on() {
    let bench = Bench::new();
    let mut spec = bench.sh("cat; echo after");
    stdin_all(&mut spec);
    let client = bench.connect(&spec);
    client.send(to_step::Kind::Stdin(Stdin {
        data: b"in\n".into(),
        eof: false,
        task: None,
    }));
    client
        .socket
        .as_ref()
        .unwrap()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    let heard = client.finish();
    assert_eq!(heard.text(), "in\nafter\n");
    assert!(!heard.record.cancelled);
}

#[test]
fn bytes_that_the_agent_read_ahead_are_not_lost() {
    use prost::Message;
    let bench = Bench::new();
    let mut spec = bench.sh("cat");
    stdin_all(&mut spec);
    let early = Stdin {
        data: b"early\n".into(),
        eof: true,
        task: None,
    };
    let frame = spur_proto::wire::ToStep {
        kind: Some(to_step::Kind::Stdin(early)),
    }
    .encode_length_delimited_to_vec();
    spec.client_early = serde_bytes::ByteBuf::from(frame);
    assert_eq!(bench.run(&spec).text(), "early\n");
}

#[test]
fn input_that_nobody_takes_is_dropped() {
    let bench = Bench::new();
    let mut spec = bench.sh("exec <&-; echo closed; sleep 1000");
    stdin_all(&mut spec);
    let client = bench.connect(&spec);
    client.read_until("closed");
    for _ in 0..100 {
        client.send(to_step::Kind::Stdin(Stdin {
            data: vec![0; 60_000],
            eof: false,
            task: None,
        }));
    }
    client.send(to_step::Kind::Signal(spur_proto::wire::Signal {
        number: 15,
    }));
    assert_eq!(client.finish().record.exit.signal, 15);
}

#[test]
fn input_for_many_slow_tasks_costs_little_memory() {
    let bench = Bench::new();
    let mut spec = bench.sh("");
    spec.tasks = tasks(64, "sleep 1000");
    stdin_all(&mut spec);
    let client = bench.connect(&spec);
    client.receive();
    let socket = client.socket.as_ref().unwrap();
    socket
        .set_write_timeout(Some(std::time::Duration::from_millis(500)))
        .unwrap();
    let input = Stdin {
        data: vec![7; 100_000],
        eof: false,
        task: None,
    };
    let frame = spur_proto::wire::ToStep {
        kind: Some(to_step::Kind::Stdin(input)),
    };
    let sent = (0..1000)
        .take_while(|_| spur_proto::frame::write_frame(&mut &*socket, &frame).is_ok())
        .count();
    // The supervisor stopped reading: the client feels that its input is not taken.
    assert!(sent < 100, "{sent}");
    let rss = rss_kib(client.supervisor.pid());
    assert!(rss < 24 << 10, "{rss} KiB");
    super::support::cancel(&client.supervisor, super::support::PATIENCE);
    assert!(super::support::wait(&client.supervisor).cancelled);
}

#[test]
fn sixty_four_tasks_share_and_divide_files() {
    let bench = Bench::new();
    let dir = bench.user_dir();
    let mut spec = bench.sh("");
    spec.tasks = tasks(64, "echo out $SLURM_PROCID; echo err >&2");
    spec.work_dir = dir.clone();
    spec.stdio.stdout = Output::File {
        path: bytes("all.%j.%s.%N"),
        append: false,
    };
    spec.stdio.stderr = Output::File {
        path: bytes("err-%2t"),
        append: false,
    };
    let heard = bench.run(&spec);
    assert_eq!((heard.started, heard.exits.len()), (64, 64));
    let all = std::fs::read_to_string(dir.join("all.7.0.n1")).unwrap();
    let mut lines: Vec<u32> = all
        .lines()
        .map(|line| line.strip_prefix("out ").unwrap().parse().unwrap())
        .collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..64).collect::<Vec<_>>());
    for id in 0..64 {
        assert_eq!(
            std::fs::read_to_string(dir.join(format!("err-{id:02}"))).unwrap(),
            "err\n"
        );
    }
}

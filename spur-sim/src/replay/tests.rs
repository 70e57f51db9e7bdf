use super::*;
use crate::rng::Rng;
use spur_core::time::TimeLimit;

mod faulty;
mod future;
mod reading;

/// A trace of (seconds, run time, GPUs, user).
fn trace(jobs: &[(u64, u64, u32, &str)]) -> Trace {
    let mut text = "timestamp,duration,num_gpus,gpu_time,cluster\n".to_owned();
    for (at, secs, gpus, user) in jobs {
        text += &format!("{},{secs}.0,{gpus},0,{user}\n", 1_500_000_000 + at);
    }
    Trace::read("jobs.csv", &text).unwrap()
}

/// A replay, and its log.
fn run(trace: &Trace, setup: &Setup, script: &str) -> (Report, String) {
    let faults = read_faults("faults", script).unwrap();
    let mut log = Vec::new();
    let report = replay(trace.clone(), setup, faults, Some(&mut log)).unwrap();
    (report, String::from_utf8(log).unwrap())
}

#[test]
fn waits_are_as_reckoned_by_hand() {
    let jobs = [
        (0, 100, 8, "a"),
        (10, 50, 8, "b"),
        (20, 30, 4, "c"),
        (20, 30, 4, "c"),
    ];
    let (report, log) = run(&trace(&jobs), &Setup::new(1, 8), "");
    // The second waits until the first ends at 100, and the two small ones, which are due no earlier, until 150.
    assert_eq!(report.all.jobs, 4);
    assert_eq!(report.all.mean, (90 + 130 + 130) / 4);
    assert_eq!(report.all.max, 130);
    assert_eq!(report.by_size[&8].mean, 45);
    assert_eq!(report.by_size[&4].p50, 130);
    assert_eq!((report.never_started, report.makespan), (0, 180));
    assert_eq!(report.placed, 4);
    // All that counts is between the first submission and the last.
    assert_eq!((report.allocated, report.broken), (100_000, 0));
    assert!(log.contains("\n100.000 start 2 n1:0-7\n"), "{log}");
}

#[test]
fn a_wide_job_gets_whole_nodes_and_an_odd_one_as_many_gpus_as_it_wants() {
    let jobs = [
        (0, 10, 16, "a"),
        (20, 10, 12, "a"),
        (40, 10, 9, "a"),
        (60, 5, 64, "a"),
    ];
    let (report, log) = run(&trace(&jobs), &Setup::new(2, 8), "");
    assert_eq!(report.left_out["ask for more than this cluster has"], 1);
    assert_eq!(report.all.max, 0);
    assert_eq!(report.gpus_16_up.jobs, 1);
    assert!(log.contains("0.000 start 1 n1:0-7 n2:0-7\n"), "{log}");
    assert!(log.contains("20.000 start 2 n1:0-5 n2:0-5\n"), "{log}");
    let odd = log
        .lines()
        .find(|line| line.starts_with("40.000 start 3 "))
        .unwrap();
    let nodes = odd
        .split(' ')
        .skip(3)
        .map(|share| share.split(':').next().unwrap());
    assert_eq!(nodes.collect::<Vec<_>>(), ["n1", "n2"], "{odd}");
}

#[test]
fn load_is_what_jobs_want_over_what_there_is() {
    let jobs = [
        (0, 100, 8, "a"),
        (100, 100, 4, "a"),
        (400, 0, 1, "a"),
        (400, 100, 4, "a"),
    ];
    let recorded = run(&trace(&jobs), &Setup::new(1, 8), "").0;
    assert_eq!(recorded.load_permille, 1600 * 1000 / (400 * 8));
    assert_eq!(recorded.left_out["did not run"], 1);
    let setup = Setup {
        load_permille: Some(1000),
        ..Setup::new(1, 8)
    };
    let (scaled, log) = run(&trace(&jobs), &setup, "");
    assert_eq!(scaled.load_permille, 1000);
    assert!(
        log.contains("\n50.000 submit 2 a\n") && log.contains("\n200.000 submit 3 a\n"),
        "{log}"
    );
    let at_once = trace(&[(0, 1, 1, "a"), (0, 1, 1, "a")]);
    let refused = replay(at_once, &setup, Vec::new(), None).unwrap_err();
    assert!(matches!(refused, BadReplay::NoSpan));
}

#[test]
fn limits_are_as_asked_for() {
    let limits = |limits, seed| {
        let mut trace = trace(&[(0, 200, 1, "a"), (0, 301, 1, "a"), (0, 9_000_000, 1, "a")]);
        let setup = Setup {
            limits,
            seed,
            ..Setup::new(1, 8)
        };
        setup::set_limits(&mut trace, &setup);
        let secs = |job: &TraceJob| match job.limit.unwrap() {
            TimeLimit::Secs(secs) => secs,
            TimeLimit::Unlimited => 0,
        };
        trace.jobs.iter().map(secs).collect::<Vec<_>>()
    };
    assert_eq!(limits(Limits::Recorded, 1), [300, 900, 9_000_000]);
    assert_eq!(limits(Limits::Exact, 1), [200, 301, 9_000_000]);
    assert_eq!(
        limits(Limits::Longest, 1),
        [8_640_000, 8_640_000, 9_000_000]
    );
    let drawn = limits(Limits::Random, 1);
    assert_eq!(drawn, limits(Limits::Random, 1));
    assert_ne!(
        (2..20)
            .map(|seed| limits(Limits::Random, seed))
            .find(|other| *other != drawn),
        None
    );
    assert!(
        drawn
            .iter()
            .zip([200, 301, 9_000_000])
            .all(|(limit, run)| *limit >= run),
        "{drawn:?}"
    );
}

/// Anything at all, in small.
fn any_trace(seed: u64) -> Trace {
    let mut rng = Rng::new(seed);
    let jobs: Vec<(u64, u64, u32, &str)> = (0..rng.between(1, 120))
        .map(|_| {
            let gpus = [0, 1, 1, 1, 2, 3, 4, 8, 12, 16, 24][rng.small(0, 10) as usize];
            let user = ["a", "b", "c"][rng.small(0, 2) as usize];
            (rng.between(0, 20_000), rng.between(1, 9000), gpus, user)
        })
        .collect();
    trace(&jobs)
}

#[test]
fn the_same_input_gives_the_same_bytes_and_everybody_starts() {
    let script = "10:00 node n1 lost\n1:00:00 node n1 back\n30:00 gpu n2:3 sick\n1:00 launch n3 fails\n\
                  2:00:00 launch n3 works\n2:00:00 gpu n2:3 well\n0 kill n3 takes 5:00\n";
    for seed in 0..10 {
        let setup = Setup {
            limits: Limits::Random,
            load_permille: (seed % 2 == 0).then_some(900),
            seed,
            ..Setup::new(3, 8)
        };
        let trace = any_trace(seed);
        let (first, log) = run(&trace, &setup, script);
        let again = run(&trace, &setup, script);
        assert_eq!((&first, &log), (&again.0, &again.1));
        assert_eq!(first.never_started, 0, "seed {seed}\n{log}");
        assert!(first.allocated <= 100_000 && first.broken <= 100_000);
        let hash = log.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        assert_eq!(first.hash, hash);
    }
}

#[test]
fn a_log_that_cannot_be_written_is_an_error() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let failed = replay(
        trace(&[(0, 1, 1, "a")]),
        &Setup::new(1, 8),
        Vec::new(),
        Some(&mut Full),
    );
    assert_eq!(
        failed.unwrap_err().to_string(),
        "cannot write the log: disk full"
    );
}

#[test]
fn table_csv_and_picture_say_the_same() {
    let (report, _) = run(
        &trace(&[(0, 7200, 8, "a"), (0, 60, 16, "a")]),
        &Setup::new(2, 8),
        "",
    );
    let table = report.table();
    assert!(
        table.starts_with("2 jobs on 2 nodes with 16 GPUs, offered load 0.000\n"),
        "{table}"
    );
    assert!(
        table.contains("\n>=16 GPUs              1      0.00"),
        "{table}"
    );
    assert_eq!(report.csv().lines().count(), 1 + report.rows().len());
    assert!(report.csv().contains("\nall,2,0."), "{}", report.csv());
    let svg = report.svg();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("&gt;=16 GPUs"), "{svg}");
    assert_eq!(decimal(3599, 3600, 2), "0.99");
}

/// The Philly trace's first days at its own cluster's load, if it is there: neither small nor large jobs are starved.
#[test]
fn a_piece_of_the_philly_trace() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../shared/traces/philly/philly_jobs_82k.csv"
    );
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: {path} is not there");
        return;
    };
    let mut trace = Trace::read(path, &text).unwrap();
    assert_eq!(trace.jobs.len(), 82_247);
    assert_eq!(setup::offered_permille(&trace, 512), Some(730));
    trace.jobs.truncate(600);
    let setup = Setup {
        load_permille: Some(800),
        ..Setup::new(8, 8)
    };
    let report = replay(trace, &setup, Vec::new(), None).unwrap();
    assert_eq!(report.never_started, 0);
    assert!(report.all.jobs > 550, "{}", report.table());
}

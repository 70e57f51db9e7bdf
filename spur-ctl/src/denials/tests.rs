use super::rows::ALL_ROWS_MAX;
use super::*;
use spur_core::denial::{DenialKey, DenialReason, DenialRow, ROWS_MAX};
use spur_core::id::{Generation, Uid};
use spur_core::time::Millis;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn denial(job: u32, at: u64) -> Denial {
    Denial {
        at: Millis(at),
        node: node("liar"),
        job: JobId(job),
        pid: 1,
        uid: Uid(1),
        command: "c".into(),
        major: 1,
        minor: 2,
        device: String::new(),
        op: DeviceOp::Read,
        seq: 0,
        reason: DenialReason::NotGranted,
        target_pid: None,
        object: String::new(),
        noted: false,
        label: None,
    }
}

fn row(minor: u32, total: u64) -> DenialRow {
    DenialRow {
        key: DenialKey {
            major: 226,
            minor,
            device: String::new(),
            op: DeviceOp::Read,
            reason: DenialReason::NotGranted,
            noted: false,
            label: None,
        },
        total,
    }
}

fn rows(job: u32, generation: u64, since: u64, rows: Vec<DenialRow>) -> JobRows {
    JobRows {
        job: JobId(job),
        generation: Generation(generation),
        since: Millis(since),
        rows,
    }
}

fn totals(denials: &Denials, job: u32) -> Vec<(String, Vec<(u32, u64)>)> {
    let shown = denials.rows(JobId(job)).into_iter().map(|on| {
        let rows = on.rows.iter().map(|row| (row.key.minor, row.total));
        (on.node.as_str().to_owned(), rows.collect())
    });
    shown.collect()
}

fn of(denials: &Denials, job: u32) -> Vec<Denial> {
    denials.lines(Some(JobId(job)), 0, usize::MAX, |_| true)
}

fn all(denials: &Denials, limit: usize) -> Vec<Denial> {
    denials.lines(None, 0, limit, |_| true)
}

#[test]
fn a_flood_by_one_job_costs_bounded_memory_and_hides_nobody_else() {
    let denials = Denials::default();
    let n1 = node("n1");
    denials.add(&n1, vec![denial(1, 0)]);
    for chunk in 0..200 {
        denials.add(
            &n1,
            (0..1000).map(|n| denial(2, chunk * 1000 + n)).collect(),
        );
    }
    assert_eq!(of(&denials, 1).len(), 1);
    let newest = of(&denials, 2);
    assert_eq!(
        (newest.len(), newest[JOB_MAX - 1].at),
        (JOB_MAX, Millis(199_999))
    );
    assert_eq!(all(&denials, 3)[0].at, Millis(199_997));
    assert_eq!(newest[0].node, n1, "a node speaks only for itself");
    // Many jobs: those that have most lose first.
    for job in 3..3 + u32::try_from(ALL_MAX / 10).unwrap() {
        denials.add(&n1, (0..20).map(|n| denial(job, n)).collect());
    }
    assert_eq!(all(&denials, usize::MAX).len(), ALL_MAX);
    assert_eq!(
        of(&denials, 1).len(),
        1,
        "one line is safe from jobs with many"
    );
    assert!(of(&denials, 2).len() < 20 && of(&denials, 2)[0].at > Millis(199_900));
    denials.forget(JobId(3));
    assert!(of(&denials, 3).is_empty());
}

#[test]
fn a_follower_sees_each_line_once() {
    let denials = Denials::default();
    let n1 = node("n1");
    let mut seen = Vec::new();
    let mut after = 0;
    for round in 0..5 {
        denials.add(
            &n1,
            (0..30)
                .map(|n| denial(1 + n % 2, u64::from(round * 100 + n)))
                .collect(),
        );
        loop {
            // At most 7 at a time: the rest is not skipped.
            let found = denials.lines(None, after.max(1), 7, |_| true);
            let Some(last) = found.last() else { break };
            after = last.seq;
            seen.extend(found);
        }
    }
    assert!(seen.iter().map(|denial| denial.seq).eq(2..=150));
    assert_eq!(denials.lines(Some(JobId(1)), 140, 100, |_| true).len(), 5);
    assert!(denials.lines(None, u64::MAX, 1, |_| true).is_empty());
}

#[test]
fn texts_of_nodes_forge_no_line() {
    let denials = Denials::default();
    let forged = Denial {
        command: "x\nDenied=never\u{1b}[2J".into(),
        device: "/dev/".to_owned() + &"é".repeat(TEXT_MAX),
        ..denial(1, 1)
    };
    denials.add(&node("n1"), vec![forged]);
    let shown = of(&denials, 1).swap_remove(0);
    assert_eq!(shown.command, "x?Denied_never?[2J");
    assert!(shown.device.len() <= TEXT_MAX);
}

#[test]
fn rows_add_up_over_agents_and_begin_anew_with_each_placement() {
    let denials = Denials::default();
    let (n1, n2) = (node("n1"), node("n2"));
    denials.add_rows(&n1, vec![rows(1, 5, 10, vec![row(0, 2), row(1, 7)])]);
    denials.add_rows(&n1, vec![rows(1, 5, 10, vec![row(0, 3), row(1, 7)])]);
    denials.add_rows(&n2, vec![rows(1, 5, 11, vec![row(9, 1)])]);
    let n1_says = |totals| ("n1".to_owned(), totals);
    let n2_says = ("n2".to_owned(), vec![(9, 1)]);
    assert_eq!(
        totals(&denials, 1),
        [n1_says(vec![(1, 7), (0, 3)]), n2_says.clone()]
    );
    // A restarted agent counts from nothing.
    denials.add_rows(&n1, vec![rows(1, 5, 20, vec![row(0, 1)])]);
    denials.add_rows(&n1, vec![rows(1, 5, 10, vec![row(0, 99)])]);
    denials.add_rows(&n1, vec![rows(1, 5, 20, vec![row(0, 100)])]);
    assert_eq!(
        totals(&denials, 1),
        [n1_says(vec![(0, 103), (1, 7)]), n2_says]
    );
    denials.add_rows(&n1, vec![rows(1, 6, 20, vec![row(4, 1)])]);
    denials.add_rows(&n2, vec![rows(1, 5, 11, vec![row(9, 2)])]);
    assert_eq!(
        totals(&denials, 1),
        [n1_says(vec![(4, 1)])],
        "the newest placement counts"
    );
    denials.forget(JobId(1));
    assert!(totals(&denials, 1).is_empty());
}

#[test]
fn rows_are_bounded_in_all() {
    let denials = Denials::default();
    let n1 = node("n1");
    for job in 0..5000 {
        let many = (0..100).map(|minor| row(minor, 1)).collect();
        denials.add_rows(&n1, vec![rows(job, 1, 1, many)]);
    }
    let kept: usize = (0..5000)
        .map(|job| {
            denials
                .rows(JobId(job))
                .iter()
                .map(|on| on.rows.len())
                .sum::<usize>()
        })
        .sum();
    assert_eq!(kept, ALL_ROWS_MAX / ROWS_MAX * ROWS_MAX);
    denials.forget(JobId(0));
    denials.add_rows(&n1, vec![rows(9999, 1, 1, vec![row(1, 1)])]);
    assert_eq!(denials.rows(JobId(9999)).len(), 1, "room comes back");
}

/// What is shown is on disk.
#[test]
fn what_was_shown_is_there_again_unless_its_job_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("denials.db");
    let n1 = node("n1");
    let first = Denials::open(&path, |_| true).unwrap();
    first.add(&n1, (0..500).map(|n| denial(1, n)).collect());
    first.add(&n1, vec![denial(2, 1), denial(3, 1), denial(0, 1)]);
    first.add_rows(
        &n1,
        vec![
            rows(1, 1, 1, vec![row(0, 500)]),
            rows(3, 1, 1, vec![row(0, 1)]),
        ],
    );
    first.forget(JobId(2));
    let shown = all(&first, usize::MAX);
    first.close();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(
        mode & 0o777,
        0o600,
        "users' device use is nobody else's business"
    );

    let second = Denials::open(&path, |job| job != JobId(3)).unwrap();
    let again = all(&second, usize::MAX);
    assert_eq!(again.len(), JOB_MAX + 1, "and that of no job");
    assert!(
        shown
            .iter()
            .all(|denial| again.contains(denial) || denial.job == JobId(3))
    );
    assert_eq!(totals(&second, 1), [("n1".to_owned(), vec![(0, 500)])]);
    assert!(totals(&second, 3).is_empty());
    for job in 0..2 {
        second.forget(JobId(job));
    }
    second.close();

    let third = Denials::open(&path, |_| true).unwrap();
    assert!(all(&third, usize::MAX).is_empty());
    third.add(&n1, vec![denial(1, 1)]);
    wait_until_shown(&third, 504);
    assert_eq!(all(&third, 1)[0].seq, 504, "no number twice");
}

fn wait_until_shown(denials: &Denials, seq: u64) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while *denials.watch().borrow() < seq {
        assert!(std::time::Instant::now() < until, "line {seq} is not shown");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_million_refusals_cost_bounded_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("denials.db");
    let denials = Denials::open(&path, |_| true).unwrap();
    let n1 = node("n1");
    for chunk in 0..1000u64 {
        let line = |n| denial(u32::try_from(n % 20).unwrap(), chunk * 1000 + n);
        denials.add(&n1, (0..1000).map(line).collect());
    }
    wait_until_shown(&denials, 1_000_000);
    denials.close();
    assert_eq!(all(&denials, usize::MAX).len(), 20 * JOB_MAX);
    let size: u64 = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size < 16 << 20, "{size} bytes for 4000 lines");
}

#[test]
fn a_broken_database_is_set_aside_and_a_newer_one_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("denials.db");
    std::fs::write(
        &path,
        "no database at all, but long enough to be read as one".repeat(100),
    )
    .unwrap();
    let denials = Denials::open(&path, |_| true).unwrap();
    denials.add(&node("n1"), vec![denial(1, 1)]);
    wait_until_shown(&denials, 1);
    drop(denials);
    assert!(dir.path().join("denials.db.bad").exists());
    assert_eq!(all(&Denials::open(&path, |_| true).unwrap(), 9).len(), 1);

    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE meta SET value = 99 WHERE key = 'version'", [])
        .unwrap();
    drop(db);
    let refused = Denials::open(&path, |_| true).unwrap_err();
    assert!(refused.to_string().contains("has version 99"), "{refused}");
}

/// No folder, no database: refusals are shown all the same.
#[test]
fn without_a_disk_lines_are_in_memory() {
    let denials = Denials::open(Path::new("/nonexistent/denials.db"), |_| true).unwrap();
    denials.add(&node("n1"), vec![denial(1, 1)]);
    assert_eq!(all(&denials, 9).len(), 1);
}

#[test]
fn a_command_cannot_forge_fields_lines_or_the_order_of_letters() {
    for (given, shown) in [
        ("train", "train"),
        ("pt_main_thread", "pt_main_thread"),
        ("Web Content", "Web_Content"),
        ("a JobId=1 Op=x", "a_JobId_1_Op_x"),
        ("a\nb\u{1b}[2J", "a?b?[2J"),
        ("a\u{202e}b\u{200b}c\u{2028}d", "a?b?c_d"),
    ] {
        let mut text = given.to_owned();
        clean(&mut text);
        assert_eq!(text, shown);
    }
}

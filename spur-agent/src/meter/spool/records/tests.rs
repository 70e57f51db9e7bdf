use super::*;
use spur_core::id::JobId;
use spur_core::time::Millis;
use spur_core::usage::words::UsageEvent;

fn event(number: u32) -> UsageRecord {
    UsageRecord::Event(UsageEvent {
        at: Millis(0),
        job: Some(JobId(number)),
        gpu: None,
        what: UsageEventKind::Busy,
    })
}

fn numbers(records: &Records) -> Vec<u64> {
    records
        .after(0, usize::MAX)
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn records_live_until_they_are_acknowledged_and_numbers_are_never_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records");
    let mut records = Records::open(&path, "one").unwrap();
    records.add((1..=3).map(event));
    records.acked(2);
    drop(records);
    let mut records = Records::open(&path, "two").unwrap();
    assert_eq!((records.id(), numbers(&records)), ("one", vec![3]));
    assert_eq!(records.after(0, 9).next().unwrap().1, &event(3));
    records.acked(3);
    assert!(records.is_empty());
    drop(records);
    let mut records = Records::open(&path, "three").unwrap();
    records.add([event(4)]);
    assert_eq!((records.id(), numbers(&records)), ("one", vec![4]));
    assert_eq!(records.after(4, 9).count(), 0);
}

#[test]
fn a_writer_that_dies_at_any_byte_loses_no_whole_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records");
    let mut records = Records::open(&path, "one").unwrap();
    let mut lengths = vec![records.bytes()];
    for number in 1..=3 {
        records.add([event(number)]);
        lengths.push(records.bytes());
    }
    drop(records);
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut records = Records::open(&path, "two").unwrap();
        let kept = lengths
            .iter()
            .filter(|length| **length <= cut as u64)
            .count()
            .saturating_sub(1);
        assert_eq!(records.waiting.len(), kept, "cut at {cut}");
        records.add([event(9)]);
        assert_eq!(numbers(&records).last(), Some(&(kept as u64 + 1)));
    }
}

#[test]
fn a_full_disk_loses_nothing_until_the_bound_and_events_go_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records");
    let mut records = Records::open(&path, "one").unwrap();
    // A file that cannot be written stands for a disk that is full.
    let good = std::mem::replace(&mut records.file, File::read_only(&path));
    records.add((0..10_100).map(event));
    assert_eq!(
        (records.unwritten.len(), records.dropped()),
        (UNWRITTEN_MAX, 100)
    );
    assert!(records.is_behind() && numbers(&records).is_empty());
    records.file = good;
    records.write();
    assert!(!records.is_behind());
    assert_eq!(numbers(&records), (1..=10_000).collect::<Vec<_>>());
}

/// A file system of 64 KiB, unmounted at the end.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().ok()?;
        let mut mount = std::process::Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=64k", "none"])
            .arg(dir.path());
        let mounted = mount.stderr(std::process::Stdio::null()).status();
        mounted
            .is_ok_and(|status| status.success())
            .then(|| Self(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        std::process::Command::new("umount")
            .arg(self.0.path())
            .status()
            .ok();
    }
}

#[test]
fn a_disk_that_is_full_and_then_is_not_has_every_record_once() {
    let Some(small) = Small::new() else {
        eprintln!("skipped: nothing can be mounted here");
        return;
    };
    let path = small.0.path().join("records");
    let filler = small.0.path().join("filler");
    let mut records = Records::open(&path, "one").unwrap();
    records.add((1..=5).map(event));
    // What fits of it fits.
    std::fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    records.add((6..=200).map(event));
    assert!(records.is_behind());
    let durable = numbers(&records).len();
    std::fs::remove_file(&filler).unwrap();
    records.write();
    assert!(!records.is_behind() && durable < 200);
    assert_eq!(numbers(&records), (1..=200).collect::<Vec<_>>());
    drop(records);
    let records = Records::open(&path, "two").unwrap();
    assert_eq!(numbers(&records), (1..=200).collect::<Vec<_>>());
}

#[test]
fn what_is_no_spool_is_set_aside_and_metering_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("records");
    std::fs::write(&path, "no spool, whatever it is").unwrap();
    let mut records = Records::open(&path, "new").unwrap();
    records.add([event(1)]);
    assert_eq!((records.id(), numbers(&records)), ("new", vec![1]));
    let aside = std::fs::read(path.with_extension("bad")).unwrap();
    assert_eq!(aside, b"no spool, whatever it is");
}

use super::*;
use crate::meter::outlet::Moment;
use crate::meter::testing::{count, level};
use crate::meter::window::sorted;
use spur_core::time::Millis;
use spur_core::usage::codec::Decoder;
use spur_core::usage::metric::Value;

fn reading(second: u64, series: u32) -> Reading {
    let values = (0..series).flat_map(|gpu| {
        [
            count(gpu, second * 97),
            level(gpu, i64::try_from(second).unwrap()),
        ]
    });
    Reading {
        moment: Moment {
            at: Millis(second * 1000),
            uptime: second * 1000,
        },
        span: 10_000,
        values: sorted(values.collect()),
    }
}

/// Decodes all that is there, oldest first, removing it.
fn drain(segments: &mut Segments) -> Vec<(u64, u64)> {
    let mut told = Vec::new();
    let (mut decoder, mut sequence) = (Decoder::default(), 0);
    while let Some((number, batches)) = segments.oldest() {
        for batch in batches {
            assert!(batch.late);
            sequence += 1;
            decoder
                .decode(&Batch {
                    sequence,
                    ..batch.clone()
                })
                .unwrap();
            let counted = decoder.current().find_map(|(key, value)| match value {
                Value::Count(count) if key == self::count(0, 0).0 => Some(count),
                Value::Count(_) | Value::Level { .. } => None,
            });
            told.push((batch.uptime / 1000, counted.unwrap()));
        }
        segments.remove(number);
    }
    told
}

#[test]
fn what_was_kept_comes_back_after_a_restart_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = Segments::open(dir.path(), 1 << 20).unwrap();
    (1..50).for_each(|second| segments.add(reading(second, 2)));
    drop(segments);
    let mut segments = Segments::open(dir.path(), 1 << 20).unwrap();
    (50..60).for_each(|second| segments.add(reading(second, 2)));
    let told = drain(&mut segments);
    assert_eq!(
        told,
        (1..60)
            .map(|second| (second, second * 97))
            .collect::<Vec<_>>()
    );
    assert!(segments.is_empty() && segments.bytes() == 0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn room_is_bounded_and_what_is_lost_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let room = 64 << 10;
    let mut segments = Segments::open(dir.path(), room).unwrap();
    for second in 1..2000 {
        segments.add(reading(second, 20));
        assert!(segments.bytes() <= room, "{}", segments.bytes());
    }
    let lost = segments.take_lost();
    let left = drain(&mut segments);
    assert_eq!(lost / 10_000 + left.len() as u64, 1999);
    assert!(lost > 0 && left.last() == Some(&(1999, 1999 * 97)));
    assert_eq!(segments.take_lost(), 0);
}

#[test]
fn a_file_that_was_cut_anywhere_gives_what_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = Segments::open(dir.path(), 1 << 20).unwrap();
    (1..4).for_each(|second| segments.add(reading(second, 1)));
    let path = segments.path(1);
    drop(segments);
    let whole = std::fs::read(&path).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for length in 0..=whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let mut segments = Segments::open(dir.path(), 1 << 20).unwrap();
        let told = drain(&mut segments);
        assert!(
            told.iter()
                .zip(1..)
                .all(|((second, _), expected)| *second == expected),
            "{told:?}"
        );
        seen.insert(told.len());
    }
    assert_eq!(seen, (0..=3).collect());
}

#[test]
fn without_a_disk_the_last_hour_is_kept_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut segments = Segments::open(dir.path(), 1 << 20).unwrap();
    segments.add(reading(1, 1));
    let away = dir.path().with_extension("away");
    std::fs::rename(dir.path(), &away).unwrap();
    segments.open = None;
    (2..80).for_each(|second| segments.add(reading(second, 1)));
    assert_eq!(segments.memory.len(), MEMORY_MAX);
    assert_eq!(segments.take_lost(), 18 * 10_000);
    std::fs::rename(&away, dir.path()).unwrap();
    segments.add(reading(80, 1));
    assert!(segments.memory.is_empty());
    assert_eq!(drain(&mut segments).len(), 62);
}

use super::*;
use crate::fixture::{World, batch, gang};

fn class(gpus: u32, cpus: u64) -> Class {
    Class {
        gpus,
        milli: 1_000,
        cpu_milli: cpus * 1_000,
        memory_mib: 1_000,
        models: String::new(),
    }
}

const DAY: u64 = DAY_MS;

#[test]
fn what_is_typical_changes_only_when_much_is_new() {
    let mut mix = Mix::default();
    for _ in 0..15 {
        mix.observe(Millis(0), class(1, 4), 1);
    }
    assert_eq!((mix.version(), mix.typical().len()), (0, 0));
    mix.observe(Millis(0), class(1, 4), 1);
    assert_eq!((mix.version(), mix.typical().len()), (1, 1));
    mix.observe(Millis(0), class(8, 64), 200);
    assert_eq!(mix.version(), 2);
    assert_eq!(mix.typical()[0].class.gpus, 8, "most frequent first");
    mix.observe(Millis(0), class(2, 8), 10);
    assert_eq!(mix.version(), 2);
}

#[test]
fn half_is_left_after_a_week() {
    let mut mix = Mix::default();
    mix.observe(Millis(0), class(1, 4), 100);
    mix.observe(Millis(7 * DAY), class(2, 4), 1);
    let old = mix.classes.iter().find(|known| known.class.gpus == 1);
    let left = old.unwrap().weight;
    assert!((49 * PART..=51 * PART).contains(&left), "{left}");
    mix.observe(Millis(400 * DAY), class(2, 4), 1);
    assert_eq!(
        mix.classes.len(),
        1,
        "what nobody asks for any more is forgotten"
    );
}

#[test]
fn the_table_is_bounded_and_keeps_what_is_frequent() {
    let mut mix = Mix::default();
    mix.observe(Millis(0), class(1, 4), 50);
    for gpus in 2..2_000 {
        mix.observe(Millis(0), class(gpus, 4), 1);
    }
    assert_eq!(mix.classes.len(), CLASSES_MAX);
    assert!(mix.typical().len() <= TYPICAL_MAX);
    assert!(mix.classes.iter().any(|known| known.class.gpus == 1));
    assert!(mix.classes.is_sorted_by(|a, b| a.class < b.class));
}

#[test]
fn requests_that_differ_little_are_one_class_and_never_a_smaller_one() {
    let mut mix = Mix::default();
    for cpus in [11, 12] {
        mix.observe(Millis(0), class(1, cpus), 1);
    }
    assert_eq!(mix.classes.len(), 1);
    for value in (0..5_000).chain([u64::MAX / 4, u64::MAX]) {
        let rounded = round_up(value);
        assert!(rounded >= value && rounded - value <= value / 4, "{value}");
    }
}

#[test]
fn parts_without_gpus_are_not_counted() {
    let mut mix = Mix::default();
    mix.observe(Millis(0), class(0, 4), 1_000);
    assert_eq!(mix, Mix::default());
}

#[test]
fn submissions_teach_the_cluster_by_the_part_that_a_node_gets() {
    let mut world = World::new(2, 8);
    for _ in 0..8 {
        world.submit(gang(2, 4));
    }
    let typical = world.cluster.mix.typical();
    assert_eq!(typical.len(), 1);
    assert_eq!(typical[0].class.gpus, 4);
    assert_eq!(
        typical[0].weight,
        16 * PART,
        "a gang counts for each of its nodes"
    );
    world.submit(batch());
    assert_eq!(world.cluster.mix.classes.len(), 1, "no GPUs asked for");
}

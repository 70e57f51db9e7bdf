use super::*;
use proptest::prelude::*;

fn set(indices: &[u32]) -> TaskSet {
    indices.iter().copied().collect()
}

#[test]
fn lists_are_shown_as_slurm_shows_them() {
    let range = |first, last, step| {
        let mut set = TaskSet::new();
        set.insert_range(first, last, step);
        set
    };
    for (tasks, text) in [
        (range(2, 19, 1), "2-19"),
        (set(&[1, 3, 5, 7, 9]), "1,3,5,7,9"),
        (range(0, 20, 2), "0-20:2"),
        (range(0, 10, 2), "0,2,4,6,8,10"),
        (set(&[0, 1, 2, 4]), "0-2,4"),
        (TaskSet::new(), ""),
    ] {
        assert_eq!(tasks.shown(SHOWN_DEFAULT), text);
    }
    let mut uneven = range(0, 4000, 3);
    uneven.insert(1);
    let cut = uneven.shown(SHOWN_DEFAULT);
    assert!(cut.len() < SHOWN_DEFAULT && cut.ends_with("..."), "{cut}");
    assert!(uneven.shown(0).ends_with(",3999"));
}

#[test]
fn records_are_named_by_what_they_stand_for() {
    let mut array = ArrayView {
        job: JobId(9),
        task: None,
        tasks: (2..20).collect(),
        throttle: 2,
    };
    assert_eq!(array.id_text(SHOWN_DEFAULT), "9_[2-19%2]");
    assert_eq!((array.len(), array.has_any(&set(&[1, 19]))), (18, true));
    array.task = Some(3);
    assert_eq!(array.id_text(SHOWN_DEFAULT), "9_3");
    assert_eq!((array.len(), array.has_any(&set(&[1, 19]))), (1, false));
}

#[test]
fn a_great_array_is_a_small_value() {
    let mut tasks = TaskSet::new();
    tasks.insert_range(0, u32::MAX, 1);
    assert_eq!(tasks.len(), MAX_ARRAY_SIZE_MAX);
    assert_eq!(tasks.last(), Some(MAX_ARRAY_SIZE_MAX - 1));
    assert!(tasks.words().len() < 63_000);
    assert_eq!(TaskSet::from_words(vec![1; 100_000]), None);
}

proptest! {
    #[test]
    fn sets_are_sets(a in proptest::collection::btree_set(0u32..300, 0..40), b in proptest::collection::btree_set(0u32..300, 0..40)) {
        let of = |from: &std::collections::BTreeSet<u32>| from.iter().copied().collect::<TaskSet>();
        let (x, y) = (of(&a), of(&b));
        prop_assert_eq!(x.common(&y), of(&a.intersection(&b).copied().collect()));
        prop_assert_eq!(x.without(&y), of(&a.difference(&b).copied().collect()));
        prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!((x.first(), x.last()), (a.first().copied(), a.last().copied()));
        let mut all = x.clone();
        all.extend(&y);
        prop_assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>(), a.union(&b).copied().collect());
        for index in &b {
            all.remove(*index);
        }
        prop_assert_eq!(all, x.without(&y));
    }
}

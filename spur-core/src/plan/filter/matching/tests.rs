use super::{Matching, of_each_kind};
use crate::plan::bits::Bits;
use proptest::prelude::*;

fn bits(len: usize, set: impl IntoIterator<Item = usize>) -> Bits {
    let mut bits = Bits::none(len);
    set.into_iter().for_each(|at| bits.set(at));
    bits
}

/// Whether there is a way, by trying all.
fn possible(sets: &[u8], counts: &[usize], free: u8) -> bool {
    let Some((count, others)) = counts.split_first() else {
        return true;
    };
    let mine = sets[0] & free;
    let chosen = (0..=u8::MAX).filter(|chosen| chosen & !mine == 0);
    let mut chosen = chosen.filter(|chosen| chosen.count_ones() as usize == *count);
    chosen.any(|chosen| possible(&sets[1..], others, free & !chosen))
}

proptest! {
    #[test]
    fn a_number_of_each_kind_is_found_if_it_is_there(
        kinds in proptest::collection::vec((any::<u8>(), 0usize..4), 0..5), fits: u8,
    ) {
        let (sets, numbers): (Vec<u8>, Vec<usize>) = kinds.iter().copied().unzip();
        let nodes = |set: u8| bits(8, (0..8).filter(move |at| set & 1 << at != 0));
        let counts: Vec<_> = kinds.iter().map(|(set, count)| (nodes(*set), *count)).collect();
        let mut tried = [0; 8];
        let found = of_each_kind(&counts, |at| {
            tried[at] += 1;
            fits & 1 << at != 0
        });
        prop_assert!(tried.iter().all(|times| *times <= 1));
        prop_assert_eq!(found.is_some(), possible(&sets, &numbers, fits));
        if let Some(found) = found {
            prop_assert_eq!(found.len(), numbers.iter().sum::<usize>());
            let of = found.iter().fold(0u8, |set, at| set | 1 << at);
            prop_assert_eq!(of.count_ones() as usize, found.len(), "each once");
            prop_assert!(found.is_sorted() && of & !fits == 0);
            prop_assert!(possible(&sets, &numbers, of), "each for one number");
        }
    }
}

#[test]
fn it_takes_steps_in_the_number_of_nodes() {
    let nodes = 10_000;
    let all = || bits(nodes, 0..nodes);
    let half = || bits(nodes, 0..nodes / 2);
    let one = || bits(nodes, [0]);
    // All of the nodes that the later kinds can have go to the first.
    let cases = [
        (vec![(all(), nodes - 1), (half(), 1)], true),
        (vec![(all(), nodes / 2), (half(), nodes / 2)], true),
        (
            vec![(all(), nodes / 2), (half(), nodes / 2), (one(), 1)],
            false,
        ),
        (
            vec![(all(), nodes / 2), (half(), nodes / 2 - 1), (one(), 1)],
            true,
        ),
    ];
    for (wanted, met) in cases {
        let (found, steps) = Matching::new(&wanted, |_| true, bits(nodes, [])).all();
        assert_eq!(found.is_some(), met);
        assert!(steps <= 20 * nodes, "{steps}");
    }
}

#[test]
fn sixty_four_kinds_in_a_chain_are_no_trouble() {
    // Each kind has its own nodes and those of the kind before, and the first to choose takes the others'.
    let (kinds, each) = (64, 100);
    let nodes = kinds * each;
    let kind = |kind: usize| {
        let first = kind.saturating_sub(1) * each;
        (bits(nodes, first..(kind + 1) * each), each)
    };
    let wanted: Vec<_> = (0..kinds).rev().map(kind).collect();
    let (found, steps) = Matching::new(&wanted, |_| true, bits(nodes, [])).all();
    assert_eq!(found.map(|found| found.len()), Some(nodes));
    // A search between all kinds for each node that is moved.
    assert!(steps <= nodes * kinds * kinds, "{steps}");
}

#[test]
fn a_number_of_any_size_costs_nothing() {
    let most = u32::MAX as usize;
    for wanted in [
        vec![(bits(8, 0..8), most)],
        vec![(bits(8, 0..8), 5), (bits(8, 0..8), 4)],
        vec![(bits(8, 0..8), usize::MAX), (bits(8, 0..8), usize::MAX)],
        vec![(bits(0, []), 1)],
    ] {
        let tries = |_| -> bool { unreachable!("too few, whatever fits") };
        assert_eq!(of_each_kind(&wanted, tries), None);
    }
}

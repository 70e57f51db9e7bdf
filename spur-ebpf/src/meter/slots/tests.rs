use super::*;
use crate::meter::Covered;
use proptest::prelude::*;

/// Everything counts.
fn all() -> Coverage {
    let covered = || Covered::Counted {
        typed: true,
        adopted: false,
        note: None,
    };
    Coverage(Source::ALL.map(|source| (source, covered())).into())
}

proptest! {
    /// Whatever ticks and slices come, no time goes back, and the parts add up to the whole.
    #[test]
    fn times_never_go_back_and_add_up(steps in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40), 1..50)) {
        let (mut said, mut raw, mut last) = (Said::default(), RawMeterSlot::default(), Said::default());
        for (cpu, user, system, in_flight) in steps {
            raw.cpu_ns += cpu;
            raw.user_ns += user;
            raw.system_ns += system;
            let counts = said.counts(&raw, in_flight, &all());
            prop_assert_eq!(counts.cpu_ns, Some(said.cpu_ns));
            prop_assert!(said.cpu_ns >= last.cpu_ns && said.cpu_ns >= raw.cpu_ns);
            prop_assert!(said.user_ns >= last.user_ns && said.system_ns >= last.system_ns);
            if raw.user_ns + raw.system_ns > 0 {
                prop_assert_eq!(counts.user_ns.zip(counts.system_ns).map(|(a, b)| a + b), counts.cpu_ns);
            }
            last = said;
        }
    }
}

#[test]
fn what_is_not_counted_is_missing_and_not_zero() {
    let none = Said::default().counts(&RawMeterSlot::default(), 0, &Coverage::default());
    assert_eq!(none, Counts::default());
    let counted = Said::default().counts(&RawMeterSlot::default(), 0, &all());
    assert_eq!((counted.cpu_ns, counted.oom_kills), (Some(0), Some(0)));
    assert_eq!(
        (counted.user_ns, counted.system_ns),
        (None, None),
        "no tick has come"
    );
}

#[test]
fn slices_that_are_under_way_are_summed_by_place() {
    let place = RawMeterPlace {
        slot: 3,
        generation: 9,
    };
    let since_ns = (sys::monotonic_ns() - 5_000_000_000) & !SLOT_MASK;
    let slice = Slice { place, since_ns };
    let found = in_flight(&[slice, slice]);
    let ns = found[&place];
    assert!((9_990_000_000..20_000_000_000).contains(&ns), "{ns}");
}

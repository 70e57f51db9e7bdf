use super::*;
use proptest::prelude::*;

type Table = (Majors, Devices);

/// What a lookup may answer while the maps change: the entry, nothing, or both when it is being replaced.
#[derive(Clone, Default)]
struct Maps {
    majors: Majors,
    devices: Devices,
}

impl Maps {
    fn apply(&mut self, step: Step) {
        match step {
            Step::Major(major, CLASS_OPEN) => drop(self.majors.remove(&major)),
            Step::Major(major, class) => drop(self.majors.insert(major, class)),
            Step::Put(key, device) => drop(self.devices.insert(key, device)),
            Step::Delete(key) => drop(
                self.devices
                    .remove(&key)
                    .expect("only what is there is deleted"),
            ),
            Step::Wait => {}
        }
    }
}

fn fenced(table: &Table, key: RawDeviceKey) -> bool {
    match table.0.get(&key.major) {
        None => false,
        Some(&CLASS_LISTED) => table.1.contains_key(&key),
        Some(_) => true,
    }
}

/// Whether some program may find the device open: it read the class after step `i` and looked up after or during a step
/// `j >= i` with no wait between.
fn may_open(history: &[Maps], steps: &[Step], key: RawDeviceKey) -> bool {
    for (i, maps) in history.iter().enumerate() {
        match maps.majors.get(&key.major) {
            None => return true,
            Some(&CLASS_LISTED) => {}
            Some(_) => continue,
        }
        for (j, later) in history.iter().enumerate().skip(i) {
            if !later.devices.contains_key(&key) {
                return true;
            }
            match steps.get(j) {
                Some(Step::Wait) | None => break,
                Some(Step::Put(put, _)) if *put == key => return true,
                Some(_) => {}
            }
        }
    }
    false
}

/// Whether some program may refuse the device to a holder of a bit, likewise.
fn may_refuse(history: &[Maps], steps: &[Step], (key, bit): (RawDeviceKey, u32)) -> bool {
    let read = history.iter().enumerate();
    for (i, maps) in read {
        let class = maps.majors.get(&key.major);
        if class.is_none() {
            continue;
        }
        for (j, later) in history.iter().enumerate().skip(i) {
            let lets = match later.devices.get(&key) {
                Some(entry) => *entry == bit,
                None => class == Some(&CLASS_LISTED),
            };
            if !lets {
                return true;
            }
            if matches!(steps.get(j), Some(Step::Wait) | None) {
                break;
            }
        }
    }
    false
}

fn table() -> impl Strategy<Value = Table> {
    let majors = prop::collection::btree_map(
        0u32..3,
        prop_oneof![Just(CLASS_WHOLE), Just(CLASS_LISTED)],
        0..3,
    );
    let devices = prop::collection::btree_map((0u32..3, 0u32..3), 0u32..2, 0..6);
    (majors, devices).prop_map(|(majors, devices)| {
        let entry = |((major, minor), bit)| (RawDeviceKey { major, minor }, bit + 1);
        let devices = devices
            .into_iter()
            .map(entry)
            .filter(|(key, _)| majors.contains_key(&key.major))
            .collect();
        (majors, devices)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_fenced_before_and_after_is_never_open_between(old in table(), new in table()) {
        let steps = between(&old, &new);
        let mut maps = Maps { majors: old.0.clone(), devices: old.1.clone() };
        let mut history = vec![maps.clone()];
        for &step in &steps {
            maps.apply(step);
            history.push(maps.clone());
        }
        prop_assert_eq!(&maps.majors, &new.0);
        prop_assert_eq!(&maps.devices, &new.1);
        for major in 0..3 {
            for minor in 0..3 {
                let key = RawDeviceKey { major, minor };
                if fenced(&old, key) && fenced(&new, key) {
                    prop_assert!(!may_open(&history, &steps, key), "{:?} may open in {:?}", key, steps);
                }
            }
        }
    }

    #[test]
    fn who_may_open_a_device_before_and_after_is_never_refused_between(old in table(), new in table()) {
        let steps = between(&old, &new);
        let mut maps = Maps { majors: old.0.clone(), devices: old.1.clone() };
        let mut history = vec![maps.clone()];
        for &step in &steps {
            maps.apply(step);
            history.push(maps.clone());
        }
        for (major, minor, bit) in (0..27).map(|n| (n / 9, n / 3 % 3, n % 3)) {
            let key = RawDeviceKey { major, minor };
            let holds = |table: &Table| !fenced(table, key) || table.1.get(&key) == Some(&bit);
            // What is not listed is closed while an entry beside it is replaced: see the module.
            let replaced = old.1.iter().any(|(key, entry)| key.major == major && new.1.get(key).is_some_and(|new| new != entry));
            let aside = replaced && old.0.get(&major) == Some(&CLASS_LISTED) && !old.1.contains_key(&key);
            if holds(&old) && holds(&new) && !aside {
                prop_assert!(!may_refuse(&history, &steps, (key, bit)), "{:?} may be refused to {} in {:?}", key, bit, steps);
            }
        }
    }

    #[test]
    fn a_table_leads_to_itself_without_a_step(table in table()) {
        prop_assert_eq!(between(&table, &table), vec![]);
    }
}

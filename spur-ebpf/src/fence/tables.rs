//! The node's device table in the memory of the program.
//!
//! A major has a word with its class, and, as long as there are free ones, a slot: a direct place for each of its 256 lowest
//! minors. All other devices are entries of the map `devices`.

mod steps;

use self::steps::{Devices, Majors, Step};
use super::window::{self, Window};
use super::{Maps, lookup, update};
use crate::abi::{
    CLASS_LISTED, CLASS_MASK, CLASS_OPEN, CLASS_WHOLE, ENTRY_NEVER, ENTRY_NONE, Plain,
    RawDeviceKey, SLOT_MINORS, SLOT_SHIFT, SLOTS,
};
use crate::{DeviceNumber, DeviceTable, Error, GrantBit, MajorClass, Result, Rule, sys};
use libbpf_rs::{MapCore, MapHandle};
use std::collections::{BTreeMap, BTreeSet};

/// The slot of each major that has one.
type Slots = BTreeMap<u32, u32>;

/// Brings the program's memory to `table`, in the order of [`steps`].
pub(super) fn set(maps: &Maps, table: &DeviceTable) -> Result<()> {
    table.check()?;
    let (old_majors, old_slots) = read_majors(&maps.window);
    let (old_devices, unreachable) =
        read_devices(&maps.window, &maps.devices, &old_majors, &old_slots)?;
    // Left by a writer that died; nobody looks there now, and nothing must be found there later.
    unreachable
        .into_iter()
        .try_for_each(|key| delete(&maps.devices, key))?;
    let new = (
        table
            .majors()
            .map(|(major, class)| (major, raw_class(class)))
            .collect(),
        table
            .devices()
            .map(|(device, rule)| (raw_key(device), raw_entry(rule)))
            .collect(),
    );
    let slots = with_new_slots(&maps.window, &old_majors, old_slots, &new.0);
    for step in steps::between(&(old_majors, old_devices), &new) {
        match step {
            Step::Major(major, class) => write_major(&maps.window, &slots, major, class),
            Step::Put(key, entry) => put(maps, &slots, key, entry)?,
            Step::Delete(key) => put(maps, &slots, key, ENTRY_NONE)?,
            Step::Wait => {
                sys::wait_for_running_programs()
                    .map_err(Error::kernel("wait for", "running programs"))?;
            }
        }
    }
    Ok(())
}

/// Reads the table back.
pub(super) fn get(maps: &Maps) -> Result<DeviceTable> {
    read(&maps.window, &maps.devices)
}

/// As [`get`], from the maps of any fence.
pub(super) fn read(window: &Window, map: &MapHandle) -> Result<DeviceTable> {
    let mut table = DeviceTable::new();
    let (majors, slots) = read_majors(window);
    for (&major, &class) in &majors {
        table.set_major(
            major,
            if class == CLASS_LISTED {
                MajorClass::Listed
            } else {
                MajorClass::Whole
            },
        );
    }
    let (devices, _unreachable) = read_devices(window, map, &majors, &slots)?;
    for (RawDeviceKey { major, minor }, entry) in devices {
        let bit = u16::try_from(entry - 1).ok().and_then(GrantBit::new);
        table.list(
            DeviceNumber { major, minor },
            bit.map_or(Rule::Never, Rule::Bit),
        );
    }
    Ok(table)
}

/// Majors keep what they have; newly fenced ones get the free slots, emptied first of what a writer that died may have left.
fn with_new_slots(window: &Window, old: &Majors, mut slots: Slots, new: &Majors) -> Slots {
    let used: BTreeSet<u32> = slots.values().copied().collect();
    let free = (0..SLOTS).filter(|slot| !used.contains(slot));
    for (&major, slot) in new
        .keys()
        .filter(|major| !old.contains_key(major))
        .zip(free)
    {
        slot_entries(window, slot)
            .iter()
            .for_each(|word| window::write(word, ENTRY_NONE));
        slots.insert(major, slot);
    }
    slots
}

fn slot_entries(window: &Window, slot: u32) -> &[std::sync::atomic::AtomicU32] {
    let minors = SLOT_MINORS as usize;
    &window.entries()[slot as usize * minors..][..minors]
}

fn write_major(window: &Window, slots: &Slots, major: u32, class: u32) {
    let slot = if class == CLASS_OPEN {
        0
    } else {
        slots.get(&major).map_or(0, |slot| slot + 1)
    };
    window::write(&window.majors()[major as usize], class | slot << SLOT_SHIFT);
}

/// Writes an entry where the program will look for it.
fn put(maps: &Maps, slots: &Slots, key: RawDeviceKey, entry: u32) -> Result<()> {
    match slots.get(&key.major) {
        Some(&slot) if key.minor < SLOT_MINORS => {
            window::write(&slot_entries(&maps.window, slot)[key.minor as usize], entry);
            Ok(())
        }
        _ if entry == ENTRY_NONE => delete(&maps.devices, key),
        _ => update(&maps.devices, key.bytes(), &entry.to_ne_bytes()),
    }
}

fn read_majors(window: &Window) -> (Majors, Slots) {
    let (mut majors, mut slots) = (Majors::new(), Slots::new());
    for (major, word) in (0..).zip(window.majors()) {
        let word = window::read(word);
        if word & CLASS_MASK != CLASS_OPEN {
            majors.insert(major, word & CLASS_MASK);
            slots.extend(
                (word >> SLOT_SHIFT)
                    .checked_sub(1)
                    .filter(|slot| *slot < SLOTS)
                    .map(|slot| (major, slot)),
            );
        }
    }
    (majors, slots)
}

/// The entries, and the keys in the map at which the program does not look.
fn read_devices(
    window: &Window,
    map: &MapHandle,
    majors: &Majors,
    slots: &Slots,
) -> Result<(Devices, Vec<RawDeviceKey>)> {
    let (mut devices, mut unreachable) = (Devices::new(), Vec::new());
    for (&major, &slot) in slots {
        for (minor, word) in (0..).zip(slot_entries(window, slot)) {
            let entry = window::read(word);
            if entry != ENTRY_NONE {
                devices.insert(RawDeviceKey { major, minor }, entry);
            }
        }
    }
    for key in map.keys() {
        let value = lookup(map, &key)?;
        let entry = value
            .and_then(|value| value.try_into().ok())
            .map(u32::from_ne_bytes);
        let (Some(key), Some(entry)) = (RawDeviceKey::from_bytes(&key), entry) else {
            continue;
        };
        let direct = slots.contains_key(&key.major) && key.minor < SLOT_MINORS;
        if direct || !majors.contains_key(&key.major) {
            unreachable.push(key);
        } else {
            devices.insert(key, entry);
        }
    }
    Ok((devices, unreachable))
}

fn delete(map: &MapHandle, key: RawDeviceKey) -> Result<()> {
    map.delete(key.bytes()).map_err(Error::libbpf(
        "delete from map",
        map.name().to_string_lossy(),
    ))
}

fn raw_class(class: MajorClass) -> u32 {
    match class {
        MajorClass::Whole => CLASS_WHOLE,
        MajorClass::Listed => CLASS_LISTED,
    }
}

fn raw_key(device: DeviceNumber) -> RawDeviceKey {
    RawDeviceKey {
        major: device.major,
        minor: device.minor,
    }
}

fn raw_entry(rule: Rule) -> u32 {
    match rule {
        Rule::Bit(bit) => u32::from(bit.number()) + 1,
        Rule::Never => ENTRY_NEVER,
    }
}

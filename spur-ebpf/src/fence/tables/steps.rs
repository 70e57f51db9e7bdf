//! The order in which a device table is written, so that nothing opens up on the way, and nobody is refused on the way who may open a
//! device before and after.
//!
//! The program reads the class of the major, then looks the device up. A device is open if the class was "open", or if it was
//! "listed" and the lookup missed; and a lookup may miss an entry at the moment in which that entry is replaced. So under a
//! "listed" major nothing is replaced or taken away: such a major is "whole" meanwhile, and no program may still run with the
//! class that it had before. Under a "whole" major a lookup that misses refuses: so entries come before their major becomes whole,
//! and go after it has ceased to be, when no program still runs that read so.

use crate::abi::{CLASS_LISTED, CLASS_OPEN, CLASS_WHOLE, RawDeviceKey};
use std::collections::BTreeMap;

/// Class of each major that is not open.
pub(super) type Majors = BTreeMap<u32, u32>;
/// Entry of each listed device.
pub(super) type Devices = BTreeMap<RawDeviceKey, u32>;

/// One write to the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Sets the class of a major.
    Major(u32, u32),
    /// Inserts or replaces an entry.
    Put(RawDeviceKey, u32),
    /// Removes an entry.
    Delete(RawDeviceKey),
    /// Waits until no program runs that started before.
    Wait,
}

/// The steps that lead from one table to another.
pub(super) fn between(old: &(Majors, Devices), new: &(Majors, Devices)) -> Vec<Step> {
    let class = |majors: &Majors, major: u32| majors.get(&major).copied().unwrap_or(CLASS_OPEN);
    let was = |major| class(&old.0, major);
    let will_be = |major| class(&new.0, major);
    // An entry whose device is open afterwards goes last: until then it keeps the device closed.
    let opens = |key: &RawDeviceKey| !new.1.contains_key(key) && will_be(key.major) != CLASS_WHOLE;
    let put = || {
        new.1
            .iter()
            .filter(|(key, entry)| old.1.get(key) != Some(entry))
    };
    let gone = || old.1.keys().filter(|key| !new.1.contains_key(key));
    let replaced = |major| put().any(|(key, _)| key.major == major && old.1.contains_key(key));

    // New entries of what is not whole are in nobody's way.
    let early = |key: &RawDeviceKey| was(key.major) != CLASS_WHOLE && !old.1.contains_key(key);
    let write = |(&key, &entry): (&RawDeviceKey, &u32)| Step::Put(key, entry);

    let mut steps: Vec<Step> = put().filter(|(key, _)| early(key)).map(write).collect();
    // 1. Close: what will be whole, and for the while what is listed and has an entry replaced.
    let close = |major: u32| {
        was(major) != CLASS_WHOLE
            && (will_be(major) == CLASS_WHOLE || was(major) == CLASS_LISTED && replaced(major))
    };
    let closed: Vec<u32> = old
        .0
        .keys()
        .chain(new.0.keys().filter(|major| was(**major) == CLASS_OPEN))
        .copied()
        .filter(|&major| close(major))
        .collect();
    steps.extend(closed.iter().map(|&major| Step::Major(major, CLASS_WHOLE)));
    if closed.iter().any(|&major| was(major) == CLASS_LISTED) {
        steps.push(Step::Wait);
    }
    // 2. Entries.
    steps.extend(
        gone()
            .filter(|key| !opens(key))
            .map(|&key| Step::Delete(key)),
    );
    steps.extend(put().filter(|(key, _)| !early(key)).map(write));
    // 3. What is listed from now on.
    let is_now = |major: u32| {
        if closed.contains(&major) {
            CLASS_WHOLE
        } else {
            was(major)
        }
    };
    let listed: Vec<u32> = new
        .0
        .keys()
        .copied()
        .filter(|&major| will_be(major) == CLASS_LISTED && is_now(major) != CLASS_LISTED)
        .collect();
    if listed.iter().any(|&major| is_now(major) == CLASS_WHOLE) {
        steps.push(Step::Wait);
    }
    steps.extend(listed.iter().map(|&major| Step::Major(major, CLASS_LISTED)));
    // 4. Open: what the new table no longer fences.
    let open = old.0.keys().filter(|major| will_be(**major) == CLASS_OPEN);
    steps.extend(open.map(|&major| Step::Major(major, CLASS_OPEN)));
    steps.extend(remove(gone().filter(|key| opens(key))));
    steps
}

/// Removes entries of devices that are open by now, once no program still runs that saw them closed.
fn remove<'k>(keys: impl Iterator<Item = &'k RawDeviceKey>) -> Vec<Step> {
    let mut steps: Vec<Step> = keys.map(|&key| Step::Delete(key)).collect();
    if !steps.is_empty() {
        steps.insert(0, Step::Wait);
    }
    steps
}

#[cfg(test)]
mod tests;

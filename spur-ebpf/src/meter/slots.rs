//! Slots: who has which, what is in them, and how they go from one cgroup to the next.
//!
//! A slot that was given back is not used again before every program that may still have its number has ended. Waiting for that takes
//! the kernel milliseconds, so it is done for many slots at once, when no clean one is left.

use super::abi::{
    RawMeterMeta, RawMeterPlace, RawMeterRunning, RawMeterSlot, SLOT_MASK, SLOTS_MAX,
};
use super::memory::Memory;
use super::object::Maps;
use super::{Counts, Coverage, Source};
use crate::abi::Plain;
use crate::cgroup::Cgroup;
use crate::fence::update;
use crate::{CgroupId, Error, Result, sys};
use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering;

const SLOT: usize = size_of::<RawMeterSlot>();
const RUNNING: usize = size_of::<RawMeterRunning>();
/// Looks at the counts until no slice ended meanwhile.
const LOOKS_MAX: u32 = 4;

/// Offset of a member of [`RawMeterSlot`].
macro_rules! member {
    ($name:ident) => {
        offset_of!(RawMeterSlot, $name)
    };
}

#[derive(Debug)]
pub(super) struct Slots {
    memory: Memory,
    running: Memory,
    shards: usize,
    cpus: usize,
    /// By cgroup id.
    used: BTreeMap<u64, Known>,
    clean: Vec<u32>,
    /// Given back, and perhaps still in a program's hands.
    used_up: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    place: RawMeterPlace,
    /// What was said last: a counter never goes back.
    said: Said,
}

#[derive(Clone, Copy, Debug, Default)]
struct Said {
    cpu_ns: u64,
    user_ns: u64,
    system_ns: u64,
}

impl Slots {
    /// Takes over what is in the maps. What was half made or half removed when an agent died is removed.
    pub(super) fn open(maps: &Maps, shape: &RawMeterMeta) -> Result<Slots> {
        let mut slots = Slots {
            memory: Memory::open(maps.get("slots"))?,
            running: Memory::open(maps.get("running"))?,
            shards: shape.shards as usize,
            cpus: shape.cpus as usize,
            used: BTreeMap::new(),
            clean: Vec::new(),
            used_up: Vec::new(),
        };
        for key in maps.get("places").keys() {
            let value = crate::fence::lookup(maps.get("places"), &key)?;
            let place = value.and_then(|value| RawMeterPlace::from_bytes(&value));
            if let (Ok(key), Some(place)) = (<[u8; 8]>::try_from(key), place) {
                let said = Said::default();
                slots
                    .used
                    .insert(u64::from_ne_bytes(key), Known { place, said });
            }
        }
        let taken: BTreeSet<u32> = slots.used.values().map(|known| known.place.slot).collect();
        for slot in (0..SLOTS_MAX).rev().filter(|slot| !taken.contains(slot)) {
            if slots.memory.read(slots.offset(slot, 0)) != 0 {
                slots.end_generation(slot);
            }
            slots.clean.push(slot);
        }
        sys::wait_for_running_programs().map_err(Error::kernel("wait for", "running programs"))?;
        Ok(slots)
    }

    fn offset(&self, slot: u32, shard: usize) -> usize {
        (slot as usize * self.shards + shard) * SLOT
    }

    /// Sum of a member over the shards.
    fn sum(&self, slot: u32, member: usize) -> u64 {
        (0..self.shards).fold(0, |sum: u64, shard| {
            sum.wrapping_add(self.memory.read(self.offset(slot, shard) + member))
        })
    }

    /// Takes back the slots of cgroups that are gone: their agent died before it did.
    pub(super) fn sweep(&mut self, maps: &Maps) -> Result<Vec<RawMeterPlace>> {
        let is_gone = |id: &u64| matches!(Cgroup::by_id(CgroupId(*id)), Ok(None));
        let gone: Vec<u64> = self.used.keys().copied().filter(is_gone).collect();
        let mut places = Vec::new();
        for cgroup in gone {
            let removed = self.remove(maps, &Coverage::default(), cgroup)?;
            places.extend(removed.map(|(_, place)| place));
        }
        Ok(places)
    }

    /// Whether a slot can be had.
    pub(super) fn is_full(&self) -> bool {
        self.clean.is_empty() && self.used_up.is_empty()
    }

    /// Gives a cgroup a slot; one that has one keeps it.
    pub(super) fn add(&mut self, maps: &Maps, cgroup: u64) -> Result<()> {
        if self.used.contains_key(&cgroup) {
            return Ok(());
        }
        if self.clean.is_empty() {
            sys::wait_for_running_programs()
                .map_err(Error::kernel("wait for", "running programs"))?;
            self.clean.append(&mut self.used_up);
        }
        let slot = self
            .clean
            .pop()
            .ok_or(Error::MeterFull { slots: SLOTS_MAX })?;
        let generation = self.prepare(slot, cgroup);
        let place = RawMeterPlace { slot, generation };
        if let Err(error) = update(maps.get("places"), &cgroup.to_ne_bytes(), place.bytes()) {
            self.end_generation(slot);
            self.used_up.push(slot);
            return Err(error);
        }
        let said = Said::default();
        self.used.insert(cgroup, Known { place, said });
        Ok(())
    }

    /// Empties a clean slot for its new owner; the slot's generation.
    fn prepare(&self, slot: u32, cgroup: u64) -> u32 {
        let generation = self
            .memory
            .half(self.offset(slot, 0) + member!(generation))
            .load(Ordering::SeqCst);
        let generation = generation.max(1);
        for shard in 0..self.shards {
            let offset = self.offset(slot, shard);
            for word in (member!(cpu_ns)..SLOT).step_by(size_of::<u64>()) {
                self.memory.word(offset + word).store(0, Ordering::SeqCst);
            }
            self.memory
                .half(offset + member!(guessed_ios))
                .store(0, Ordering::SeqCst);
            self.memory
                .half(offset + member!(generation))
                .store(generation, Ordering::SeqCst);
            self.memory
                .word(offset + member!(cgroup))
                .store(cgroup, Ordering::SeqCst);
        }
        generation
    }

    /// From here on nothing is charged to the slot's owner.
    fn end_generation(&self, slot: u32) {
        let next = self
            .memory
            .half(self.offset(slot, 0) + member!(generation))
            .load(Ordering::SeqCst)
            .wrapping_add(1)
            .max(1);
        for shard in 0..self.shards {
            let offset = self.offset(slot, shard);
            self.memory
                .half(offset + member!(generation))
                .store(next, Ordering::SeqCst);
            self.memory
                .word(offset + member!(cgroup))
                .store(0, Ordering::SeqCst);
        }
    }

    /// Takes a cgroup's slot away; its last counts and what its place was, if it had one.
    pub(super) fn remove(
        &mut self,
        maps: &Maps,
        coverage: &Coverage,
        cgroup: u64,
    ) -> Result<Option<(Counts, RawMeterPlace)>> {
        let Some(mut known) = self.used.get(&cgroup).copied() else {
            return Ok(None);
        };
        match maps.get("places").delete(&cgroup.to_ne_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::libbpf("delete from map", "places")(error));
            }
            _ => {}
        }
        let raw = self.raw(known.place.slot);
        let in_flight = in_flight(&self.slices())
            .get(&known.place)
            .copied()
            .unwrap_or(0);
        let counts = known.said.counts(&raw, in_flight, coverage);
        self.end_generation(known.place.slot);
        self.used_up.push(known.place.slot);
        self.used.remove(&cgroup);
        Ok(Some((counts, known.place)))
    }

    /// What has a slot, with its counts.
    pub(super) fn read(&mut self, coverage: &Coverage, into: &mut Vec<(u64, Counts)>) {
        let (raws, in_flight) = self.snapshot();
        for ((cgroup, known), raw) in self.used.iter_mut().zip(raws) {
            let more = in_flight.get(&known.place).copied().unwrap_or(0);
            into.push((*cgroup, known.said.counts(&raw, more, coverage)));
        }
    }

    /// Cgroups by their places.
    pub(super) fn owners(&self) -> BTreeMap<RawMeterPlace, u64> {
        self.used
            .iter()
            .map(|(cgroup, known)| (known.place, *cgroup))
            .collect()
    }

    /// Counts first and the slices that are under way after them: what ends in between is missing for once, and never there twice. So
    /// that this happens seldom, it is looked again while slices ended.
    fn snapshot(&self) -> (Vec<RawMeterSlot>, InFlight) {
        let mut before = self.slices();
        let mut look = 1;
        loop {
            let raws = self
                .used
                .values()
                .map(|known| self.raw(known.place.slot))
                .collect();
            let after = self.slices();
            if before == after || look == LOOKS_MAX {
                return (raws, in_flight(&after));
            }
            before = after;
            look += 1;
        }
    }

    fn raw(&self, slot: u32) -> RawMeterSlot {
        let sum = |member| self.sum(slot, member);
        let guessed = |shard| {
            self.memory
                .half(self.offset(slot, shard) + member!(guessed_ios))
                .load(Ordering::Acquire)
        };
        RawMeterSlot {
            cgroup: 0,
            generation: 0,
            guessed_ios: (0..self.shards)
                .fold(0, |all: u32, shard| all.saturating_add(guessed(shard))),
            cpu_ns: sum(member!(cpu_ns)),
            runqueue_ns: sum(member!(runqueue_ns)),
            switches: sum(member!(switches)),
            user_ns: sum(member!(user_ns)),
            system_ns: sum(member!(system_ns)),
            major_faults: sum(member!(major_faults)),
            minor_faults: sum(member!(minor_faults)),
            starts: sum(member!(starts)),
            ends: sum(member!(ends)),
            oom_kills: sum(member!(oom_kills)),
            read_bytes: sum(member!(read_bytes)),
            write_bytes: sum(member!(write_bytes)),
            reads: sum(member!(reads)),
            writes: sum(member!(writes)),
        }
    }

    /// The slices that are under way, by CPU.
    fn slices(&self) -> Vec<Slice> {
        let slice = |cpu| {
            let offset = cpu * RUNNING;
            let at = offset + offset_of!(RawMeterRunning, slice);
            let word = self.running.read(at);
            let generation = offset + offset_of!(RawMeterRunning, generation);
            let generation = self.running.half(generation).load(Ordering::Acquire);
            let slot = u32::try_from(word & SLOT_MASK).ok()?.checked_sub(1)?;
            // One that changed while we looked has just begun.
            (self.running.read(at) == word).then_some(Slice {
                place: RawMeterPlace { slot, generation },
                since_ns: word & !SLOT_MASK,
            })
        };
        (0..self.cpus).filter_map(slice).collect()
    }
}

/// What runs on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    place: RawMeterPlace,
    /// Its lowest bits are not known, and 0.
    since_ns: u64,
}

/// How long what runs now has run, by slot.
type InFlight = BTreeMap<RawMeterPlace, u64>;

fn in_flight(slices: &[Slice]) -> InFlight {
    let now = sys::monotonic_ns();
    let mut found = InFlight::new();
    for Slice { place, since_ns } in slices {
        // Rather too short.
        *found.entry(*place).or_insert(0) += now.saturating_sub(since_ns | SLOT_MASK);
    }
    found
}

impl Said {
    /// Counts for users of what a slot has, with the time of slices that are under way.
    fn counts(&mut self, raw: &RawMeterSlot, in_flight: u64, coverage: &Coverage) -> Counts {
        self.cpu_ns = self.cpu_ns.max(raw.cpu_ns.saturating_add(in_flight));
        self.split(raw);
        let has = |source| coverage.counts(source);
        let if_has = |source, value| has(source).then_some(value);
        let ticks = raw.user_ns != 0 || raw.system_ns != 0;
        Counts {
            cpu_ns: if_has(Source::Cpu, self.cpu_ns),
            user_ns: if_has(Source::Cpu, self.user_ns).filter(|_| ticks),
            system_ns: if_has(Source::Cpu, self.system_ns).filter(|_| ticks),
            runqueue_ns: if_has(Source::RunQueue, raw.runqueue_ns),
            switches: if_has(Source::Cpu, raw.switches),
            major_faults: if_has(Source::Cpu, raw.major_faults),
            minor_faults: if_has(Source::Cpu, raw.minor_faults),
            starts: if_has(Source::Starts, raw.starts),
            ends: if_has(Source::Ends, raw.ends),
            oom_kills: if_has(Source::OomKills, raw.oom_kills),
            read_bytes: if_has(Source::BlockIo, raw.read_bytes),
            write_bytes: if_has(Source::BlockIo, raw.write_bytes),
            reads: if_has(Source::BlockIo, raw.reads),
            writes: if_has(Source::BlockIo, raw.writes),
            guessed_ios: u64::from(raw.guessed_ios),
        }
    }

    /// Divides the time on CPUs as the ticks say, as the kernel does for cpu.stat: neither part goes back, and they add up.
    fn split(&mut self, raw: &RawMeterSlot) {
        let ticks = u128::from(raw.user_ns) + u128::from(raw.system_ns);
        if ticks == 0 {
            return;
        }
        let system = u128::from(self.cpu_ns) * u128::from(raw.system_ns) / ticks;
        let system = u64::try_from(system)
            .unwrap_or(u64::MAX)
            .max(self.system_ns);
        let user = self.cpu_ns.saturating_sub(system).max(self.user_ns);
        self.user_ns = user;
        self.system_ns = self.cpu_ns.saturating_sub(user).max(self.system_ns);
    }
}

/// Deletes a key; one that is gone is fine.
pub(super) fn forget(map: &libbpf_rs::MapHandle, key: &[u8]) -> Result<()> {
    match map.delete(key) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::libbpf(
            "delete from map",
            map.name().to_string_lossy(),
        )(error)),
        _ => Ok(()),
    }
}

/// Every key and value of a map, in as few calls as the kernel takes.
pub(super) fn rows<K: Plain, V: Plain>(map: &libbpf_rs::MapHandle) -> Result<Vec<(K, V)>> {
    const BATCH: u32 = 512;
    let failed = || Error::libbpf("read map", map.name().to_string_lossy());
    let rows = map
        .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
        .map_err(failed())?;
    Ok(rows
        .filter_map(|(key, value)| Some((K::from_bytes(&key)?, V::from_bytes(&value)?)))
        .collect())
}

#[cfg(test)]
mod tests;

//! The meter's maps: made, pinned, found again.

use super::abi::{
    ABI, RawGpuJob, RawGpuKey, RawGpuRing, RawGpuTotals, RawGpuWork, RawMeterEnding, RawMeterMeta,
    RawMeterPlace, RawMeterRunning, RawMeterSeen, RawMeterSettings, RawMeterSlot, SLOTS_MAX,
};
use crate::abi::Plain;
use crate::fence::{lookup, update};
use crate::pins::{self, ABI_FOLDER, Pins};
use crate::{Error, Result, sys};
use libbpf_rs::{MapCore, MapHandle, MapType, Object, ObjectBuilder, OpenObject};
use std::fs;
use std::mem::size_of;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

pub(super) const METER_OBJECT: &[u8] = include_bytes!(env!("SPUR_METER_OBJECT"));
pub(super) const GPU_OBJECT: &[u8] = include_bytes!(env!("SPUR_METER_GPU_OBJECT"));
pub(super) const HOLDERS_OBJECT: &[u8] = include_bytes!(env!("SPUR_HOLDERS_OBJECT"));

/// The variable in the objects that holds the settings.
const SETTINGS: &str = ".rodata.meter";
/// Pinned last: where it is, everything else is.
const META: &str = "meta";
/// Every map, `meta` last, with its kind and the bytes of key and value.
const MAPS: [(&str, MapType, usize, usize); 11] = [
    ("slots", MapType::Array, 4, size_of::<RawMeterSlot>()),
    ("running", MapType::Array, 4, size_of::<RawMeterRunning>()),
    ("gpu_totals", MapType::Array, 4, size_of::<RawGpuTotals>()),
    ("places", MapType::Hash, 8, size_of::<RawMeterPlace>()),
    ("seen", MapType::Array, 4, size_of::<RawMeterSeen>()),
    ("ending", MapType::LruHash, size_of::<RawMeterEnding>(), 4),
    ("victims", MapType::LruHash, 4, 4),
    ("gpu_jobs", MapType::LruHash, 8, size_of::<RawGpuJob>()),
    ("gpu_rings", MapType::LruHash, 8, size_of::<RawGpuRing>()),
    (
        "gpu_work",
        MapType::Hash,
        size_of::<RawGpuKey>(),
        size_of::<RawGpuWork>(),
    ),
    (META, MapType::Array, 4, size_of::<RawMeterMeta>()),
];
/// Parts of a slot at most: CPUs that have the same part fight over its words, and a reader has to look at each.
const SHARDS_MAX: u32 = 8;

/// Tells builds of the programs apart.
pub(super) fn hash() -> u64 {
    use crate::fence::object::hash;
    hash(METER_OBJECT).rotate_left(1) ^ hash(GPU_OBJECT)
}

/// What the maps are made for on this machine.
pub(super) fn shape(job_level: u32) -> Result<RawMeterMeta> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(Error::libbpf("count", "possible cpus"))?;
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    let shards = cpus.clamp(1, SHARDS_MAX).next_power_of_two();
    Ok(RawMeterMeta {
        abi: ABI,
        job_level,
        object_hash: hash(),
        cpus,
        shards,
    })
}

/// The meter's folder of pins.
#[derive(Clone, Debug)]
pub(super) struct MeterPins {
    base: PathBuf,
    root: PathBuf,
}

impl MeterPins {
    /// Makes the folders, for their owner alone.
    pub(super) fn prepare(agent: &Path) -> Result<MeterPins> {
        let base = agent.join("meter");
        let root = base.join(format!("{ABI_FOLDER}{ABI}"));
        let pins = MeterPins { base, root };
        for folder in [agent, &pins.base, &pins.root, &pins.links()] {
            pins::prepare_folder(folder)?;
        }
        Ok(pins)
    }

    fn links(&self) -> PathBuf {
        self.root.join("links")
    }

    pub(super) fn link(&self, name: &str) -> PathBuf {
        self.links().join(name)
    }

    pub(super) fn map(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Takes meters of other versions away, and says of which.
    pub(super) fn remove_others(&self) -> Result<Option<String>> {
        let mut found = None;
        for folder in entries(&self.base) {
            if folder != self.root {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                found = Some(name.into_owned());
                remove_tree(&folder)?;
            }
        }
        Ok(found)
    }

    /// Unpins the programs; they run until the kernel has taken them off.
    pub(super) fn remove_links(&self) -> Result<()> {
        entries(&self.links())
            .iter()
            .try_for_each(|pin| Pins::remove(pin))
    }

    /// Unpins everything; the empty folders stay. `meta` goes first, so that half a meter is not adopted.
    pub(super) fn clear(&self) -> Result<()> {
        Pins::remove(&self.map(META))?;
        self.remove_links()?;
        MAPS.iter()
            .try_for_each(|(name, ..)| Pins::remove(&self.map(name)))
    }

    /// Whether nothing is pinned.
    pub(super) fn is_empty(&self) -> bool {
        MAPS.iter().all(|(name, ..)| !self.map(name).exists())
    }

    pub(super) fn remove(&self) -> Result<()> {
        self.clear()?;
        remove_tree(&self.base)
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A folder of pins, with what is in it. Pins are neither folders nor links, so nothing outside is reached.
fn remove_tree(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).map_err(Error::kernel("remove folder", folder.display().to_string()))
}

/// The maps, open.
#[derive(Debug)]
pub(super) struct Maps(Vec<(&'static str, MapHandle)>);

impl Maps {
    /// Opens every pinned map and checks that its layout is ours; `None` if there is no whole meter of ours or it is made for
    /// something else.
    pub(super) fn adopt(pins: &MeterPins, shape: &RawMeterMeta) -> Option<Maps> {
        let mut maps = Vec::new();
        for (name, kind, key, value) in MAPS {
            let map = MapHandle::from_pinned_path(pins.map(name)).ok()?;
            let sizes = (map.key_size() as usize, map.value_size() as usize);
            if map.map_type() != kind || sizes != (key, value) {
                return None;
            }
            maps.push((name, map));
        }
        let maps = Maps(maps);
        let meta = maps.meta().ok()?;
        let ours = RawMeterMeta {
            object_hash: meta.object_hash,
            ..*shape
        };
        (meta == ours).then_some(maps)
    }

    /// Makes and pins the maps, without a program.
    pub(super) fn create(pins: &MeterPins, shape: &RawMeterMeta) -> Result<Maps> {
        let mut maps = Maps(Vec::new());
        for bytes in [METER_OBJECT, GPU_OBJECT] {
            let mut object = open(bytes)?;
            object
                .progs_mut()
                .for_each(|mut program| program.set_autoload(false));
            maps.prepare(&mut object, &settings(shape, 0))?;
            let object = object
                .load()
                .map_err(Error::libbpf("make", "the meter's maps"))?;
            maps.take_new(&object)?;
        }
        // Nobody may take them for a meter's before programs run.
        let unfinished = RawMeterMeta {
            object_hash: 0,
            ..*shape
        };
        maps.write_meta(&unfinished)?;
        for (name, ..) in MAPS {
            let path = pins.map(name);
            let shown = path.display().to_string();
            sys::pin(maps.get(name).as_fd(), &path).map_err(Error::kernel("pin map", shown))?;
        }
        Ok(maps)
    }

    /// Gives an object the maps that there are, and its sizes to those that it will make.
    pub(super) fn prepare(
        &self,
        object: &mut OpenObject,
        settings: &RawMeterSettings,
    ) -> Result<()> {
        let cpus =
            libbpf_rs::num_possible_cpus().map_err(Error::libbpf("count", "possible cpus"))?;
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let done = if let Some((_, known)) = self.0.iter().find(|(known, _)| *known == name) {
                map.reuse_fd(known.as_fd())
            } else if name == SETTINGS {
                map.set_initial_value(settings.bytes())
            } else if name == "slots" {
                map.set_max_entries(SLOTS_MAX * settings.shards)
            } else if name == "running" {
                map.set_max_entries(u32::try_from(cpus).unwrap_or(u32::MAX))
            } else {
                Ok(())
            };
            done.map_err(Error::libbpf("prepare map", name))?;
        }
        Ok(())
    }

    fn take_new(&mut self, object: &Object) -> Result<()> {
        for map in object.maps() {
            let known = MAPS.iter().find(|(name, ..)| map.name() == *name);
            let Some((name, ..)) =
                known.filter(|(name, ..)| self.0.iter().all(|(has, _)| has != name))
            else {
                continue;
            };
            let handle = MapHandle::try_from(&map).map_err(Error::libbpf("open map", *name))?;
            self.0.push((*name, handle));
        }
        Ok(())
    }

    /// One of [`MAPS`].
    pub(super) fn get(&self, name: &str) -> &MapHandle {
        let found = self.0.iter().find(|(known, _)| *known == name);
        let (_, map) =
            found.expect("every map of the list is made or adopted before this is asked");
        map
    }

    pub(super) fn meta(&self) -> Result<RawMeterMeta> {
        let bytes = lookup(self.get(META), &0u32.to_ne_bytes())?;
        let meta = bytes.as_deref().and_then(RawMeterMeta::from_bytes);
        Ok(meta.unwrap_or_default())
    }

    pub(super) fn write_meta(&self, meta: &RawMeterMeta) -> Result<()> {
        update(self.get(META), &0u32.to_ne_bytes(), meta.bytes())
    }
}

/// What the programs are told.
pub(super) fn settings(shape: &RawMeterMeta, flags: u32) -> RawMeterSettings {
    RawMeterSettings {
        job_level: shape.job_level,
        shards: shape.shards,
        flags,
        reserved: 0,
    }
}

pub(super) fn open(bytes: &[u8]) -> Result<OpenObject> {
    ObjectBuilder::default()
        .name("spur_meter")
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(Error::libbpf("open", "the meter object"))
}

//! Loading and pinning the program and its maps, and finding them again.

use super::window::Window;
use super::{Maps, lookup, update};
use crate::abi::{
    self, Plain, RawCounters, RawDeviceKey, RawGuardFile, RawGuardSettings, RawMeta, RawPolicy,
    RawTable,
};
use crate::pins::Pins;
use crate::{Error, Result, sys};
use libbpf_rs::{MapCore, MapHandle, MapType, Object, ObjectBuilder, OpenObject};
use std::fs;
use std::mem::size_of;
use std::os::fd::AsFd;

/// Name of the program and of its pin.
pub(super) const PROGRAM: &str = "spur_fence";
/// A program is pinned here first and then renamed over the old one.
const PROGRAM_NEW: &str = "spur_fence_new";
/// Pinned last: where it is, everything else is.
const META: &str = "meta";
/// Pins of the maps, each with the name that the map has in the object.
const MAPS: [(&str, &str); 10] = [
    ("table", ".data.table"),
    ("devices", "devices"),
    ("policies", "policies"),
    ("counters", "counters"),
    ("guard_policies", "guard_policies"),
    ("guard_counters", "guard_counters"),
    ("guard_files", "guard_files"),
    ("guard_settings", "guard_settings"),
    ("audit", "audit"),
    (META, META),
];

/// The one map that each program has to itself: how often it told of what.
const USES: &str = "uses";

/// Tells builds of the program apart (FNV-1a, 64 bits).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The pinned `meta`, if a whole fence of our ABI is pinned.
pub(super) fn pinned_meta(pins: &Pins) -> Result<Option<RawMeta>> {
    if !pins.object(META).exists() {
        return Ok(None);
    }
    let meta = read_meta(&open_map(pins, META)?)?;
    if meta.abi == abi::ABI {
        return Ok(Some(meta));
    }
    Err(Error::Abi {
        pins: pins.root.clone(),
        found: meta.abi,
        known: abi::ABI,
        advice: if meta.abi > abi::ABI {
            "run the agent that made it, or a newer one"
        } else {
            "end its jobs with the agent that made it, then remove this folder"
        },
    })
}

pub(super) fn read_meta(map: &MapHandle) -> Result<RawMeta> {
    let bytes = lookup(map, &0u32.to_ne_bytes())?;
    bytes
        .as_deref()
        .and_then(RawMeta::from_bytes)
        .ok_or_else(|| Error::Unfit {
            subject: "map meta".to_owned(),
            reason: "its value has another size".to_owned(),
        })
}

pub(super) fn write_meta(map: &MapHandle, meta: RawMeta) -> Result<()> {
    update(map, &0u32.to_ne_bytes(), meta.bytes())
}

/// Loads an object and pins its maps and program. Pins of an attempt that was cut off are replaced.
pub(super) fn load(pins: &Pins, bytes: &[u8]) -> Result<()> {
    let object = open(bytes)?
        .load()
        .map_err(Error::libbpf("load", "the fence program"))?;
    for map in object.maps().filter(|map| map.name() == META) {
        let meta = MapHandle::try_from(&map).map_err(Error::libbpf("open map", META))?;
        write_meta(
            &meta,
            RawMeta {
                abi: abi::ABI,
                reserved: 0,
                object_hash: hash(bytes),
            },
        )?;
    }
    pin_program(pins, &object)?;
    for (pin, name) in MAPS {
        let path = pins.object(pin);
        let shown = path.display().to_string();
        let map = object
            .maps()
            .find(|map| map.name() == name)
            .ok_or_else(|| missing(name))?;
        Pins::remove(&path)?;
        sys::pin(map.as_fd(), &path).map_err(Error::kernel("pin map", shown))?;
    }
    Ok(())
}

/// Loads an object onto the pinned maps and pins its program in the place of the old one.
pub(super) fn replace_program(pins: &Pins, maps: &Maps, bytes: &[u8]) -> Result<()> {
    let mut object = open(bytes)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == USES {
            continue;
        }
        let pinned = maps.by_name(&name).ok_or_else(|| missing(&name))?;
        map.reuse_fd(pinned.as_fd())
            .map_err(Error::libbpf("reuse map", name))?;
    }
    let object = object.load().map_err(Error::libbpf(
        "load onto the pinned maps",
        "the fence program",
    ))?;
    pin_program(pins, &object)
}

fn open(bytes: &[u8]) -> Result<OpenObject> {
    ObjectBuilder::default()
        .name("spur_fence")
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(Error::libbpf("open", "the fence object"))
}

fn pin_program(pins: &Pins, object: &Object) -> Result<()> {
    let program = object
        .progs()
        .find(|program| program.name() == PROGRAM)
        .ok_or_else(|| missing(PROGRAM))?;
    let (new, path) = (pins.object(PROGRAM_NEW), pins.object(PROGRAM));
    Pins::remove(&new)?;
    sys::pin(program.as_fd(), &new)
        .map_err(Error::kernel("pin program", new.display().to_string()))?;
    fs::rename(&new, &path).map_err(Error::kernel("pin program", path.display().to_string()))
}

fn missing(name: &str) -> Error {
    Error::Unfit {
        subject: "the fence object".to_owned(),
        reason: format!("it has no {name} of ours"),
    }
}

/// Opens every pinned map and checks that its layout is ours.
pub(super) fn pinned_maps(pins: &Pins) -> Result<Maps> {
    let open = |name, kind, key: usize, value: usize| -> Result<MapHandle> {
        let map = open_map(pins, name)?;
        let found = (
            map.map_type(),
            map.key_size() as usize,
            map.value_size() as usize,
        );
        if found == (kind, key, value) {
            return Ok(map);
        }
        Err(Error::Unfit {
            subject: pins.object(name).display().to_string(),
            reason: format!(
                "expected {:?}, found {found:?} (type, bytes of key, bytes of value)",
                (kind, key, value)
            ),
        })
    };
    let table = open("table", MapType::Array, 4, size_of::<RawTable>())?;
    Ok(Maps {
        meta: open(META, MapType::Array, 4, size_of::<RawMeta>())?,
        window: Window::open(&table)?,
        table,
        devices: open("devices", MapType::Hash, size_of::<RawDeviceKey>(), 4)?,
        policies: open(
            "policies",
            MapType::CgroupStorage,
            8,
            size_of::<RawPolicy>(),
        )?,
        counters: open(
            "counters",
            MapType::PercpuCgroupStorage,
            8,
            size_of::<RawCounters>(),
        )?,
        guard_policies: open("guard_policies", MapType::Hash, 8, size_of::<RawPolicy>())?,
        guard_counters: open(
            "guard_counters",
            MapType::PercpuHash,
            8,
            size_of::<RawCounters>(),
        )?,
        guard_files: open(
            "guard_files",
            MapType::LruHash,
            8,
            size_of::<RawGuardFile>(),
        )?,
        guard_settings: open(
            "guard_settings",
            MapType::Array,
            4,
            size_of::<RawGuardSettings>(),
        )?,
        audit: open("audit", MapType::RingBuf, 0, 0)?,
    })
}

pub(super) fn open_map(pins: &Pins, name: &str) -> Result<MapHandle> {
    let path = pins.object(name);
    MapHandle::from_pinned_path(&path)
        .map_err(Error::libbpf("open pinned map", path.display().to_string()))
}

/// Names of pins that are gone.
pub(super) fn missing_pins(pins: &Pins) -> Vec<&'static str> {
    let names = MAPS.iter().map(|(pin, _)| *pin).chain([PROGRAM]);
    names.filter(|name| !pins.object(name).exists()).collect()
}

/// Pins what is missing. `meta` is the last of the maps here too.
pub(super) fn pin_again(inner: &super::Inner) -> Result<()> {
    let pins = Pins::prepare(&inner.pins.base)?;
    for name in missing_pins(&pins) {
        let by_pin = MAPS.iter().find(|(pin, _)| *pin == name);
        let map = by_pin.and_then(|(_, known)| inner.maps.by_name(known));
        let fd = map.map_or(inner.program.as_fd(), |map| map.as_fd());
        crate::pins::replace(fd, &pins.object(name))?;
    }
    Ok(())
}

/// Removes all pins and the folder. `meta` goes first, so that a half-removed fence is not adopted.
pub(super) fn remove_all(pins: &Pins) -> Result<()> {
    for meta in [pins.marker(), pins.object(META)] {
        Pins::remove(&meta)?;
    }
    for name in pins.link_names()? {
        Pins::remove(&pins.link(&name)?)?;
    }
    for name in MAPS
        .map(|(pin, _)| pin)
        .into_iter()
        .chain([PROGRAM, PROGRAM_NEW])
    {
        Pins::remove(&pins.object(name))?;
    }
    crate::guard::remove(&pins.guard())?;
    for folder in [pins.links(), pins.root.clone(), pins.base.clone()] {
        fs::remove_dir(&folder)
            .map_err(Error::kernel("remove folder", folder.display().to_string()))?;
    }
    Ok(())
}

impl Maps {
    /// The pinned map for a map of the object.
    pub(crate) fn by_name(&self, name: &str) -> Option<&MapHandle> {
        let Maps {
            meta,
            table,
            window: _,
            devices,
            policies,
            counters,
            guard_policies,
            guard_counters,
            guard_files,
            guard_settings,
            audit,
        } = self;
        let handles = [
            table,
            devices,
            policies,
            counters,
            guard_policies,
            guard_counters,
            guard_files,
            guard_settings,
            audit,
            meta,
        ];
        MAPS.iter()
            .zip(handles)
            .find(|((_, known), _)| *known == name)
            .map(|(_, map)| map)
    }
}

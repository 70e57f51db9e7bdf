//! The node's device table in the maps.

mod steps;

use self::steps::{Devices, Majors, Step};
use super::{Maps, lookup, update};
use crate::abi::{self, MAJOR_LISTED, MAJOR_OPEN, MAJOR_WHOLE, Plain, RawDevice, RawDeviceKey};
use crate::{DeviceNumber, DeviceTable, Error, GrantBit, MajorClass, Result, Rule, sys};
use libbpf_rs::{MapCore, MapHandle};

/// Brings the maps to `table`, see [`steps`].
pub(super) fn set(maps: &Maps, table: &DeviceTable) -> Result<()> {
    table.check()?;
    let old = (read_majors(&maps.majors)?, read_devices(&maps.devices)?);
    let new = (
        table
            .majors()
            .map(|(major, class)| (major, raw_class(class)))
            .collect(),
        table
            .devices()
            .map(|(device, rule)| (raw_key(device), raw_device(rule)))
            .collect(),
    );
    for step in steps::between(&old, &new) {
        match step {
            Step::Major(major, class) => {
                update(&maps.majors, &major.to_ne_bytes(), &class.to_ne_bytes())?
            }
            Step::Put(key, device) => update(&maps.devices, key.bytes(), device.bytes())?,
            Step::Delete(key) => delete(&maps.devices, key)?,
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
    let mut table = DeviceTable::new();
    for (major, class) in read_majors(&maps.majors)? {
        table.set_major(
            major,
            if class == MAJOR_LISTED {
                MajorClass::Listed
            } else {
                MajorClass::Whole
            },
        );
    }
    for (RawDeviceKey { major, minor }, device) in read_devices(&maps.devices)? {
        let bit = u16::try_from(device.bit).ok().and_then(GrantBit::new);
        table.list(
            DeviceNumber { major, minor },
            bit.map_or(Rule::Never, Rule::Bit),
        );
    }
    Ok(table)
}

fn read_majors(map: &MapHandle) -> Result<Majors> {
    let mut majors = Majors::new();
    for major in 0..abi::MAJORS {
        let bytes = lookup(map, &major.to_ne_bytes())?;
        let class = bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(MAJOR_WHOLE, u32::from_ne_bytes);
        if class != MAJOR_OPEN {
            majors.insert(major, class);
        }
    }
    Ok(majors)
}

fn read_devices(map: &MapHandle) -> Result<Devices> {
    let mut devices = Devices::new();
    for key in map.keys() {
        let value = lookup(map, &key)?;
        let device = value.as_deref().and_then(RawDevice::from_bytes);
        if let (Some(key), Some(device)) = (RawDeviceKey::from_bytes(&key), device) {
            devices.insert(key, device);
        }
    }
    Ok(devices)
}

fn delete(map: &MapHandle, key: RawDeviceKey) -> Result<()> {
    map.delete(key.bytes()).map_err(Error::libbpf(
        "delete from map",
        map.name().to_string_lossy(),
    ))
}

fn raw_class(class: MajorClass) -> u32 {
    match class {
        MajorClass::Whole => MAJOR_WHOLE,
        MajorClass::Listed => MAJOR_LISTED,
    }
}

fn raw_key(device: DeviceNumber) -> RawDeviceKey {
    RawDeviceKey {
        major: device.major,
        minor: device.minor,
    }
}

fn raw_device(rule: Rule) -> RawDevice {
    match rule {
        Rule::Bit(bit) => RawDevice {
            bit: u32::from(bit.number()),
            reserved: 0,
        },
        Rule::Never => RawDevice {
            bit: abi::BIT_NEVER,
            reserved: 0,
        },
    }
}

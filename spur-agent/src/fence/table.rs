//! From devices and grant bits to the table that the BPF program reads.

use super::bits::{self, Bits};
use super::classes::Fenced;
use super::resolve::Devices;
use crate::discover::Machine;
use spur_core::resources::DeviceFile;
use spur_ebpf::{DeviceNumber, DeviceTable, Grants, MajorClass, Result, Rule};

/// The table for the devices of this moment. A GPU that cannot be granted has no row, so its numbers are closed like unknown ones.
pub(crate) fn of(devices: &Devices, machine: &Machine, bits: &Bits) -> Result<DeviceTable> {
    let mut table = DeviceTable::new();
    table.deny_memory();
    for fenced in &devices.fenced {
        match *fenced {
            Fenced::Major(major) => {
                table.set_major(major, MajorClass::Whole);
            }
            Fenced::Device(major, minor) => {
                if table.class(major).is_none() {
                    table.set_major(major, MajorClass::Listed);
                }
                table.list(DeviceNumber { major, minor }, Rule::Never);
            }
        }
    }
    for (identity, files) in machine.identities.iter().zip(&devices.own) {
        let (Ok(files), Some(bit)) = (files, bits.of(identity)) else {
            continue;
        };
        for file in files {
            table.list(number(file), Rule::Bit(bit));
        }
    }
    for (identity, file) in devices.shared_out() {
        if let Some(bit) = bits.of(identity) {
            table.list(number(file), Rule::Bit(bit));
        }
    }
    for (vendor, files) in &devices.shared {
        for file in files {
            table.list(number(file), Rule::Bit(bits::shared(*vendor)));
        }
    }
    table.check()?;
    Ok(table)
}

/// The number of a node.
pub(super) fn number(file: &DeviceFile) -> DeviceNumber {
    DeviceNumber {
        major: file.major,
        minor: file.minor,
    }
}

/// Whether the table keeps a device from whoever holds `grants`: the program's verdict, in a few words.
pub fn refuses(table: &DeviceTable, grants: &Grants, major: u32, minor: u32) -> bool {
    if spur_ebpf::is_base_device(major, minor) {
        return false;
    }
    match (
        table.class(major),
        table.rule(DeviceNumber { major, minor }),
    ) {
        (None, _) | (Some(MajorClass::Listed), None) => false,
        (Some(MajorClass::Whole), None) | (Some(_), Some(Rule::Never)) => true,
        (Some(_), Some(Rule::Bit(bit))) => !grants.contains(bit),
    }
}

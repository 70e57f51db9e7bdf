//! PCI addresses and what sysfs says of the devices behind them.

use super::tree::Tree;

/// Where a PCI device sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

impl Address {
    /// From text such as `0000:c1:00.0`; NVML writes eight digits of domain, and some tools leave it out.
    pub fn parse(text: &str) -> Option<Self> {
        let (front, function) = text.trim().rsplit_once('.')?;
        let mut parts = front.rsplit(':');
        let device = parts.next()?;
        let bus = parts.next()?;
        let domain = parts.next().unwrap_or("0");
        let hex = |text: &str| u8::from_str_radix(text, 16).ok();
        let address = Self {
            domain: u32::from_str_radix(domain, 16).ok()?,
            bus: hex(bus)?,
            device: hex(device)?,
            function: hex(function)?,
        };
        (parts.next().is_none() && address.device < 32 && address.function < 8).then_some(address)
    }

    /// From KFD's `domain` and `location_id` (bus in bits 15-8, device in 7-3, function in 2-0).
    pub fn from_location(domain: u32, location: u32) -> Self {
        let [function_device, bus, _, _] = location.to_le_bytes();
        Self {
            domain,
            bus,
            device: function_device >> 3,
            function: function_device & 7,
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

/// The NUMA node of a PCI device, if the kernel knows it (it says -1 otherwise).
pub fn numa(tree: &Tree, address: &str) -> Option<u32> {
    tree.number(&format!("sys/bus/pci/devices/{address}/numa_node"))
}

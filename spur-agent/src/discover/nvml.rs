//! What only NVML tells of NVIDIA GPUs: memory, NVLink peers, and MIG instances.
//!
//! A sick GPU can hold a caller of NVML in the kernel for minutes. The library is therefore called in a child process with a
//! deadline; a child that cannot even be killed is left alone, and the agent goes on without its answer.

use super::nvidia::Information;
use super::pci;
use crate::sys;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The (hidden) command by which the agent calls itself.
pub const COMMAND: &str = "nvml-probe";

/// How long the child may take: initialising NVML on eight GPUs without persistence mode takes several seconds.
const DEADLINE: Duration = Duration::from_secs(20);

/// Most bytes taken from the child.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// NVLink numbers go up to 17 on Hopper and Blackwell (`NVML_NVLINK_MAX_LINKS` is 18).
const LINKS_MAX: u32 = 18;

/// Most MIG instances that are asked for of one GPU; none has more than 7 GPU instances, of at most 7 compute instances.
const INSTANCES_MAX: u32 = 49;

/// The library as drivers install it; the name without a number comes with development files only.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// NVML's word on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// UUID.
    pub uuid: String,
    /// PCI address, normalised.
    pub pci: String,
    /// Product name.
    pub name: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// PCI addresses of GPUs at the other end of active NVLinks.
    pub nvlinks: Vec<String>,
    /// Whether links lead to a switch, which joins all GPUs that say so.
    pub switched: bool,
    /// Whether it is shared out in instances.
    #[serde(default)]
    pub mig: Mig,
}

/// NVML's word on a GPU's MIG mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mig {
    /// It is off, or the GPU has none.
    #[default]
    Off,
    /// It is on, with these compute instances, of which each is a device.
    On(Vec<Instance>),
    /// It cannot be told; why.
    Unknown(String),
}

/// A compute instance within a GPU instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// UUID, `MIG-…`.
    pub uuid: String,
    /// What it is: `1g.18gb`, `1c.3g.71gb`.
    pub profile: String,
    /// Memory in MiB, 0 if unknown.
    pub memory_mib: u64,
    /// Number of the GPU instance.
    pub gi: u32,
    /// Number of the compute instance within it.
    pub ci: u32,
}

impl Extra {
    /// Whether this is about that GPU.
    pub fn is(&self, other: &Information) -> bool {
        self.is_at(&other.uuid, &other.pci)
    }

    /// Whether this is about the GPU with that UUID, or at that address if one of the UUIDs is not known.
    pub fn is_at(&self, uuid: &str, pci: &str) -> bool {
        if self.uuid.is_empty() || uuid.is_empty() {
            self.pci == pci
        } else {
            self.uuid == uuid
        }
    }
}

/// Loads the library and begins to use it. An error is a sentence.
pub(crate) fn open() -> Result<Nvml, String> {
    let named = Nvml::builder().lib_path(LIBRARY.as_ref()).init();
    named
        .or_else(|_| Nvml::init())
        .map_err(|error| error.to_string())
}

/// Runs the child and reads its answer. An error is a sentence for the log.
pub fn ask_child() -> Result<Vec<Extra>, String> {
    let own = std::env::current_exe()
        .map_err(|e| format!("cannot ask NVML: own executable unknown: {e}"))?;
    let mut child = Command::new(own)
        .arg(COMMAND)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot ask NVML: {e}"))?;
    let stdout = child.stdout.take().ok_or("cannot ask NVML: no pipe")?;
    let (send, answer) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stdout
            .take(ANSWER_BYTES_MAX)
            .read_to_string(&mut text)
            .map(|_| text);
        drop(send.send(read));
    });
    match answer.recv_timeout(DEADLINE) {
        Ok(text) => {
            drop(child.wait());
            let text = text.map_err(|e| format!("cannot read NVML's answer: {e}"))?;
            let answer: Result<Vec<Extra>, String> = serde_json::from_str(&text)
                .map_err(|e| format!("NVML's answer makes no sense: {e}"))?;
            answer.map(join_switched)
        }
        Err(_) => {
            // Reaping waits for ever if the child hangs in the kernel: kill, try once, leave it.
            drop(child.kill());
            drop(child.try_wait());
            Err(format!(
                "NVML did not answer within {} s: memory and links of NVIDIA GPUs are unknown",
                DEADLINE.as_secs()
            ))
        }
    }
}

/// The child's part: asks NVML and gives the line to print.
pub fn answer() -> String {
    let answer = probe();
    serde_json::to_string(&answer).unwrap_or_else(|e| format!("{{\"Err\":\"{e}\"}}"))
}

/// GPUs on a common switch are all each other's peers.
fn join_switched(mut all: Vec<Extra>) -> Vec<Extra> {
    let switched: Vec<String> = all
        .iter()
        .filter(|extra| extra.switched)
        .map(|extra| extra.pci.clone())
        .collect();
    for extra in all.iter_mut().filter(|extra| extra.switched) {
        extra
            .nvlinks
            .extend(switched.iter().filter(|pci| **pci != extra.pci).cloned());
        extra.nvlinks.sort();
        extra.nvlinks.dedup();
    }
    all
}

/// Asks NVML about every GPU; one that does not answer is left out.
fn probe() -> Result<Vec<Extra>, String> {
    let nvml = open().map_err(|e| format!("NVML: {e}"))?;
    let count = nvml.device_count().map_err(|e| format!("NVML: {e}"))?;
    Ok((0..count)
        .filter_map(|index| nvml.device_by_index(index).ok())
        .map(|device| one(&device))
        .collect())
}

/// One GPU; what cannot be asked stays empty.
fn one(device: &Device<'_>) -> Extra {
    use nvml_wrapper::enum_wrappers::nv_link::IntDeviceType;
    let normal = |text: &str| {
        pci::Address::parse(text)
            .map(|address| address.to_string())
            .unwrap_or_default()
    };
    let mut extra = Extra {
        uuid: device.uuid().unwrap_or_default(),
        pci: device
            .pci_info()
            .map(|info| normal(&info.bus_id))
            .unwrap_or_default(),
        name: device.name().unwrap_or_default(),
        memory_mib: device
            .memory_info()
            .map(|info| info.total >> 20)
            .unwrap_or(0),
        mig: mig(device),
        ..Extra::default()
    };
    for number in 0..LINKS_MAX {
        let link = device.link_wrapper_for(number);
        if !link.is_active().unwrap_or(false) {
            continue;
        }
        match link.remote_device_type(number) {
            Ok(IntDeviceType::Switch) => extra.switched = true,
            Ok(_) | Err(_) => extra
                .nvlinks
                .extend(link.remote_pci_info().ok().map(|info| normal(&info.bus_id))),
        }
    }
    extra
}

/// Whether a GPU is shared out, and in what.
fn mig(device: &Device<'_>) -> Mig {
    use NvmlError::{FailedToLoadSymbol, InvalidArg, NotFound, NotSupported};
    match device.mig_mode() {
        Ok(mode) if mode.current == 0 => return Mig::Off,
        Ok(_) => {}
        // GPUs and drivers without MIG.
        Err(NotSupported | FailedToLoadSymbol(_)) => return Mig::Off,
        Err(error) => return Mig::Unknown(error.to_string()),
    }
    let most = match device.mig_device_count() {
        Ok(most) => most.min(INSTANCES_MAX),
        Err(error) => return Mig::Unknown(error.to_string()),
    };
    let mut instances = Vec::new();
    for index in 0..most {
        let told = match device.mig_device_by_index(index) {
            Ok(part) => instance(&part),
            // Numbers that no instance has now.
            Err(NotFound | InvalidArg) => continue,
            Err(error) => Err(error.to_string()),
        };
        match told {
            Ok(instance) => instances.push(instance),
            Err(why) => return Mig::Unknown(why),
        }
    }
    Mig::On(instances)
}

/// One instance. An error is a sentence.
fn instance(part: &Device<'_>) -> Result<Instance, String> {
    let uuid = part.uuid().map_err(|error| error.to_string())?;
    if !uuid.starts_with("MIG-") {
        return Err(format!("{uuid:?} is no UUID of a MIG instance"));
    }
    let (gi, ci) = sys::mig::numbers(part)?;
    Ok(Instance {
        uuid,
        profile: profile(&part.name().unwrap_or_default()),
        memory_mib: part.memory_info().map_or(0, |info| info.total >> 20),
        gi,
        ci,
    })
}

/// The profile in the name of an instance: `NVIDIA H200 MIG 1g.18gb` gives `1g.18gb`.
fn profile(name: &str) -> String {
    let word = name.rsplit_once("MIG ").map_or("", |(_, profile)| profile);
    let word = word.split_ascii_whitespace().next().unwrap_or_default();
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
    if word.is_empty() || !word.bytes().all(legal) {
        return "mig".into();
    }
    word.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_from_names() {
        for (name, expected) in [
            ("NVIDIA H200 MIG 1g.18gb", "1g.18gb"),
            ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "1c.3g.20gb"),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb+me"),
            ("NVIDIA H200", "mig"),
            ("NVIDIA H200 MIG ", "mig"),
            ("", "mig"),
        ] {
            assert_eq!(profile(name), expected, "{name}");
        }
    }
}

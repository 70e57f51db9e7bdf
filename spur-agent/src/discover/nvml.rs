//! What only NVML tells of NVIDIA GPUs: memory and NVLink peers.
//!
//! A sick GPU can hold a caller of NVML in the kernel for minutes. The library is therefore called in a child process with a
//! deadline; a child that cannot even be killed is left alone, and the agent goes on without its answer.

use super::nvidia::Information;
use super::pci;
use nvml_wrapper::Nvml;
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
}

impl Extra {
    /// Whether this is about that GPU.
    pub fn is(&self, other: &Information) -> bool {
        if self.uuid.is_empty() || other.uuid.is_empty() {
            self.pci == other.pci
        } else {
            self.uuid == other.uuid
        }
    }
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
    let nvml = Nvml::init().map_err(|e| format!("NVML: {e}"))?;
    let count = nvml.device_count().map_err(|e| format!("NVML: {e}"))?;
    Ok((0..count)
        .filter_map(|index| nvml.device_by_index(index).ok())
        .map(|device| one(&device))
        .collect())
}

/// One GPU; what cannot be asked stays empty.
fn one(device: &nvml_wrapper::Device<'_>) -> Extra {
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

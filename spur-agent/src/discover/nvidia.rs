//! NVIDIA GPUs, from the driver's own files: `/proc/driver/nvidia/gpus/BDF/information`.
//!
//! A GPU's minor is the first that was free when the driver probed it, not its index, and may be another GPU's after a hotplug:
//! it is read here at every grant, from the same place.

use super::{FoundGpu, Identity, mig, nvml, pci, tree::Tree};
use spur_core::resources::{DeviceFile, Gpu, GpuLink, GpuVendor};

/// Name of the kernel module.
pub const MODULE: &str = "nvidia";

const GPUS: &str = "proc/driver/nvidia/gpus";

/// Major of `/dev/nvidiaN`, `nvidiactl` and `nvidia-modeset` (registered by number, see `NV_MAJOR_DEVICE_NUMBER` of the driver).
pub const MAJOR: u32 = 195;
/// Minor of `/dev/nvidiactl`.
pub const CONTROL_MINOR: u32 = 255;
/// Highest minor of a GPU's own node (the driver's `NV_MAX_DEVICES` is 32; later ones up to 254 belong to nobody else).
pub const GPU_MINOR_MAX: u32 = 253;

/// What the driver says of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// PCI address, normalised.
    pub pci: String,
    /// UUID; empty while the driver does not know it (it writes question marks).
    pub uuid: String,
    /// Product name.
    pub product: String,
    /// Number of `/dev/nvidiaN`.
    pub minor: u32,
}

/// Every GPU that the driver offers, in the order of PCI addresses. Excluded ones are left out.
pub fn informations(tree: &Tree, notes: &mut Vec<String>) -> Vec<Information> {
    let mut all = Vec::new();
    for name in tree.names(GPUS) {
        let path = format!("{GPUS}/{name}/information");
        match tree.read(&path).map(|text| parse(&name, &text)) {
            Ok(Ok(information)) => all.extend(information),
            Ok(Err(why)) => notes.push(format!("/{path}: {why}; this GPU is not offered")),
            Err(error) => notes.push(format!("/{path}: {error}; this GPU is not offered")),
        }
    }
    all.sort_by_key(|information| pci::Address::parse(&information.pci));
    all
}

/// Whether the device at this address is the driver's.
pub fn has(tree: &Tree, pci: &str) -> bool {
    tree.exists(&format!("{GPUS}/{pci}"))
}

/// Reads one `information` file; `Ok(None)` for an excluded GPU.
fn parse(folder: &str, text: &str) -> Result<Option<Information>, &'static str> {
    let field = |key: &str| {
        text.lines()
            .find_map(|line| Some(line.strip_prefix(key)?.trim_start_matches(':').trim()))
    };
    if field("GPU Excluded")
        .or(field("Blacklisted"))
        .is_some_and(|flag| flag.eq_ignore_ascii_case("yes"))
    {
        return Ok(None);
    }
    let minor: u32 = field("Device Minor")
        .and_then(|text| text.parse().ok())
        .ok_or("no device minor")?;
    if minor > GPU_MINOR_MAX {
        return Err("its device minor belongs to a control node");
    }
    let location = field("Bus Location")
        .and_then(pci::Address::parse)
        .or_else(|| pci::Address::parse(folder));
    let uuid = field("GPU UUID")
        .filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?'))
        .unwrap_or("");
    Ok(Some(Information {
        pci: location.ok_or("no PCI address")?.to_string(),
        uuid: uuid.to_owned(),
        product: field("Model").unwrap_or("").to_owned(),
        minor,
    }))
}

/// The GPUs, or the instances of those in MIG mode, with memory and links where NVML told them.
pub fn find(tree: &Tree, extra: &[nvml::Extra], notes: &mut Vec<String>) -> Vec<FoundGpu> {
    let mut found: Vec<FoundGpu> = Vec::new();
    for information in informations(tree, notes) {
        let extra = extra.iter().find(|extra| extra.is(&information));
        let whole = whole(tree, &information, extra);
        found.extend(mig::split(tree, whole, information.minor, extra, notes));
    }
    // An instance has no links: the driver joins whole GPUs only.
    let wholes: Vec<(u32, String)> = (0u32..)
        .zip(&found)
        .filter(|(_, found)| found.gpu.parent.is_none())
        .map(|(index, found)| (index, found.gpu.pci.clone()))
        .collect();
    let peer_at = |pci: &String| wholes.iter().find(|(_, other)| other == pci);
    for (index, FoundGpu { gpu, .. }) in (0u32..).zip(&mut found) {
        gpu.index = index;
        let extra = extra.iter().find(|extra| extra.is_at(&gpu.uuid, &gpu.pci));
        if gpu.parent.is_some() {
            continue;
        }
        gpu.links = extra
            .iter()
            .flat_map(|extra| &extra.nvlinks)
            .filter_map(|pci| Some(peer_at(pci)?.0))
            .filter(|peer| *peer != index)
            .map(|peer| (peer, GpuLink::NvLink))
            .collect();
        gpu.links.sort_unstable();
        gpu.links.dedup();
    }
    found
}

/// A GPU as one device, without links, and not numbered yet.
fn whole(tree: &Tree, information: &Information, extra: Option<&nvml::Extra>) -> FoundGpu {
    let name = extra
        .map(|extra| extra.name.as_str())
        .filter(|name| !name.is_empty());
    FoundGpu {
        gpu: Gpu {
            index: 0,
            vendor: GpuVendor::Nvidia,
            model: model(name.unwrap_or(&information.product)),
            uuid: information.uuid.clone(),
            pci: information.pci.clone(),
            numa: pci::numa(tree, &information.pci),
            memory_mib: extra.map_or(0, |extra| extra.memory_mib),
            files: vec![file(information.minor)],
            links: Vec::new(),
            rail: None,
            parent: None,
        },
        identity: Identity::Nvidia {
            uuid: information.uuid.clone(),
            pci: information.pci.clone(),
        },
    }
}

/// The node of a GPU.
pub fn file(minor: u32) -> DeviceFile {
    DeviceFile {
        path: format!("/dev/nvidia{minor}"),
        major: MAJOR,
        minor,
    }
}

/// Slurm's GRES type for a product name: `NVIDIA H100 80GB HBM3` gives `h100`, `NVIDIA GeForce RTX 4090` gives `rtx4090`.
pub fn model(product: &str) -> String {
    let words: Vec<String> = product
        .split([' ', '-', '_', '/'])
        .map(str::to_ascii_lowercase)
        .collect();
    let brand = |word: &str| matches!(word, "rtx" | "gtx" | "gt" | "titan");
    let number = |word: &str| word.bytes().next().is_some_and(|b| b.is_ascii_digit());
    let named = |word: &str| {
        word.bytes().any(|b| b.is_ascii_digit()) && word.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let mut name = String::new();
    if let Some(at) = words.iter().position(|word| brand(word)) {
        let rest = words[at + 1..].iter().take_while(|word| {
            number(word)
                || matches!(
                    word.as_str(),
                    "ti" | "super" | "ada" | "x" | "xp" | "v" | "rtx" | "pro"
                )
        });
        name = std::iter::once(&words[at])
            .chain(rest)
            .map(String::as_str)
            .collect();
        if let Some(alone) = words
            .get(at + 1)
            .filter(|word| named(word) && !number(word))
        {
            name.clone_from(alone);
        }
    } else if let Some(word) = words.iter().find(|word| named(word) && !number(word)) {
        name.clone_from(word);
    }
    if name.is_empty() {
        if product.is_empty() {
            String::new()
        } else {
            "nvidia".into()
        }
    } else {
        name
    }
}

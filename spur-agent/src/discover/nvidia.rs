//! NVIDIA GPUs, from the driver's own files: `/proc/driver/nvidia/gpus/BDF/information`.
//!
//! A GPU's minor is the first that was free when the driver probed it, not its index, and may be another GPU's after a hotplug:
//! it is read here at every grant, from the same place.

use super::{FoundGpu, Identity, nvml, pci, tree::Tree};
use spur_core::resources::{DeviceFile, Gpu, GpuLink, GpuVendor};

/// Name of the kernel module.
pub const MODULE: &str = "nvidia";

const GPUS: &str = "proc/driver/nvidia/gpus";
const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";

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

/// The GPUs, with memory and links where NVML told them.
pub fn find(tree: &Tree, extra: &[nvml::Extra], notes: &mut Vec<String>) -> Vec<FoundGpu> {
    let all = informations(tree, notes);
    let index_of = |pci: &str| {
        (0u32..)
            .zip(&all)
            .find(|(_, other)| other.pci == pci)
            .map(|(index, _)| index)
    };
    (0u32..)
        .zip(&all)
        .map(|(index, information)| {
            let extra = extra.iter().find(|extra| extra.is(information));
            let mut links: Vec<(u32, GpuLink)> = extra
                .iter()
                .flat_map(|extra| &extra.nvlinks)
                .filter_map(|peer| index_of(peer))
                .filter(|peer| *peer != index)
                .map(|peer| (peer, GpuLink::NvLink))
                .collect();
            links.sort_unstable();
            links.dedup();
            let name = extra
                .map(|extra| extra.name.as_str())
                .filter(|name| !name.is_empty());
            FoundGpu {
                gpu: Gpu {
                    index,
                    vendor: GpuVendor::Nvidia,
                    model: model(name.unwrap_or(&information.product)),
                    uuid: information.uuid.clone(),
                    pci: information.pci.clone(),
                    numa: pci::numa(tree, &information.pci),
                    memory_mib: extra.map_or(0, |extra| extra.memory_mib),
                    files: vec![file(information.minor)],
                    links,
                    rail: None,
                    parent: None,
                },
                identity: Identity::Nvidia {
                    uuid: information.uuid.clone(),
                    pci: information.pci.clone(),
                },
            }
        })
        .collect()
}

/// The node of a GPU.
pub fn file(minor: u32) -> DeviceFile {
    DeviceFile {
        path: format!("/dev/nvidia{minor}"),
        major: MAJOR,
        minor,
    }
}

/// Minors (of the `nvidia-caps` major) that open the MIG instances of the GPU with this device minor: `access` of every GPU and
/// compute instance, never `config` or `monitor`.
pub fn mig_access_minors(tree: &Tree, minor: u32) -> Vec<u32> {
    let top = format!("{CAPABILITIES}/gpu{minor}/mig");
    let mut folders: Vec<String> = tree
        .names(&top)
        .into_iter()
        .filter(|name| name.starts_with("gi"))
        .collect();
    let within: Vec<String> = folders
        .iter()
        .flat_map(|gi| {
            tree.names(&format!("{top}/{gi}"))
                .into_iter()
                .map(move |ci| format!("{gi}/{ci}"))
        })
        .filter(|name| name.contains("/ci"))
        .collect();
    folders.extend(within);
    folders
        .iter()
        .filter_map(|folder| {
            let text = tree.read(&format!("{top}/{folder}/access")).ok()?;
            text.lines()
                .find_map(|line| line.strip_prefix("DeviceFileMinor:")?.trim().parse().ok())
        })
        .collect()
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

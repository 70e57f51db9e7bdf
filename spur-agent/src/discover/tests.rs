//! Discovery against captured and invented trees.

use super::*;
use crate::config::{DeclaredGpus, DeclaredLinks};
use spur_core::resources::{GpuLink, GpuVendor};
use std::path::{Path, PathBuf};

/// A folder of files made up by a test.
pub(crate) struct Fake(tempfile::TempDir);

impl Fake {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// A relative link, as sysfs makes them.
    pub(crate) fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    pub(crate) fn remove(&self, path: &str) -> &Self {
        std::fs::remove_dir_all(self.0.path().join(path)).unwrap();
        self
    }

    pub(crate) fn tree(&self) -> Tree {
        Tree::new(self.0.path())
    }

    /// An NVIDIA GPU as the driver shows it.
    pub(crate) fn nvidia(&self, pci: &str, minor: u32, uuid: &str, model: &str) -> &Self {
        let text = format!(
            "Model: \t\t {model}\nIRQ:   \t\t 74\nGPU UUID: \t {uuid}\nVideo BIOS: \t 96.00.5e.00.01\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n\
             DMA Mask: \t 0xfffffffffffff\nBus Location: \t {pci}\nDevice Minor: \t {minor}\nGPU Firmware: \t 550.90.07\nGPU Excluded:\t No\n"
        );
        self.file(&format!("proc/driver/nvidia/gpus/{pci}/information"), &text)
            .file(&format!("sys/bus/pci/devices/{pci}/numa_node"), "1\n")
    }
}

/// Unpacks a captured tree; `None`, with a word on why, where the archives are not at hand.
fn captured(archive: &str) -> Option<tempfile::TempDir> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared/fixtures")
        .join(archive);
    if !file.exists() {
        eprintln!("skipped: {} is not there", file.display());
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("tar")
        .arg("xf")
        .arg(&file)
        .arg("-C")
        .arg(dir.path())
        .status()
        .unwrap();
    assert!(status.success(), "tar cannot unpack {archive}");
    Some(dir)
}

/// The one folder in a folder.
fn only(dir: &Path) -> PathBuf {
    std::fs::read_dir(dir)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
}

#[test]
fn processors_of_captured_machines() {
    // (archive, online CPUs, sockets, cores per socket, threads per core, NUMA nodes among them)
    let cases = [
        ("cpu-16em64t-4s2c2t-offlines.tar.bz2", 12, 4, 1, 1, 1),
        (
            "cpu-20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2",
            20,
            1,
            14,
            1,
            1,
        ),
        ("cpu-32amd64-4s2n4c-cgroup2.tar.bz2", 6, 1, 6, 1, 2),
        ("cpu-40intel64-2g2n4c+pcilocality.tar.bz2", 40, 4, 10, 1, 4),
        ("cpu-96em64t-4no4pa3ca2co.tar.bz2", 96, 16, 6, 1, 4),
    ];
    for (archive, cpus, sockets, cores, threads, nodes) in cases {
        let Some(dir) = captured(archive) else { return };
        let found = cpu::find(&Tree::new(&only(dir.path())));
        let distinct: std::collections::BTreeSet<u32> = found.numa.iter().copied().collect();
        let shape = (
            found.host.len(),
            found.sockets,
            found.cores_per_socket,
            found.threads_per_core,
            distinct.len(),
        );
        assert_eq!(shape, (cpus, sockets, cores, threads, nodes), "{archive}");
        let mut sorted = found.host.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), cpus, "{archive}: every CPU once");
    }
}

#[test]
fn offline_processors_are_not_offered_and_threads_of_a_core_are_neighbours() {
    let fake = Fake::new();
    for (cpu, core) in [(0, "0,4"), (1, "1,5"), (4, "0,4"), (5, "1,5"), (6, "6")] {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        fake.file(&format!("{path}/core_cpus_list"), core)
            .file(&format!("{path}/package_cpus_list"), "0-1,4-6");
    }
    fake.file("sys/devices/system/cpu/online", "0-1,4-5\n");
    let found = cpu::find(&fake.tree());
    assert_eq!(found.host, [0, 4, 1, 5]);
    assert_eq!(
        (
            found.sockets,
            found.cores_per_socket,
            found.threads_per_core
        ),
        (1, 2, 2)
    );
}

#[test]
fn memory_of_captured_machines() {
    for (archive, mib) in [
        ("cpu-20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2", 31_728),
        ("cpu-32amd64-4s2n4c-cgroup2.tar.bz2", 129_194),
    ] {
        let Some(dir) = captured(archive) else { return };
        assert_eq!(
            memory::total_mib(&Tree::new(&only(dir.path()))),
            mib,
            "{archive}"
        );
    }
}

/// A captured KFD topology, put where the kernel has it.
pub(crate) fn kfd(archive: &str, inside: &str) -> Option<(tempfile::TempDir, Tree)> {
    let dir = captured(archive)?;
    let kfd = dir.path().join("sys/class/kfd/kfd");
    std::fs::create_dir_all(&kfd).unwrap();
    std::fs::rename(
        dir.path().join("testdata").join(inside),
        kfd.join("topology"),
    )
    .unwrap();
    let tree = Tree::new(dir.path());
    Some((dir, tree))
}

#[test]
fn partitions_are_gpus_with_render_nodes_of_their_own() {
    let Some((_dir, tree)) = kfd(
        "kfd-topology-parsing-mi308.tar.xz",
        "topology-parsing-mi308/topology",
    ) else {
        return;
    };
    let mut notes = Vec::new();
    let gpus = amd::find(&tree, &mut notes);
    assert_eq!((gpus.len(), notes), (32, Vec::new()));
    let first = &gpus[0].gpu;
    assert_eq!(
        (
            first.model.as_str(),
            first.uuid.as_str(),
            first.pci.as_str()
        ),
        ("mi308x_qpx", "084cafeae17e7696", "0000:0a:00.0")
    );
    assert_eq!(
        (first.memory_mib, first.numa, first.files[0].minor),
        (49_152, Some(0), 128)
    );
    assert_eq!(
        gpus[3].gpu.pci, first.pci,
        "a partition has its GPU's address"
    );
    assert_eq!(gpus[31].gpu.numa, Some(1));
    let parent = first.parent.as_ref().unwrap();
    assert_eq!(
        (parent.uuid.as_str(), parent.profile.as_str()),
        (first.uuid.as_str(), "qpx")
    );
    let parents: std::collections::BTreeSet<_> =
        gpus.iter().map(|gpu| gpu.gpu.parent.clone()).collect();
    assert_eq!(parents.len(), 8, "four parts of each GPU");
    assert!(first.links.len() == 31 && first.links.iter().all(|link| link.1 == GpuLink::Xgmi));
    let minors: std::collections::BTreeSet<u32> =
        gpus.iter().map(|gpu| gpu.gpu.files[0].minor).collect();
    let identities: std::collections::BTreeSet<&Identity> =
        gpus.iter().map(|gpu| &gpu.identity).collect();
    assert_eq!((minors.len(), identities.len()), (32, 32));
}

#[test]
fn links_of_two_kinds() {
    let Some((_dir, tree)) = kfd("kfd-topo-mi210-xgmi-pcie.tar.xz", "topo-mi210-xgmi-pcie") else {
        return;
    };
    let gpus = amd::find(&tree, &mut Vec::new());
    assert!(gpus.iter().all(|gpu| gpu.gpu.model == "mi210"));
    let of = |index: usize, kind: GpuLink| -> Vec<u32> {
        gpus[index]
            .gpu
            .links
            .iter()
            .filter(|link| link.1 == kind)
            .map(|link| link.0)
            .collect()
    };
    assert_eq!(of(1, GpuLink::Xgmi), [0, 2, 3]);
    assert!(!of(1, GpuLink::Pcie).is_empty());
    for gpu in &gpus {
        for (peer, kind) in &gpu.gpu.links {
            let back = &gpus[*peer as usize].gpu.links;
            assert!(
                back.contains(&(gpu.gpu.index, *kind)),
                "a link goes both ways"
            );
        }
    }
}

#[test]
fn an_old_topology_without_target_version() {
    let Some((_dir, tree)) = kfd("kfd-topology-parsing.tar.xz", "topology-parsing/topology") else {
        return;
    };
    let gpus = amd::find(&tree, &mut Vec::new());
    let facts: Vec<_> = gpus
        .iter()
        .map(|gpu| {
            (
                gpu.gpu.model.as_str(),
                gpu.gpu.memory_mib,
                gpu.gpu.files[0].minor,
            )
        })
        .collect();
    assert_eq!(facts, [("mi25", 16_368, 128), ("mi25", 16_368, 129)]);
    assert_eq!(gpus[0].gpu.pci, "0000:19:00.0");
}

#[test]
fn nvidia_gpus_by_pci_address_with_what_nvml_adds() {
    let fake = Fake::new();
    fake.nvidia("0000:c1:00.0", 0, "GPU-cc", "NVIDIA H100 80GB HBM3")
        .nvidia("0000:19:00.0", 1, "GPU-aa", "NVIDIA H100 80GB HBM3");
    fake.file(
        "proc/driver/nvidia/gpus/0000:2a:00.0/information",
        "Model: \t x\nDevice Minor: \t 2\nGPU Excluded:\t Yes\n",
    );
    fake.file(
        "proc/driver/nvidia/gpus/0000:2b:00.0/information",
        "Model: \t x\n",
    );
    let extra = [nvml::Extra {
        uuid: "GPU-aa".into(),
        memory_mib: 81_559,
        nvlinks: vec![
            "0000:c1:00.0".into(),
            "0000:c1:00.0".into(),
            "0000:07:00.0".into(),
        ],
        ..Default::default()
    }];
    let mut notes = Vec::new();
    let gpus = nvidia::find(&fake.tree(), &extra, &mut notes);
    assert_eq!(gpus.len(), 2);
    assert_eq!(notes.len(), 1, "the unreadable one is mentioned: {notes:?}");
    let first = &gpus[0].gpu;
    assert_eq!(
        (
            first.uuid.as_str(),
            first.model.as_str(),
            first.memory_mib,
            first.numa
        ),
        ("GPU-aa", "h100", 81_559, Some(1))
    );
    assert_eq!(first.files[0].path, "/dev/nvidia1");
    assert_eq!(first.links, [(1, GpuLink::NvLink)]);
}

#[test]
fn models_of_nvidia_products() {
    for (product, model) in [
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 3080 Ti", "rtx3080ti"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000ada"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA TITAN V", "titanv"),
        ("NVIDIA Something", "nvidia"),
    ] {
        assert_eq!(nvidia::model(product), model, "{product}");
    }
}

#[test]
fn other_render_nodes_and_those_already_claimed() {
    let fake = Fake::new();
    fake.file("sys/devices/platform/vgem/drm/renderD130/dev", "226:130\n")
        .link(
            "sys/class/drm/renderD130",
            "../../devices/platform/vgem/drm/renderD130",
        )
        .link(
            "sys/devices/platform/vgem/drm/renderD130/device",
            "../../../vgem",
        )
        .file(
            "sys/devices/pci0000:00/0000:00:19.0/drm/renderD128/dev",
            "226:128\n",
        )
        .link(
            "sys/class/drm/renderD128",
            "../../devices/pci0000:00/0000:00:19.0/drm/renderD128",
        )
        .link(
            "sys/devices/pci0000:00/0000:00:19.0/drm/renderD128/device",
            "../../../0000:00:19.0",
        )
        .file(
            "sys/devices/pci0000:00/0000:00:02.0/virtio0/drm/renderD129/dev",
            "226:129\n",
        )
        .link(
            "sys/class/drm/renderD129",
            "../../devices/pci0000:00/0000:00:02.0/virtio0/drm/renderD129",
        )
        .link(
            "sys/devices/pci0000:00/0000:00:02.0/virtio0/drm/renderD129/device",
            "../../../virtio0",
        )
        .file("sys/bus/virtio/drivers/virtio_gpu/uevent", "")
        .link(
            "sys/devices/pci0000:00/0000:00:02.0/virtio0/driver",
            "../../../../bus/virtio/drivers/virtio_gpu",
        )
        .nvidia("0000:00:19.0", 0, "GPU-aa", "NVIDIA L40S");
    let machine = survey(&fake.tree(), &Declare::default(), &[]);
    let facts: Vec<_> = machine
        .inventory
        .gpus
        .iter()
        .map(|gpu| (gpu.index, gpu.vendor, gpu.model.as_str(), gpu.pci.as_str()))
        .collect();
    assert_eq!(
        facts,
        [
            (0, GpuVendor::Nvidia, "l40s", "0000:00:19.0"),
            (1, GpuVendor::Drm, "virtio_gpu", "0000:00:02.0"),
            (2, GpuVendor::Drm, "vgem", ""),
        ]
    );
    assert_eq!(machine.notes, Vec::<String>::new());
    assert!(!machine.inventory.simulated);
}

#[test]
fn declarations_replace_what_is_found() {
    let fake = Fake::new();
    fake.nvidia("0000:19:00.0", 0, "GPU-aa", "NVIDIA H200")
        .file("proc/meminfo", "MemTotal: 2048 kB\n");
    let gpus = vec![DeclaredGpus {
        model: "h200".into(),
        count: 3,
        memory_mib: 144_384,
        dev_dir: "/d".into(),
        major: 120,
        minor: 40,
        links: None,
        island: None,
        profile: None,
        parts: 1,
    }];
    let declare = Declare {
        cpus: Some(64),
        gpus: Some(gpus),
        ..Declare::default()
    };
    let Machine {
        inventory,
        host_cpus,
        identities,
        ..
    } = survey(&fake.tree(), &declare, &[]);
    assert_eq!(
        (
            inventory.cpus,
            inventory.memory_mib,
            inventory.gpus.len(),
            inventory.simulated
        ),
        (64, 2, 3, true)
    );
    assert_eq!((host_cpus.len(), identities.len()), (0, 3));
    assert_eq!(inventory.gpus[2].files[0].path, "/d/gpu2");
    assert_eq!(inventory.gpus[2].files[0].minor, 42);
    assert!(
        inventory
            .gpus
            .iter()
            .all(|gpu| gpu.vendor == GpuVendor::Simulated)
    );
}

#[test]
fn this_machine_can_be_looked_at() {
    let machine = survey(&Tree::new(Path::new("/")), &Declare::default(), &[]);
    assert!(
        machine.inventory.cpus >= 1 && machine.inventory.memory_mib > 0,
        "{machine:?}"
    );
    assert_eq!(machine.host_cpus.len(), machine.inventory.cpus as usize);
}

#[test]
fn declared_sockets_are_near_no_gpu() {
    let group = DeclaredGpus {
        model: "h200".into(),
        count: 4,
        memory_mib: 1000,
        links: None,
        island: None,
        profile: None,
        parts: 1,
        dev_dir: "/h200".into(),
        major: 120,
        minor: 0,
    };
    let declare = Declare {
        cpus: Some(12),
        sockets: Some(2),
        gpus: Some(vec![group]),
        ..Declare::default()
    };
    let inventory = survey(&Fake::new().tree(), &declare, &[]).inventory;
    assert_eq!((inventory.sockets, inventory.cores_per_socket), (2, 6));
    assert_eq!(inventory.cpus_by_numa.len(), 2);
    assert!(inventory.gpus.iter().all(|gpu| gpu.numa.is_none()));
}

#[test]
fn declared_numa_nodes_links_rails_and_parts() {
    let group = |model: &str, count, minor| DeclaredGpus {
        model: model.into(),
        count,
        memory_mib: 1000,
        links: None,
        island: None,
        profile: None,
        parts: 1,
        dev_dir: format!("/{model}").into(),
        major: 120,
        minor,
    };
    let whole = DeclaredGpus {
        links: Some(DeclaredLinks::Nvlink),
        island: Some(2),
        ..group("h200", 4, 0)
    };
    let parted = DeclaredGpus {
        profile: Some("1g.18gb".into()),
        parts: 3,
        ..group("b200", 2, 8)
    };
    let declare = Declare {
        cpus: Some(12),
        numa: Some(2),
        rails: Some(3),
        gpus: Some(vec![whole, parted]),
        ..Declare::default()
    };
    let inventory = survey(&Fake::new().tree(), &declare, &[]).inventory;
    let shown: Vec<String> = inventory
        .cpus_by_numa
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(shown, ["0-5", "6-11"]);
    assert_eq!((inventory.sockets, inventory.cores_per_socket), (2, 6));
    let gpus = &inventory.gpus;
    let numa: Vec<u32> = gpus.iter().filter_map(|gpu| gpu.numa).collect();
    assert_eq!(numa, [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
    let rails: Vec<u32> = gpus.iter().filter_map(|gpu| gpu.rail).collect();
    assert_eq!(rails, [0, 0, 1, 1, 2, 2, 2, 2, 2, 2]);
    let links: Vec<Vec<u32>> = gpus
        .iter()
        .map(|gpu| gpu.links.iter().map(|(peer, _)| *peer).collect())
        .collect();
    assert_eq!(links[..5], [vec![1], vec![0], vec![3], vec![2], vec![]]);
    assert_eq!(gpus[0].links[0].1, GpuLink::NvLink);
    assert_eq!(
        (gpus[4].model.as_str(), gpus[4].memory_mib),
        ("b200_1g.18gb", 1000)
    );
    assert_eq!(gpus[4].parent, gpus[6].parent);
    assert_ne!(gpus[4].parent, gpus[7].parent);
    assert_eq!(gpus[0].parent, None);
    let minors: Vec<u32> = gpus.iter().map(|gpu| gpu.files[0].minor).collect();
    assert_eq!(minors, [0, 1, 2, 3, 8, 9, 10, 11, 12, 13]);
}

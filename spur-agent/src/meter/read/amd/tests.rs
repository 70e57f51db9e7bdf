use super::*;
use std::collections::BTreeMap;
use std::fs;

/// A tree with the files of an MI300X in so many partitions, or of a card.
struct Lab {
    dir: tempfile::TempDir,
}

const DEVICE: &str = "sys/bus/pci/devices/0000:c1:00.0";

impl Lab {
    fn new(nodes: &[(u32, u32)]) -> Self {
        let lab = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for (number, gpu_id) in nodes {
            let node = format!("sys/class/kfd/kfd/topology/nodes/{number}");
            let location = (0xc1 << 8) + number - 1;
            let text = format!(
                "simd_count 304\nunique_id 77\ndomain 0\nlocation_id {location}\ndrm_render_minor {}\ndevice_id 29857\n",
                127 + number
            );
            lab.write(&format!("{node}/properties"), text.as_bytes());
            lab.write(&format!("{node}/gpu_id"), gpu_id.to_string().as_bytes());
        }
        lab
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn device(&self, file: &str, text: &str) {
        self.write(&format!("{DEVICE}/{file}"), text.as_bytes());
    }

    fn gpus(&self, partitions: u32) -> Vec<AmdGpu> {
        let identity = |partition| Identity::Amd {
            unique_id: 77,
            pci: "0000:c1:00.0".into(),
            partition,
        };
        let identities: Vec<Identity> = (0..partitions).map(identity).collect();
        AmdGpu::find(&Tree::new(self.dir.path()), &identities)
    }
}

fn looks(gpus: &mut [AmdGpu]) -> BTreeMap<u32, DeviceLook> {
    let mut buffer = Vec::new();
    gpus.iter_mut()
        .filter_map(|gpu| {
            gpu.look(1000, true, &mut buffer)
                .map(|look| (gpu.index, look))
        })
        .collect()
}

/// A table in which nothing is supported but what is set.
fn table(format: u8, content: u8, size: u16, set: &[(usize, u16)]) -> Vec<u8> {
    let mut bytes = vec![0xff; usize::from(size)];
    let [low, high] = size.to_le_bytes();
    bytes[..4].copy_from_slice(&[low, high, format, content]);
    for (at, value) in set {
        bytes[*at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[test]
fn a_card_tells_by_its_table_and_by_its_other_files() {
    let lab = Lab::new(&[(1, 500)]);
    lab.write(
        &format!("{DEVICE}/gpu_metrics"),
        &table(1, 3, 120, &[(16, 42), (22, 200)]),
    );
    lab.device("mem_info_vram_used", "1048576\n");
    lab.device("mem_info_vram_total", "4194304\n");
    lab.device("hwmon/hwmon3/power1_average", "123000000\n");
    lab.device("hwmon/hwmon3/temp2_input", "55000\n");
    lab.device("hwmon/hwmon3/freq1_input", "1700000000\n");
    lab.device("ras/umc_err_count", "ue: 1\nce: 20\n");
    lab.device("ras/gfx_err_count", "ue: 0\nce: 3\n");
    lab.device("ras/features", "feature mask: 0x3\n");
    let mut gpus = lab.gpus(1);
    let look = &looks(&mut gpus)[&0];
    assert_eq!(
        look.busy,
        Some(DeviceBusy {
            permille: 420,
            source: Source::GpuMetrics,
            quality: Quality::Sampled
        })
    );
    assert_eq!(look.level(Metric::HwPower), Some(200_000));
    assert_eq!(
        (
            look.level(Metric::HwTemperature),
            look.level(Metric::HwClock)
        ),
        (Some(55_000), Some(1700))
    );
    assert_eq!(
        (
            look.level(Metric::HwMemory),
            look.level(Metric::HwMemoryLimit)
        ),
        (Some(1 << 20), Some(4 << 20))
    );
    assert_eq!(
        (
            look.count(Metric::HwEccCorrected),
            look.count(Metric::HwEccUncorrected)
        ),
        (Some(23), Some(1))
    );
    assert_eq!(
        (
            look.count(Metric::HwEnergy),
            look.count(Metric::HwThrottlePower)
        ),
        (None, None)
    );
}

#[test]
fn a_table_of_an_unknown_version_leaves_what_other_files_tell() {
    let lab = Lab::new(&[(1, 500)]);
    lab.write(&format!("{DEVICE}/gpu_metrics"), &table(1, 9, 500, &[]));
    lab.device("gpu_busy_percent", "31\n");
    let mut gpus = lab.gpus(1);
    let look = &looks(&mut gpus)[&0];
    assert_eq!(
        look.busy,
        Some(DeviceBusy {
            permille: 310,
            source: Source::Sysfs,
            quality: Quality::Sampled
        })
    );
    assert_eq!(look.told, []);
    lab.device("gpu_busy_percent", "655\n");
    assert_eq!(looks(&mut gpus)[&0].busy, None, "nonsense");
}

#[test]
fn partitions_have_their_own_part_and_the_first_tells_of_the_whole() {
    for (partitions, told) in [
        (1u16, [Some(900), None, None, None]),
        (2, [Some(100), Some(0), None, None]),
        (4, [Some(100), Some(0), Some(60), Some(1000)]),
    ] {
        let nodes: Vec<(u32, u32)> = (0..u32::from(partitions))
            .map(|part| (part + 1, 500 + part))
            .collect();
        let lab = Lab::new(&nodes);
        let mut bytes = table(1, 6, 1664, &[(12, 90), (10, 600), (306, partitions)]);
        for (part, percent) in [(0usize, 10u32), (1, 0), (2, 6), (3, 100)] {
            bytes[312 + part * 168..][..4].copy_from_slice(&percent.to_le_bytes());
        }
        lab.write(&format!("{DEVICE}/gpu_metrics"), &bytes);
        lab.device("mem_info_vram_used", "7\n");
        let mut gpus = lab.gpus(partitions.into());
        assert_eq!(gpus.len(), usize::from(partitions));
        let looks = looks(&mut gpus);
        for (part, look) in &looks {
            assert_eq!(
                look.busy.map(|busy| busy.permille),
                told[*part as usize],
                "{part} of {partitions}"
            );
            let whole = *part == 0;
            assert_eq!(
                (
                    look.level(Metric::HwPower).is_some(),
                    look.level(Metric::HwMemory).is_some()
                ),
                (whole, whole)
            );
        }
        let estimated = looks[&0].busy.unwrap().quality == Quality::Estimated;
        assert_eq!(estimated, partitions > 1);
    }
}

#[test]
fn an_old_table_tells_nothing_of_a_partition() {
    let lab = Lab::new(&[(1, 500), (2, 501)]);
    lab.write(
        &format!("{DEVICE}/gpu_metrics"),
        &table(1, 4, 288, &[(12, 90)]),
    );
    let mut gpus = lab.gpus(2);
    let looks = looks(&mut gpus);
    assert_eq!(looks[&1].busy, None);
}

#[test]
fn a_suspended_gpu_is_left_alone() {
    let lab = Lab::new(&[(1, 500)]);
    lab.device("gpu_busy_percent", "31\n");
    lab.device("power/runtime_status", "suspended\n");
    let mut gpus = lab.gpus(1);
    assert!(looks(&mut gpus).is_empty());
    lab.device("power/runtime_status", "active\n");
    assert_eq!(looks(&mut gpus).len(), 1);
}

#[test]
fn processes_are_those_that_have_memory_there() {
    let lab = Lab::new(&[(1, 500), (2, 501)]);
    for (pid, gpu, bytes) in [(10, 500, 4096), (10, 501, 0), (11, 501, 8192), (12, 500, 0)] {
        lab.write(
            &format!("{PROCESSES}/{pid}/vram_{gpu}"),
            bytes.to_string().as_bytes(),
        );
    }
    let mut gpus = lab.gpus(2);
    let mut told = looks(&mut gpus);
    processes(&Tree::new(lab.dir.path()), &gpus, &mut told);
    let of = |gpu: u32| {
        told[&gpu]
            .processes
            .clone()
            .unwrap()
            .iter()
            .map(|process| (process.pid, process.memory))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(0), [(10, Some(4096))]);
    assert_eq!(of(1), [(11, Some(8192))]);
}

#[test]
fn trees_of_real_machines_are_found() {
    for (archive, inside, gpus) in [
        ("kfd-topo-mi210-xgmi-pcie.tar.xz", "topo-mi210-xgmi-pcie", 1),
        (
            "kfd-topology-parsing-mi308.tar.xz",
            "topology-parsing-mi308/topology",
            4,
        ),
    ] {
        let Some((dir, tree)) = crate::discover::tests::kfd(archive, inside) else {
            return;
        };
        let found = crate::discover::amd::find(&tree, &mut Vec::new());
        let first = found[0].gpu.pci.clone();
        let device = dir.path().join(format!("sys/bus/pci/devices/{first}"));
        fs::create_dir_all(&device).unwrap();
        let parts = u16::try_from(gpus).unwrap();
        let mut bytes = table(1, 6, 1664, &[(12, 77), (306, parts)]);
        bytes[312 + 3 * 168..][..4].copy_from_slice(&44u32.to_le_bytes());
        fs::write(device.join("gpu_metrics"), &bytes).unwrap();
        let identities: Vec<Identity> = found.into_iter().map(|found| found.identity).collect();
        let mut all = AmdGpu::find(&tree, &identities);
        assert_eq!(all.len(), identities.len(), "{archive}");
        // The older capture has no gpu_id.
        assert!(
            gpus == 1 || all.iter().all(|gpu| gpu.gpu_id.is_some()),
            "{archive}"
        );
        let told = looks(&mut all);
        let busy: Vec<_> = told
            .values()
            .map(|look| look.busy.map(|busy| busy.permille))
            .collect();
        let expected = if gpus == 1 {
            [Some(770), None, None, None]
        } else {
            [None, None, None, Some(440)]
        };
        assert_eq!(busy[..4], expected, "{archive}");
    }
}

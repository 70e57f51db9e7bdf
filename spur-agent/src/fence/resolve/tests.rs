use super::*;
use crate::discover::{survey, tests::Fake};

const DEVICES: &str = "Character devices:\n  1 mem\n 10 misc\n195 nvidia\n226 drm\n235 nvidia-caps\n236 vfio\n\
                       237 nvidia-nvswitch\n238 kfd\n239 nvidia-caps-imex-channels\n240 infiniband_verbs\n511 nvidia-uvm\n\
                       \nBlock devices:\n250 nvidia-not-a-character-device\n";

fn numbers(files: &BTreeSet<DeviceFile>) -> Vec<(u32, u32)> {
    let mut numbers: Vec<_> = files.iter().map(|file| (file.major, file.minor)).collect();
    numbers.sort_unstable();
    numbers
}

fn grant(devices: &Devices, gpus: &[u32]) -> Result<Vec<(u32, u32)>, Ungrantable> {
    devices
        .grant(&gpus.iter().copied().collect())
        .map(|files| numbers(&files))
}

#[test]
fn classes_follow_proc_devices() {
    let now = classes::fenced(DEVICES, [120], false);
    for major in [226, 195, 261, 235, 236, 237, 238, 239, 511, 120] {
        assert!(now.contains(&Fenced::Major(major)), "{major} is fenced");
    }
    for minor in [1, 2, 4] {
        assert!(
            now.contains(&Fenced::Device(1, minor)),
            "1:{minor} is fenced"
        );
    }
    assert!(now.contains(&Fenced::Device(10, 196)));
    for major in [1, 10, 240, 231, 250] {
        assert!(
            !now.contains(&Fenced::Major(major)),
            "{major} is left to file modes"
        );
    }
    assert!(classes::fenced(DEVICES, [], true).contains(&Fenced::Major(240)));
    let old = classes::fenced("Character devices:\n195 nvidia-frontend\n", [], false);
    assert!(
        old.contains(&Fenced::Major(195)) && old.contains(&Fenced::Major(226)),
        "also before a driver is loaded"
    );
}

#[test]
fn a_grant_has_the_gpus_own_nodes_and_its_vendors_controls_only() {
    let fake = Fake::new();
    fake.file("proc/devices", DEVICES)
        .nvidia("0000:19:00.0", 1, "GPU-aa", "NVIDIA H200")
        .nvidia("0000:2a:00.0", 0, "GPU-bb", "NVIDIA H200")
        .file(
            "proc/driver/nvidia/capabilities/gpu1/mig/gi1/access",
            "DeviceFileMinor: 12\nDeviceFileMode: 292\n",
        )
        .file(
            "proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci0/access",
            "DeviceFileMinor: 13\nDeviceFileMode: 292\n",
        )
        .file(
            "proc/driver/nvidia/capabilities/mig/config",
            "DeviceFileMinor: 1\nDeviceFileMode: 256\n",
        )
        .file(
            "sys/class/kfd/kfd/topology/nodes/0/properties",
            "simd_count 0\n",
        )
        .file(
            "sys/class/kfd/kfd/topology/nodes/1/properties",
            "simd_count 304\ndrm_render_minor 136\nunique_id 7\n",
        );
    let machine = survey(&fake.tree(), &Declare::default(), &[]);
    let devices = resolve(&fake.tree(), &machine, &Declare::default(), false);
    assert_eq!(
        grant(&devices, &[0]).unwrap(),
        [(195, 1), (195, 255), (235, 12), (235, 13), (511, 0)]
    );
    assert_eq!(
        grant(&devices, &[1]).unwrap(),
        [(195, 0), (195, 255), (511, 0)]
    );
    assert_eq!(grant(&devices, &[2]).unwrap(), [(226, 136), (238, 0)]);
    assert_eq!(grant(&devices, &[]).unwrap(), []);
    assert_eq!(
        grant(&devices, &[3]).unwrap_err(),
        Ungrantable::Unknown { index: 3, count: 3 }
    );
    assert_eq!(devices.path_of(195, 1), "/dev/nvidia1");
    assert_eq!(devices.path_of(195, 7), "");
}

#[test]
fn numbers_are_looked_up_again_and_go_with_the_gpu() {
    let fake = Fake::new();
    fake.file("proc/devices", DEVICES)
        .nvidia("0000:19:00.0", 0, "GPU-aa", "NVIDIA H200")
        .nvidia("0000:2a:00.0", 1, "GPU-bb", "NVIDIA H200");
    let machine = survey(&fake.tree(), &Declare::default(), &[]);
    let own = |gpu: u32| {
        grant(
            &resolve(&fake.tree(), &machine, &Declare::default(), false),
            &[gpu],
        )
        .map(|all| all[0])
    };
    assert_eq!((own(0).unwrap(), own(1).unwrap()), ((195, 0), (195, 1)));
    fake.nvidia("0000:19:00.0", 1, "GPU-aa", "NVIDIA H200")
        .nvidia("0000:2a:00.0", 0, "GPU-bb", "NVIDIA H200");
    assert_eq!(
        (own(0).unwrap(), own(1).unwrap()),
        ((195, 1), (195, 0)),
        "swapped minors"
    );
    fake.nvidia("0000:19:00.0", 0, "GPU-bb", "NVIDIA H200")
        .remove("proc/driver/nvidia/gpus/0000:2a:00.0");
    assert!(
        matches!(own(0), Err(Ungrantable::Gone { index: 0, .. })),
        "another GPU in its slot is not it"
    );
    assert_eq!(own(1).unwrap(), (195, 0), "a GPU may move");
    fake.file(
        "proc/devices",
        &DEVICES.replace("511 nvidia-uvm", "507 nvidia-uvm"),
    );
    let devices = resolve(&fake.tree(), &machine, &Declare::default(), false);
    assert!(
        grant(&devices, &[1]).unwrap().contains(&(507, 0)),
        "a reloaded module has another major"
    );
    assert!(devices.fenced.contains(&Fenced::Major(507)));
}

#[test]
fn a_node_that_two_gpus_claim_is_granted_to_none() {
    let fake = Fake::new();
    fake.nvidia("0000:19:00.0", 3, "GPU-aa", "NVIDIA H200")
        .nvidia("0000:2a:00.0", 3, "GPU-bb", "NVIDIA H200")
        .nvidia("0000:3b:00.0", 0, "GPU-cc", "NVIDIA H200");
    let machine = survey(&fake.tree(), &Declare::default(), &[]);
    let devices = resolve(&fake.tree(), &machine, &Declare::default(), false);
    assert!(matches!(
        grant(&devices, &[0]),
        Err(Ungrantable::Shared {
            index: 0,
            other: 1,
            ..
        })
    ));
    assert!(matches!(
        grant(&devices, &[1, 2]),
        Err(Ungrantable::Shared { .. })
    ));
    assert_eq!(grant(&devices, &[2]).unwrap(), [(195, 0), (195, 255)]);
}

#[test]
fn partitions_of_one_gpu_have_separate_grants() {
    let fake = Fake::new();
    fake.file("proc/devices", DEVICES);
    for (node, minor) in [(1, 128), (2, 129)] {
        let text = format!(
            "simd_count 80\ndrm_render_minor {minor}\nunique_id 7\nlocation_id {}\n",
            2559 + node
        );
        fake.file(
            &format!("sys/class/kfd/kfd/topology/nodes/{node}/properties"),
            &text,
        );
    }
    let machine = survey(&fake.tree(), &Declare::default(), &[]);
    let devices = resolve(&fake.tree(), &machine, &Declare::default(), false);
    assert_eq!(grant(&devices, &[0]).unwrap(), [(226, 128), (238, 0)]);
    assert_eq!(grant(&devices, &[1]).unwrap(), [(226, 129), (238, 0)]);
}

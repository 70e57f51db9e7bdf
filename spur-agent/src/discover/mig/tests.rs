use super::*;
use crate::config::Declare;
use crate::discover::survey;
use crate::discover::tests::Fake;
use crate::fence::bits::Bits;
use crate::fence::{resolve, table};
use spur_ebpf::Grants;
use std::collections::BTreeSet;

const DEVICES: &str = "Character devices:\n195 nvidia\n226 drm\n235 nvidia-caps\n511 nvidia-uvm\n";

/// The instances of `GPU-bb`: two compute instances of one GPU instance, and one of another. The minors of their capabilities are 10 more
/// than ten times the GPU instance, and one more than that for each compute instance.
const INSTANCES: [(&str, &str, u32, u32); 3] = [
    ("MIG-1", "1c.3g.71gb", 1, 0),
    ("MIG-2", "1c.3g.71gb", 1, 1),
    ("MIG-3", "1g.18gb+me", 5, 0),
];

fn gi_cap(gi: u32) -> u32 {
    10 + 10 * gi
}

fn ci_cap(gi: u32, ci: u32) -> u32 {
    gi_cap(gi) + 1 + ci
}

/// Makes an instance in the driver's files.
pub(crate) fn make(fake: &Fake, gpu_minor: u32, gi: u32, ci: u32) {
    let top = format!("{CAPABILITIES}/gpu{gpu_minor}/mig/gi{gi}");
    let access = |minor: u32| format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\n");
    fake.file(&format!("{top}/access"), &access(gi_cap(gi)))
        .file(&format!("{top}/ci{ci}/access"), &access(ci_cap(gi, ci)));
}

/// Two GPUs, of which the second (minor 0) is shared out in three instances.
fn fake() -> Fake {
    let fake = Fake::new();
    fake.file("proc/devices", DEVICES)
        .nvidia("0000:19:00.0", 1, "GPU-aa", "NVIDIA H200")
        .nvidia("0000:2a:00.0", 0, "GPU-bb", "NVIDIA H200")
        .file(
            "proc/driver/nvidia/capabilities/mig/config",
            "DeviceFileMinor: 1\n",
        );
    for (_, _, gi, ci) in INSTANCES {
        make(&fake, 0, gi, ci);
    }
    fake
}

/// NVML's word on both.
fn told(mig: Mig) -> Vec<Extra> {
    let gpu = |uuid: &str, pci: &str, peer: &str, mig| Extra {
        uuid: uuid.into(),
        pci: pci.into(),
        name: "NVIDIA H200".into(),
        memory_mib: 143_771,
        nvlinks: vec![peer.into()],
        switched: false,
        mig,
    };
    vec![
        gpu("GPU-aa", "0000:19:00.0", "0000:2a:00.0", Mig::Off),
        gpu("GPU-bb", "0000:2a:00.0", "0000:19:00.0", mig),
    ]
}

fn instances() -> Mig {
    let instance = |(uuid, profile, gi, ci): (&str, &str, u32, u32)| Instance {
        uuid: uuid.into(),
        profile: profile.into(),
        memory_mib: 16_384,
        gi,
        ci,
    };
    Mig::On(INSTANCES.into_iter().map(instance).collect())
}

fn look(fake: &Fake, machine: &Machine) -> resolve::Devices {
    resolve::resolve(&fake.tree(), machine, &Declare::default(), false)
}

fn grant(devices: &resolve::Devices, gpus: &[u32]) -> BTreeSet<(u32, u32)> {
    let granted = devices.grant(&gpus.iter().copied().collect()).unwrap();
    let numbers = granted.iter().map(|file| (file.major, file.minor));
    numbers.collect()
}

#[test]
fn instances_are_devices_of_their_own_beside_whole_gpus() {
    let fake = fake();
    let machine = survey(&fake.tree(), &Declare::default(), &told(instances()));
    assert_eq!(machine.notes, Vec::<String>::new());
    assert_eq!(machine.split, ["GPU-bb"]);
    let gpus = &machine.inventory.gpus;
    let facts: Vec<_> = gpus
        .iter()
        .map(|gpu| {
            (
                gpu.index,
                gpu.model.as_str(),
                gpu.uuid.as_str(),
                gpu.memory_mib,
                gpu.files[0].path.as_str(),
            )
        })
        .collect();
    assert_eq!(
        facts,
        [
            (0, "h200", "GPU-aa", 143_771, "/dev/nvidia1"),
            (
                1,
                "h200_1c.3g.71gb",
                "MIG-1",
                16_384,
                "/dev/nvidia-caps/nvidia-cap21"
            ),
            (
                2,
                "h200_1c.3g.71gb",
                "MIG-2",
                16_384,
                "/dev/nvidia-caps/nvidia-cap22"
            ),
            (
                3,
                "h200_1g.18gb.me",
                "MIG-3",
                16_384,
                "/dev/nvidia-caps/nvidia-cap61"
            ),
        ]
    );
    for part in &gpus[1..] {
        let parent = part.parent.as_ref().unwrap();
        assert_eq!(
            (parent.uuid.as_str(), part.pci.as_str(), part.numa),
            ("GPU-bb", "0000:2a:00.0", Some(1))
        );
    }
    assert!(
        gpus[0].parent.is_none() && gpus.iter().all(|gpu| gpu.links.is_empty()),
        "no link leads to a GPU that is shared out"
    );
}

/// The same by every route: what may be opened at a grant, and what the table lets a policy open that was written for it.
#[test]
fn no_instance_opens_what_tells_another_apart() {
    let fake = fake();
    let machine = survey(&fake.tree(), &Declare::default(), &told(instances()));
    let devices = look(&fake, &machine);
    let common = [(195, 0), (195, 255), (511, 0)];
    for (index, (_, _, gi, ci)) in (1u32..).zip(INSTANCES) {
        let own = [(235, gi_cap(gi)), (235, ci_cap(gi, ci))];
        let expected: BTreeSet<_> = common.into_iter().chain(own).collect();
        assert_eq!(grant(&devices, &[index]), expected, "{index}");
    }
    assert_eq!(
        grant(&devices, &[0]),
        BTreeSet::from([(195, 1), (195, 255), (511, 0)])
    );

    let dir = tempfile::tempdir().unwrap();
    let all: Vec<Identity> = machine
        .identities
        .iter()
        .flat_map(|identity| std::iter::once(identity.clone()).chain(identity.shares()))
        .collect();
    let bits = Bits::open(dir.path(), &all, &BTreeSet::new()).unwrap();
    let table = table::of(&devices, &machine, &bits).unwrap();
    for (index, identity) in (0u32..).zip(&machine.identities) {
        let needed = std::iter::once(identity.clone()).chain(identity.shares());
        let grants: Grants = needed.filter_map(|identity| bits.of(&identity)).collect();
        let mine = grant(&devices, &[index]);
        for minor in 0..256 {
            for major in [195, 235] {
                let opens = !table::refuses(&table, &grants, major, minor);
                let shared = (major, minor) == (195, 255);
                assert_eq!(
                    opens,
                    mine.contains(&(major, minor)) && !shared,
                    "{index}: {major}:{minor}"
                );
            }
        }
    }
}

#[test]
fn a_gpu_in_mig_mode_without_instances_offers_nothing() {
    let fake = Fake::new();
    fake.file("proc/devices", DEVICES)
        .nvidia("0000:19:00.0", 1, "GPU-aa", "NVIDIA H200")
        .nvidia("0000:2a:00.0", 0, "GPU-bb", "NVIDIA H200")
        .file(
            "sys/devices/pci0000:00/0000:2a:00.0/drm/renderD128/dev",
            "226:128\n",
        )
        .link(
            "sys/class/drm/renderD128",
            "../../devices/pci0000:00/0000:2a:00.0/drm/renderD128",
        )
        .link(
            "sys/devices/pci0000:00/0000:2a:00.0/drm/renderD128/device",
            "../../../0000:2a:00.0",
        );
    let machine = survey(
        &fake.tree(),
        &Declare::default(),
        &told(Mig::On(Vec::new())),
    );
    assert_eq!(machine.inventory.gpus.len(), 1);
    assert_eq!(machine.notes.len(), 1, "{:?}", machine.notes);
    assert!(machine.notes[0].starts_with("GPU-bb at 0000:2a:00.0: in MIG mode without instances"));
    assert_eq!(appeared(&fake.tree(), &machine), Vec::<String>::new());
    make(&fake, 0, 3, 0);
    assert_eq!(
        appeared(&fake.tree(), &machine),
        ["MIG instance gi3/ci0 of GPU-bb"]
    );
}

#[test]
fn where_nvml_does_not_tell_the_gpu_is_whole_and_that_is_noted() {
    let fake = fake();
    let silent = told(Mig::Unknown("no numbers".into()));
    for extra in [silent.as_slice(), &[]] {
        let machine = survey(&fake.tree(), &Declare::default(), extra);
        assert_eq!(machine.inventory.gpus.len(), 2);
        assert_eq!(machine.unsure, ["GPU-bb"]);
        assert_eq!(machine.notes.len(), 1, "{:?}", machine.notes);
        let all = grant(&look(&fake, &machine), &[1]);
        assert!((10..100).filter(|cap| all.contains(&(235, *cap))).count() == 5);
    }
}

#[test]
fn an_instance_that_was_destroyed_stays_closed_and_its_neighbours_do_not() {
    let fake = fake();
    let machine = survey(&fake.tree(), &Declare::default(), &told(instances()));
    let mut memory = crate::fence::change::Memory::default();
    let mut now = || {
        let mut devices = look(&fake, &machine);
        memory.apply(&mut devices, &BTreeSet::from([1, 3]));
        devices
    };
    let before = now();
    fake.remove(&format!("{CAPABILITIES}/gpu0/mig/gi5"));
    let after = now();
    let lost = crate::fence::change::lost(&before, &after);
    assert_eq!(
        lost,
        [(3, BTreeSet::from([(235, 60), (235, 61)]))].into(),
        "its own, and not the node that its neighbours use"
    );
    assert!(after.own[1].is_ok() && after.own[2].is_ok());
    // Another one under its numbers is not it.
    make(&fake, 0, 5, 0);
    assert!(matches!(
        now().own[3],
        Err(resolve::Ungrantable::InstanceGone { index: 3, .. })
    ));
    // The whole GPU goes: all of its nodes are closed.
    let before = now();
    fake.remove("proc/driver/nvidia/gpus/0000:2a:00.0");
    let lost = crate::fence::change::lost(&before, &now());
    assert_eq!(lost[&1], BTreeSet::from([(195, 0), (235, 20), (235, 21)]));
}

use super::*;
use crate::config::Declare;
use crate::discover::{Identity, Machine, survey, tests::Fake};
use crate::fence::bits::Bits;
use crate::fence::resolve::resolve;
use crate::fence::table;
use spur_ebpf::{DeviceNumber, Grants};

const DEVICES: &str = "Character devices:\n195 nvidia\n226 drm\n235 nvidia-caps\n511 nvidia-uvm\n";

/// A fixture machine whose GPUs are granted as on a running node.
struct World {
    fake: Fake,
    machine: Machine,
    bits: Bits,
    memory: Memory,
    devices: Devices,
    held: BTreeSet<u32>,
}

impl World {
    /// Two GPUs, `GPU-aa` (index 0) and `GPU-bb` (index 1) with the minors of their indexes.
    fn new() -> Self {
        let fake = Fake::new();
        fake.file("proc/devices", DEVICES)
            .nvidia("0000:19:00.0", 0, "GPU-aa", "NVIDIA H200")
            .nvidia("0000:2a:00.0", 1, "GPU-bb", "NVIDIA H200");
        let machine = survey(&fake.tree(), &Declare::default(), &[]);
        let dir = tempfile::tempdir().unwrap();
        let bits = Bits::open(dir.path(), &machine.identities, &BTreeSet::new()).unwrap();
        let mut world = Self {
            fake,
            machine,
            bits,
            memory: Memory::default(),
            devices: Devices::default(),
            held: BTreeSet::new(),
        };
        world.look();
        world
    }

    fn look(&mut self) -> BTreeMap<u32, BTreeSet<(u32, u32)>> {
        let mut now = resolve(&self.fake.tree(), &self.machine, &Declare::default(), false);
        self.memory.apply(&mut now, &self.held);
        let lost = lost(&self.devices, &now);
        self.devices = now;
        lost
    }

    /// Whether a job that was granted this GPU when all was well can open a device by the table of now.
    fn opens(&self, gpu: usize, device: (u32, u32)) -> bool {
        let identity: &Identity = &self.machine.identities[gpu];
        let grants: Grants = self.bits.of(identity).into_iter().collect();
        let table = table::of(&self.devices, &self.machine, &self.bits).unwrap();
        let (major, minor) = device;
        assert!(
            table.rule(DeviceNumber { major, minor }).is_some() || table.class(major).is_some(),
            "{device:?} is fenced at all"
        );
        !table::refuses(&table, &grants, major, minor)
    }

    fn mig(&self, gpu_minor: u32, instance: &str, cap: u32) {
        self.fake.file(
            &format!("proc/driver/nvidia/capabilities/gpu{gpu_minor}/mig/{instance}/access"),
            &format!("DeviceFileMinor: {cap}\nDeviceFileMode: 292\n"),
        );
    }
}

#[test]
fn swapped_minors_move_with_the_gpu_and_never_to_an_old_grant() {
    let mut world = World::new();
    world.held.insert(0);
    assert!(world.opens(0, (195, 0)) && !world.opens(0, (195, 1)));
    world
        .fake
        .nvidia("0000:19:00.0", 1, "GPU-aa", "NVIDIA H200")
        .nvidia("0000:2a:00.0", 0, "GPU-bb", "NVIDIA H200");
    assert!(world.look().is_empty());
    assert!(world.opens(0, (195, 1)) && !world.opens(0, (195, 0)));
    assert!(world.opens(1, (195, 0)) && !world.opens(1, (195, 1)));
}

#[test]
fn a_number_of_a_gone_gpu_is_closed_until_it_is_somebodys_again() {
    let mut world = World::new();
    world.held.insert(0);
    world.fake.remove("proc/driver/nvidia/gpus/0000:19:00.0");
    assert_eq!(
        world.look(),
        BTreeMap::from([(0, BTreeSet::from([(195, 0)]))])
    );
    assert!(!world.opens(0, (195, 0)) && !world.opens(1, (195, 0)));
    // Another GPU gets the number: the old grant does not reach it.
    world
        .fake
        .nvidia("0000:2a:00.0", 0, "GPU-bb", "NVIDIA H200");
    assert!(world.look().is_empty());
    assert!(!world.opens(0, (195, 0)) && world.opens(1, (195, 0)));
    // The first is back with the other's old number, and the job that holds it has it again.
    world
        .fake
        .nvidia("0000:19:00.0", 1, "GPU-aa", "NVIDIA H200");
    world.look();
    assert!(world.opens(0, (195, 1)) && !world.opens(0, (195, 0)));
}

#[test]
fn what_is_about_to_go_is_closed_while_it_can_still_be_seen() {
    let mut world = World::new();
    world.held.insert(0);
    world.memory.leaves([0]);
    assert_eq!(world.look().keys().collect::<Vec<_>>(), [&0]);
    assert!(!world.opens(0, (195, 0)) && world.opens(1, (195, 1)));
    assert!(matches!(
        world.devices.own[0],
        Err(Ungrantable::Leaving { index: 0 })
    ));
    // It stays closed, whoever looks, until the kernel has done it; then it is as it is found.
    world.look();
    assert!(!world.opens(0, (195, 0)));
    world.memory.settled();
    world.look();
    assert!(world.opens(0, (195, 0)));
}

#[test]
fn a_reloaded_module_has_another_major_and_the_old_one_is_nobodys() {
    let mut world = World::new();
    let shared = |world: &World, major| {
        let table = table::of(&world.devices, &world.machine, &world.bits).unwrap();
        table.rule(DeviceNumber { major, minor: 0 }).is_some()
    };
    assert!(shared(&world, 511) && !shared(&world, 507));
    world.fake.file(
        "proc/devices",
        &DEVICES.replace("511 nvidia-uvm", "507 nvidia-uvm"),
    );
    world.look();
    assert!(shared(&world, 507) && !shared(&world, 511));
}

#[test]
fn a_gpu_that_is_partitioned_anew_is_closed_until_its_job_has_ended() {
    let mut world = World::new();
    world.mig(0, "gi1", 12);
    world.look();
    world.held.insert(0);
    assert!(world.look().is_empty());
    assert!(world.opens(0, (235, 12)) && world.opens(0, (195, 0)));
    // nvidia-smi mig, by an administrator: another instance with another capability.
    world
        .fake
        .remove("proc/driver/nvidia/capabilities/gpu0/mig/gi1");
    world.mig(0, "gi2", 21);
    assert_eq!(
        world.look(),
        BTreeMap::from([(0, BTreeSet::from([(195, 0), (235, 12)]))])
    );
    for device in [(195, 0), (235, 12), (235, 21)] {
        assert!(!world.opens(0, device), "{device:?}");
    }
    let why = world.devices.own[0].as_ref().unwrap_err().to_string();
    assert!(why.contains("partitioned anew"), "{why}");
    assert!(world.memory.has_frozen());
    // Also when it is put back as it was: what happened between nobody knows.
    world
        .fake
        .remove("proc/driver/nvidia/capabilities/gpu0/mig/gi2");
    world.mig(0, "gi1", 12);
    world.look();
    assert!(!world.opens(0, (235, 12)));
    // The job ends.
    world.held.clear();
    world.look();
    assert!(world.opens(0, (235, 12)) && !world.memory.has_frozen());
    // Nobody holds it: it may be partitioned, and the next holder gets what there is.
    world.mig(0, "gi3", 30);
    assert!(world.look().is_empty());
    assert!(world.opens(0, (235, 30)));
    assert!(world.opens(1, (195, 1)), "its neighbour saw nothing of it");
}

#[test]
fn a_partitioning_while_no_agent_ran_is_noticed_by_the_numbers_in_the_table() {
    let mut world = World::new();
    world.mig(0, "gi2", 21);
    let before = BTreeMap::from([(0, BTreeSet::from([(195, 0), (235, 12)]))]);
    world.memory = Memory::starting_from(&before);
    world.held.insert(0);
    world.look();
    assert!(!world.opens(0, (195, 0)) && !world.opens(0, (235, 21)));
    let same = BTreeMap::from([(0, BTreeSet::from([(195, 0), (235, 21)]))]);
    world.memory = Memory::starting_from(&same);
    world.look();
    assert!(world.opens(0, (195, 0)) && world.opens(0, (235, 21)));
}

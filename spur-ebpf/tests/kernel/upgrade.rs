//! An agent of a newer ABI takes over while jobs run.

use crate::lab::*;
use crate::looper::Looper;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, libbpf_sys};
use spur_ebpf::*;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The fence as an agent of ABI 1 has it.
const OLDER: &[u8] = include_bytes!(env!("SPUR_OLDER_OBJECT"));

fn pin(fd: i32, path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the descriptor is open and the path a C string, both for the length of the call.
    assert_eq!(unsafe { libbpf_sys::bpf_obj_pin(fd, path.as_ptr()) }, 0);
}

/// Pins a fence where and as ABI 1 did.
struct Older {
    object: Object,
    pins: PathBuf,
}

impl Older {
    fn new(pins: PathBuf) -> Older {
        let mut builder = ObjectBuilder::default();
        let object = builder.open_memory(OLDER).unwrap().load().unwrap();
        fs::create_dir_all(pins.join("links")).unwrap();
        let older = Older { object, pins };
        for (name, known) in [
            ("table", ".data.table"),
            ("devices", "devices"),
            ("policies", "policies"),
            ("counters", "counters"),
            ("audit", "audit"),
            ("meta", "meta"),
        ] {
            pin(older.map(known).as_fd().as_raw_fd(), &older.pins.join(name));
        }
        let program = older.object.progs().next().unwrap();
        pin(program.as_fd().as_raw_fd(), &older.pins.join("spur_fence"));
        let mut meta = [0u8; 16];
        meta[..4].copy_from_slice(&1u32.to_ne_bytes());
        older
            .map("meta")
            .update(&0u32.to_ne_bytes(), &meta, MapFlags::ANY)
            .unwrap();
        older.fence_stand_ins();
        older
    }

    fn map(&self, name: &str) -> MapHandle {
        let map = self.object.maps().find(|map| map.name() == name).unwrap();
        MapHandle::try_from(&map).unwrap()
    }

    /// Major 120 is whole and in the first slot; minors 0 to 7 have bits 0 to 7.
    fn fence_stand_ins(&self) {
        let size = size_of::<abi::RawTable>();
        let mut table = vec![0u8; size];
        let mut write = |word: usize, value: u32| {
            table[word * 4..][..4].copy_from_slice(&value.to_ne_bytes());
        };
        write(STAND_IN as usize, 1 | 1 << 8);
        for minor in 0..8 {
            write(abi::MAJORS as usize + minor as usize, minor + 1);
        }
        self.map(".data.table")
            .update(&0u32.to_ne_bytes(), &table, MapFlags::ANY)
            .unwrap();
    }

    fn attach(&self, cgroup: &Path, name: &str, grants: u64) {
        let folder = File::open(cgroup).unwrap();
        let program = self.object.progs().next().unwrap();
        // SAFETY: both descriptors are open and a null options pointer is allowed.
        let link = unsafe {
            libbpf_sys::bpf_link_create(
                program.as_fd().as_raw_fd(),
                folder.as_raw_fd(),
                libbpf_sys::BPF_CGROUP_DEVICE,
                std::ptr::null(),
            )
        };
        assert!(link >= 0, "{link}");
        pin(link, &self.pins.join("links").join(name));
        // SAFETY: the descriptor was made above; the pin keeps the link.
        unsafe { libc::close(link) };
        let id = std::os::unix::fs::MetadataExt::ino(&folder.metadata().unwrap());
        // struct spur_fence_policy: abi, flags, job, generation, cgroup, 4 small ones, grants, time.
        let mut policy = vec![0u8; self.map("policies").value_size() as usize];
        for (at, value) in [(0, 1), (8, 7), (16, 3), (24, id), (48, grants)] {
            policy[at..][..8].copy_from_slice(&u64::to_ne_bytes(value));
        }
        self.map("policies")
            .update(&id.to_ne_bytes(), &policy, MapFlags::ANY)
            .unwrap();
    }
}

fn all_files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_newer_abi_takes_over_without_a_gap_and_without_a_refusal() {
    for _ in 0..10 {
        let lab = Lab::new();
        let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
        let (one, two, gone) = (
            lab.cgroup("job_1"),
            lab.cgroup("job_2"),
            lab.cgroup("job_3"),
        );
        let older = Older::new(lab.pins());
        older.attach(&one, "job_1", 0b1);
        older.attach(&two, "job_2", 0b10);
        older.attach(&gone, "job_3", 0b1);
        fs::remove_dir(&gone).unwrap();
        assert_reached(first_act(&one, || open(&nodes[0])));
        assert_refused(first_act(&one, || open(&nodes[1])));

        let looper = Looper::start(&one, &nodes);
        let fence = Fence::open_or_load(&lab.pins()).unwrap();
        let [refused, let_through, rounds] = looper.stop();
        assert_eq!((refused, let_through), (0, 0), "in {rounds} rounds");
        assert!(rounds > 0);

        assert_reached(first_act(&two, || open(&nodes[1])));
        assert_refused(first_act(&two, || open(&nodes[0])));
        let names: Vec<_> = fence
            .links()
            .unwrap()
            .into_iter()
            .map(|link| link.name)
            .collect();
        assert_eq!(names, ["job_1", "job_2"]);
        let Adopted::Fence(job) = fence.adopt("job_1", &one).unwrap() else {
            panic!("not adopted")
        };
        let policy = job.read_policy().unwrap().unwrap();
        assert_eq!((policy.job, policy.generation), (7, 3));
        assert!(job.counters().unwrap().denied > 1, "counts go on");
        // Nothing of the older fence is left, in pins or on cgroups.
        assert_eq!(all_files(&lab.pins()), [FOLDER, "meta"]);
        for (name, cgroup) in [("job_1", &one), ("job_2", &two)] {
            lab.await_sole_program(name, cgroup, fence.program_id());
        }
    }
}

#[test]
fn a_takeover_that_was_cut_off_is_begun_again() {
    let lab = Lab::new();
    let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
    let job = lab.cgroup("job_1");
    let older = Older::new(lab.pins());
    older.attach(&job, "job_1", 0b1);
    let marker = lab.pins().join("meta");
    let aside = lab.pins().join("aside");
    // What an agent leaves that died before the older links went: ours beside them, and the older mark.
    fs::rename(&marker, &aside).unwrap();
    let ours = Fence::open_or_load(&lab.pins()).unwrap();
    ours.attach(&job, "job_1").unwrap();
    drop(ours);
    let older = Older {
        pins: lab.pins(),
        ..older
    };
    fs::create_dir_all(lab.pins().join("links")).unwrap();
    for name in ["table", "devices", "policies", "counters"] {
        let known = if name == "table" { ".data.table" } else { name };
        pin(older.map(known).as_fd().as_raw_fd(), &lab.pins().join(name));
    }
    older.attach(&job, "job_1", 0b1);
    fs::remove_file(&marker).unwrap();
    pin(older.map("meta").as_fd().as_raw_fd(), &marker);

    let fence = Fence::open_or_load(&lab.pins()).unwrap();
    assert_reached(first_act(&job, || open(&nodes[0])));
    assert_refused(first_act(&job, || open(&nodes[1])));
    assert_eq!(all_files(&lab.pins()), [FOLDER, "meta"]);
    assert_eq!(fence.links().unwrap().len(), 1);
}

#[test]
fn an_older_agent_does_not_touch_a_newer_fence() {
    let lab = Lab::new();
    let fence = lab.fence();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    // What an agent of ABI 1 reads first, at the place where it pinned its own.
    let meta = MapHandle::from_pinned_path(lab.pins().join("meta")).unwrap();
    let value = meta
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .unwrap()
        .unwrap();
    assert_eq!(value[..4], abi::ABI.to_ne_bytes());
    // And we, before one that is newer still.
    let mut newer = value.clone();
    newer[..4].copy_from_slice(&(abi::ABI + 1).to_ne_bytes());
    meta.update(&0u32.to_ne_bytes(), &newer, MapFlags::ANY)
        .unwrap();
    let before = all_files(&lab.pins());
    let error = Fence::open_or_load(&lab.pins()).unwrap_err().to_string();
    assert!(error.contains("or a newer one"), "{error}");
    assert_eq!(
        (all_files(&lab.pins()), job.check().unwrap()),
        (before, LinkState::Up)
    );
}

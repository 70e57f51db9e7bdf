//! Time on GPUs, by the kernel's real scheduler: the test GPU of the virtual machines, which knows how long it was busy.

use super::modules::{self, await_file};
use super::*;
use spur_ebpf::meter::{GpuWork, Holder};
use std::ffi::CString;
use std::os::fd::AsRawFd;

const MODULE: &str = "spur_testgpu";
const COMPUTE: u32 = 0;
/// Jobs are handed to this ring ahead.
const COPY: u32 = 1;

/// `struct spur_testgpu_submit` of vm-tests/module/spur_testgpu.h.
#[repr(C)]
struct Submit {
    tag: u64,
    ring: u32,
    duration_us: u32,
    count: u32,
    flags: u32,
}

/// `struct spur_testgpu_wait`.
#[repr(C)]
struct Wait {
    timeout_ms: u32,
    flags: u32,
}

/// `_IOW('d', number, size)`
const fn ioctl_number(number: libc::c_ulong, size: usize) -> libc::c_ulong {
    1 << 30 | (size as libc::c_ulong) << 16 | (b'd' as libc::c_ulong) << 8 | number
}

/// Submits work and waits for its end; 0 or the errno. Safe to call after a fork.
fn work(node: &CString, submits: &[Submit]) -> i32 {
    // SAFETY: a C string and structs of the ioctls' layouts, which live through the calls.
    unsafe {
        let fd = libc::open(node.as_ptr(), libc::O_RDWR);
        if fd < 0 {
            return errno();
        }
        for submit in submits {
            if libc::ioctl(fd, ioctl_number(0x40, size_of::<Submit>()), submit) != 0 {
                return errno();
            }
        }
        let wait = Wait {
            timeout_ms: 120_000,
            flags: 0,
        };
        if libc::ioctl(fd, ioctl_number(0x41, size_of::<Wait>()), &raw const wait) != 0 {
            return errno();
        }
    }
    0
}

const fn submit(tag: u64, ring: u32, duration_us: u32, count: u32) -> Submit {
    Submit {
        tag,
        ring,
        duration_us,
        count,
        flags: 0,
    }
}

fn device(gpu: usize) -> PathBuf {
    format!("/sys/devices/platform/{MODULE}.{gpu}").into()
}

fn node(gpu: usize) -> CString {
    let entries = fs::read_dir(device(gpu).join("drm")).unwrap();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.find(|name| name.starts_with("renderD")).unwrap();
    let path = format!("/dev/dri/{name}");
    await_file(Path::new(&path));
    CString::new(path).unwrap()
}

/// Jobs and busy time of a tag, by the device's own books.
fn truth(gpu: usize, tag: u64, ring: &str) -> (u64, u64) {
    let text = fs::read_to_string(device(gpu).join("truth")).unwrap();
    let start = format!("tag {tag} {ring} jobs ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    let (jobs, busy) = line.unwrap().split_once(" busy_ns ").unwrap();
    (jobs.parse().unwrap(), busy.parse().unwrap())
}

/// What the meter has of one cgroup's work on one ring.
fn metered_work(meter: &Meter, group: &Group, gpu: usize, ring: &str) -> GpuWork {
    let mut all = Vec::new();
    meter.gpu(&mut all).unwrap();
    let device = format!("{MODULE}.{gpu}");
    let is_it = |work: &GpuWork| {
        work.cgroup_id == group.id && work.device == device && work.ring.contains(ring)
    };
    all.iter()
        .find(|work| is_it(work))
        .unwrap_or_else(|| panic!("no {device} {ring} in {all:?}"))
        .clone()
}

#[track_caller]
fn assert_true(measured: &GpuWork, (jobs, busy_ns): (u64, u64)) {
    println!("meter: GPU busy measured {measured:?}, true {busy_ns} ns for {jobs} jobs");
    assert_eq!(measured.jobs, jobs);
    let off = measured.busy_ns.abs_diff(busy_ns);
    assert!(
        off <= busy_ns / 100,
        "measured {measured:?}, true {busy_ns}"
    );
}

#[test]
fn the_kernels_gpu_scheduler_is_metered_from_when_it_is_loaded() {
    let mut metered = Metered::new();
    let (one, two, three) = (
        metered.job("job_1"),
        metered.job("job_2"),
        metered.job("job_3"),
    );
    let before = metered.meter.coverage().counts(Source::Gpu);
    let Some(_module) = modules::load(MODULE, "devices=2") else {
        println!("skipped: no module {MODULE} here");
        return;
    };
    let attached = metered.meter.attach_late();
    for (_, covered) in metered
        .meter
        .coverage()
        .iter()
        .filter(|(source, _)| *source == Source::Gpu)
    {
        println!("meter: gpu: {covered:?}");
    }
    assert!(metered.meter.coverage().counts(Source::Gpu));
    assert!(before || attached);
    assert!(!metered.meter.attach_late());
    let nodes = [node(0), node(1)];
    // Two jobs share a ring of one GPU; a third has a ring of the other, which takes work ahead.
    let shared: Vec<i32> = [(&one, 1), (&two, 2)]
        .map(|(group, tag)| {
            let folder = fs::File::open(&group.path).unwrap();
            spawn(folder.as_raw_fd(), || {
                work(&nodes[0], &[submit(tag, COMPUTE, 20_000, 40)])
            })
        })
        .to_vec();
    let alone = first_act(&three.path, || {
        work(
            &nodes[1],
            &[submit(3, COPY, 10_000, 60), submit(4, COMPUTE, 30_000, 10)],
        )
    });
    assert_eq!(alone, 0, "{}", std::io::Error::from_raw_os_error(alone));
    for pid in shared {
        let mut status = 0;
        // SAFETY: `status` has room for the answer and the child is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
    }
    assert_true(
        &metered_work(&metered.meter, &one, 0, "compute"),
        truth(0, 1, "compute"),
    );
    assert_true(
        &metered_work(&metered.meter, &two, 0, "compute"),
        truth(0, 2, "compute"),
    );
    assert_true(
        &metered_work(&metered.meter, &three, 1, "copy"),
        truth(1, 3, "copy"),
    );
    assert_true(
        &metered_work(&metered.meter, &three, 1, "compute"),
        truth(1, 4, "compute"),
    );
    // Who shares a ring waits for it about as long as the other works.
    assert!(metered_work(&metered.meter, &one, 0, "compute").queue_ns > 400_000_000);
    assert_eq!(metered.meter.lost(), 0);
    let holders = held_by(&metered.meter, &[&one, &two, &three]);
    assert_eq!(holders, [], "no job has a node open any more");
    metered.meter.release_gpu().unwrap();
    assert!(!metered.meter.coverage().counts(Source::Gpu));
}

/// Processes of these jobs that have a node open. Of others on this machine, such as a udev that looks at new devices, nobody knows.
fn held_by(meter: &Meter, jobs: &[&Group]) -> Vec<Holder> {
    let mut holders = meter.holders(|major, _| major == 226).unwrap();
    holders.retain(|holder| jobs.iter().any(|job| job.id == holder.cgroup_id));
    holders
}

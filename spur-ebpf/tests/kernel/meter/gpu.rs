//! Time on GPUs: the counting itself, with events and times that are made up, through the same code as a real scheduler's events.

use super::*;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use spur_ebpf::meter::{GpuWork, abi};
use std::os::fd::{AsFd, AsRawFd};

const PLAY: &[u8] = include_bytes!(env!("SPUR_METER_GPU_PLAY_OBJECT"));

/// A GPU scheduler that is played.
struct Play {
    object: Object,
}

/// `union bpf_attr` of `BPF_PROG_TEST_RUN`, up to what it is used for here.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    data_in: u32,
    data_out: u32,
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    context_in: u32,
    context_out: u32,
    context: u64,
    context_back: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    pad: u32,
}

const BPF_PROG_TEST_RUN: libc::c_int = 10;

impl Play {
    /// The program of the test on the meter's own maps.
    fn new(lab: &Lab) -> Play {
        let pin = |name: &str| lab.pins().join(format!("meter/abi{}/{name}", abi::ABI));
        let meta = MapHandle::from_pinned_path(pin("meta")).unwrap();
        let meta = meta.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        let (level, shards) = (&meta[4..8], &meta[20..24]);
        let settings = [level, shards, &[0; 8]].concat();
        let mut object = ObjectBuilder::default().open_memory(PLAY).unwrap();
        for mut map in object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == ".rodata.meter" {
                map.set_initial_value(&settings).unwrap();
            } else if !name.contains('.') {
                // Constants are the object's own.
                let pinned = MapHandle::from_pinned_path(pin(&name)).unwrap();
                map.reuse_fd(pinned.as_fd()).unwrap();
            }
        }
        let object = object.load().unwrap();
        Play { object }
    }

    fn event(&self, event: u64, fence: u64, ring: u64, time_ns: u64) -> i32 {
        let program = self.object.progs().next().unwrap().as_fd().as_raw_fd();
        run(program, &mut [event, fence, ring, time_ns])
    }

    /// A process of the cgroup queues a job.
    fn queued(&self, group: &Path, fence: u64, time_ns: u64) {
        let program = self.object.progs().next().unwrap().as_fd().as_raw_fd();
        let errno = first_act(group, || run(program, &mut [0, fence, 0, time_ns]));
        assert_eq!(errno, 0);
    }

    fn run(&self, fence: u64, ring: u64, time_ns: u64) {
        assert_eq!(self.event(1, fence, ring, time_ns), 0);
    }

    fn done(&self, fence: u64, ring: u64, time_ns: u64) {
        assert_eq!(self.event(2, fence, ring, time_ns), 0);
    }
}

/// Runs a program once; 0 or the errno. Safe to call after a fork.
fn run(program: i32, context: &mut [u64; 4]) -> i32 {
    let mut attr = TestRun {
        program: program.cast_unsigned(),
        context_in: 32,
        context: context.as_mut_ptr() as u64,
        ..TestRun::default()
    };
    let size = size_of::<TestRun>();
    // SAFETY: the attributes name live memory of the sizes that they say.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut attr, size) };
    if result == 0 { 0 } else { errno() }
}

fn work(meter: &Meter) -> Vec<GpuWork> {
    let mut all = Vec::new();
    meter.gpu(&mut all).unwrap();
    all.sort_by_key(|work| (work.cgroup_id, work.ring.clone()));
    all
}

/// Busy time, waiting time and jobs of a cgroup, on all rings.
fn sums(meter: &Meter, group: &Group) -> (u64, u64, u64) {
    let all = work(meter);
    let own = all.iter().filter(|work| work.cgroup_id == group.id);
    own.fold((0, 0, 0), |(busy, queue, jobs), work| {
        assert_eq!(work.device, "played");
        (busy + work.busy_ns, queue + work.queue_ns, jobs + work.jobs)
    })
}

#[test]
fn a_job_on_a_gpu_is_charged_to_who_queued_it() {
    let metered = Metered::new();
    let (one, two) = (metered.job("job_1"), metered.job("job_2"));
    let play = Play::new(&metered.lab);
    assert_eq!(work(&metered.meter), []);
    play.queued(&one.path, 0x10, 1_000);
    play.queued(&two.path, 0x20, 2_000);
    play.run(0x10, 1, 5_000);
    // Handed over before the first is done: the GPU works on it from 9000 on.
    play.run(0x20, 1, 6_000);
    play.done(0x10, 1, 9_000);
    play.done(0x20, 1, 20_000);
    assert_eq!(sums(&metered.meter, &one), (4_000, 4_000, 1));
    assert_eq!(sums(&metered.meter, &two), (11_000, 7_000, 1));
    // Another ring works at the same time; a pause is nobody's.
    play.queued(&one.path, 0x10, 30_000);
    play.run(0x10, 2, 31_000);
    play.done(0x10, 2, 35_000);
    assert_eq!(sums(&metered.meter, &one), (8_000, 5_000, 2));
    let rings: Vec<String> = work(&metered.meter)
        .into_iter()
        .map(|work| work.ring)
        .collect();
    assert_eq!(rings, ["ring1", "ring2", "ring1"]);
    assert_eq!(metered.meter.lost(), 0);
}

#[test]
fn work_of_nobody_keeps_the_gpu_from_others_and_is_charged_to_nobody() {
    let metered = Metered::new();
    let job = metered.job("job_1");
    let other = metered.lab.cgroup("not_metered");
    let play = Play::new(&metered.lab);
    play.queued(&other, 0x30, 1_000);
    play.queued(&job.path, 0x40, 1_000);
    play.run(0x30, 1, 2_000);
    play.run(0x40, 1, 2_000);
    play.done(0x30, 1, 50_000);
    play.done(0x40, 1, 60_000);
    assert_eq!(sums(&metered.meter, &job), (10_000, 49_000, 1));
    assert_eq!(work(&metered.meter).len(), 1);
}

#[test]
fn a_job_that_is_under_way_counts_already_and_once() {
    let metered = Metered::new();
    let job = metered.job("job_1");
    let play = Play::new(&metered.lab);
    let start = now_ns();
    play.queued(&job.path, 0x50, start);
    play.run(0x50, 1, start);
    play.queued(&job.path, 0x51, start);
    play.run(0x51, 1, start + 1);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let (busy, _, jobs) = sums(&metered.meter, &job);
    assert!(
        busy >= 20_000_000 && busy <= now_ns() - start && jobs == 0,
        "{busy}, {jobs} jobs"
    );
    let done = now_ns();
    play.done(0x50, 1, done);
    let (busy, ..) = sums(&metered.meter, &job);
    assert!(busy >= done - start && busy <= now_ns() - start, "{busy}");
    let last = now_ns();
    play.done(0x51, 1, last);
    // Also the second has had the ring only since the first was done.
    assert_eq!(sums(&metered.meter, &job).0, last - start);
}

fn now_ns() -> u64 {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` has room for the answer; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap()
}

#[test]
fn jobs_whose_beginning_was_not_seen_are_counted_as_lost() {
    let metered = Metered::new();
    let job = metered.job("job_1");
    let play = Play::new(&metered.lab);
    play.done(0x60, 1, 5_000);
    assert_eq!(metered.meter.lost(), 1);
    play.queued(&job.path, 0x61, 6_000);
    play.done(0x61, 1, 7_000);
    assert_eq!(metered.meter.lost(), 2);
    assert_eq!(work(&metered.meter), []);
}

/// More jobs are queued than are remembered: what is forgotten is said, and nothing is charged twice.
#[test]
fn jobs_that_are_forgotten_for_want_of_room_are_counted_as_lost() {
    const JOBS: u64 = 3 * 16384;
    let metered = Metered::new();
    let play = Play::new(&metered.lab);
    for fence in 1..=JOBS {
        assert_eq!(play.event(0, fence, 1, fence), 0);
    }
    for fence in 1..=JOBS {
        play.run(fence, 1, JOBS + fence);
        play.done(fence, 1, JOBS + fence);
    }
    let lost = metered.meter.lost();
    println!("meter: {lost} of {JOBS} jobs were forgotten");
    assert!((JOBS - 16384..JOBS).contains(&lost), "{lost}");
}

#[test]
fn rows_go_with_their_cgroup_and_are_not_the_next_ones() {
    let metered = Metered::new();
    let job = metered.job("job_1");
    let play = Play::new(&metered.lab);
    play.queued(&job.path, 0x70, 1_000);
    play.run(0x70, 1, 2_000);
    play.done(0x70, 1, 3_000);
    play.queued(&job.path, 0x71, 4_000);
    play.run(0x71, 1, 5_000);
    assert_eq!(sums(&metered.meter, &job).2, 1);
    metered.meter.remove(job.id).unwrap().unwrap();
    assert_eq!(work(&metered.meter), []);
    // Done after its owner is gone.
    play.done(0x71, 1, 6_000);
    metered.meter.add(job.id).unwrap();
    assert_eq!(work(&metered.meter), []);
    let rows = metered
        .lab
        .pins()
        .join(format!("meter/abi{}/gpu_work", abi::ABI));
    assert_eq!(MapHandle::from_pinned_path(rows).unwrap().keys().count(), 0);
}

//! Time on CPUs and processes, against what the kernel says.

use super::*;
use crate::actor::Actor;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Burns this much of the calling thread's CPU time. Safe to call after a fork.
pub(crate) fn burn(length: Duration) {
    let end = cpu_time() + length;
    while cpu_time() < end {}
}

fn cpu_time() -> Duration {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` has room for the answer; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(
        u64::try_from(time.tv_sec).unwrap(),
        u32::try_from(time.tv_nsec).unwrap(),
    )
}

/// Runs this many processes one after the other, each of which burns a little, and waits for the end of the last.
fn run_processes(group: &Group, count: u32, each: Duration) {
    let folder = fs::File::open(&group.path).unwrap();
    for _ in 0..count {
        first_act_in(folder.as_raw_fd(), || {
            burn(each);
            0
        });
    }
}

/// So many started and ended, but for those at whose events the kernel left our programs out, which it says.
#[track_caller]
fn assert_processes(metered: &Metered, counts: &Counts, processes: u64) {
    let missed = metered.meter.missed();
    println!("meter: {counts:?}, missed {missed}");
    for count in [counts.starts, counts.ends].map(Option::unwrap) {
        assert!(
            (processes - missed..=processes).contains(&count),
            "{counts:?} of {processes}, missed {missed}"
        );
    }
}

fn check_processes(metered: &Metered, count: u32, each: Duration) {
    let job = metered.job("job_1");
    run_processes(&job, count, each);
    // The last one may still be leaving its CPU.
    let mut counts = metered.counts(&job);
    let deadline = Instant::now() + Duration::from_secs(5);
    while job.cpu_stat_ns().abs_diff(counts.cpu_ns.unwrap()) > 1_000_000
        && Instant::now() < deadline
    {
        std::thread::yield_now();
        counts = metered.counts(&job);
    }
    assert_near(
        counts.cpu_ns.unwrap(),
        job.cpu_stat_ns(),
        &format!("CPU time of {count} processes"),
    );
    assert_processes(metered, &counts, u64::from(count));
    assert_eq!(counts.oom_kills, Some(0));
    let removed = metered.meter.remove(job.id).unwrap().unwrap();
    assert_eq!((removed.starts, removed.ends), (counts.starts, counts.ends));
    assert_near(
        removed.cpu_ns.unwrap(),
        job.cpu_stat_ns(),
        "CPU time at the end",
    );
}

#[test]
fn one_process_is_metered() {
    check_processes(&Metered::new(), 1, Duration::from_millis(300));
}

#[test]
fn a_hundred_processes_are_metered() {
    check_processes(&Metered::new(), 100, Duration::from_millis(3));
}

#[test]
fn a_hundred_processes_are_metered_without_types() {
    let metered = Metered::of(Flavour::Raw);
    check_processes(&metered, 100, Duration::from_millis(3));
}

#[test]
fn ten_thousand_processes_are_metered() {
    check_processes(&Metered::new(), 10_000, Duration::ZERO);
}

#[test]
fn what_runs_now_is_counted() {
    let metered = Metered::new();
    let job = metered.job("job_1");
    let folder = fs::File::open(&job.path).unwrap();
    let pid = spawn(folder.as_raw_fd(), || {
        loop {
            burn(Duration::from_secs(1));
        }
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut last = 0;
    while job.cpu_stat_ns() < 500_000_000 {
        let counts = metered.counts(&job);
        assert!(
            counts.cpu_ns.unwrap() >= last,
            "went back from {last} to {counts:?}"
        );
        last = counts.cpu_ns.unwrap();
        assert!(Instant::now() < deadline);
    }
    // The kernel's own figure is as of the last tick.
    let (before, measured, after) = (
        job.cpu_stat_ns(),
        metered.counts(&job).cpu_ns.unwrap(),
        job.cpu_stat_ns(),
    );
    let room = after / 50 + 10_000_000;
    println!("meter: in flight: {measured} ns between {before} and {after}");
    assert!(
        measured + room >= before && measured <= after + room,
        "{measured}, {before} to {after}"
    );
    // SAFETY: the child is ours and not yet waited for.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

#[test]
fn user_and_system_time_add_up() {
    let metered = Metered::new();
    let job = metered.job("job_1");
    first_act(&job.path, || {
        burn(Duration::from_millis(400));
        0
    });
    let counts = metered.counts(&job);
    let (user, system) = (counts.user_ns.unwrap(), counts.system_ns.unwrap());
    assert_eq!(Some(user + system), counts.cpu_ns);
    println!(
        "meter: user {user}, system {system}: {}",
        fs::read_to_string(job.path.join("cpu.stat")).unwrap()
    );
}

#[test]
fn threads_are_no_processes_and_each_process_ends_once() {
    let metered = Metered::new();
    let job = metered.job("job_1");
    let folder = fs::File::open(&job.path).unwrap();
    const PROCESSES: u64 = 50;
    for _ in 0..PROCESSES {
        first_act_in(folder.as_raw_fd(), || {
            for _ in 0..4 {
                start_thread();
            }
            0 // ends all at once
        });
    }
    let counts = metered.counts(&job);
    assert_processes(&metered, &counts, PROCESSES);
}

/// A thread that sleeps until its process ends. Safe to call after a fork, unlike `std::thread`.
fn start_thread() {
    const STACK: usize = 64 * 1024;
    extern "C" fn wait(_: *mut libc::c_void) -> libc::c_int {
        loop {
            // SAFETY: no arguments, no memory.
            unsafe { libc::pause() };
        }
    }
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD;
    // SAFETY: new memory for the stack, which lives as long as the process; the function touches nothing but it.
    unsafe {
        let stack = libc::mmap(
            std::ptr::null_mut(),
            STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert!(stack != libc::MAP_FAILED);
        let top = stack.cast::<u8>().add(STACK).cast();
        assert!(libc::clone(wait, top, flags, std::ptr::null_mut()) > 0);
    }
}

/// What a thread has waited for CPUs, as the kernel tells it; `None` where it does not.
fn waited_ns(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let waited: u64 = text.split(' ').nth(1)?.parse().ok()?;
    (waited > 0).then_some(waited)
}

#[test]
fn waiting_for_a_cpu_is_counted() {
    check_waits(&Metered::new());
}

#[test]
fn waiting_for_a_cpu_is_counted_without_types() {
    check_waits(&Metered::of(Flavour::Raw));
}

fn check_waits(metered: &Metered) {
    let job = metered.job("job_1");
    // More than there are CPUs, so that they wait, and are moved between queues while they do.
    let tasks = 3 * std::thread::available_parallelism().unwrap().get();
    let mut actors: Vec<Actor> = (0..tasks)
        .map(|_| {
            Actor::start(&job.path, |order| {
                burn(Duration::from_millis(u64::try_from(order).unwrap_or(0)));
                0
            })
        })
        .collect();
    std::thread::scope(|scope| {
        for actor in &mut actors {
            scope.spawn(|| actor.ask(200));
        }
    });
    let waited: Option<u64> = actors.iter().map(|actor| waited_ns(actor.pid)).sum();
    let counts = metered.counts(&job);
    let measured = counts.runqueue_ns.unwrap();
    println!("meter: waited: measured {measured} ns, true {waited:?} ns");
    assert!(measured > 200_000_000, "{measured}");
    if let Some(waited) = waited {
        assert!(
            measured.abs_diff(waited) <= waited / 50 + 2_000_000,
            "measured {measured}, true {waited}"
        );
    }
}

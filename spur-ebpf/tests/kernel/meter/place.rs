//! Whose counts they are: nested cgroups, slots that go from one to the next, agents that come and go.

use super::cpu::burn;
use super::*;
use spur_ebpf::Error;
use spur_ebpf::meter::{Origin, abi};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn nested_cgroups_count_for_the_step_and_else_for_the_job() {
    let metered = Metered::new();
    let job = metered.job("job_1");
    let step = job.below("step_0");
    metered.meter.add(step.id).unwrap();
    let deep = step.below("container").below("payload");
    let other = job.below("not_metered").below("deep");
    let outside = metered.lab.cgroup("job_2");
    let run = |path: &Path| {
        first_act(path, || {
            burn(Duration::from_millis(50));
            0
        })
    };
    for path in [&deep.path, &step.path, &other.path, &outside] {
        run(path);
    }
    let (of_step, of_job) = (metered.counts(&step), metered.counts(&job));
    assert_eq!((of_step.starts, of_step.ends), (Some(2), Some(2)));
    assert_eq!((of_job.starts, of_job.ends), (Some(1), Some(1)));
    assert_near(
        of_step.cpu_ns.unwrap(),
        step.cpu_stat_ns(),
        "a step with a cgroup in it",
    );
    assert_near(
        of_job.cpu_ns.unwrap(),
        other.cpu_stat_ns(),
        "a cgroup of a job's that is no step",
    );
    let mut all = Vec::new();
    metered.meter.read(&mut all);
    assert_eq!(all.len(), 2);
}

/// A cgroup's job that ends while its tasks run is charged to nobody: not to the next owner of the slot.
#[test]
fn a_slot_that_is_used_again_gets_nothing_of_its_former_owner() {
    let metered = Metered::new();
    let job = metered.job("busy");
    let quiet: Vec<PathBuf> = (0..4)
        .map(|index| metered.lab.cgroup(&format!("quiet_{index}")))
        .collect();
    let ids: Vec<u64> = quiet.iter().map(|path| id(path)).collect();
    let folder = fs::File::open(&job.path).unwrap();
    let pids: Vec<i32> = (0..3)
        .map(|_| {
            spawn(folder.as_raw_fd(), || {
                loop {
                    // SAFETY: no memory of ours.
                    unsafe { libc::sched_yield() };
                }
            })
        })
        .collect();
    // As many changes of owner as make every slot be used again, with the busy job among them.
    for round in 0..3 * abi::SLOTS_MAX as usize {
        let quiet = ids[round % ids.len()];
        metered.meter.remove(job.id).unwrap().unwrap();
        metered.meter.add(quiet).unwrap();
        metered.meter.add(job.id).unwrap();
        let counts = metered.meter.remove(quiet).unwrap().unwrap();
        let used = (counts.cpu_ns, counts.switches, counts.runqueue_ns);
        assert_eq!(used, (Some(0), Some(0), Some(0)), "round {round}");
    }
    for pid in pids {
        // SAFETY: the child is ours and not yet waited for.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn adding_and_removing_from_many_threads_loses_no_slot() {
    let metered = Metered::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let meter = &metered.meter;
                scope.spawn(move || {
                    for round in 0..2000u64 {
                        let id = 1 << 40 | thread << 20 | (round % 7);
                        meter.add(id).unwrap();
                        meter.add(id).unwrap();
                        meter.remove(id).unwrap().unwrap();
                        assert!(meter.remove(id).unwrap().is_none());
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut all = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                all.clear();
                metered.meter.read(&mut all);
                assert!(all.len() <= 4);
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    // Every slot can still be had. What never was a cgroup makes way when there are no more.
    for id in 1..=u64::from(abi::SLOTS_MAX) {
        metered.meter.add(id << 20).unwrap();
    }
    let job = metered.job("job_1");
    let mut all = Vec::new();
    metered.meter.read(&mut all);
    let ids: Vec<u64> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [job.id]);
}

#[test]
fn more_cgroups_than_there_are_slots_are_refused() {
    let metered = Metered::new();
    let groups: Vec<Group> = (0..abi::SLOTS_MAX)
        .map(|index| metered.job(&format!("job_{index}")))
        .collect();
    let one_more = id(&metered.lab.cgroup("one_more"));
    let full = metered.meter.add(one_more).unwrap_err();
    let slots = abi::SLOTS_MAX;
    assert!(
        matches!(full, Error::MeterFull { slots: all } if all == slots),
        "{full}"
    );
    metered.meter.remove(groups[7].id).unwrap().unwrap();
    metered.meter.add(one_more).unwrap();
}

#[test]
fn slots_of_cgroups_that_went_while_no_agent_ran_are_free_again() {
    let Metered { lab, meter } = Metered::new();
    let (kept, gone) = (lab.cgroup("kept"), lab.cgroup("gone"));
    let kept_id = id(&kept);
    meter.add(kept_id).unwrap();
    meter.add(id(&gone)).unwrap();
    drop(meter);
    fs::remove_dir(gone).unwrap();
    let meter = Meter::open(&lab.pins(), JOB_LEVEL).unwrap();
    let mut all = Vec::new();
    meter.read(&mut all);
    let ids: Vec<u64> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [kept_id]);
}

#[test]
fn counting_goes_on_while_no_agent_runs() {
    let Metered { lab, meter } = Metered::new();
    assert_eq!(*meter.origin(), Origin::New);
    let path = lab.cgroup("job_1");
    let job = Group {
        id: id(&path),
        path,
    };
    meter.add(job.id).unwrap();
    let run = || {
        first_act(&job.path, || {
            burn(Duration::from_millis(50));
            0
        })
    };
    run();
    drop(meter);
    run();
    let meter = Meter::open(&lab.pins(), JOB_LEVEL).unwrap();
    assert_eq!(*meter.origin(), Origin::Adopted);
    for (source, covered) in meter
        .coverage()
        .iter()
        .filter(|(source, _)| *source != Source::Gpu)
    {
        assert!(
            matches!(covered, Covered::Counted { adopted: true, .. }),
            "{source}: {covered:?}"
        );
    }
    run();
    let counts = counts_of(&meter, job.id);
    assert_eq!((counts.starts, counts.ends), (Some(3), Some(3)));
    assert_near(
        counts.cpu_ns.unwrap(),
        job.cpu_stat_ns(),
        "over a change of agents",
    );
}

#[test]
fn a_meter_of_another_version_or_for_other_cgroups_is_replaced() {
    let Metered { lab, meter } = Metered::new();
    let path = lab.cgroup("job_1");
    let job = id(&path);
    meter.add(job).unwrap();
    drop(meter);
    let deeper = Meter::open(&lab.pins(), JOB_LEVEL + 1).unwrap();
    assert!(
        matches!(deeper.origin(), Origin::Replaced(_)),
        "{:?}",
        deeper.origin()
    );
    assert!(deeper.remove(job).unwrap().is_none());
    drop(deeper);
    let base = lab.pins().join("meter");
    fs::rename(base.join(format!("abi{}", abi::ABI)), base.join("abi0")).unwrap();
    let meter = Meter::open(&lab.pins(), JOB_LEVEL).unwrap();
    assert_eq!(
        *meter.origin(),
        Origin::Replaced("it was made by another version (abi0)".to_owned())
    );
    assert!(!base.join("abi0").exists());
    meter.remove_all().unwrap();
    assert!(!base.exists());
}

#[test]
fn programs_of_another_build_make_way_and_the_counts_stay() {
    let Metered { lab, meter } = Metered::new();
    let path = lab.cgroup("job_1");
    let job = Group {
        id: id(&path),
        path,
    };
    meter.add(job.id).unwrap();
    first_act(&job.path, || 0);
    drop(meter);
    // As if another build had made it: the hash in `meta`.
    let meta = lab.pins().join(format!("meter/abi{}/meta", abi::ABI));
    let map = libbpf_rs::MapHandle::from_pinned_path(&meta).unwrap();
    use libbpf_rs::{MapCore, MapFlags};
    let mut value = map.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
    value[8] ^= 1;
    map.update(&[0; 4], &value, MapFlags::ANY).unwrap();
    let meter = Meter::open(&lab.pins(), JOB_LEVEL).unwrap();
    assert_eq!(*meter.origin(), Origin::Updated);
    first_act(&job.path, || 0);
    let counts = counts_of(&meter, job.id);
    assert_eq!((counts.starts, counts.ends), (Some(2), Some(2)));
}

//! Changes while a job runs.

use crate::lab::*;
use spur_ebpf::*;

#[test]
fn a_policy_shrinks_and_grows_under_a_running_process() {
    let lab = Lab::new();
    let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0, 1])).unwrap();
    let mut resident = Resident::start(&lab.cgroup, &nodes);
    for _ in 0..100 {
        assert_reached(resident.open(0));
        assert_reached(resident.open(1));
        job.write_policy(&granting([1])).unwrap();
        assert_refused(resident.open(0));
        assert_reached(resident.open(1));
        job.write_policy(&granting([0, 1])).unwrap();
    }
    assert_eq!(
        job.counters().unwrap().denied,
        100,
        "a policy write loses no count"
    );
}

#[test]
fn what_was_written_is_read_back() {
    let lab = Lab::new();
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    let policy = Policy {
        job: u64::MAX,
        step: 9,
        generation: 1 << 40,
        grants: [0, 63, 64, 511].map(bit).into_iter().collect(),
        quiet: true,
        audit_burst: 5,
        audit_per_second: 6,
    };
    job.write_policy(&policy).unwrap();
    assert_eq!(job.read_policy().unwrap(), Some(policy));
}

#[test]
fn a_device_that_goes_away_is_closed_for_its_holder() {
    let lab = Lab::new();
    let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
    let fence = lab.fence();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0, 1])).unwrap();
    let mut resident = Resident::start(&lab.cgroup, &nodes);
    let mut table = DeviceTable::new();
    table
        .deny_memory()
        .set_major(STAND_IN, MajorClass::Whole)
        .list(number(STAND_IN, 1), Rule::Bit(bit(1)));
    fence.set_devices(&table).unwrap();
    assert_eq!(fence.devices().unwrap(), table);
    assert_refused(resident.open(0));
    assert_reached(resident.open(1));
    // Its number now means another device.
    fence
        .set_devices(table.list(number(STAND_IN, 1), Rule::Bit(bit(9))))
        .unwrap();
    assert_refused(resident.open(1));
}

#[test]
fn a_fenced_device_never_opens_while_tables_change() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 0);
    let fence = lab.fence();
    let _job = fence.attach(&lab.cgroup, "job_7").unwrap();
    let table = |class, rule| {
        let mut table = DeviceTable::new();
        table
            .set_major(STAND_IN, class)
            .list(number(STAND_IN, 0), rule)
            .list(number(STAND_IN, 1), Rule::Never);
        table
    };
    let tables = [
        table(MajorClass::Whole, Rule::Never),
        table(MajorClass::Listed, Rule::Never),
        table(MajorClass::Listed, Rule::Bit(bit(0))),
        stand_ins(8),
        table(MajorClass::Listed, Rule::Bit(bit(1))),
    ];
    let cgroup = std::fs::File::open(&lab.cgroup).unwrap();
    let cgroup = std::os::fd::AsRawFd::as_raw_fd(&cgroup);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let opener = scope.spawn(|| {
            let mut opens = 0u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let refused = first_act_in(cgroup, || {
                    i32::from((0..2000).any(|_| open(&node) != libc::EPERM))
                });
                assert_eq!(refused, 0, "the device was open for a moment");
                opens += 2000;
            }
            opens
        });
        for table in tables.iter().cycle().take(40) {
            fence.set_devices(table).unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(opener.join().unwrap() > 0);
    });
}

#[test]
fn a_fence_that_was_lifted_leaves_no_policy_behind() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 0);
    let fence = lab.fence();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let refused = lab.node(STAND_IN, 1);
    assert_refused(first_act(&lab.cgroup, || open(&refused)));
    job.detach().unwrap();
    job.detach().unwrap();
    assert_reached(first_act(&lab.cgroup, || open(&refused)));
    assert!(fence.links().unwrap().is_empty());
    // The kernel kept policy and counts for the cgroup; the next fence must not find them.
    let again = fence.attach(&lab.cgroup, "job_8").unwrap();
    assert_eq!(again.read_policy().unwrap(), None);
    assert_eq!(again.counters().unwrap(), Counters::default());
    assert_refused(first_act(&lab.cgroup, || open(&node)));
}

//! The guard: what this kernel takes of it, that it is adopted and replaced without a gap, and that losses are noticed.

mod attacks;
mod ways;

use crate::drm;
use crate::lab::*;
use spur_ebpf::*;
use std::path::PathBuf;

/// Two jobs under fence and guard, with `vgem` as bit 0.
pub(crate) struct Yard {
    pub(crate) lab: Lab,
    pub(crate) fence: Fence,
    pub(crate) guard: Guard,
    pub(crate) audit: Audit,
    /// Cgroup and fence of jobs 1 and 2.
    pub(crate) jobs: [(PathBuf, JobFence); 2],
}

impl Yard {
    /// `None`, and a line that says so, on a kernel without a working BPF LSM; an error where the environment demands one.
    pub(crate) fn new() -> Option<Yard> {
        Yard::with(false)
    }

    pub(crate) fn with(deny_signals: bool) -> Option<Yard> {
        let lab = Lab::new();
        let fence = lab.fence();
        fence.set_devices(&devices()).unwrap();
        let guard = fence.guard(&options(&lab, deny_signals)).unwrap();
        if !guard.is_complete() {
            assert_ne!(expected(), "required", "{}", guard.summary());
            println!("skipped: {}", guard.summary());
            return None;
        }
        let job = |number: u64| {
            let name = format!("job_{number}");
            let cgroup = lab.cgroup(&name);
            let job = fence.attach(&cgroup, &name).unwrap();
            job.write_policy(&policy(number, [0])).unwrap();
            (cgroup, job)
        };
        let jobs = [job(1), job(2)];
        let audit = fence.audit().unwrap();
        Some(Yard {
            lab,
            fence,
            guard,
            audit,
            jobs,
        })
    }

    pub(crate) fn cgroup(&self, job: usize) -> &std::path::Path {
        &self.jobs[job].0
    }

    /// Checks that counts and events since the last call are exactly these, as job, operation, reason.
    #[track_caller]
    pub(crate) fn assert_events(&mut self, expected: &[(u64, Operation, Reason)]) -> Vec<Event> {
        let mut events = Vec::new();
        while self.audit.read(|event| events.push(event)).unwrap() > 0 {}
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event.job, event.operation, event.reason))
            .collect();
        assert_eq!(seen, expected, "{events:#?}");
        events
    }

    #[track_caller]
    pub(crate) fn assert_denied(&self, job: usize, count: u64) {
        let counters = self.jobs[job].1.counters().unwrap();
        let sum = counters.emitted + counters.suppressed + counters.lost;
        assert_eq!((counters.denied, sum), (count, count), "{counters:?}");
    }
}

/// What the environment says of this kernel: `required`, `inactive` (it attaches programs and does not ask them), or nothing.
fn expected() -> String {
    std::env::var("SPUR_TEST_GUARD").unwrap_or_default()
}

pub(crate) fn options(lab: &Lab, deny_signals: bool) -> GuardOptions {
    GuardOptions {
        cgroup: lab.cgroup.clone(),
        deny_signals,
    }
}

pub(crate) fn policy(job: u64, bits: impl IntoIterator<Item = u16>) -> Policy {
    Policy {
        job,
        step: 0,
        ..granting(bits)
    }
}

/// `vgem` with both its nodes is bit 0; stand-ins as elsewhere, from bit 1.
fn devices() -> DeviceTable {
    let mut table = DeviceTable::new();
    table.deny_memory().set_major(drm::MAJOR, MajorClass::Whole);
    table.set_major(STAND_IN, MajorClass::Whole);
    for minor in [drm::CARD_MINOR, drm::RENDER_MINOR] {
        table.list(number(drm::MAJOR, minor), Rule::Bit(bit(0)));
    }
    table.list(number(STAND_IN, 0), Rule::Bit(bit(1)));
    table
}

#[test]
fn what_the_kernel_does_not_take_is_said_plainly() {
    let lab = Lab::new();
    let guard = lab.fence().guard(&options(&lab, false)).unwrap();
    for (hook, state) in guard.hooks() {
        println!("guard: {hook}: {state:?}");
    }
    println!("guard: {}", guard.summary());
    assert_eq!(guard.hooks().count(), Hook::ALL.len());
    let complete = guard.missing().next().is_none();
    assert_eq!(guard.is_complete(), complete);
    assert!(guard.missing().all(|(_, reason)| !reason.is_empty()));
    assert!(guard.check().is_empty());
    if expected() == "inactive" {
        assert!(
            !complete && guard.summary().contains("lsm="),
            "{}",
            guard.summary()
        );
    }
    assert!(!lab.cgroup.join("guard_proof").exists());
}

fn programs(guard: &Guard) -> Vec<(Hook, u32, bool)> {
    guard
        .hooks()
        .filter_map(|(hook, state)| match state {
            HookState::Attached {
                program_id,
                adopted,
                ..
            } => Some((hook, *program_id, *adopted)),
            HookState::Absent | HookState::Refused(_) => None,
        })
        .collect()
}

#[test]
fn a_guard_of_the_same_build_is_adopted_and_another_replaces_it() {
    let Some(yard) = Yard::new() else { return };
    let before = programs(&yard.guard);
    let again = yard.fence.guard(&options(&yard.lab, false)).unwrap();
    let ids =
        |guard: &Guard| -> Vec<u32> { programs(guard).iter().map(|(_, id, _)| *id).collect() };
    assert_eq!(ids(&again), ids(&yard.guard));
    assert!(programs(&again).iter().all(|(_, _, adopted)| *adopted));
    // Other settings are other programs.
    // What is missing is started beside what is adopted.
    std::fs::remove_file(again.folder().join("bpf")).unwrap();
    let third = yard.fence.guard(&options(&yard.lab, false)).unwrap();
    let fresh = programs(&third)
        .into_iter()
        .filter(|(_, _, adopted)| !adopted);
    assert_eq!(
        fresh.map(|(hook, _, _)| hook).collect::<Vec<_>>(),
        [Hook::Bpf]
    );
    // A strange pin is not.
    let folder = third.folder();
    std::fs::rename(folder.join("task_kill"), folder.join("bpf")).unwrap();
    assert!(doctor::verify_guard(&yard.lab.pins()).is_err());
    let third = yard.fence.guard(&options(&yard.lab, false)).unwrap();
    let fresh = programs(&third)
        .into_iter()
        .filter(|(_, _, adopted)| !adopted);
    assert_eq!(
        fresh.map(|(hook, _, _)| hook).collect::<Vec<_>>(),
        [Hook::Bpf, Hook::TaskKill]
    );
    let proven = doctor::verify_guard(&yard.lab.pins()).unwrap();
    let running = programs(&third).into_iter().map(|(hook, id, _)| (hook, id));
    assert_eq!(proven, running.collect::<Vec<_>>());
    let other = yard.fence.guard(&options(&yard.lab, true)).unwrap();
    assert!(programs(&other).iter().all(|(hook, id, adopted)| {
        !adopted
            && before
                .iter()
                .all(|(known, old, _)| known != hook || old != id)
    }));
    assert!(!yard.guard.check().is_empty() && other.check().is_empty());
}

#[test]
fn a_pin_that_is_taken_away_is_noticed_and_put_back() {
    let Some(yard) = Yard::new() else { return };
    let pin = yard.guard.folder().join("bpf");
    std::fs::remove_file(&pin).unwrap();
    assert_eq!(yard.guard.check(), [(Hook::Bpf, GuardFault::Unpinned)]);
    yard.guard.restore().unwrap();
    assert!(yard.guard.check().is_empty() && pin.exists());
    std::fs::rename(yard.guard.folder().join("task_kill"), &pin).unwrap();
    assert_eq!(
        yard.guard.check(),
        [
            (Hook::Bpf, GuardFault::Replaced),
            (Hook::TaskKill, GuardFault::Unpinned)
        ]
    );
    yard.guard.restore().unwrap();
    assert!(yard.guard.check().is_empty());
}

#[test]
fn a_guard_goes_with_its_fence_when_asked() {
    let Some(yard) = Yard::new() else { return };
    let (lab, cgroup) = (&yard.lab, yard.cgroup(0).to_path_buf());
    let bpf = || ways::result(ways::next_program());
    assert_refused(first_act(&cgroup, bpf));
    let folder = yard.guard.folder().to_path_buf();
    drop(yard.guard);
    assert_refused(first_act(&cgroup, bpf));
    yard.fence.remove().unwrap();
    assert!(!folder.exists() && !lab.pins().exists());
    // The kernel takes a program off from a worker after its last pin went.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while first_act(&cgroup, bpf) != 0 {
        assert!(std::time::Instant::now() < deadline, "it still refuses");
        std::thread::yield_now();
    }
}

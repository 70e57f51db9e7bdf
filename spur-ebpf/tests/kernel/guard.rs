//! The guard: what this kernel takes of it, and that it follows the fence's policies.

use crate::lab::*;
use spur_ebpf::*;

fn options(lab: &Lab) -> GuardOptions {
    GuardOptions {
        cgroup: lab.cgroup.clone(),
        deny_signals: false,
    }
}

#[test]
fn what_the_kernel_does_not_take_is_said_plainly() {
    let lab = Lab::new();
    let fence = lab.fence();
    let start = std::time::Instant::now();
    let guard = fence.guard(&options(&lab)).unwrap();
    println!("guard: {} in {:?}", guard.summary(), start.elapsed());
    for (hook, state) in guard.hooks() {
        println!("guard: {hook}: {state:?}");
    }
    assert_eq!(guard.hooks().count(), Hook::ALL.len());
    let refused = guard
        .missing()
        .map(|(_, reason)| reason)
        .all(|reason| !reason.is_empty());
    assert!(refused && guard.is_complete() == guard.missing().next().is_none());
    assert!(guard.check().is_empty());
}

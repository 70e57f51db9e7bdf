//! The verdict of `bpf/fence_decide.h`, compiled for this host, against a naive model of the same rules.

use proptest::prelude::*;
use spur_ebpf::abi::{ABI, RawPolicy, SLOT_MINORS, SLOTS};
use std::ptr::from_ref;

/// What a program asks.
#[derive(Clone, Copy, Debug)]
struct Request {
    device_type: u32,
    access: u32,
    major: u32,
    minor: u32,
}

/// `struct spur_host_env` of `bpf/host_decide.c`: what reads and lookups answer, and what was asked.
#[repr(C)]
struct Env {
    word: u32,
    direct: u32,
    hashed: u32,
    index: u32,
    lookups: u32,
    reserved: u32,
    policy: *const RawPolicy,
}

unsafe extern "C" {
    fn spur_host_decide(
        env: *mut Env,
        device_type: u32,
        access: u32,
        major: u32,
        minor: u32,
    ) -> u32;
}

#[derive(Clone, Copy, Debug)]
struct Case {
    request: Request,
    /// Class of the major and 1 + its slot.
    class: u32,
    slot: u32,
    /// What lies in the slot and what in the map; only one of them counts.
    direct: u32,
    hashed: u32,
    policy: Option<RawPolicy>,
}

/// Verdict of the C code, the index that it read in the table, and its number of lookups.
fn decide(case: &Case) -> (u32, u32, u32) {
    let mut env = Env {
        word: case.class | case.slot << 8,
        direct: case.direct,
        hashed: case.hashed,
        index: u32::MAX,
        lookups: 0,
        reserved: 0,
        policy: case.policy.as_ref().map_or(std::ptr::null(), from_ref),
    };
    let Request {
        device_type,
        access,
        major,
        minor,
    } = case.request;
    // SAFETY: `env` and what it points to are the C structs of the same layout and live through the call.
    let verdict = unsafe { spur_host_decide(&raw mut env, device_type, access, major, minor) };
    (verdict, env.index, env.lookups)
}

/// The place of a device in the table, if it has one.
fn place(case: &Case) -> Option<u32> {
    let direct = (1..=SLOTS).contains(&case.slot) && case.request.minor < SLOT_MINORS;
    direct.then(|| (case.slot - 1) * SLOT_MINORS + case.request.minor)
}

/// The rules as one would say them; only whether the open is allowed.
fn model(case: &Case) -> bool {
    let Request {
        device_type,
        access,
        major,
        minor,
    } = case.request;
    let is_char = device_type == 2;
    let base = [
        (1, 3),
        (1, 5),
        (1, 7),
        (1, 8),
        (1, 9),
        (5, 0),
        (5, 1),
        (5, 2),
    ]
    .contains(&(major, minor))
        || (136..144).contains(&major);
    let entry = if place(case).is_some() {
        case.direct
    } else {
        case.hashed
    };
    let fenced = match case.class {
        0 => false,
        2 => entry != 0,
        _ => true,
    };
    if !is_char || base || !fenced {
        return true;
    }
    let mknod = access & 1 == 1;
    let held: Vec<u32> = match case.policy {
        Some(policy) if policy.abi == ABI => (0..512u32)
            .filter(|bit| policy.grants[(bit / 64) as usize] & (1 << (bit % 64)) != 0)
            .collect(),
        _ => Vec::new(),
    };
    !mknod && held.iter().any(|bit| bit + 1 == entry)
}

fn request() -> impl Strategy<Value = Request> {
    let major = prop_oneof![0u32..12, 130u32..150, Just(226), 0u32..4096];
    let minor = prop_oneof![0u32..12, 120u32..140, 0u32..(1 << 20)];
    (1u32..=2, 0u32..8, major, minor).prop_map(|(device_type, access, major, minor)| Request {
        device_type,
        access,
        major,
        minor,
    })
}

fn entry() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        0u32..520,
        Just(512),
        Just(513),
        Just(u32::MAX),
        any::<u32>()
    ]
}

fn policy() -> impl Strategy<Value = RawPolicy> {
    let grants = prop_oneof![any::<[u64; 8]>(), Just([0; 8]), Just([u64::MAX; 8])];
    (
        prop_oneof![4 => Just(ABI), 1 => Just(0), 1 => Just(ABI + 1)],
        grants,
    )
        .prop_map(|(abi, grants)| RawPolicy {
            abi,
            grants,
            ..RawPolicy::default()
        })
}

fn case() -> impl Strategy<Value = Case> {
    let class = prop_oneof![Just(0u32), Just(1), Just(2), Just(3), 0u32..256];
    let slot = prop_oneof![Just(0u32), 0u32..40, 0u32..256];
    (
        request(),
        class,
        slot,
        entry(),
        entry(),
        prop::option::of(policy()),
    )
        .prop_map(|(request, class, slot, direct, hashed, policy)| Case {
            request,
            class,
            slot,
            direct,
            hashed,
            policy,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_program_decides_as_the_model(case in case()) {
        let (verdict, index, _) = decide(&case);
        prop_assert!(matches!(verdict, 0 | 1 | 16..=20), "{verdict}");
        prop_assert_eq!(verdict < 16, model(&case));
        prop_assert!(index == u32::MAX || Some(index) == place(&case));
    }

    #[test]
    fn what_is_not_fenced_costs_no_lookup(request in request()) {
        let case = Case { request, class: 0, slot: 0, direct: 0, hashed: 0, policy: None };
        prop_assert_eq!(decide(&case), (0, u32::MAX, 0));
    }

    #[test]
    fn the_base_list_is_the_same_in_rust(major in 0u32..260, minor in 0u32..260) {
        let request = Request { device_type: 2, access: 2, major, minor };
        let case = Case { request, class: 1, slot: 0, direct: 0, hashed: 0, policy: None };
        prop_assert_eq!(decide(&case).0 == 0, spur_ebpf::is_base_device(major, minor));
    }
}

#[test]
fn each_refusal_has_its_reason() {
    let request = Request {
        device_type: 2,
        access: 6,
        major: 195,
        minor: 3,
    };
    let granted = RawPolicy {
        abi: ABI,
        grants: [u64::MAX; 8],
        ..RawPolicy::default()
    };
    let base = Case {
        request,
        class: 1,
        slot: 1,
        direct: 4,
        hashed: 0,
        policy: Some(granted),
    };
    let check = |expected: u32, change: fn(&mut Case)| {
        let mut case = base;
        change(&mut case);
        assert_eq!(decide(&case).0, expected, "{case:?}");
    };
    check(1, |_| ());
    check(1, |case| (case.slot, case.direct, case.hashed) = (0, 0, 4));
    check(16, |case| case.request.access = 1);
    check(17, |case| case.direct = 0);
    check(17, |case| case.request.major = 4096);
    check(18, |case| case.direct = u32::MAX);
    check(18, |case| case.direct = 513);
    check(19, |case| case.policy = None);
    check(19, |case| case.policy = Some(RawPolicy::default()));
    check(20, |case| {
        case.policy = Some(RawPolicy {
            abi: ABI,
            ..RawPolicy::default()
        })
    });
    check(0, |case| (case.class, case.direct) = (2, 0));
    check(0, |case| case.request.device_type = 1);
}

//! The verdict of `bpf/fence_decide.h`, compiled for this host, against a naive model of the same rules.

use proptest::prelude::*;
use spur_ebpf::abi::{ABI, RawDevice, RawPolicy};
use std::ptr::from_ref;

/// `struct spur_request`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Request {
    device_type: u32,
    access: u32,
    major: u32,
    minor: u32,
}

/// `struct spur_host_env` of `bpf/host_decide.c`: what the lookups answer.
#[repr(C)]
struct Env {
    major: *const u32,
    device: *const RawDevice,
    policy: *const RawPolicy,
    lookups: u32,
}

unsafe extern "C" {
    fn spur_host_decide(env: *mut Env, request: *const Request) -> u32;
}

#[derive(Clone, Copy, Debug)]
struct Case {
    request: Request,
    major: Option<u32>,
    device: Option<RawDevice>,
    policy: Option<RawPolicy>,
}

/// Verdict and number of lookups of the C code.
fn decide(case: &Case) -> (u32, u32) {
    let mut env = Env {
        major: case.major.as_ref().map_or(std::ptr::null(), from_ref),
        device: case.device.as_ref().map_or(std::ptr::null(), from_ref),
        policy: case.policy.as_ref().map_or(std::ptr::null(), from_ref),
        lookups: 0,
    };
    // SAFETY: `env` and what it points to are the C structs of the same layout and live through the call.
    let verdict = unsafe { spur_host_decide(&raw mut env, &raw const case.request) };
    (verdict, env.lookups)
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
    let fenced = match case.major {
        Some(0) => false,
        Some(2) => case.device.is_some(),
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
    // A major that cannot be looked up is refused whatever else is there.
    case.major.is_some() && !mknod && case.device.is_some_and(|device| held.contains(&device.bit))
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

fn device() -> impl Strategy<Value = RawDevice> {
    prop_oneof![
        0u32..520,
        Just(511),
        Just(512),
        Just(u32::MAX),
        any::<u32>()
    ]
    .prop_map(|bit| RawDevice { bit, reserved: 0 })
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
    let class = prop_oneof![Just(0u32), Just(1), Just(2), Just(3), any::<u32>()];
    (
        request(),
        prop::option::of(class),
        prop::option::of(device()),
        prop::option::of(policy()),
    )
        .prop_map(|(request, major, device, policy)| Case {
            request,
            major,
            device,
            policy,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_program_decides_as_the_model(case in case()) {
        let (verdict, _) = decide(&case);
        prop_assert!(matches!(verdict, 0 | 1 | 16..=20), "{verdict}");
        prop_assert_eq!(verdict < 16, model(&case));
    }

    #[test]
    fn a_base_device_costs_no_lookup(minor in prop::sample::select(vec![3u32, 5, 7, 8, 9]), access in 0u32..8) {
        let request = Request { device_type: 2, access, major: 1, minor };
        let case = Case { request, major: Some(1), device: None, policy: None };
        prop_assert_eq!(decide(&case), (0, 0));
    }

    #[test]
    fn the_base_list_is_the_same_in_rust(major in 0u32..260, minor in 0u32..260) {
        let request = Request { device_type: 2, access: 2, major, minor };
        let open = decide(&Case { request, major: None, device: None, policy: None }).0 == 0;
        prop_assert_eq!(open, spur_ebpf::is_base_device(major, minor));
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
    let never = Some(RawDevice {
        bit: u32::MAX,
        reserved: 0,
    });
    let device = Some(RawDevice {
        bit: 3,
        reserved: 0,
    });
    let base = Case {
        request,
        major: Some(1),
        device,
        policy: Some(granted),
    };
    let check = |expected: u32, change: fn(&mut Case)| {
        let mut case = base;
        change(&mut case);
        assert_eq!(decide(&case).0, expected, "{case:?}");
    };
    check(1, |_| ());
    check(16, |case| case.request.access = 1);
    check(17, |case| case.device = None);
    check(17, |case| case.major = None);
    assert_eq!(
        decide(&Case {
            device: never,
            ..base
        })
        .0,
        18
    );
    check(19, |case| case.policy = None);
    check(19, |case| case.policy = Some(RawPolicy::default()));
    check(20, |case| {
        case.policy = Some(RawPolicy {
            abi: ABI,
            ..RawPolicy::default()
        })
    });
    check(0, |case| (case.major, case.device) = (Some(2), None));
    check(0, |case| case.request.device_type = 1);
}

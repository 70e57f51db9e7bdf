//! The Rust mirror of every shared struct agrees with the BTF of the built object, member by member.

use libbpf_rs::btf::types::{Composite, MemberAttr};
use libbpf_rs::btf::{Btf, BtfType, HasSize};
use spur_ebpf::abi::*;
use spur_ebpf::meter::abi::*;
use std::mem::{offset_of, size_of};

/// Name, offset in bytes and size in bytes.
type Member = (&'static str, usize, usize);

struct Struct {
    name: &'static str,
    size: usize,
    members: Vec<Member>,
}

/// Describes a Rust struct; the pattern makes a member that is missing here a compile error.
macro_rules! describe {
    ($c_name:literal, $rust:ident { $($member:ident as $c_member:literal),* $(,)? }) => {{
        let $rust { $($member),* } = $rust::default();
        Struct {
            name: $c_name,
            size: size_of::<$rust>(),
            members: vec![$(($c_member, offset_of!($rust, $member), std::mem::size_of_val(&$member))),*],
        }
    }};
}

fn ours() -> Vec<Struct> {
    vec![
        describe!("spur_fence_meta", RawMeta { abi as "abi", reserved as "reserved", object_hash as "object_hash" }),
        describe!("spur_guard_settings", RawGuardSettings {
            object_hash as "object_hash", job_level as "job_level", deny_signals as "deny_signals",
        }),
        describe!("spur_guard_file", RawGuardFile { job as "job", what as "what" }),
        describe!("spur_fence_device_key", RawDeviceKey { major as "major", minor as "minor" }),
        Struct {
            name: "spur_fence_table",
            size: size_of::<RawTable>(),
            members: vec![
                ("majors", offset_of!(RawTable, majors), 4 * MAJORS as usize),
                (
                    "entries",
                    offset_of!(RawTable, entries),
                    4 * (SLOTS * SLOT_MINORS) as usize,
                ),
            ],
        },
        describe!("spur_fence_policy", RawPolicy {
            abi as "abi", flags as "flags", job as "job", generation as "generation", cgroup as "cgroup", step as "step",
            audit_burst as "audit_burst", audit_per_second as "audit_per_second", reserved as "reserved",
            grants as "grants", audit_next_ns as "audit_next_ns",
        }),
        describe!("spur_fence_counters", RawCounters {
            denied as "denied", emitted as "emitted", suppressed as "suppressed", lost as "lost", noted as "noted",
        }),
        describe!("spur_fence_event", RawEvent {
            time_ns as "time_ns", job as "job", generation as "generation", cgroup as "cgroup", step as "step",
            pid as "pid", tgid as "tgid", uid as "uid", major as "major", minor as "minor", access as "access",
            device_type as "type", verdict as "verdict", operation as "operation", target as "target",
            flags as "flags", reserved as "reserved", comm as "comm", object as "object",
        }),
    ]
}

/// The meter's structs, each with the object that has it.
fn meters() -> Vec<(&'static str, Struct)> {
    let meter = env!("SPUR_METER_OBJECT");
    vec![
        (
            meter,
            describe!("spur_meter_meta", RawMeterMeta {
                abi as "abi", job_level as "job_level", object_hash as "object_hash", cpus as "cpus", shards as "shards",
            }),
        ),
        (
            meter,
            describe!("spur_meter_settings", RawMeterSettings {
                job_level as "job_level", shards as "shards", flags as "flags", reserved as "reserved",
            }),
        ),
        (
            meter,
            describe!("spur_meter_place", RawMeterPlace { slot as "slot", generation as "generation" }),
        ),
        (
            meter,
            describe!("spur_meter_slot", RawMeterSlot {
                cgroup as "cgroup", generation as "generation", guessed_ios as "guessed_ios", cpu_ns as "cpu_ns",
                runqueue_ns as "runqueue_ns", switches as "switches", user_ns as "user_ns", system_ns as "system_ns",
                major_faults as "major_faults", minor_faults as "minor_faults", starts as "starts", ends as "ends",
                oom_kills as "oom_kills", read_bytes as "read_bytes", write_bytes as "write_bytes", reads as "reads",
                writes as "writes",
            }),
        ),
        (
            meter,
            describe!("spur_meter_counters", RawTaskCounters {
                exec_ns as "exec_ns", wait_ns as "wait_ns", user_ns as "user_ns", system_ns as "system_ns",
                major_faults as "major_faults", minor_faults as "minor_faults",
            }),
        ),
        (
            meter,
            describe!("spur_meter_running", RawMeterRunning {
                slice as "slice", generation as "generation", pid as "pid", counters as "counters",
            }),
        ),
        (
            meter,
            describe!("spur_meter_seen", RawMeterSeen {
                pid as "pid", reserved as "reserved", place as "place", time_ns as "time_ns", counters as "counters",
            }),
        ),
        (
            meter,
            describe!("spur_meter_ending", RawMeterEnding { signal as "signal", started_ns as "started_ns" }),
        ),
        (
            meter,
            describe!("spur_meter_gpu_totals", RawGpuTotals { events as "events", lost_jobs as "lost_jobs", lost_rows as "lost_rows" }),
        ),
    ]
}

/// Those of its part at the GPU scheduler, and of the walk through open files.
fn meters_of_devices() -> Vec<(&'static str, Struct)> {
    let gpu = env!("SPUR_METER_GPU_OBJECT");
    vec![
        (
            gpu,
            describe!("spur_meter_gpu_job", RawGpuJob {
                place as "place", ring as "ring", queued_ns as "queued_ns", run_ns as "run_ns",
            }),
        ),
        (
            gpu,
            describe!("spur_meter_gpu_ring", RawGpuRing {
                done_ns as "done_ns", done_run_ns as "done_run_ns", bus_device as "bus_device", device as "device", name as "name",
            }),
        ),
        (
            gpu,
            describe!("spur_meter_gpu_key", RawGpuKey { place as "place", device as "device", ring as "ring" }),
        ),
        (
            gpu,
            describe!("spur_meter_gpu_work", RawGpuWork { busy_ns as "busy_ns", queue_ns as "queue_ns", jobs as "jobs" }),
        ),
        (
            env!("SPUR_HOLDERS_OBJECT"),
            describe!("spur_meter_holder", RawHolder {
                cgroup as "cgroup", pid as "pid", device as "device",
            }),
        ),
    ]
}

fn size_of_type(ty: BtfType<'_>) -> usize {
    use libbpf_rs::btf::types::{Array, Int};
    let ty = ty.skip_mods_and_typedefs();
    if let Ok(int) = Int::try_from(ty) {
        return usize::from(int.bits) / 8;
    }
    if let Ok(composite) = Composite::try_from(ty) {
        return composite.size();
    }
    let array = Array::try_from(ty).expect("members are integers and arrays of them");
    array.capacity() * size_of_type(array.contained_type())
}

/// The first difference between a Rust struct and its C form.
fn difference(btf: &Btf<'_>, ours: &Struct) -> Option<String> {
    let Some(theirs) = btf.type_by_name::<Composite<'_>>(ours.name) else {
        return Some(format!("{} is not in the BTF", ours.name));
    };
    let members: Vec<(String, usize, usize)> = theirs
        .iter()
        .map(|member| {
            let name = member
                .name
                .expect("no anonymous members")
                .to_string_lossy()
                .into_owned();
            let MemberAttr::Normal { offset } = member.attr else {
                panic!("{name} is a bit field")
            };
            let ty = btf
                .type_by_id::<BtfType<'_>>(member.ty)
                .expect("its type is in the BTF");
            (name, offset as usize / 8, size_of_type(ty))
        })
        .collect();
    let expected: Vec<(String, usize, usize)> = ours
        .members
        .iter()
        .map(|&(name, offset, size)| (name.to_owned(), offset, size))
        .collect();
    if members != expected {
        return Some(format!(
            "{}: C has {members:?}, Rust has {expected:?}",
            ours.name
        ));
    }
    (theirs.size() != ours.size).then(|| {
        format!(
            "{}: C has {} bytes, Rust {}",
            ours.name,
            theirs.size(),
            ours.size
        )
    })
}

fn object_btf() -> Btf<'static> {
    Btf::from_path(env!("SPUR_FENCE_OBJECT")).expect("the built object has BTF")
}

fn guard_btf() -> Btf<'static> {
    Btf::from_path(env!("SPUR_GUARD_OBJECT")).expect("the built object has BTF")
}

#[test]
fn every_shared_struct_is_the_same_in_c_and_rust() {
    let btf = object_btf();
    let guard = guard_btf();
    let differences: Vec<String> = ours()
        .iter()
        .flat_map(|ours| [difference(&btf, ours), difference(&guard, ours)])
        .flatten()
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_struct_of_the_meter_is_the_same_in_c_and_rust() {
    let all: Vec<_> = meters().into_iter().chain(meters_of_devices()).collect();
    let differences = all.iter().filter_map(|(object, ours)| {
        let btf = Btf::from_path(object).expect("the built object has BTF");
        difference(&btf, ours)
    });
    let differences: Vec<String> = differences.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_member_that_moved_is_noticed() {
    let btf = object_btf();
    for mut ours in ours() {
        let last = ours.members.len() - 1;
        ours.members[last].1 += 4;
        assert!(difference(&btf, &ours).is_some(), "{}: offset", ours.name);
        ours.members[last].1 -= 4;
        ours.members[0].2 += 1;
        assert!(difference(&btf, &ours).is_some(), "{}: size", ours.name);
        ours.members[0].2 -= 1;
        ours.size += 8;
        assert!(
            difference(&btf, &ours).is_some(),
            "{}: whole size",
            ours.name
        );
    }
}

//! What the verifier has to do is kept small: `verifier-budget.toml` says how many instructions each program may cost it on which
//! kernel. `cargo xtask budget` measures anew and writes the file.

use crate::lab::*;
use libbpf_rs::{ObjectBuilder, PrintLevel, set_print};
use std::collections::BTreeMap;
use std::sync::Mutex;

const BUDGET: &str = include_str!("../../verifier-budget.toml");
const FENCE: &[u8] = include_bytes!(env!("SPUR_FENCE_OBJECT"));
const GUARD: &[u8] = include_bytes!(env!("SPUR_GUARD_OBJECT"));
const METER: &[u8] = include_bytes!(env!("SPUR_METER_OBJECT"));
const METER_GPU: &[u8] = include_bytes!(env!("SPUR_METER_GPU_OBJECT"));
const HOLDERS: &[u8] = include_bytes!(env!("SPUR_HOLDERS_OBJECT"));
/// Tracepoints of the meter's programs that know types, which are part of what the verifier looks at.
const EVENTS: [(&str, &[&str]); 9] = [
    ("switch", &["sched_switch"]),
    ("fork", &["sched_process_fork"]),
    ("exit", &["sched_process_exit"]),
    ("victim", &["mark_victim"]),
    ("bio", &["block_bio_queue"]),
    ("split", &["block_split"]),
    ("queue", &["drm_sched_job_queue", "drm_sched_job"]),
    ("run", &["drm_sched_job_run", "drm_run_job"]),
    ("done", &["drm_sched_job_done", "drm_sched_process_job"]),
];
/// All values of the meter's flags, which say in what kernels differ: with the wrong ones some programs cannot be loaded.
const METER_FLAGS: u32 = 8;
/// `BPF_LOG_STATS`: the verifier says at the end what it did.
const STATISTICS: u32 = 4;

static SAID: Mutex<String> = Mutex::new(String::new());

/// Programs and instructions.
type Counts = BTreeMap<String, u64>;

/// Loads one program of an object and reads what the verifier says; `None` if this kernel does not take it.
fn processed(object: &[u8], name: &str) -> Option<u64> {
    let differs = object == METER;
    let flags = 0..if differs { METER_FLAGS } else { 1 };
    flags
        .into_iter()
        .find_map(|flags| processed_with(object, name, flags))
}

fn processed_with(object: &[u8], name: &str, flags: u32) -> Option<u64> {
    SAID.lock().unwrap().clear();
    let before = set_print(Some((PrintLevel::Debug, |_, text| {
        SAID.lock().unwrap().push_str(&text);
    })));
    let mut open = ObjectBuilder::default().open_memory(object).unwrap();
    for mut program in open.progs_mut() {
        let wanted = program.name() == name;
        program.set_autoload(wanted);
        program.set_log_level(STATISTICS);
        let probe = name.strip_suffix("_typed").filter(|_| wanted);
        let events = EVENTS.iter().find(|(known, _)| Some(*known) == probe);
        if let Some((_, events)) = events {
            // Where none is there, the program is not loaded.
            let mut target = |event: &&str| program.set_attach_target(0, Some((*event).to_owned()));
            let _found = events.iter().any(|event| target(event).is_ok());
        }
    }
    for mut map in open.maps_mut() {
        // The guard: hash, level of jobs, whether to refuse signals. The meter: level, shards, flags.
        let settings: Option<[u32; 4]> = match map.name().to_str() {
            Some(".rodata.guard") => Some([1, 0, 2, 0]),
            Some(".rodata.meter") => Some([2, 1, flags, 0]),
            _ => None,
        };
        if let Some(settings) = settings {
            let bytes: Vec<u8> = settings
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            map.set_initial_value(&bytes).unwrap();
        }
    }
    let loaded = open.load();
    set_print(before);
    loaded.ok()?;
    let said = SAID.lock().unwrap();
    let words = said.split("processed ").last()?.split(' ').next()?;
    Some(
        words
            .parse()
            .unwrap_or_else(|_| panic!("no count for {name} in: {said}")),
    )
}

fn names(object: &[u8]) -> Vec<String> {
    let mut builder = ObjectBuilder::default();
    let object = builder.open_memory(object).unwrap();
    object
        .progs()
        .map(|program| program.name().to_string_lossy().into_owned())
        .collect()
}

fn measure() -> Counts {
    // Brings the GPU scheduler, without whose types some of the meter's programs cannot be loaded.
    let _gpu = crate::meter::modules::load("spur_testgpu", "");
    [FENCE, GUARD, METER, METER_GPU, HOLDERS]
        .into_iter()
        .flat_map(|object| names(object).into_iter().map(move |name| (object, name)))
        .filter_map(|(object, name)| Some((name.clone(), processed(object, &name)?)))
        .collect()
}

/// `6.1` of `6.1.0-50-amd64`.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// The file's sections, one for each kernel.
fn budgets() -> BTreeMap<String, Counts> {
    let mut all: BTreeMap<String, Counts> = BTreeMap::new();
    let mut section = String::new();
    for line in BUDGET.lines() {
        if let Some(name) = line
            .strip_prefix("[\"")
            .and_then(|rest| rest.strip_suffix("\"]"))
        {
            name.clone_into(&mut section);
        } else if let Some((name, count)) = line.split_once(" = ") {
            let counts = all.entry(section.clone()).or_default();
            counts.insert(name.to_owned(), count.parse().unwrap());
        }
    }
    all
}

/// A kernel without a section may cost as much as the worst that has one.
fn budget(kernel: &str) -> Counts {
    let mut all = budgets();
    all.remove(kernel).unwrap_or_else(|| {
        println!("budget: no section for {kernel}: the highest of all others holds");
        let mut highest = Counts::new();
        for (name, count) in all.into_values().flatten() {
            let known = highest.entry(name).or_default();
            *known = count.max(*known);
        }
        highest
    })
}

#[test]
fn the_verifier_has_no_more_to_do_than_its_budget() {
    let _root = Lab::new();
    let (kernel, counts) = (kernel(), measure());
    for (name, count) in &counts {
        println!("budget: {kernel} {name} {count}");
    }
    assert!(counts.contains_key("spur_fence"), "{counts:?}");
    if std::env::var_os("SPUR_TEST_BUDGET").is_some() {
        return;
    }
    let budget = budget(&kernel);
    let over: Vec<String> = counts
        .iter()
        .filter(|(name, count)| budget.get(*name).is_none_or(|allowed| *count > allowed))
        .map(|(name, count)| format!("{name} costs {count}, allowed {:?}", budget.get(name)))
        .collect();
    assert!(
        over.is_empty(),
        "{}; if that is meant: cargo xtask budget",
        over.join("; ")
    );
}

#[test]
fn a_program_that_costs_more_is_noticed() {
    let all = budgets();
    let some = all.values().next().unwrap();
    assert!(some["spur_fence"] > 100 && budget("0.0")["spur_fence"] >= some["spur_fence"]);
    assert!(all.contains_key("5.10") && all["6.1"].contains_key("file_open"));
}

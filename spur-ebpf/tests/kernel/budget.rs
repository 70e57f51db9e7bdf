//! What the verifier has to do is kept small: `verifier-budget.toml` says how many instructions each program may cost it on which
//! kernel. `cargo xtask budget` measures anew and writes the file.

use crate::lab::*;
use libbpf_rs::{ObjectBuilder, PrintLevel, set_print};
use std::collections::BTreeMap;
use std::sync::Mutex;

const BUDGET: &str = include_str!("../../verifier-budget.toml");
const FENCE: &[u8] = include_bytes!(env!("SPUR_FENCE_OBJECT"));
const GUARD: &[u8] = include_bytes!(env!("SPUR_GUARD_OBJECT"));
/// `BPF_LOG_STATS`: the verifier says at the end what it did.
const STATISTICS: u32 = 4;

static SAID: Mutex<String> = Mutex::new(String::new());

/// Programs and instructions.
type Counts = BTreeMap<String, u64>;

/// Loads one program of an object and reads what the verifier says; `None` if this kernel does not take it.
fn processed(object: &[u8], name: &str) -> Option<u64> {
    SAID.lock().unwrap().clear();
    let before = set_print(Some((PrintLevel::Debug, |_, text| {
        SAID.lock().unwrap().push_str(&text);
    })));
    let mut open = ObjectBuilder::default().open_memory(object).unwrap();
    for mut program in open.progs_mut() {
        let wanted = program.name() == name;
        program.set_autoload(wanted);
        program.set_log_level(STATISTICS);
    }
    for mut map in open.maps_mut() {
        if map.name() == ".rodata.guard" {
            // hash, level of jobs, whether to refuse signals
            let settings: Vec<u8> = [1u64, 2]
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            map.set_initial_value(&settings).unwrap();
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
    [FENCE, GUARD]
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

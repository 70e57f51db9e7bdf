//! The pure parts: reading, masking, and which recordings are played.

use super::mask::mask;
use super::record::{self, Record};
use super::{judge, scene};
use crate::host;
use std::collections::BTreeSet;

#[test]
fn a_recording_is_read_in_its_parts() {
    let text = "$ squeue -h\n--- stdout\n1\n--- stderr\n--- exit 0\n";
    let record = Record::parse(text).unwrap();
    assert_eq!((record.root, record.command.as_str()), (false, "squeue -h"));
    assert_eq!(record.out(), "1\n");
    assert_eq!(record.text, record::sections("1\n", "", 0));
    assert!(
        Record::parse("# scontrol ping\n--- stdout\n--- stderr\n--- exit 0\n")
            .unwrap()
            .root
    );
    assert_eq!(Record::parse("nonsense"), None);
}

#[test]
fn moments_and_numbers_of_processes_are_masked_and_limits_are_not() {
    let cases = [
        (
            "StartTime=2026-11-30T01:41:01 EndTime=Unknown",
            "StartTime=YYYY-MM-DDThh:mm:ss EndTime=Unknown",
        ),
        ("Mon Nov 30 01:41:04 2026", "Www Mmm dd hh:mm:ss yyyy"),
        ("\"number\": 1796002860", "\"number\": EEEEEEEEEE"),
        ("\"number\": 4294967294", "\"number\": 4294967294"),
        ("   0:07  1:00:00", "   m:ss  1:00:00"),
        ("   1:07    30:00", "   m:ss    30:00"),
        (
            "RunTime=00:00:06 TimeLimit=00:30:00 DelayBoot=00:00:00",
            "RunTime=hh:mm:ss TimeLimit=00:30:00 DelayBoot=hh:mm:ss",
        ),
        ("slurm-wlm 24.11.5", "slurm 24.11.N"),
        ("SLURM_TASK_PID=19849", "SLURM_TASK_PID=*"),
        ("S:C:T 2:32:1", "S:C:T 2:32:1"),
        ("   OS=Linux 6.18.44 #1 SMP @0 ", "   OS=* @0 "),
        ("      \"cpu_load\": 201,", "      \"cpu_load\": *,"),
        ("1-00:00:00", "1-00:00:00"),
        ("gpu:h200:8(S:0-1) 64", "gpu:h200:8 64"),
        ("gpu:h200:8(S:0-1)   idle", "gpu:h200:8          idle"),
        ("2: c\n0: a\n1: b\n", "0: a\n1: b\n2: c\n"),
    ];
    for (text, masked) in cases {
        assert_eq!(mask("squeue", text), masked, "{text}");
    }
    assert_eq!(mask("sacct", "FAILED     0:11"), "FAILED     0:11");
}

#[test]
fn a_scene_plays_a_recording_once() {
    let mut seen = BTreeSet::new();
    for name in scene::played() {
        assert!(seen.insert(name), "{name} is played twice");
    }
}

#[test]
fn every_recording_is_played_and_few_differ_on_purpose() {
    let Some(records) = record::all(&record::folder()) else {
        host::skip("the recordings are not there");
        return;
    };
    let played: BTreeSet<&str> = scene::played().collect();
    let missing: Vec<&String> = records
        .keys()
        .filter(|name| !played.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "no step plays {missing:?}");
    assert!(judge::few_enough(records.len()));
    for (name, reason) in judge::intended() {
        assert!(records.contains_key(name), "{name} is no recording");
        assert!(!reason.is_empty());
    }
}

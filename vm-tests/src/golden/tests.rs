//! The pure parts: reading, masking, and which recordings are played.

use super::mask::{comparable, mask};
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
fn tasks_that_write_side_by_side_may_do_so_in_any_order() {
    let part = |task: u32| format!("HOME=/h\nSLURM_PROCID={task}\nUSER=u\n");
    let text = |parts: [u32; 3]| {
        let parts = parts.map(part).concat();
        format!("--- stdout\n[out.txt]\n{parts}[err.txt]\n--- stderr\n--- exit 0\n")
    };
    for command in [
        "sbatch -o out.txt --array=3-5 env.sh",
        "sbatch -W -n3 env.sh",
        "sbatch --ntasks=3 env.sh",
    ] {
        assert_eq!(
            mask(command, &text([2, 0, 1])),
            mask(command, &text([0, 1, 2]))
        );
        assert_ne!(
            mask(command, &text([0, 0, 1])),
            mask(command, &text([0, 1, 1]))
        );
    }
    for command in ["sbatch -W env.sh", "sbatch -n1 env.sh", "cat out.txt"] {
        assert_eq!(mask(command, &text([2, 0, 1])), text([2, 0, 1]));
    }
}

#[test]
fn tasks_that_empty_the_same_file_leave_at_least_one() {
    let part = |task: u32| format!("A=1\nID={task}\n");
    let text = |parts: &[u32]| {
        let parts: String = parts.iter().map(|task| part(*task)).collect();
        format!("[out.txt]\n{parts}[err.txt]\n")
    };
    let (all, some) = (text(&[0, 1, 2]), text(&[0, 2]));
    let one_file = "sbatch -W -o out.txt --array=0-2 a.sh";
    assert_eq!(comparable(one_file, &all, &some), some);
    assert_eq!(comparable(one_file, &all, &text(&[])), all);
    assert_eq!(comparable(one_file, &all, &text(&[7])), all);
    for command in [
        "sbatch -W -o out-%a.txt --array=0-2 a.sh",
        "sbatch -W -o out.txt -n3 a.sh",
    ] {
        assert_eq!(comparable(command, &all, &some), all);
    }
}

#[test]
fn what_is_the_machines_or_the_installations_is_masked_by_its_name() {
    let cases = [
        (
            "sinfo -O ALL",
            "AVAIL|FREE_MEM|STATE \nup|21501-21507|idle \n",
            "AVAIL|FREE_MEM|STATE \nup|*|idle \n",
        ),
        (
            "sinfo -O nodes,freemem,memory",
            "NODES  FREE_MEM     MEMORY\n2      21501-21507  1000\n2      215          1000\n",
            "NODES  FREE_MEM     MEMORY\n2      *            1000\n2      *            1000\n",
        ),
        (
            "squeue -S i -o %all",
            "TIME_LIMIT|TIME_LEFT|TIME\n1:00:00|59:54|m:ss\nUNLIMITED|UNLIMITED|m:ss\n",
            "TIME_LIMIT|TIME_LEFT|TIME\n1:00:00|*|m:ss\nUNLIMITED|UNLIMITED|m:ss\n",
        ),
        (
            "scontrol show config",
            "AuthType                = auth/munge\nKillWait                = 30 sec\n",
            "AuthType                = *\nKillWait                = 30 sec\n",
        ),
    ];
    for (command, text, masked) in cases {
        assert_eq!(mask(command, text), masked);
    }
}

#[test]
fn which_cores_is_masked_and_how_many_is_not() {
    let one = |socket: u32, core: u32| {
        format!(
            "\"sockets\": {{\n  \"{socket}\": {{\n    \"cores\": {{\n      \"{core}\": \"allocated\"\n    }}\n  }}\n}},\n"
        )
    };
    assert_eq!(mask("squeue", &one(0, 3)), "\"sockets\": {\n1 cores\n},\n");
    assert_eq!(mask("squeue", &one(0, 3)), mask("squeue", &one(1, 0)));
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

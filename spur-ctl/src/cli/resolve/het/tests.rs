use super::*;
use std::ffi::OsString;

fn nothing(_: &str) -> Option<String> {
    None
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn parts(command: Command, line: &str) -> Vec<Options> {
    let first = parse(command, &words(line), Source::CommandLine).unwrap();
    let mut parts = split(first, nothing).unwrap();
    settle(&mut parts);
    parts
}

fn value<'a>(part: &'a Options, long: &str) -> &'a str {
    part.value(long).unwrap_or("-")
}

#[test]
fn a_lone_colon_parts_components_until_the_script() {
    let all = parts(Command::Sbatch, "-n1 : -n2 -c4 : -N3 a.sh x : y");
    let tasks: Vec<&str> = all.iter().map(|part| value(part, "ntasks")).collect();
    assert_eq!(tasks, ["1", "2", "-"]);
    assert_eq!(value(&all[1], "cpus-per-task"), "4");
    assert_eq!(all[2].operands, words("a.sh x : y"));
    assert_eq!(parts(Command::Sbatch, "-n1 a.sh : -n2").len(), 1);
    assert_eq!(parts(Command::Salloc, "-n1 : -n2 bash -c :").len(), 2);
}

#[test]
fn every_component_of_srun_has_a_command_or_the_next_one_s() {
    let all = parts(Command::Srun, "-n1 a 1 : -n2 : b");
    let commands: Vec<_> = all.iter().map(|part| part.operands.clone()).collect();
    assert_eq!(commands, [words("a 1"), words("b"), words("b")]);
}

#[test]
fn what_is_the_whole_job_s_is_handed_on_and_the_rest_is_not() {
    let all = parts(
        Command::Sbatch,
        "-t 5 -A one -n4 --gres=gpu:1 -J j : -A two : a.sh",
    );
    let told = |long: &str| all.iter().map(|part| value(part, long)).collect::<Vec<_>>();
    assert_eq!(told("time"), ["5", "5", "5"]);
    assert_eq!(told("account"), ["one", "two", "two"]);
    assert_eq!(told("job-name"), ["j", "j", "j"]);
    assert_eq!(told("ntasks"), ["4", "-", "-"]);
    assert_eq!(told("gres"), ["gpu:1", "-", "-"]);
    for long in HANDED_ON {
        let all = Command::all().flat_map(super::super::super::flags::rows);
        assert!(all.into_iter().any(|flag| flag.long == long), "{long}");
    }
}

#[test]
fn scripts_have_components_too_and_the_command_line_is_above_them() {
    let script = b"#!/bin/sh\n#SBATCH -n1 -t 5\n#SBATCH hetjob\n#SBATCH -n2\n#SBATCH packjob\n#SBATCH -n3 -t 7\ntrue\n";
    let read = |line: &str| {
        let first = parse(Command::Sbatch, &words(line), Source::CommandLine).unwrap();
        let mut all = split(first, nothing).unwrap();
        let fresh = || Options::none(Command::Sbatch);
        super::super::script::read_options("s.sh", script, &mut all, fresh).unwrap();
        settle(&mut all);
        let told = all
            .iter()
            .map(|part| (value(part, "ntasks"), value(part, "time")));
        told.map(|(tasks, time)| format!("{tasks} {time}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(read(""), ["1 5", "2 5", "3 7"]);
    // What a component has of its own is above what an earlier one hands on.
    assert_eq!(read("-n9 -t 1"), ["9 1", "2 1", "3 7"]);
    assert_eq!(read(": -n8 :"), ["1 5", "8 5", "3 7"]);
}

#[test]
fn components_are_chosen_by_group() {
    let of = |line: &str, size| {
        groups(&parts(Command::Srun, line), size).map_err(|failure| failure.text)
    };
    assert_eq!(of("a", Some(2)), Ok(vec![(0, 0)]));
    assert_eq!(of("a : b", Some(2)), Ok(vec![(0, 0), (1, 1)]));
    assert_eq!(of("--het-group=1 a", Some(2)), Ok(vec![(1, 0)]));
    assert_eq!(
        of("--het-group=0-1,3 a", Some(4)),
        Ok(vec![(0, 0), (1, 0), (3, 0)])
    );
    assert_eq!(
        of("--het-group=1 a : --pack-group=0 b", Some(2)),
        Ok(vec![(0, 1), (1, 0)])
    );
    assert_eq!(
        of("a : b : c", Some(2)).unwrap_err(),
        "srun: error: Attempt to run a job step with het group value of 2, but the job allocation has maximum value of 1\n"
    );
    for line in [
        "--het-group=x a",
        "--het-group= a",
        "--het-group=0,1 a : --het-group=1 b",
    ] {
        assert!(of(line, Some(2)).is_err(), "{line}");
    }
    assert!(of("a : b", None).is_err());
    assert_eq!(of("--het-group=0 a", None), Ok(vec![(0, 0)]));
}

#[test]
fn a_component_reads_its_own_numbers_from_the_environment() {
    let var = |name: &str| {
        let known = [
            ("SLURM_HET_SIZE", "2"),
            ("SLURM_NTASKS", "1"),
            ("SLURM_NTASKS_HET_GROUP_1", "4"),
            ("SLURM_JOB_ID", "79"),
        ];
        let found = known.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    assert_eq!(variable("SLURM_NTASKS", 1, var).as_deref(), Some("4"));
    assert_eq!(variable("SLURM_NTASKS", 0, var), None);
    assert_eq!(variable("SLURM_JOB_ID", 1, var).as_deref(), Some("79"));
}

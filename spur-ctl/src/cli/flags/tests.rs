use super::getopt::{Options, Source, environment, parse};
use super::*;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

fn args(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn parsed(command: Command, line: &str) -> Options {
    parse(command, &args(line), Source::CommandLine).unwrap()
}

fn refused(command: Command, line: &str) -> (String, u8) {
    let failure = parse(command, &args(line), Source::CommandLine).unwrap_err();
    (failure.text, failure.code)
}

#[test]
fn names_are_unique_within_a_command() {
    for command in Command::ALL {
        let mut seen = BTreeSet::new();
        for flag in rows(command) {
            for long in flag.longs() {
                assert!(seen.insert(long.to_owned()), "{command} --{long} twice");
            }
            if let Some(short) = flag.short {
                assert!(seen.insert(short.to_string()), "{command} -{short} twice");
            }
        }
    }
}

#[test]
fn values_may_follow_in_every_way() {
    for line in ["--time=5 x", "--time 5 x", "-t5 x", "-t 5 x", "-Qvt 5 x"] {
        let options = parsed(Command::Sbatch, line);
        assert_eq!(options.value("time"), Some("5"), "{line}");
        assert_eq!(options.operands, args("x"), "{line}");
    }
}

#[test]
fn optional_values_are_attached_only() {
    let options = parsed(Command::Srun, "--exclusive=user --immediate 5");
    assert_eq!(options.value("exclusive"), Some("user"));
    assert_eq!(
        (options.on("immediate"), options.value("immediate")),
        (true, None)
    );
    assert_eq!(options.operands, args("5"));
    assert_eq!(parsed(Command::Srun, "-I5").value("immediate"), Some("5"));
}

#[test]
fn job_commands_stop_at_the_first_operand_and_views_do_not() {
    let options = parsed(Command::Srun, "-n2 cmd -n3 --x");
    assert_eq!(
        (options.value("ntasks"), options.operands.len()),
        (Some("2"), 3)
    );
    let options = parsed(Command::Scontrol, "show job -o 4");
    assert!(options.on("oneliner"));
    assert_eq!(options.operands, args("show job 4"));
    assert_eq!(parsed(Command::Srun, "-- -n3").operands, args("-n3"));
}

#[test]
fn abbreviations_must_be_unambiguous_but_aliases_may_share_a_beginning() {
    assert_eq!(
        parsed(Command::Squeue, "--stat=R").value("states"),
        Some("R")
    );
    let (text, code) = refused(Command::Sbatch, "--mem-per=5");
    assert_eq!(code, 255);
    assert!(text.starts_with(
        "sbatch: option '--mem-per=5' is ambiguous; possibilities: '--mem-per-cpu' '--mem-per-gpu'\n"
    ));
}

#[test]
fn bad_options_are_reported_as_glibc_does() {
    let tail = |name| format!("Try \"{name} --help\" for more information\n");
    assert_eq!(
        refused(Command::Squeue, "--nope"),
        (
            format!("squeue: unrecognized option '--nope'\n{}", tail("squeue")),
            1
        )
    );
    assert_eq!(
        refused(Command::Srun, "-t"),
        (
            format!("srun: option requires an argument -- 't'\n{}", tail("srun")),
            255
        )
    );
    assert_eq!(
        refused(Command::Srun, "--time").0.lines().next().unwrap(),
        { "srun: option '--time' requires an argument" }
    );
    assert_eq!(
        refused(Command::Srun, "--label=1")
            .0
            .lines()
            .next()
            .unwrap(),
        { "srun: option '--label' doesn't allow an argument" }
    );
    assert_eq!(refused(Command::Srun, "-y").0.lines().next().unwrap(), {
        "srun: invalid option -- 'y'"
    });
}

#[test]
fn the_command_line_wins_over_the_environment_over_the_script() {
    let get = |name: &str| match name {
        "SBATCH_PARTITION" => Some("env".to_owned()),
        "SBATCH_DEBUG" => Some("2".to_owned()),
        "SBATCH_WAIT" => Some("0".to_owned()),
        "SBATCH_QOS" => Some(String::new()),
        _ => None,
    };
    let mut options = parsed(Command::Sbatch, "-J line");
    options.merge(environment(Command::Sbatch, get));
    let script = args("-p script -J script -A script");
    options.merge(parse(Command::Sbatch, &script, Source::Script).unwrap());
    assert_eq!(options.value("job-name"), Some("line"));
    assert_eq!(options.value("partition"), Some("env"));
    assert_eq!(options.value("account"), Some("script"));
    assert_eq!(options.count("verbose"), 2);
    assert!(!options.on("wait") && !options.on("qos"));
}

#[test]
fn help_fits_a_terminal_and_names_every_option() {
    for command in Command::ALL {
        let text = help::help(command);
        assert!(text.starts_with(&format!("Usage: {command} [OPTION...]")));
        for flag in rows(command) {
            assert!(
                text.contains(&format!("--{}", flag.long)),
                "{command} --{}",
                flag.long
            );
        }
        assert!(text.lines().all(|line| line.len() <= 120), "{command}");
        assert!(text.contains("\nHelp options:\n"), "{command}");
        let short = help::summary(command);
        assert!(short.starts_with(&format!("Usage: {command} [")));
        assert!(short.lines().all(|line| line.len() <= 120), "{command}");
        assert!(short.contains("[--usage]"), "{command}");
    }
}

#[test]
fn options_of_requests_are_parted_and_no_group_names_another() {
    let text = help::help(Command::Sbatch);
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}"));
    let order = [
        "Parallel run options:",
        "--array",
        "Constraint options:",
        "--exclude",
        "Consumable resources related options:",
        "--mem-per-cpu",
        "Affinity/Multi-core options:",
        "--hint",
        "Help options:",
        "--usage",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
    for long in help::PARTED.iter().flat_map(|list| list.iter()) {
        let known = |command| rows(command).any(|flag| flag.long == *long);
        assert!(known(Command::Srun) || known(Command::Sbatch), "{long}");
    }
}

#[test]
fn verbose_lists_say_what_is_in_effect() {
    let options = parsed(Command::Squeue, "-v --iterate=2 --me");
    let text = help::in_effect(&options);
    for (long, value) in [
        ("iterate", "2"),
        ("me", "true"),
        ("verbose", "1"),
        ("user", "(null)"),
        ("long", "false"),
    ] {
        let line = text
            .lines()
            .find(|line| line.split(' ').next() == Some(long));
        assert!(
            line.is_some_and(|line| line.ends_with(&format!("= {value}"))),
            "{text}"
        );
    }
}

#[test]
fn the_reference_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/options.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, reference::page()).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == reference::page(),
        "{} is stale: run with UPDATE_DOCS=1",
        path.display()
    );
}

/// Options whose recorded value differs from what the option takes: the record was made from a help text that leaves it
/// out or shows it in an unusual way.
const RECORDED_OTHERWISE: [&str; 44] = [
    "srun --no-kill",
    "sbatch --no-kill",
    "salloc --no-kill",
    "sprio --jobs",
    "sdiag --cluster",
    "srun --container",
    "srun --container-id",
    "srun --kill-on-bad-exit",
    "srun --resv-ports",
    "srun --bcast",
    "sbatch --export",
    "sbatch --container",
    "sbatch --container-id",
    "sbatch --get-user-env",
    "sbatch --wrap",
    "sbatch --resv-ports",
    "salloc --container",
    "salloc --container-id",
    "salloc --get-user-env",
    "salloc --resv-ports",
    "squeue --job",
    "squeue --step",
    "scancel --clusters",
    "scancel --nodelist",
    "scontrol --cluster",
    "sacct --accounts",
    "sacct --associations",
    "sacct --clusters",
    "sacct --endtime",
    "sacct --gid",
    "sacct --jobs",
    "sacct --timelimit-min",
    "sacct --timelimit-max",
    "sacct --nodelist",
    "sacct --name",
    "sacct --format",
    "sacct --qos",
    "sacct --partition",
    "sacct --state",
    "sacct --starttime",
    "sacct --uid",
    "sacct --wckeys",
    "sstat --jobs",
    "sstat --format",
];

#[test]
fn every_recorded_option_has_a_row() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/slurm-golden/flags.tsv");
    let Ok(recorded) = std::fs::read_to_string(path) else {
        return;
    };
    let mut missing = Vec::new();
    for line in recorded.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let Some(command) = Command::ALL.into_iter().find(|c| c.name() == cells[0]) else {
            continue;
        };
        let long = cells[2].trim_start_matches('-');
        let letter = cells[1].chars().nth(1);
        let meant = |flag: &&Flag| flag.named(long) || (long.is_empty() && flag.short == letter);
        let Some(flag) = rows(command).find(meant) else {
            missing.push(line.to_owned());
            continue;
        };
        let short = flag.short.map(|s| format!("-{s}")).unwrap_or_default();
        let value = match flag.value {
            Value::No => "none",
            Value::Needed(_) => "value",
            Value::Maybe(_) => "optional",
        };
        let known =
            cells[3] == "?" || RECORDED_OTHERWISE.contains(&format!("{command} --{long}").as_str());
        if short != cells[1] || (value != cells[3] && !known) {
            missing.push(format!("{line} (here {short} {value})"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

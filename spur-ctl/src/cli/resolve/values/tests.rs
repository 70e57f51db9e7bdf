use super::super::super::flags::getopt::{Source, parse};
use super::*;
use std::ffi::OsString;

/// What is said of a line of options, and the exit code; nothing of one that is right.
fn said(command: Command, line: &str) -> (String, u8) {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let options = parse(command, &words, Source::CommandLine).unwrap();
    check(&options).map_or_else(
        |failure| (failure.text, failure.code),
        |()| (String::new(), 0),
    )
}

/// As the real 24.11.5 answers.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn wrong_values_are_errors_in_slurms_words() {
    let error = |why: &str| format!("sbatch: error: {why}\n");
    for (line, text, code) in [
        (
            "-v -Q",
            error("don't specify both --verbose (-v) and --quiet (-Q)"),
            1,
        ),
        ("-m foo", error("Invalid --distribution specification"), 255),
        (
            "-m block:foo",
            error("Invalid --distribution specification"),
            255,
        ),
        (
            "-m cyclic,foo",
            error("Invalid --distribution specification"),
            255,
        ),
        (
            "-m plane",
            error("Invalid plane size or size not specified")
                + &error("Invalid --distribution specification"),
            255,
        ),
        (
            "-m arbitrary",
            error(
                "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option",
            ),
            1,
        ),
        (
            "--hint=foo",
            error("unrecognized --hint argument \"foo\", see --hint=help"),
            1,
        ),
        (
            "--mem-bind=foo",
            error("unrecognized --mem-bind argument \"foo\""),
            255,
        ),
        (
            "-B ok",
            error("Invalid numeric value \"ok\" for first arg of -B."),
            1,
        ),
        (
            "-B 1:2:x",
            error("Invalid numeric value \"x\" for third arg of -B."),
            1,
        ),
        (
            "--gpu-bind=foo",
            error("Invalid --gpu-bind argument: foo"),
            255,
        ),
        (
            "--gpu-bind=verbose",
            error("Invalid --gpu-bind argument: verbose"),
            255,
        ),
        (
            "--gpu-bind=verbose,map_gpu:NaN",
            format!(
                "{}{}",
                error("Failed to validate NaN, offending character is N"),
                error("Invalid --gpu-bind argument: verbose,map_gpu:NaN")
            ),
            255,
        ),
        (
            "--gpu-bind=mask_gpu:0x3,xyz",
            format!(
                "{}{}",
                error("Failed to validate xyz, offending character is x"),
                error("Invalid --gpu-bind argument: mask_gpu:0x3,xyz")
            ),
            255,
        ),
        (
            "--gpu-bind=map_gpu:1*2*3",
            error("Invalid --gpu-bind argument: map_gpu:1*2*3"),
            255,
        ),
        (
            "--gpu-freq=foo",
            error("Invalid --gpu-freq argument: gpu:foo"),
            255,
        ),
        (
            "--cpu-freq=foo",
            error("unrecognized --cpu-freq argument \"foo\"")
                + &error("Invalid --cpu-freq argument"),
            255,
        ),
        ("--profile=foo", error("invalid --profile=foo option"), 255),
        (
            "--acctg-freq=foo",
            error("Invalid --acctg-freq specification: foo"),
            255,
        ),
        (
            "--acctg-freq=task=x",
            error("Invalid --acctg-freq specification: task=x"),
            255,
        ),
        (
            "--oom-kill-step=x",
            error("Invalid --oom-kill-step specification"),
            255,
        ),
        (
            "--resv-ports=x",
            error("Invalid numeric value \"x\" for --resv-port."),
            1,
        ),
        (
            "--wait-all-nodes=x",
            error("Invalid numeric value \"x\" for --wait-all-nodes."),
            1,
        ),
        (
            "--wait-all-nodes=2",
            error("Invalid --wait-all-nodes specification"),
            255,
        ),
        (
            "--kill-on-invalid-dep=foo",
            error("Invalid --kill-on-invalid-dep specification"),
            255,
        ),
        (
            "--get-user-env=X",
            error("Invalid --get-user-env specification"),
            255,
        ),
        ("--no-kill=x", error("Invalid --no-kill specification"), 255),
    ] {
        assert_eq!(said(Command::Sbatch, line), (text, code), "{line}");
    }
    assert_eq!(
        said(Command::Srun, "--cpu-bind=boards,foo true"),
        (
            "srun: error: unrecognized --cpu-bind argument \"boards\"\n\
             srun: fatal: Failed to parse --cpu-bind= values.\n"
                .to_owned(),
            1
        )
    );
    assert_eq!(said(Command::Srun, "--send-libs=x true").1, 255);
    assert_eq!(said(Command::Salloc, "--kill-command=FOO").1, 255);
}

#[test]
fn right_values_pass() {
    for line in [
        "-m plane=4",
        "-m cyclic:fcyclic",
        "-m block:cyclic:block",
        "-m block,NoPack",
        "-m *:*:*",
        "--gpu-bind=verbose,closest",
        "--gpu-bind=map_gpu:0,1*3,",
        "--gpu-bind=mask_gpu:0x3,C*2",
        "--gpu-freq=medium,memory=high",
        "--gpu-freq=memory=900,verbose",
        "--cpu-freq=1-2:performance",
        "--cpu-freq=OnDemand",
        "--cpu-freq=highm1",
        "--profile=task,foo",
        "--profile=Task",
        "--acctg-freq=task=5,energy=6",
        "--acctg-freq=30",
        "--hint=nomultithread",
        "-B 1:2:3:4",
        "-B *:2",
        "--oom-kill-step=0",
        "--no-kill=off",
        "--get-user-env=5L",
    ] {
        assert_eq!(said(Command::Sbatch, line), (String::new(), 0), "{line}");
    }
    for line in [
        "--cpu-bind=verbose,cores",
        "--cpu-bind=mask_cpu:0x1",
        "--cpu-bind=q",
        "--mpi=pmi2",
        "--mpi=pmix",
        "--mpi=pmix_v4",
        "--accel-bind=gx",
    ] {
        assert_eq!(said(Command::Srun, line), (String::new(), 0), "{line}");
    }
}

//! The commands as processes, without a controller: exit code, standard output and standard error together.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder where commands run, gone at the end.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs `spur WORDS…` where no controller is, and shows all that came of it.
    fn run(&self, words: &[&str]) -> String {
        self.run_as("spur".as_ref(), words)
    }

    fn run_as(&self, name: &Path, words: &[&str]) -> String {
        use std::os::unix::process::CommandExt as _;
        let output = Command::new(env!("CARGO_BIN_EXE_spur"))
            .arg0(name)
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env(
                "SPUR_CONTROLLER",
                format!("unix:{}/none/none.sock", self.dir.path().display()),
            )
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        format!(
            "{}--- stderr\n{}--- exit {}\n",
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
            output.status.code().unwrap()
        )
    }
}

/// A controller that restarts is away for a moment: whoever asks then waits for it, and is told only of what came after.
#[test]
fn a_controller_that_is_away_for_a_moment_is_waited_for() {
    let place = Place::new();
    let path = place.dir.path().join("late.sock");
    let asked = Command::new(env!("CARGO_BIN_EXE_spur"))
        .arg("squeue")
        .env_clear()
        .env("SPUR_CONTROLLER", format!("unix:{}", path.display()))
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(listener.accept().unwrap());
    let output = asked.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "slurm_load_jobs error: Zero Bytes were transmitted or received\n"
    );
}

/// By either name it is the program beside, which the build put there.
#[test]
fn the_controller_is_a_program_of_its_own() {
    let place = Place::new();
    let version = concat!(
        "spurctld ",
        env!("CARGO_PKG_VERSION"),
        "\n--- stderr\n--- exit 0\n"
    );
    assert_eq!(place.run(&["spurctld", "--version"]), version);
    assert_eq!(place.run_as("spurctld".as_ref(), &["--version"]), version);
}

/// Output that cannot be written is never a success, whatever the command.
#[test]
fn a_full_standard_output_is_a_failure() {
    let said =
        "spur: error: cannot write to standard output: No space left on device (os error 28)\n";
    for words in [
        &["--help"][..],
        &["--version"],
        &["fence", "--help"],
        &["stats", "--help"],
        &["dev", "--help"],
        &["srun", "--help"],
        &["squeue", "--version"],
        &["sinfo", "--usage"],
        &["scontrol", "show", "hostnames", "n[1-3]"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_spur"))
            .args(words)
            .stdout(
                std::fs::File::options()
                    .write(true)
                    .open("/dev/full")
                    .unwrap(),
            )
            .output()
            .unwrap();
        assert_eq!(
            (
                String::from_utf8(output.stderr).unwrap().as_str(),
                output.status.code()
            ),
            (said, Some(1)),
            "{words:?}"
        );
    }
}

#[track_caller]
fn fails(words: &[&str], stderr: &str, code: i32) {
    let place = Place::new();
    place.file("empty.sh", "");
    place.file("bare.sh", "true\n");
    place.file("dos.sh", "#!/bin/sh\r\ntrue\r\n");
    place.file("unknown.sh", "#!/bin/sh\n#SBATCH --nope\ntrue\n");
    place.file("stray.sh", "#!/bin/sh\n#SBATCH stray\ntrue\n");
    place.file("ok.sh", "#!/bin/sh\ntrue\n");
    assert_eq!(
        place.run(words),
        format!("--- stderr\n{stderr}--- exit {code}\n"),
        "{words:?}"
    );
}

const UNREACHABLE: &str = "Unable to contact slurm controller (connect failure)";

#[test]
fn options_that_do_not_exist() {
    for (command, code) in [
        ("sbatch", 255),
        ("srun", 255),
        ("salloc", 255),
        ("squeue", 1),
        ("sinfo", 1),
        ("scancel", 1),
        ("scontrol", 1),
    ] {
        let text = format!(
            "{command}: unrecognized option '--nope'\nTry \"{command} --help\" for more information\n"
        );
        fails(&[command, "--nope"], &text, code);
    }
    let text = "sbatch: unrecognized option '--nope'\nTry \"sbatch --help\" for more information\n";
    fails(&["sbatch", "unknown.sh"], text, 255);
}

#[test]
fn values_that_make_no_sense() {
    fails(
        &["sbatch", "-t", "abc", "ok.sh"],
        "sbatch: error: Invalid --time specification\n",
        255,
    );
    fails(
        &["srun", "-t", "abc", "true"],
        "srun: error: Invalid --time specification\n",
        255,
    );
    fails(
        &["sbatch", "--mem=lots", "ok.sh"],
        "sbatch: error: Invalid --mem specification\n",
        255,
    );
    let gres = "Invalid generic resource (gres) specification";
    fails(
        &["srun", "--gres=tpu:1", "true"],
        &format!("srun: error: {gres}\n"),
        1,
    );
    fails(
        &["sbatch", "--gres=tpu:1", "ok.sh"],
        &format!("sbatch: error: {gres}\n"),
        1,
    );
    let text = "srun: error: Invalid numeric value \"0\" for --ntasks.\n";
    fails(&["srun", "-n", "0", "true"], text, 1);
    fails(
        &["squeue", "-j", "abc"],
        "squeue: error: Invalid job id: abc\n",
        1,
    );
    fails(
        &["scancel", "abc"],
        "scancel: error: Invalid job id abc\n",
        1,
    );
}

#[test]
fn scripts_that_are_none() {
    let text = "sbatch: error: Unable to open file /nonexistent.sh\n";
    fails(&["sbatch", "/nonexistent.sh"], text, 1);
    fails(
        &["sbatch", "empty.sh"],
        "sbatch: error: Batch script is empty!\n",
        1,
    );
    let text = "sbatch: error: This does not look like a batch script.  The first\n\
                sbatch: error: line must start with #! followed by the path to an interpreter.\n\
                sbatch: error: For instance: #!/bin/sh\n";
    fails(&["sbatch", "bare.sh"], text, 1);
    fails(&["sbatch"], "sbatch: error: Batch script is empty!\n", 1);
    let text = "sbatch: error: Invalid directive found in batch script: stray\n";
    fails(&["sbatch", "stray.sh"], text, 255);
    let text = "sbatch: error: Script arguments not permitted with --wrap option\n";
    fails(&["sbatch", "--wrap", "true", "ok.sh"], text, 1);
}

#[test]
fn commands_that_lack_something() {
    fails(&["srun"], "srun: fatal: No command given to execute.\n", 1);
    fails(
        &["scancel"],
        "scancel: error: No job identification provided\n",
        1,
    );
    fails(
        &["scontrol", "hold"],
        "too few arguments for keyword:hold\n",
        1,
    );
    fails(&["scontrol", "nope"], "invalid keyword: nope\n", 1);
    fails(
        &["scontrol", "show", "nope"],
        "invalid entity:nope for keyword:show \n",
        1,
    );
}

#[test]
fn what_is_not_done_is_refused() {
    let text = "srun: error: --no-allocate: nothing runs without an allocation\n";
    fails(&["srun", "--no-allocate", "bash"], text, 1);
    fails(&["scontrol", "nope"], "invalid keyword: nope\n", 1);
    let text = "invalid entity:nope for keyword:show \n";
    fails(&["scontrol", "show", "nope"], text, 1);
}

#[test]
fn a_controller_that_is_not_there() {
    fails(
        &["squeue"],
        &format!("slurm_load_jobs error: {UNREACHABLE}\n"),
        1,
    );
    fails(
        &["sinfo"],
        &format!("slurm_load_partitions: {UNREACHABLE}\n"),
        1,
    );
    fails(
        &["scancel", "5"],
        &format!("slurm_load_jobs error: {UNREACHABLE}\n"),
        1,
    );
    fails(
        &["scontrol", "show", "job"],
        &format!("slurm_load_jobs error: {UNREACHABLE}\n"),
        1,
    );
    let text = format!("sbatch: error: Batch job submission failed: {UNREACHABLE}\n");
    fails(&["sbatch", "ok.sh"], &text, 1);
    let text = format!("srun: error: Unable to allocate resources: {UNREACHABLE}\n");
    fails(&["srun", "true"], &text, 1);
    let text = "sbatch: warning: --network has no effect: there is no choice of networks\n";
    let text = format!("{text}sbatch: error: Batch job submission failed: {UNREACHABLE}\n");
    fails(&["sbatch", "--network=ib", "ok.sh"], &text, 1);
}

#[test]
fn what_needs_no_controller() {
    let place = Place::new();
    for command in [
        "srun", "sbatch", "salloc", "squeue", "sinfo", "scancel", "scontrol",
    ] {
        let version = "slurm 24.11.5\n--- stderr\n--- exit 0\n";
        assert_eq!(place.run(&[command, "--version"]), version);
        assert_eq!(
            place.run_as(format!("/usr/bin/{command}").as_ref(), &["-V"]),
            version
        );
        assert!(
            place
                .run(&[command, "--help"])
                .starts_with(&format!("Usage: {command} "))
        );
    }
    let names = "n0001\nn0002\nn0003\nn0007\n--- stderr\n--- exit 0\n";
    assert_eq!(
        place.run(&["scontrol", "show", "hostnames", "n[0001-0003,0007]"]),
        names
    );
    assert_eq!(
        place.run(&["scontrol", "show", "hostnames=n[0001-0003,0007]"]),
        names
    );
    let list = "n[0001-0003,0007]\n--- stderr\n--- exit 0\n";
    assert_eq!(
        place.run(&["scontrol", "show", "hostlist", "n0001,n0002,n0003,n0007"]),
        list
    );
    let down = place.run(&["scontrol", "ping"]);
    assert!(
        down.contains(" is DOWN\n") && down.ends_with("--- exit 1\n"),
        "{down}"
    );
    assert!(
        place
            .run(&["squeue", "--helpformat"])
            .starts_with("%a    %F    ")
    );
}

#[test]
fn spur_itself() {
    let place = Place::new();
    assert!(place.run(&[]).ends_with("--- exit 2\n"));
    let unknown = place.run(&["nope"]);
    assert!(
        unknown.contains("spur: error: there is no command \"nope\"\nUsage: spur ")
            && unknown.ends_with("--- exit 2\n"),
        "{unknown}"
    );
    assert!(place.run(&["--help"]).starts_with("Usage: spur "));
    assert!(place.run(&["fence"]).ends_with("--- exit 1\n"));
    assert_eq!(
        place.run(&["dev", "down", "--dir", "none"]),
        "none: nothing there\n--- stderr\n--- exit 0\n"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spur"))
        .args(["srun", "--help"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn values_are_read_before_anything_is_asked_for() {
    for (words, value) in [
        (&["srun", "--wait=foo", "true"][..], "foo"),
        (&["srun", "-Wfoo", "true"], "foo"),
        (&["srun", "--wait=-1", "true"], "-1"),
        (&["srun", "--wait=1.5", "true"], "1.5"),
    ] {
        let text = format!("srun: error: Invalid numeric value \"{value}\" for --wait.\n");
        fails(words, &text, 1);
    }
    let text = "srun: error: Bad rlimit name: foo\nsrun: error: --propagate=foo is not valid.\n";
    fails(&["srun", "--propagate=foo", "true"], text, 1);
    fails(
        &["sprio", "-j", "abc"],
        "sprio: error: Invalid job id: abc\n",
        1,
    );
    fails(&["sprio", "5"], "sprio: error: Unrecognized option: 5\n", 1);
    for word in ["ping", "reconfigure"] {
        let text = format!("too many arguments for keyword:{word}\n");
        fails(&["scontrol", word, "foo"], &text, 1);
    }
    for words in [
        &["scontrol", "update", "nodename=n3"][..],
        &["scontrol", "update", "partition=gpu"],
        &["scontrol", "update", "jobid=3"],
    ] {
        fails(words, "No changes specified\n", 1);
    }
    let text = "slurm_update error: Invalid job id specified\n";
    fails(&["scontrol", "update", "jobid=", "timelimit=1"], text, 1);
    let place = Place::new();
    place.file("long.sh", &format!("#!/bin/sh\n{}", "#\n".repeat(3 << 20)));
    let said = place.run(&["sbatch", "long.sh"]);
    assert!(
        said.contains("sbatch: error: long.sh: a script may have 4194304 bytes at most\n"),
        "{said}"
    );
}

#[test]
fn the_word_that_was_meant_is_named() {
    for (words, first, meant) in [
        (&["scontrol", "shwo"][..], "invalid keyword: shwo", "show"),
        (
            &["scontrol", "show", "jbo"],
            "invalid entity:jbo for keyword:show ",
            "job",
        ),
        (
            &["scontrol", "update", "jobid=1", "timlimit=3"],
            "Update of this parameter is not supported: timlimit\nRequest aborted",
            "timelimit",
        ),
        (&["sacctmgr", "shw"], "invalid keyword: shw", "show"),
        (
            &["sacctmgr", "show", "usre"],
            "invalid entity:usre for keyword:list ",
            "user",
        ),
        (&["sreport", "cluser"], "invalid keyword: cluser", "cluster"),
    ] {
        fails(words, &format!("{first}\nDid you mean {meant}?\n"), 1);
    }
    let place = Place::new();
    for (words, meant) in [
        (&["srun", "--tme=1", "true"][..], "--time"),
        (&["squeue", "--usr=a"], "--user"),
        (&["scancel", "--nme=a"], "--name"),
        (&["sbatch", "--arry=1"], "--array"),
        (&["sbatch", "--partion=a"], "--partition"),
        (&["squeue", "-t", "RUNING"], "running"),
    ] {
        let said = place.run(words).to_lowercase();
        assert!(said.contains(&format!("did you mean {meant}?\n")), "{said}");
    }
}

#[test]
fn what_an_option_takes_is_told() {
    let place = Place::new();
    for option in ["--hint=help", "--cpu-bind=help", "--mem-bind=help"] {
        let said = place.run(&["srun", option]);
        let name = option.split('=').next().unwrap();
        assert!(said.contains(&format!("    {name}= ")), "{said}");
        assert!(said.ends_with("--- stderr\n--- exit 0\n"), "{said}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_spur"))
        .args(["squeue"])
        .env("SPUR_CONTROLLER", "foo")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the address \"foo\" is none"), "{said}");
}

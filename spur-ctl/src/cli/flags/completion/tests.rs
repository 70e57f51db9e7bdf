use super::*;
use std::process::Command as Program;

/// What bash offers for a line whose last word is being typed.
fn offered(line: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spur.bash");
    std::fs::write(&file, script("bash").unwrap()).unwrap();
    let words: Vec<String> = line.iter().map(|word| quoted(word)).collect();
    let name = line[0];
    let function = if name == "spur" {
        "_spur".to_owned()
    } else {
        format!("_spur_for_{name}")
    };
    let play = format!(
        "sinfo() {{ printf 'gpu\\ncpu\\n'; }}; . {}; COMP_WORDS=({}); COMP_CWORD={}; {function}; printf '%s\\n' \
         \"${{COMPREPLY[@]}}\"",
        file.display(),
        words.join(" "),
        line.len() - 1
    );
    let output = Program::new("bash").args(["-c", &play]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_options_and_values() {
    assert_eq!(offered(&["sbatch", "--parti"]), ["--partition="]);
    assert_eq!(offered(&["sbatch", "--partition", "=", "g"]), ["gpu"]);
    assert_eq!(offered(&["srun", "-p", "c"]), ["cpu"]);
    assert_eq!(offered(&["srun", "-p", "gpu,c"]), ["gpu,cpu"]);
    assert_eq!(offered(&["squeue", "--states", "=", "runn"]), ["running"]);
    assert_eq!(offered(&["scontrol", "sus"]), ["suspend"]);
    assert_eq!(offered(&["spur", "sacctm"]), ["sacctmgr"]);
    assert_eq!(offered(&["spur", "sinfo", "--summ"]), ["--summarize"]);
}

#[test]
fn a_first_word_says_what_follows() {
    assert_eq!(offered(&["scontrol", "show", "rese"]), ["reservation"]);
    assert_eq!(offered(&["scontrol", "-o", "show", "part"]), ["partition"]);
    assert_eq!(offered(&["scontrol", "show", "partition", "g"]), ["gpu"]);
    assert_eq!(offered(&["scontrol", "update", "node"]), ["nodename="]);
    assert_eq!(offered(&["sacctmgr", "show", "ass"]), ["association"]);
    assert_eq!(offered(&["sacctmgr", "delete", "q"]), ["qos"]);
    assert_eq!(offered(&["sreport", "cluster", "Util"]), ["Utilization"]);
    assert_eq!(offered(&["spur", "scontrol", "show", "no"]), ["node"]);
    assert_eq!(offered(&["spur", "dev", "u"]), ["up"]);
    let none: [&str; 0] = [];
    assert_eq!(offered(&["scontrol", "show", "upd"]), none);
}

#[test]
fn after_a_program_its_own_files_are_offered() {
    let none: [&str; 0] = [];
    assert_eq!(offered(&["srun", "-n", "2", "true", "--parti"]), none);
    assert_eq!(offered(&["srun", "-n", "2", "--parti"]), ["--partition="]);
}

#[test]
fn other_shells_accept_their_scripts() {
    for (shell, args) in [("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["-n"])] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("script");
        std::fs::write(&file, script(shell).unwrap()).unwrap();
        match Program::new(shell).args(args).arg(&file).output() {
            Ok(output) => assert!(output.status.success(), "{shell}: {output:?}"),
            Err(_) => eprintln!("{shell} is not here: its script was not tried"),
        }
    }
    assert!(script("tcsh").is_none());
}

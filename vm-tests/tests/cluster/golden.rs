//! Every recording of the real Slurm, where they are at hand.

use crate::possible;
use std::process::Command;
use vm_tests::golden::record;
use vm_tests::host;

#[test]
fn every_recorded_command_does_the_same_here() {
    if !possible() {
        return;
    }
    if record::all(&record::folder()).is_none() {
        host::skip("the recordings of the real Slurm are not beside the workspace");
        return;
    }
    // In name spaces of its own, which a thread of this process cannot have.
    let output = Command::new(env!("CARGO_BIN_EXE_golden"))
        .env("SPUR_BINS", host::bins())
        .output()
        .expect("the bin was built with the tests");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    let unlisted = count("DIFFERS").saturating_sub(count("    known: "));
    assert!(
        text.contains(" match") && unlisted == 0,
        "{unlisted} differences that are not listed\n{text}\n{err}"
    );
}

//! Compiles the hostile program that the tests run inside jobs. It is C, and static, so that its first act is its own.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=probe/probe.c");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("probe");
    let compiler = cc::Build::new().opt_level(1).get_compiler();
    let mut command = compiler.to_command();
    command
        .args(["-static", "-Wall", "-Wextra", "-o"])
        .arg(&out)
        .arg("probe/probe.c");
    let status = command.status().expect("the C compiler starts");
    assert!(status.success(), "probe/probe.c does not compile: {status}");
    println!("cargo::rustc-env=SPUR_PROBE={}", out.display());
}

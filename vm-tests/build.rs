//! Compiles what the tests run inside jobs: the hostile program (C, and static, so that its first act is its own), and a fence
//! that refuses nothing.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=probe");
    println!("cargo::rerun-if-changed=module/spur_testgpu.h");
    println!("cargo::rerun-if-changed=../spur-ebpf/bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));

    let probe = out.join("probe");
    let mut compiler = cc::Build::new().opt_level(1).get_compiler().to_command();
    compiler
        .args(["-static", "-Wall", "-Wextra", "-o"])
        .arg(&probe)
        .args(sources());
    run("the probe", &mut compiler);
    println!("cargo::rustc-env=SPUR_PROBE={}", probe.display());

    let broken = out.join("broken_fence.o");
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut compiler = Command::new(clang);
    compiler.args([
        "-target",
        "bpf",
        "-mcpu=v2",
        "-O2",
        "-g",
        "-std=gnu11",
        "-fno-stack-protector",
    ]);
    compiler
        .args(["-c", "../spur-ebpf/bpf/allow_all.bpf.c", "-o"])
        .arg(&broken);
    run("allow_all.bpf.c", &mut compiler);
    println!("cargo::rustc-env=SPUR_BROKEN_FENCE={}", broken.display());
}

/// The parts of the probe.
fn sources() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("probe").expect("the probe's folder is there");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "c"))
        .collect();
    found.sort();
    found
}

fn run(what: &str, compiler: &mut Command) {
    let status = compiler
        .status()
        .unwrap_or_else(|error| panic!("no compiler for {what}: {error}"));
    assert!(status.success(), "{what} does not compile: {status}");
}

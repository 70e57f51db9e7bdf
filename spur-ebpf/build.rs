//! Builds the BPF objects with clang and, for the tests, the verdict for the host.
//!
//! clang is called directly rather than through a build crate: the sources carry the few declarations they need, and the
//! object is loaded by name, so no generated skeleton is wanted.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest clang whose CO-RE output we rely on.
const CLANG_MAJOR_MIN: u32 = 14;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let sources = Path::new("bpf");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");

    let clang = match find_clang() {
        Ok(clang) => clang,
        Err(message) => fail(&message),
    };
    // Name, source, and what is defined: the `older` ones are what an agent of another ABI pins, for tests of upgrades.
    for (name, source, define) in [
        ("fence", "fence", None),
        ("guard", "guard", None),
        ("allow_all", "allow_all", None),
        ("older", "fence", Some("-DSPUR_FENCE_ABI=1")),
        ("meter", "meter", None),
        ("meter_gpu", "meter_gpu", None),
        ("meter_gpu_play", "meter_gpu_play", None),
        ("holders", "holders", None),
    ] {
        let object = out.join(format!("{name}.bpf.o"));
        let source = format!("{source}.bpf.c");
        if let Err(message) = compile(&clang, sources, &source, define, &object) {
            fail(&message);
        }
        println!(
            "cargo::rustc-env=SPUR_{}_OBJECT={}",
            name.to_uppercase(),
            object.display()
        );
    }

    cc::Build::new()
        .file("bpf/host_decide.c")
        .warnings(true)
        .extra_warnings(true)
        .cargo_metadata(false)
        .compile("spur_host_decide");
    let archive = out.join("libspur_host_decide.a");
    println!("cargo::rustc-link-arg-tests={}", archive.display());
}

/// Prints one clear line and ends the build.
fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1)
}

/// The first clang that is new enough: `$CLANG`, then the usual names.
fn find_clang() -> Result<PathBuf, String> {
    let mut names = vec!["clang".to_owned()];
    names.extend(
        (CLANG_MAJOR_MIN..=24)
            .rev()
            .map(|major| format!("clang-{major}")),
    );
    if let Some(named) = std::env::var_os("CLANG") {
        names = vec![named.to_string_lossy().into_owned()];
    }
    let found = names
        .iter()
        .find(|name| clang_major(name).is_some_and(|major| major >= CLANG_MAJOR_MIN));
    found.map(PathBuf::from).ok_or_else(|| {
        format!(
            "no clang {CLANG_MAJOR_MIN} or newer found (tried {}), which builds the BPF programs: run `cargo xtask setup`, \
             or name one by the CLANG variable",
            names.first().map_or("", String::as_str)
        )
    })
}

fn clang_major(name: &str) -> Option<u32> {
    let output = Command::new(name).arg("-dumpversion").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.trim().split('.').next()?.parse().ok()
}

/// Runs clang inside `sources` with relative names, so that the object does not depend on where the tree lies.
fn compile(
    clang: &Path,
    sources: &Path,
    source: &str,
    define: Option<&str>,
    object: &Path,
) -> Result<(), String> {
    let output = Command::new(clang)
        .current_dir(sources)
        .args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            "-fdebug-compilation-dir=.",
        ])
        .args([
            "-fno-stack-protector",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Werror",
        ])
        .args(define)
        .args(["-c", source, "-o"])
        .arg(object)
        .output()
        .map_err(|error| format!("cannot run {}: {error}", clang.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{} failed on bpf/{source}: {}",
        clang.display(),
        String::from_utf8_lossy(&output.stderr).replace('\n', " | ")
    ))
}

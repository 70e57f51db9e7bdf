//! The module of the test GPU (`module/`), built against a kernel's headers.

use crate::vm::headers;
use crate::vm::kernel::Kernel;
use crate::vm::modules::Module;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// As `lsmod` shows it.
pub const NAME: &str = "spur_testgpu";

/// What it is built of.
const SOURCES: [(&str, &str); 8] = [
    ("Kbuild", include_str!("../../module/Kbuild")),
    ("client.c", include_str!("../../module/client.c")),
    ("compat.h", include_str!("../../module/compat.h")),
    ("device.c", include_str!("../../module/device.c")),
    ("ring.c", include_str!("../../module/ring.c")),
    (
        "spur_testgpu.h",
        include_str!("../../module/spur_testgpu.h"),
    ),
    ("testgpu.h", include_str!("../../module/testgpu.h")),
    ("truth.c", include_str!("../../module/truth.c")),
];

/// Lines of the compiler's that an error quotes.
const QUOTED: usize = 12;

/// The module for this kernel: from the cache, or built now.
pub fn get(kernel: &Kernel) -> Result<Module> {
    // Before that the scheduler's jobs were armed otherwise.
    if kernel.release.starts_with("5.") {
        bail!("{NAME} is written for Linux 6.1 and later");
    }
    let file = format!("{NAME}-{}-{:016x}.ko", kernel.release, sources());
    let built = kernel.cache.join(file);
    if !built.exists() {
        build(kernel, &built).with_context(|| format!("building {NAME} for {}", kernel.release))?;
    }
    let image = fs::read(&built).with_context(|| format!("reading {}", built.display()))?;
    Ok(Module {
        name: NAME.to_owned(),
        image,
    })
}

fn build(kernel: &Kernel, built: &Path) -> Result<()> {
    let headers = headers::get(kernel)?;
    let work = tempfile::tempdir_in(&kernel.cache).context("making a folder to build in")?;
    for (name, text) in SOURCES {
        fs::write(work.path().join(name), text).with_context(|| format!("writing {name}"))?;
    }
    let output = Command::new("make")
        .arg("-C")
        .arg(&headers)
        .arg(format!("M={}", work.path().display()))
        // Types of our own need no BTF, and pahole may not be here.
        .args(["CC=gcc", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"])
        .output()
        .context("starting make")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().take(QUOTED).collect();
        bail!("make ended with {}: {}", output.status, lines.join("; "));
    }
    let object = work.path().join(format!("{NAME}.ko"));
    let status = Command::new("strip").arg("-g").arg(&object).status();
    if !status.context("starting strip")?.success() {
        bail!("strip failed on {}", object.display());
    }
    // Whole or not at all.
    fs::rename(&object, built).context("keeping the built module")
}

/// A number that changes with every source (FNV-1a: the same on every machine).
fn sources() -> u64 {
    let bytes = SOURCES
        .iter()
        .flat_map(|(name, text)| name.bytes().chain(text.bytes()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::{SOURCES, sources};

    #[test]
    fn every_source_is_packed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/module");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, SOURCES.map(|(name, _)| name));
        assert_ne!(sources(), 0xcbf2_9ce4_8422_2325);
    }
}

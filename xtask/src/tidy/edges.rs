//! Who may depend on whom: the table of `ARCHITECTURE.md`.

use crate::sh;
use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};
use std::collections::BTreeSet;

/// Crate, and which of ours it may use. A missing crate, like a missing edge, is a breach.
const ALLOWED: &[(&str, &[&str])] = &[
    ("spur-core", &[]),
    ("spur-proto", &["spur-core"]),
    ("spur-ebpf", &[]),
    ("spur-mesh", &[]),
    (
        "spur-agent",
        &["spur-core", "spur-proto", "spur-ebpf", "spur-mesh"],
    ),
    ("spur-ctl", &["spur-core", "spur-proto", "spur-sim"]),
    ("spur-sim", &["spur-core"]),
    ("vm-tests", &["spur-proto"]),
    ("xtask", &[]),
];

/// What the core may use of others' crates: nothing that does I/O, tells the time or draws lots.
const CORE_ALLOWED: &[&str] = &["serde", "thiserror"];

/// Crates that touch the kernel's BPF, and the one crate of ours that may.
const EBPF_ONLY: &[&str] = &["aya", "libbpf-rs", "libbpf-sys"];

pub(super) fn check(found: &mut Vec<String>) -> Result<()> {
    let mut command = MetadataCommand::new();
    command.current_dir(sh::root()).no_deps();
    let metadata = command.exec().context("asking cargo for the workspace")?;
    check_metadata(&metadata, found);
    Ok(())
}

fn check_metadata(metadata: &Metadata, found: &mut Vec<String>) {
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            found.push(format!(
                "crate {name} is not in the table of xtask/src/tidy/edges.rs"
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let used = dependency.name.as_str();
            if ours.contains(used) && !allowed.contains(&used) {
                found.push(format!("{name} must not depend on {used}"));
            }
            if EBPF_ONLY.contains(&used) && name != "spur-ebpf" {
                found.push(format!(
                    "{name} must not depend on {used}: only spur-ebpf touches BPF"
                ));
            }
            let normal = dependency.kind == cargo_metadata::DependencyKind::Normal;
            if name == "spur-core" && normal && !CORE_ALLOWED.contains(&used) {
                found.push(format!("spur-core must not depend on {used}: it is pure"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The real workspace with one dependency of one crate renamed.
    fn tampered(package: &str, dependency: &str) -> Metadata {
        let mut command = MetadataCommand::new();
        let mut metadata = command
            .current_dir(sh::root())
            .no_deps()
            .exec()
            .expect("metadata");
        let package = metadata
            .packages
            .iter_mut()
            .find(|p| p.name == package)
            .expect("package");
        package.dependencies[0].name = dependency.to_owned();
        metadata
    }

    #[test]
    fn a_forbidden_edge_is_found() {
        let cases = [
            ("spur-core", "spur-proto"),
            ("spur-ctl", "spur-agent"),
            ("xtask", "aya"),
        ];
        for (package, dependency) in cases {
            let mut found = Vec::new();
            check_metadata(&tampered(package, dependency), &mut found);
            let wanted = format!("{package} must not depend on {dependency}");
            assert!(
                found.iter().any(|breach| breach.starts_with(&wanted)),
                "{found:?}"
            );
        }
    }
}

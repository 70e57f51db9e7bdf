//! Rules about text of any kind: names of registry hosts, licences, leftovers.

use super::File;

/// Hosts of package registries, in two parts so that this file does not name them. A machine's own configuration says where
/// packages come from; a name written here would send someone past it.
const HOSTS: &[(&str, &str)] = &[
    ("crates", ".io"),
    ("deb.debian", ".org"),
    ("security.debian", ".org"),
    ("archive.ubuntu", ".com"),
    ("ports.ubuntu", ".com"),
    ("pypi", ".org"),
    ("registry.npmjs", ".org"),
    ("proxy.golang", ".org"),
    ("docker", ".io"),
    ("ghcr", ".io"),
];

/// Written by cargo, not by us.
const GENERATED: &[&str] = &["Cargo.lock"];

/// Work that was put off; it belongs in an issue.
const PUT_OFF: &[(&str, &str)] = &[
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X:"),
    ("todo", "!("),
    ("unimplemented", "!("),
];

pub(super) fn check(file: &File, found: &mut Vec<String>) {
    let File { path, text } = file;
    if GENERATED.contains(&path.as_str()) {
        return;
    }
    for (number, line) in (1..).zip(text.lines()) {
        for (first, second) in HOSTS {
            if contains(line, first, second) {
                found.push(format!(
                    "{path}:{number}: names a registry host: {first}{second}"
                ));
            }
        }
        let ours = path.ends_with(".rs") || path.ends_with(".c") || path.ends_with(".h");
        for (first, second) in PUT_OFF {
            if ours && contains(line, first, second) {
                found.push(format!(
                    "{path}:{number}: {first}{second} belongs in an issue"
                ));
            }
        }
    }
    let bpf = path.starts_with("spur-ebpf/") && (path.ends_with(".c") || path.ends_with(".h"));
    if bpf && !text.lines().take(3).any(dual_licence) {
        found.push(format!(
            "{path}: BPF sources start with an SPDX line that offers GPL-2.0 and Apache-2.0"
        ));
    }
}

fn contains(line: &str, first: &str, second: &str) -> bool {
    let ends = |at: usize| line[at + first.len()..].starts_with(second);
    line.match_indices(first).any(|(at, _)| ends(at))
}

fn dual_licence(line: &str) -> bool {
    line.contains("SPDX-License-Identifier")
        && line.contains("GPL-2.0")
        && line.contains("Apache-2.0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(path: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check(
            &File {
                path: path.to_owned(),
                text: text.to_owned(),
            },
            &mut found,
        );
        found
    }

    #[test]
    fn a_registry_host_is_found() {
        for (first, second) in HOSTS {
            let text = format!("fine\nfetch https://{first}{second}/x\n");
            assert_eq!(breaches("docs/a.md", &text).len(), 1, "{first}");
            assert_eq!(breaches("Cargo.lock", &text), [""; 0]);
        }
    }

    #[test]
    fn bpf_sources_say_their_licence() {
        let good = "// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0\n";
        assert_eq!(breaches("spur-ebpf/src/bpf/fence.bpf.c", good), [""; 0]);
        assert_eq!(
            breaches("spur-ebpf/src/bpf/fence.bpf.c", "int x;\n").len(),
            1
        );
    }
}

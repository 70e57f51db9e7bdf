//! What every manifest says: the workspace's lints, its licence, and no version of its own for any dependency.

use super::File;

/// Lines that every member's manifest has.
const REQUIRED: &[&str] = &[
    "license.workspace = true",
    "edition.workspace = true",
    "publish.workspace = true",
];

pub(super) fn check(file: &File, found: &mut Vec<String>) {
    let File { path, text } = file;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    if lines.contains(&"[workspace]") {
        return;
    }
    for required in REQUIRED {
        if !lines.contains(required) {
            found.push(format!("{path}: lacks `{required}`"));
        }
    }
    if !lines
        .windows(2)
        .any(|pair| pair == ["[lints]", "workspace = true"])
    {
        found.push(format!("{path}: lacks `[lints]` with `workspace = true`"));
    }
    let mut in_dependencies = false;
    for (number, line) in (1..).zip(&lines) {
        if line.starts_with('[') {
            in_dependencies = line.contains("dependencies");
        } else if in_dependencies && line.contains('=') && !central(line) {
            found.push(format!(
                "{path}:{number}: versions live in the root manifest: {line}"
            ));
        }
    }
}

fn central(line: &str) -> bool {
    line.contains(".workspace = true") || line.contains("workspace = true") || line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nlicense.workspace = true\nedition.workspace = true\npublish.workspace = true\n\
                        [dependencies]\nlibc.workspace = true\n[lints]\nworkspace = true\n";

    fn breaches(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check(
            &File {
                path: "a/Cargo.toml".to_owned(),
                text: text.to_owned(),
            },
            &mut found,
        );
        found
    }

    #[test]
    fn a_version_of_its_own_is_found() {
        assert_eq!(breaches(GOOD), [""; 0]);
        let found = breaches(&GOOD.replace("libc.workspace = true", "libc = \"0.2\""));
        assert_eq!(
            found,
            ["a/Cargo.toml:6: versions live in the root manifest: libc = \"0.2\""]
        );
        assert_eq!(
            breaches(&GOOD.replace("[lints]\nworkspace = true\n", "")).len(),
            1
        );
    }
}

//! The rules of the workspace that no compiler checks. `cargo xtask tidy` prints every breach; the test below fails on any.

mod behaviours;
mod edges;
mod lexer;
mod manifests;
mod source;
mod text;

use crate::sh;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// A file of the workspace, as text.
struct File {
    /// Path from the root, with `/`.
    path: String,
    /// Contents.
    text: String,
}

/// Prints every breach; an error if there is one.
pub(crate) fn run() -> Result<()> {
    let breaches = breaches()?;
    for breach in &breaches {
        println!("tidy: {breach}");
    }
    if breaches.is_empty() {
        println!("tidy: all is well");
        return Ok(());
    }
    bail!("{} breaches of the workspace's rules", breaches.len())
}

fn breaches() -> Result<Vec<String>> {
    let files = files(&sh::root())?;
    let mut found = Vec::new();
    edges::check(&mut found)?;
    behaviours::check(&files, &mut found);
    for file in &files {
        text::check(file, &mut found);
        if file.path.ends_with("Cargo.toml") {
            manifests::check(file, &mut found);
        }
        if file.path.ends_with(".rs") {
            source::check(file, &mut found);
        }
    }
    Ok(found)
}

/// Every text file that git keeps or would keep.
fn files(root: &Path) -> Result<Vec<File>> {
    let mut git = Command::new("git");
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ])
    .current_dir(root);
    let names = sh::output(&mut git).context("listing the files of the workspace")?;
    let mut files = Vec::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // Listed but deleted, or not text: nothing to check.
        if let Ok(text) = std::fs::read_to_string(root.join(name)) {
            files.push(File {
                path: name.to_owned(),
                text,
            });
        }
    }
    if files.is_empty() {
        bail!("git lists no files under {}", root.display());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_tidy() {
        let breaches = super::breaches().expect("the workspace can be read");
        assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    }
}

//! `--mpi=list`.

use std::fs;
use std::path::{Path, PathBuf};

/// OpenPMIx's library, as nodes look for it.
const LIBRARY: &str = "libpmix.so.2";

/// Where libraries are; those of an architecture are a folder further down.
const FOLDERS: [&str; 5] = ["lib", "lib64", "usr/lib", "usr/lib64", "usr/local/lib"];

/// What is printed; as with Slurm it says what this machine has, and nodes may differ.
pub fn list() -> String {
    let pmix = if has_pmix(Path::new("/")) {
        "\tpmix\n"
    } else {
        ""
    };
    format!("MPI plugin types are...\n\tnone\n\tpmi2\n{pmix}")
}

fn has_pmix(root: &Path) -> bool {
    FOLDERS.iter().any(|folder| {
        let folder = root.join(folder);
        folder.join(LIBRARY).exists() || below(&folder).iter().any(|one| one.join(LIBRARY).exists())
    })
}

/// Folders of architectures: `x86_64-linux-gnu`.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.contains("-linux-"))
    };
    entries.map(|entry| entry.path()).filter(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_where_systems_have_it() {
        for (folder, has) in [
            ("usr/lib/x86_64-linux-gnu", true),
            ("lib/aarch64-linux-gnu", true),
            ("usr/lib64", true),
            ("usr/local/lib", true),
            ("usr/lib/other", false),
            ("opt/lib", false),
        ] {
            let root = tempfile::tempdir().expect("a folder can be made");
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).expect("a folder can be made");
            assert!(!has_pmix(root.path()));
            fs::write(folder.join(LIBRARY), "").expect("a file can be written");
            assert_eq!(has_pmix(root.path()), has, "{}", folder.display());
        }
    }
}

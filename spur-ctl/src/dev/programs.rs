//! Where the daemons' programs are.

use crate::cli::process;
use std::path::{Path, PathBuf};

/// A daemon's program, beside this one or on `PATH`; the error says that it is not there.
pub fn daemon(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|why| format!("cannot find this program: {why}"))?;
    let path = process::var("PATH").unwrap_or_default();
    let missing = || {
        format!(
            "{name} is neither beside this program nor on PATH (a link to this one does not do): build or install it"
        )
    };
    find(&own, &path, name).ok_or_else(missing)
}

/// A link to this program is none: up to some version the controller was part of it.
fn find(own: &Path, path: &str, name: &str) -> Option<PathBuf> {
    let beside = own.parent().map(Path::to_owned);
    let folders = beside.into_iter().chain(path.split(':').map(PathBuf::from));
    let is_other = |file: &PathBuf| file.canonicalize().is_ok_and(|real| real != own);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file() && is_other(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_daemon_is_beside_or_on_the_path_and_no_link_to_this_program() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (own, link) = (dir.join("spur"), dir.join("spurctld"));
        std::fs::write(&own, "").unwrap();
        symlink(&own, &link).unwrap();
        let other = dir.join("other");
        let path = format!("/nowhere:{}", other.display());
        assert_eq!(find(&own, &path, "spurctld"), None, "it would start itself");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("spurctld"), "").unwrap();
        assert_eq!(find(&own, &path, "spurctld"), Some(other.join("spurctld")));
        std::fs::remove_file(&link).unwrap();
        std::fs::write(&link, "").unwrap();
        assert_eq!(find(&own, &path, "spurctld"), Some(link));
    }
}

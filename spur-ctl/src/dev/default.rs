//! `--default`: the cluster is the machine's own, as long as it lives. `/etc/spur/spur.toml` is a link to the cluster's then, which
//! says whose it is.

use super::failed;
use super::layout::Layout;
use crate::cli::failure::Failure;
use crate::config::DEFAULT_PATH;
use std::fs;
use std::path::Path;

/// What the note in the cluster's folder says if the folder of the link was made too.
const MADE_FOLDER: &str = "the folder was made as well\n";
/// The note.
pub(super) const NOTE: &str = "default";

fn file() -> &'static Path {
    Path::new(DEFAULT_PATH)
}

/// Whether the place is free, or only a link to a cluster that is no more.
pub(super) fn check() -> Result<(), Failure> {
    let Ok(found) = fs::symlink_metadata(file()) else {
        return Ok(());
    };
    let gone = found.is_symlink() && !file().exists();
    if gone {
        return Ok(());
    }
    let whose = fs::read_link(file())
        .map(|target| format!(" (it is of the cluster in {})", target.display()));
    Err(failed(format_args!(
        "--default: {DEFAULT_PATH} is there{}; nothing was touched",
        whose.unwrap_or_default()
    )))
}

/// Makes the link.
pub(super) fn claim(layout: &Layout) -> Result<(), Failure> {
    check()?;
    let io = |why: std::io::Error| failed(format_args!("--default: {DEFAULT_PATH}: {why}"));
    let folder = file().parent().unwrap_or(Path::new("/"));
    let new = !folder.exists();
    fs::write(layout.path(NOTE), if new { MADE_FOLDER } else { "" }).map_err(io)?;
    fs::create_dir_all(folder).map_err(io)?;
    if fs::symlink_metadata(file()).is_ok() {
        fs::remove_file(file()).map_err(io)?;
    }
    std::os::unix::fs::symlink(layout.controller_config(), file()).map_err(io)
}

/// Takes the link away if it is the cluster's.
pub(super) fn release(layout: &Layout) -> Option<String> {
    let own = fs::read_link(file()).is_ok_and(|target| target == layout.controller_config());
    if !own {
        return None;
    }
    if let Err(why) = fs::remove_file(file()) {
        return Some(format!("cannot remove {DEFAULT_PATH}: {why}"));
    }
    let made = fs::read_to_string(layout.path(NOTE)).is_ok_and(|note| note == MADE_FOLDER);
    if let Some(folder) = file().parent().filter(|_| made) {
        // What others put there keeps it.
        fs::remove_dir(folder).ok();
    }
    None
}

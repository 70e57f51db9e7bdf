//! A table in the user's editor: what was typed is not lost, whatever becomes of it.

use super::{Installed, NAME, table};
use crate::cli::failure::Failure;
use crate::cli::{output, process};
use spur_core::slurm::crontab;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What an edit needs.
pub(super) struct Edit<'a> {
    /// The text that the editor shows first.
    pub offered: &'a str,
    /// What the shell runs, with the name of a file behind it.
    pub editor: &'a str,
    /// Where that file is made.
    pub folder: &'a Path,
}

/// How an edit ends.
enum Ended {
    Installed,
    Unchanged,
    GivenUp,
}

impl Edit<'_> {
    /// Has the user edit the table until it is taken or given up. The file stays, and is named, unless the table was taken or is as it was.
    pub(super) fn run(
        &self,
        install: impl FnMut(&str) -> Result<Installed, Failure>,
        again: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<u8, Failure> {
        let draft = Draft::new(self.folder, self.offered)?;
        let ended = self.rounds(&draft, install, again);
        match ended {
            Ok(Ended::Installed) => draft.remove(),
            Ok(Ended::Unchanged) => {
                draft.remove();
                output::complain(&[format!("{NAME}: No modification made")]);
            }
            Ok(Ended::GivenUp) => {
                draft.leave(self.offered);
                return Ok(1);
            }
            Err(failure) => {
                draft.leave(self.offered);
                return Err(failure);
            }
        }
        Ok(0)
    }

    fn rounds(
        &self,
        draft: &Draft,
        mut install: impl FnMut(&str) -> Result<Installed, Failure>,
        mut again: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<Ended, Failure> {
        loop {
            let after = draft.edited_by(self.editor)?;
            if after == self.offered {
                return Ok(Ended::Unchanged);
            }
            let Installed::Not { lines, told } = install(&after)? else {
                return Ok(Ended::Installed);
            };
            output::print(&format!(
                "{told}The failed line(s) is commented out with #BAD:\nDo you want to retry the edit? (y/n) "
            ));
            if !again()? {
                return Ok(Ended::GivenUp);
            }
            draft.write(&crontab::disabled(&after, lines.0, lines.1, "#BAD: "))?;
        }
    }
}

/// A table in a file that only this user can read.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn new(folder: &Path, text: &str) -> Result<Self, Failure> {
        // A name that none that was left has.
        let path = folder.join(format!("scrontab-{:016x}", process::request_id()));
        let draft = Self { path };
        let mut file = std::fs::File::options();
        let file = file
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft.path);
        let mut file = file.map_err(|why| draft.broken(&why))?;
        let written = file.write_all(text.as_bytes());
        written.map_err(|why| {
            draft.remove();
            draft.broken(&why)
        })?;
        Ok(draft)
    }

    fn broken(&self, why: &std::io::Error) -> Failure {
        let path = self.path.display();
        Failure::fatal(
            NAME,
            format!("error writing to temp crontab file '{path}': {why}"),
        )
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        std::fs::write(&self.path, text).map_err(|why| self.broken(&why))
    }

    /// What an editor makes of it. The shell takes the editor's words apart.
    fn edited_by(&self, editor: &str) -> Result<String, Failure> {
        let mut shell = std::process::Command::new("/bin/sh");
        let shell = shell.arg("-c").arg(format!("{editor} \"$1\""));
        match shell.arg(NAME).arg(&self.path).status() {
            Ok(status) if status.success() => self.read().map_err(|why| self.broken(&why)),
            Ok(_) => Err(Failure::fatal(NAME, "editor returned non-zero exit code")),
            Err(why) => Err(Failure::fatal(NAME, format!("cannot run {editor}: {why}"))),
        }
    }

    fn read(&self) -> std::io::Result<String> {
        std::fs::File::open(&self.path).and_then(table)
    }

    fn remove(&self) {
        std::fs::remove_file(&self.path).ok();
    }

    /// Of a table that was not taken: what was typed stays, and is named.
    fn leave(&self, offered: &str) {
        if self.read().is_ok_and(|text| text == offered) {
            self.remove();
        } else if self.path.exists() {
            let path = self.path.display();
            output::complain(&[format!(
                "{NAME}: the edited table was not installed; it is kept in {path}"
            )]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: &str = "# offered\n";

    fn away(_: &str) -> Result<Installed, Failure> {
        Err(Failure::fatal(NAME, "the controller is away"))
    }

    fn taken(_: &str) -> Result<Installed, Failure> {
        Ok(Installed::Done)
    }

    fn refused(_: &str) -> Result<Installed, Failure> {
        let (lines, told) = ((1, 1), String::new());
        Ok(Installed::Not { lines, told })
    }

    fn never(_: &str) -> Result<Installed, Failure> {
        panic!("nothing is to be installed");
    }

    /// Edits with a line of shell in the place of an editor; gives how it ended and what is left in the folder.
    fn edit(
        editor: &str,
        install: impl FnMut(&str) -> Result<Installed, Failure>,
        answers: &[bool],
    ) -> (u8, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let edit = Edit {
            offered: OFFERED,
            editor,
            folder: dir.path(),
        };
        let mut answers = answers.iter().copied();
        let ended = edit.run(install, || Ok(answers.next().unwrap()));
        let left = std::fs::read_dir(dir.path()).unwrap();
        let left = left.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        (ended.unwrap_or_else(|failure| failure.code), left.collect())
    }

    const ADDS: &str = "f() { echo typed >> \"$1\"; }; f";

    #[test]
    fn what_was_typed_stays_unless_it_was_installed() {
        let typed = || vec![format!("{OFFERED}typed\n")];
        assert_eq!(edit(ADDS, taken, &[]), (0, Vec::new()));
        assert_eq!(edit(ADDS, away, &[]), (1, typed()));
        assert_eq!(edit(ADDS, refused, &[false]), (1, typed()));
        let fails = "f() { echo typed >> \"$1\"; false; }; f";
        assert_eq!(edit(fails, never, &[]), (1, typed()));
        assert_eq!(edit("false", never, &[]), (1, Vec::new()));
    }

    #[test]
    fn who_tries_again_sees_the_lines_that_were_refused() {
        let mut seen = Vec::new();
        let install = |text: &str| {
            seen.push(text.to_owned());
            refused(text)
        };
        let left = format!("{OFFERED}#BAD: typed\ntyped\n");
        assert_eq!(edit(ADDS, install, &[true, false]), (1, vec![left.clone()]));
        assert_eq!(seen, [format!("{OFFERED}typed\n"), left]);
    }

    #[test]
    fn what_is_as_it_was_offered_is_not_installed() {
        assert_eq!(edit("true", never, &[]), (0, Vec::new()));
    }

    #[test]
    fn an_editor_may_have_words_of_its_own() {
        let install = |text: &str| {
            assert_eq!(text, "# typed\n");
            Ok(Installed::Done)
        };
        assert_eq!(edit("sed -i 's/offered/typed/'", install, &[]).0, 0);
    }
}

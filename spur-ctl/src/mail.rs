//! Mails to owners of jobs, by a program that takes them as Slurm's `MailProg` does: `-s SUBJECT ADDRESS`.

use crate::driver::LETTERS_MAX;
use crate::programs;
use spur_core::effect::Letter;
use spur_core::slurm::mail;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

/// How long a mail may take, as in Slurm.
const WITHIN: Duration = Duration::from_secs(30);

/// Most mails that are sent at once.
const AT_ONCE: usize = 8;

/// Where mail programs usually are; the first that is there is taken.
const USUAL: [&str; 2] = ["/bin/mail", "/usr/bin/mail"];

/// How mails are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mailer {
    /// The program; `None`: the usual one.
    pub prog: Option<PathBuf>,
    /// What is added behind names of users who gave no address, after an `@`.
    pub domain: Option<String>,
}

impl Mailer {
    /// The program that sends.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        let usual = || USUAL.iter().map(PathBuf::from).find(|path| path.exists());
        let known = self.prog.clone().or_else(usual);
        known.unwrap_or_else(|| USUAL[0].into())
    }

    fn address(&self, letter: &Letter) -> String {
        match &self.domain {
            Some(domain) if letter.local => format!("{}@{domain}", letter.to),
            Some(_) | None => letter.to.clone(),
        }
    }

    async fn send(&self, letter: Letter) {
        let (job, to) = (letter.job, self.address(&letter));
        if !mail::is_address(&to) {
            tracing::warn!(%job, to, "no mail is sent to such an address");
            return;
        }
        // A line of a header, whatever the job's name holds.
        let subject = letter.subject.replace(char::is_control, " ");
        let args = ["-s".into(), subject.into(), to.clone().into()];
        let program = self.program();
        let outcome = programs::run(&program, args, letter.env, WITHIN).await;
        match outcome.trouble() {
            None => tracing::debug!(%job, to, "mail sent"),
            Some(why) => {
                tracing::warn!(%job, to, program = %program.display(), "no mail is sent: {why}");
            }
        }
    }
}

/// Sends mails until nobody can ask for one any more; those that wait by then are still sent.
pub async fn send_all(mailer: Mailer, mut letters: mpsc::Receiver<Letter>) {
    let (mailer, room) = (Arc::new(mailer), Arc::new(Semaphore::new(AT_ONCE)));
    let mut sending = JoinSet::new();
    while let Some(letter) = letters.recv().await {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            break;
        };
        while sending.try_join_next().is_some() {}
        let mailer = Arc::clone(&mailer);
        sending.spawn(async move {
            mailer.send(letter).await;
            drop(place);
        });
    }
    debug_assert!(sending.len() <= LETTERS_MAX);
    while sending.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::id::JobId;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn letter(to: &str, local: bool) -> Letter {
        Letter {
            job: JobId(7),
            to: to.to_owned(),
            local,
            subject: "Slurm Job_id=7 Name=a b Ended".to_owned(),
            env: vec![("SLURM_JOB_ID", "7".to_owned())],
        }
    }

    /// A program that writes what it is called with to a file of its own.
    fn program(folder: &Path) -> PathBuf {
        let path = folder.join("prog");
        let out = folder.display();
        let text = format!(
            "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\"; done > {out}/t.$$\necho $SLURM_JOB_ID >> {out}/t.$$\nmv {out}/t.$$ {out}/m.$$\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn written(folder: &Path) -> Vec<String> {
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mails = files.filter(|path| path.file_stem().is_some_and(|stem| stem == "m"));
        let mut all: Vec<String> = mails
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        all.sort();
        all
    }

    async fn sent(domain: Option<&str>, letters: Vec<Letter>) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let mailer = Mailer {
            prog: Some(program(folder.path())),
            domain: domain.map(str::to_owned),
        };
        let (sender, receiver) = mpsc::channel(LETTERS_MAX);
        for letter in letters {
            sender.send(letter).await.unwrap();
        }
        drop(sender);
        send_all(mailer, receiver).await;
        written(folder.path())
    }

    #[tokio::test]
    async fn the_program_is_called_as_slurm_calls_it() {
        let mail = |to: &str| format!("<-s>\n<Slurm Job_id=7 Name=a b Ended>\n<{to}>\n7\n");
        let here = [letter("alice", true), letter("bob", false)];
        assert_eq!(
            sent(None, here.to_vec()).await,
            [mail("alice"), mail("bob")]
        );
        assert_eq!(
            sent(Some("example.org"), here.to_vec()).await,
            [mail("alice@example.org"), mail("bob")]
        );
    }

    #[tokio::test]
    async fn many_are_all_sent_and_an_option_is_no_address() {
        let mut many = vec![letter("alice", true); 30];
        many.extend(["-oQ/tmp", "|touch x", "/etc/motd"].map(|to| letter(to, false)));
        assert_eq!(sent(None, many).await.len(), 30);
    }

    #[tokio::test]
    async fn a_subject_is_one_line() {
        let mut named = letter("alice", true);
        named.subject = "Name=a\nBcc: all\r\u{7f} Ended".to_owned();
        let mails = sent(None, vec![named]).await;
        assert!(
            mails[0].starts_with("<-s>\n<Name=a Bcc: all   Ended>\n"),
            "{mails:?}"
        );
    }
}

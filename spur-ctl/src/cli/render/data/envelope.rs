//! What every document ends with: who asked what of which cluster, and what went wrong.

use super::{Document, Parser};
use crate::cli::process;
use std::io::IsTerminal;

/// The level of Slurm that is claimed, in its three parts.
const VERSION: [(&str, &str); 3] = [("major", "24"), ("micro", "5"), ("minor", "11")];
/// The same in one.
const RELEASE: &str = "24.11.5";

/// Who asked what of which cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Name of the cluster.
    pub cluster: String,
    /// The words of the command. Slurm leaves out the last, and so is it done here.
    pub command: Vec<String>,
    /// Terminal of the caller, if there is one.
    pub source: String,
    /// Name of the calling user.
    pub user: String,
    /// Name of the calling group.
    pub group: String,
}

impl Meta {
    /// Of this process. `words` are the words that Slurm's command would count: its name and options, or for `scontrol` and
    /// `sacctmgr` what follows the options.
    pub fn of_process(cluster: &str, mut words: Vec<String>) -> Self {
        words.pop();
        Self {
            cluster: cluster.to_owned(),
            command: words,
            source: terminal(),
            user: crate::cli::users::name(process::uid()),
            group: crate::cli::users::group_name(process::gid()),
        }
    }
}

fn terminal() -> String {
    if !std::io::stdin().is_terminal() {
        return String::new();
    }
    let name = std::fs::read_link("/proc/self/fd/0");
    name.map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Something that went wrong, or might be wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// A sentence.
    pub description: String,
    /// Slurm's number of the error; 0 for warnings.
    pub number: u32,
    /// Slurm's words for the number.
    pub error: String,
    /// What found it.
    pub source: String,
}

impl Document {
    /// Writes `meta`, `errors` and `warnings`, and prints what is left: the end of every document.
    pub fn finish(mut self, meta: &Meta, errors: &[Problem], warnings: &[Problem]) {
        self.envelope(meta, errors, warnings);
        self.end();
    }

    /// Writes `meta`, `errors` and `warnings`.
    pub fn envelope(&mut self, meta: &Meta, errors: &[Problem], warnings: &[Problem]) {
        let parser = self.parser();
        self.map("meta", |doc| doc.meta(meta, parser));
        self.list("errors", errors, |doc, problem| {
            doc.item(|doc| {
                doc.text("description", &problem.description);
                doc.int("error_number", problem.number);
                doc.text("error", &problem.error);
                doc.text("source", &problem.source);
            });
        });
        self.list("warnings", warnings, |doc, problem| {
            doc.item(|doc| {
                doc.text("description", &problem.description);
                doc.text("source", &problem.source);
            });
        });
    }

    fn meta(&mut self, meta: &Meta, parser: Parser) {
        self.map("plugin", |doc| {
            doc.text("type", "");
            doc.text("name", "");
            doc.text("data_parser", parser.name());
            doc.text("accounting_storage", "accounting_storage/slurmdbd");
        });
        self.map("client", |doc| {
            doc.text("source", &meta.source);
            doc.text("user", &meta.user);
            doc.text("group", &meta.group);
        });
        self.texts("command", meta.command.iter().map(String::as_str));
        self.map("slurm", |doc| {
            doc.map("version", |doc| {
                for (part, number) in VERSION {
                    doc.text(part, number);
                }
            });
            doc.text("release", RELEASE);
            doc.text("cluster", &meta.cluster);
        });
    }
}

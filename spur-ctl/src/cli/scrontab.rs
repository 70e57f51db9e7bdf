//! `scrontab`: each user's table of jobs that begin again and again.

mod edit;

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::resolve::input::Surroundings;
use super::resolve::script::read_options;
use super::resolve::{job, notice, submission};
use super::{output, process, users};
use spur_core::api::{Reply, Request, SetCrontab};
use spur_core::id::Uid;
use spur_core::job::extras::Cron;
use spur_core::job::spec::{JobSpec, Payload};
use spur_core::slurm::codes;
use spur_core::slurm::crontab::{self, ENTRIES_MAX, Entry};
use std::io::{IsTerminal as _, Write as _};
use uzers::os::unix::UserExt as _;

/// What every message begins with.
const NAME: &str = "scrontab";

/// The longest table that is read.
const TABLE_MAX: u64 = 1 << 20;

/// What an editor shows to who has no table.
const EMPTY: &str = "# min hour day-of-month month day-of-week command
#SCRON --time=10
# 0 6 * * mon-fri ./report
";

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let user = user(options)?;
    let file = options.operands.first().map(|name| process::text(name));
    if options.on("list") {
        return list(user);
    }
    if options.on("remove") {
        return set(user, None, Vec::new()).map_err(|trouble| failed(&trouble));
    }
    let stdin = std::io::stdin();
    let edit = options.on("edit") || (file.is_none() && stdin.is_terminal());
    if edit && !stdin.is_terminal() {
        return Err(Failure::fatal(NAME, "Standard input is not a TTY"));
    }
    if edit {
        return edited(user);
    }
    let text = match file.as_deref() {
        None | Some("-") => table(stdin.lock()),
        Some(path) => std::fs::File::open(process::path(path)).and_then(table),
    };
    let from = file.as_deref().unwrap_or("-");
    let unread = |why: std::io::Error| Failure::fatal(NAME, format!("cannot read {from}: {why}"));
    match install(user, &text.map_err(unread)?)? {
        Installed::Done => Ok(0),
        Installed::Not { told, .. } => {
            output::print(&told);
            Ok(1)
        }
    }
}

/// Whose table: another user's is root's business.
fn user(options: &Options) -> Result<Uid, Failure> {
    let own = Uid(process::uid());
    let Some(name) = options.value("user") else {
        return Ok(own);
    };
    let unknown = || Failure::fatal(NAME, format!("Could not find user {name}"));
    let uid = users::uid_of(name).ok_or_else(unknown)?;
    if own != Uid(0) && uid != own {
        return Err(Failure::error(NAME, "Only root can use --user"));
    }
    Ok(uid)
}

fn failed(trouble: &Trouble) -> Failure {
    Failure::fatal(NAME, trouble.text())
}

fn table(from: impl std::io::Read) -> std::io::Result<String> {
    let text = process::bounded(from, TABLE_MAX)?;
    String::from_utf8(text).map_err(|_| std::io::Error::other("it is not UTF-8"))
}

/// The table that is kept.
fn kept(user: Uid) -> Result<Option<String>, Failure> {
    let user = Some(user);
    match link::question(&Request::Crontab { user }) {
        Ok(Reply::Crontab { table }) => Ok(table),
        Ok(_) => Err(failed(&link::unexpected())),
        Err(trouble) => Err(failed(&trouble)),
    }
}

fn list(user: Uid) -> Result<u8, Failure> {
    match kept(user)? {
        Some(table) => {
            output::print(&table);
            Ok(0)
        }
        None => Err(Failure::plain(
            format!("no crontab for {}", users::name(user.0)),
            1,
        )),
    }
}

fn set(user: Uid, table: Option<String>, jobs: Vec<(JobSpec, Payload)>) -> Result<u8, Trouble> {
    let (specs, payloads) = jobs.into_iter().unzip();
    let request = Request::SetCrontab(Box::new(SetCrontab {
        user: Some(user),
        table,
        specs,
        payloads,
    }));
    if link::question(&request)? == Reply::Done {
        Ok(0)
    } else {
        Err(link::unexpected())
    }
}

/// What came of a table.
enum Installed {
    Done,
    /// These lines cannot be taken, and what is said of it.
    Not {
        lines: (u32, u32),
        told: String,
    },
}

/// Has the controller keep a table, all of it or nothing.
fn install(user: Uid, table: &str) -> Result<Installed, Failure> {
    let not = |lines, why: String| {
        output::complain(&[format!("{NAME}: error: {why}")]);
        let told = "There are errors in your crontab.\n".to_owned();
        Ok(Installed::Not { lines, told })
    };
    let entries = match crontab::parse(table) {
        Ok(entries) => entries,
        Err((line, why)) => return not((line, line), format!("line {}: {why}", line + 1)),
    };
    if let Some(beyond) = entries.get(ENTRIES_MAX) {
        let why = format!(
            "{} entries are more than the {ENTRIES_MAX} that a table may have",
            entries.len()
        );
        return not((beyond.first, beyond.last), why);
    }
    let here = surroundings(user)?;
    let mut jobs = Vec::new();
    for entry in &entries {
        match of_entry(entry, &here) {
            Ok(job) => jobs.push(job),
            Err(failure) => {
                let (first, last) = (entry.first, entry.last);
                let why = format!("lines {}-{}: {failure}", first + 1, last + 1);
                return not((first, last), why);
            }
        }
    }
    let lost = if jobs.is_empty() {
        kept(user)?.and_then(|before| crontab::parse(&before).ok())
    } else {
        None
    };
    match set(user, Some(table.to_owned()), jobs) {
        Ok(_) => {
            let lost = lost.map_or(0, |before| before.len());
            if lost > 0 {
                output::complain(&[format!(
                    "{NAME}: warning: the new table has no entry: {lost} of the old one are gone"
                )]);
            }
            Ok(Installed::Done)
        }
        Err(trouble) => refused(&entries, &trouble),
    }
}

/// The controller names the lines of an entry that it does not take.
fn refused(entries: &[Entry], trouble: &Trouble) -> Result<Installed, Failure> {
    let Trouble::Refused(refusal) = trouble else {
        return Err(failed(trouble));
    };
    let named = |entry: &Entry| {
        let lines = (entry.first, entry.last);
        let why = refusal
            .text
            .strip_prefix(&format!("{}-{}: ", lines.0, lines.1))?;
        Some((lines, why))
    };
    let Some((lines, why)) = entries.iter().find_map(named) else {
        return Err(failed(trouble));
    };
    let (first, last) = lines;
    let word = codes::message(refusal.kind);
    let told = format!(
        "There was an issue with the job submission on lines {first}-{last}\n\
         The error code return was: {word}\nThe error message was: {why}\n"
    );
    Ok(Installed::Not { lines, told })
}

/// As if the owner had submitted from his home.
fn surroundings(user: Uid) -> Result<Surroundings, Failure> {
    let known = uzers::get_user_by_uid(user.0);
    let unknown = || Failure::fatal(NAME, format!("user {user} has no home"));
    let known = known.ok_or_else(unknown)?;
    let home = process::text(known.home_dir().as_os_str());
    Ok(Surroundings {
        env: Vec::new(),
        cwd: home,
        uid: user.0,
        gid: known.primary_group_id(),
        request_id: 0,
        ..process::surroundings()
    })
}

/// The job of an entry, and its script: options are read as those of a batch script.
fn of_entry(entry: &Entry, here: &Surroundings) -> Result<(JobSpec, Payload), Failure> {
    let lines = |mark: &str| {
        let line = |(_, option): &(u32, String)| format!("{mark} {option}\n");
        entry.options.iter().map(line).collect::<String>()
    };
    let mut parts = vec![Options::none(Command::Sbatch)];
    let given = format!("#!/bin/sh\n{}", lines("#SBATCH"));
    let fresh = || Options::none(Command::Sbatch);
    read_options("crontab", given.as_bytes(), &mut parts, fresh)?;
    let [options] = parts.as_slice() else {
        return Err(Failure::error(
            NAME,
            "an entry is one job without components",
        ));
    };
    output::complain(&notice::review(options)?);
    let name = entry.command.split(' ').next().unwrap_or_default();
    let (mut spec, warnings) = job::spec(options, here, name, "")?;
    output::complain(&warnings);
    spec.submit_line = NAME.to_owned();
    spec.extras_mut().cron = Some(Cron {
        times: entry.times.to_string(),
        utc_offset: here.utc_offset,
        first_line: entry.first,
        last_line: entry.last,
    });
    let script = format!(
        "#!/bin/sh\n# This job was submitted through scrontab\n{}# crontab time request was: '{}'\n{}\n",
        lines("#SCRON"),
        entry.written,
        entry.command
    );
    let mut env = submission::of_batch(options, here);
    spur_core::slurm::export::set(&mut env, "SLURM_GET_USER_ENV=1");
    let payload = Payload {
        script: script.into_bytes(),
        args: Vec::new(),
        env,
        umask: here.umask,
        rlimits: Vec::new(),
    };
    Ok((spec, payload))
}

/// Has the user edit the table.
fn edited(user: Uid) -> Result<u8, Failure> {
    let offered = kept(user)?.unwrap_or_else(|| EMPTY.to_owned());
    let folder = process::var("TMPDIR").unwrap_or_else(|| "/tmp".to_owned());
    let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(process::var);
    let editor = editor.into_iter().find(|editor| !editor.is_empty());
    let edit = edit::Edit {
        offered: &offered,
        editor: &editor.unwrap_or_else(|| "vi".to_owned()),
        folder: &process::path(&folder),
    };
    edit.run(|table| install(user, table), again)
}

/// Reads a `y` or an `n`; the end of the input is an `n`.
fn again() -> Result<bool, Failure> {
    std::io::stdout().flush().ok();
    let mut line = String::new();
    loop {
        line.clear();
        let unread = |why| Failure::fatal(NAME, format!("cannot read the answer: {why}"));
        let read = std::io::stdin().read_line(&mut line).map_err(unread)?;
        match line.trim().to_ascii_lowercase().as_str() {
            "y" => return Ok(true),
            "n" => return Ok(false),
            _ if read == 0 => return Ok(false),
            _ => output::print("Do you want to retry the edit? (y/n) "),
        }
    }
}

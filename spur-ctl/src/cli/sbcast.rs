//! `sbcast`: a step of one task on every node of the job, which writes what it reads.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::{self, Options, Source};
use super::link::{self, Trouble};
use super::{output, process, srun};
use spur_core::api::{JobFilter, JobView, Reply, Request};
use spur_core::job::array::JobTarget;
use spur_core::slurm::hostlist;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

/// What each task runs: `$1` is the file, `$2` whether it may be there already, `$3` its mode, `$4` its time or nothing.
pub(super) const WRITE: &str = r#"
fail() { echo "sbcast: error: REQUEST_FILE_BCAST($SLURMD_NODENAME): $1" >&2; exit 1; }
if [ "$2" = no ] && [ -e "$1" ]; then fail "File exists"; fi
cat > "$1" || fail "cannot write $1"
chmod "$3" "$1" || fail "cannot change the mode of $1"
if [ -n "$4" ]; then touch -d "@$4" "$1"; fi
"#;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let [from, to] = options.operands.as_slice() else {
        let count = options.operands.len();
        let text = format!(
            "Need two file names, have {count} names\nTry \"sbcast --help\" for more information\n"
        );
        return Err(Failure { text, code: 1 });
    };
    let error = |why: String| Failure::error(Command::Sbcast, why);
    let Some(text) = options.value("jobid") else {
        return Err(error(
            "Need a job id to run this command.  Run from within a Slurm job or use the --jobid option."
                .to_owned(),
        ));
    };
    let name = process::text(from);
    let file = File::open(from).and_then(|file| file.metadata());
    let about = file.map_err(|why| {
        let text = why.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        error(format!("Can't open `{name}`: {text}")).with_code(255)
    })?;
    let jobs = jobs(text).map_err(|why| error(format!("slurm_job_lookup error: {why}")))?;
    let time = if options.on("preserve") {
        about.mtime().to_string()
    } else {
        String::new()
    };
    let force = if options.on("force") { "yes" } else { "no" };
    tell(options, text, &about);
    let mut input = OsString::from("--input=");
    // A bare number or `none` would mean something else.
    if !name.contains('/') {
        input.push("./");
    }
    input.push(from);
    let mut words: Vec<OsString> = vec![input, "--job-name=sbcast".into(), "--quiet".into()];
    let mut seen = BTreeSet::new();
    for job in &jobs {
        // Where components share a node, one task is enough.
        let names = job.nodes.iter().map(|node| node.name.as_str());
        let fresh: Vec<&str> = names.filter(|name| seen.insert(*name)).collect();
        if fresh.is_empty() {
            continue;
        }
        words.extend((seen.len() > fresh.len()).then(|| ":".into()));
        words.extend(place(job, &fresh).map(OsString::from));
        words.extend([
            "sh".into(),
            "-c".into(),
            WRITE.into(),
            "sbcast".into(),
            to.clone(),
            OsString::from(force),
            format!("{:04o}", about.mode() & 0o777).into(),
            time.clone().into(),
        ]);
    }
    srun::main(&getopt::parse(Command::Srun, &words, Source::CommandLine)?)
}

/// With `-v`: what is copied, and how.
fn tell(options: &Options, job: &str, about: &Metadata) {
    if !options.on("verbose") {
        return;
    }
    let name = |at: usize| options.operands.get(at).map(|name| process::text(name));
    let told = [
        ("force", options.on("force").to_string()),
        ("jobid", job.to_owned()),
        ("modes", format!("{:04o}", about.mode() & 0o777)),
        ("preserve", options.on("preserve").to_string()),
        ("size", about.len().to_string()),
        ("source", name(0).unwrap_or_default()),
        ("target", name(1).unwrap_or_default()),
    ];
    let line = |(what, value): &(&str, String)| format!("sbcast: {what:<10}= {value}");
    output::complain(&told.iter().map(line).collect::<Vec<_>>());
}

/// A task on each of these nodes of a job, or of a component of one.
fn place(job: &JobView, names: &[&str]) -> impl Iterator<Item = String> {
    let nodes = names.len();
    let of_all = [
        format!("--jobid={}", job.het.map_or(job.id, |part| part.leader)),
        format!("--nodes={nodes}"),
        format!("--ntasks={nodes}"),
        format!("--nodelist={}", hostlist::compress(names)),
        "--ntasks-per-node=1".to_owned(),
        "--gres=none".to_owned(),
    ];
    let group = job.het.map(|part| format!("--het-group={}", part.offset));
    of_all.into_iter().chain(group)
}

/// The job, as it runs: of a heterogeneous one all components, unless one is named.
fn jobs(text: &str) -> Result<Vec<Arc<JobView>>, String> {
    let head = text.split('.').next().unwrap_or_default();
    let target: JobTarget = head.parse().map_err(|_| "Invalid job id specified")?;
    let filter = JobFilter {
        targets: vec![target],
        ..JobFilter::default()
    };
    let said = |trouble: Trouble| trouble.text();
    let Reply::Jobs(jobs) = link::question(&Request::Jobs { filter }).map_err(said)? else {
        return Err(link::unexpected().text());
    };
    let mut running: Vec<_> = jobs
        .into_iter()
        .filter(|job| !job.nodes.is_empty())
        .collect();
    if running.first().is_some_and(|job| job.het.is_some()) {
        running.retain(|job| !job.state.is_terminal());
    } else {
        running.truncate(1);
    }
    if running.is_empty() {
        return Err("Invalid job id specified".to_owned());
    }
    Ok(running)
}

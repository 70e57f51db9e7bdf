//! `sbcast`: a step of one task on every node of the job, which writes what it reads.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::{self, Options, Source};
use super::link::{self, Trouble};
use super::{process, srun};
use spur_core::api::{JobFilter, JobView, Reply, Request};
use spur_core::job::array::JobTarget;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

/// What each task runs: `$1` is the file, `$2` whether it may be there already, `$3` its mode, `$4` its time or nothing.
const WRITE: &str = r#"
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
    let job = job(text).map_err(|why| error(format!("slurm_job_lookup error: {why}")))?;
    let nodes = job.nodes.len().to_string();
    let time = if options.on("preserve") {
        about.mtime().to_string()
    } else {
        String::new()
    };
    let force = if options.on("force") { "yes" } else { "no" };
    let mut words: Vec<OsString> = [
        format!("--jobid={}", job.id),
        format!("--nodes={nodes}"),
        format!("--ntasks={nodes}"),
        "--ntasks-per-node=1".to_owned(),
        "--gres=none".to_owned(),
        "--job-name=sbcast".to_owned(),
        "--quiet".to_owned(),
    ]
    .map(OsString::from)
    .to_vec();
    let mut input = OsString::from("--input=");
    // A bare number or `none` would mean something else.
    if !name.contains('/') {
        input.push("./");
    }
    input.push(from);
    words.extend([
        input,
        "sh".into(),
        "-c".into(),
        WRITE.into(),
        "sbcast".into(),
        to.clone(),
    ]);
    words.extend([
        OsString::from(force),
        format!("{:04o}", about.mode() & 0o777).into(),
        time.into(),
    ]);
    srun::main(&getopt::parse(Command::Srun, &words, Source::CommandLine)?)
}

/// The job, as it runs.
fn job(text: &str) -> Result<Arc<JobView>, String> {
    let head = text.split(['.', '+']).next().unwrap_or_default();
    let target: JobTarget = head.parse().map_err(|_| "Invalid job id specified")?;
    let filter = JobFilter {
        targets: vec![target],
        ..JobFilter::default()
    };
    let said = |trouble: Trouble| trouble.text();
    let Reply::Jobs(jobs) = link::question(&Request::Jobs { filter }).map_err(said)? else {
        return Err(link::unexpected().text());
    };
    let running = jobs.into_iter().find(|job| !job.nodes.is_empty());
    running.ok_or_else(|| "Invalid job id specified".to_owned())
}

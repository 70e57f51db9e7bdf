//! `scontrol listpids` and `scontrol pidinfo`: processes of this host by the jobs and steps that they are in, which their cgroups say.

use super::show::steps::{self, Row};
use super::{ask, worded};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::render::step_columns::step_word;
use crate::cli::{link, output, process};
use spur_core::api::{JobFilter, JobView, Reply, Request};
use spur_core::id::JobId;
use spur_core::job::array::JobTarget;
use spur_core::time::Millis;
use std::fs;
use std::sync::Arc;

/// What an endless job counts as ending after its start, as in Slurm: a year, in seconds.
const YEAR: u64 = 365 * 86_400;

/// A process in a step.
struct Process {
    pid: u32,
    job: u32,
    /// `batch`, `0`.
    step: String,
    /// Its node, as its environment has it; `None` if that may not be read.
    node: Option<String>,
    /// Local and global number, of what is a task itself.
    task: Option<(String, String)>,
}

impl Process {
    /// `None` if it is in no job, or gone.
    fn read(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let (job, step) = groups.lines().find_map(place)?;
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let value = |name: &str| {
            let mut entries = environ.split(|byte| *byte == 0);
            let value =
                entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let is_task = value("SLURM_TASK_PID").is_some_and(|own| own == pid.to_string());
        let task = value("SLURM_LOCALID").zip(value("SLURM_PROCID"));
        Some(Self {
            pid,
            job,
            step,
            node: value("SLURMD_NODENAME"),
            task: task.filter(|_| is_task),
        })
    }

    fn is_of(&self, row: &Row) -> bool {
        self.job == row.job.id.0 && self.step == step_word(row.step.kind)
    }
}

/// The job and the step of a line of `/proc/PID/cgroup`: `…/job_12/step_0/…`.
fn place(line: &str) -> Option<(u32, String)> {
    let mut parts = line.split('/').skip_while(|part| !part.starts_with("job_"));
    let job = parts.next()?.strip_prefix("job_")?.parse().ok()?;
    let step = parts.next()?.strip_prefix("step_")?;
    Some((job, step.to_owned()))
}

/// `scontrol listpids [JOB[.STEP]] [NODE]`.
pub(super) fn list(rest: &[String]) -> Result<u8, Failure> {
    let which = rest
        .first()
        .map(String::as_str)
        .filter(|text| !text.starts_with('*'));
    if let Some(text) = which
        && !text.starts_with(|c: char| c.is_ascii_digit())
    {
        return Err(Failure::plain("Invalid job id specified", 1));
    }
    let node = rest.get(1).map(String::as_str);
    let rows = steps::on(node)?;
    let here = node.map_or_else(process::host, str::to_owned);
    let wanted: Vec<&Row> = match which {
        Some(text) => rows.iter().filter(|row| steps::meant(row, text)).collect(),
        None => rows.iter().collect(),
    };
    if wanted.is_empty() {
        let why = match which {
            Some(text) if text.contains('.') => {
                format!("StepId={text} does not exist on node {here}.")
            }
            Some(text) if !rows.is_empty() => {
                format!("There are no steps for job {text} on node {here}.")
            }
            Some(text) => format!("JobId={text} does not exist on node {here}."),
            None => "No job steps exist on this node.".to_owned(),
        };
        return Err(Failure::plain(why, 1));
    }
    let processes = all();
    let on_node = |process: &&Process| {
        let own = process.node.as_deref();
        node.is_none_or(|node| own.is_none_or(|own| own == node))
    };
    let mut text = format!(
        "{:<8} {:<8} {:<8} {:<7} {:<8}\n",
        "PID", "JOBID", "STEPID", "LOCALID", "GLOBALID"
    );
    for row in wanted {
        for process in processes
            .iter()
            .filter(|process| process.is_of(row))
            .filter(on_node)
        {
            let (local, global) = process
                .task
                .clone()
                .unwrap_or(("-".to_owned(), "-".to_owned()));
            let (pid, job, step) = (process.pid, process.job, &process.step);
            text.push_str(&format!(
                "{pid:<8} {job:<8} {step:<8} {local:<7} {global:<8} \n"
            ));
        }
    }
    output::print(&text);
    Ok(0)
}

/// Every process of this host that is in a step, by number.
fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = pids.collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(Process::read).collect()
}

/// `scontrol pidinfo PID`.
pub(super) fn info(options: &Options, rest: &[String]) -> Result<u8, Failure> {
    let [text] = rest else {
        let what = if rest.is_empty() {
            "missing argument"
        } else {
            "too many arguments"
        };
        return Err(Failure::plain(format!("{what} for keyword:pidinfo"), 1));
    };
    let found = text.parse().ok().and_then(Process::read);
    let Some(process) = found else {
        if options.on("quiet") {
            return Ok(1);
        }
        return Err(Failure::plain("Failed to locate job for requested pid", 1));
    };
    let job = view(JobId(process.job))?;
    let now = process::now();
    let end = job
        .ended
        .or(job.started.map(|at| at.plus_secs(YEAR)))
        .unwrap_or(now);
    let left = end.secs_since(now);
    output::print(&format!(
        "Slurm JobId={} ends at {}\nJob remaining time is {left} seconds\n",
        process.job,
        spelled(end)
    ));
    Ok(0)
}

fn view(job: JobId) -> Result<Arc<JobView>, Failure> {
    let prefix = "Failed to get job end time";
    let target = JobTarget {
        job,
        tasks: None,
        offset: None,
    };
    let filter = JobFilter {
        targets: vec![target],
        all_states: true,
        ..JobFilter::default()
    };
    let Reply::Jobs(jobs) = ask(&Request::Jobs { filter }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let found = jobs.into_iter().find(|view| view.id == job);
    found.ok_or_else(|| Failure::plain(format!("{prefix}: Invalid job id specified"), 1))
}

/// `Tue Dec 01 09:43:41 2026`.
fn spelled(at: Millis) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let Some(time) = process::clock().fields(at) else {
        return "Unknown".to_owned();
    };
    let day = DAYS.get(usize::from(time.week_day())).unwrap_or(&"");
    let month = MONTHS
        .get(usize::from(time.month().saturating_sub(1)))
        .unwrap_or(&"");
    format!(
        "{day} {month} {:02} {:02}:{:02}:{:02} {}",
        time.month_day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.year()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_names_its_job_and_step() {
        for (line, found) in [
            ("0::/spur/job_12/step_0", Some((12, "0"))),
            (
                "0::/spur-dev-1-n1/job_7/step_batch/mine/deeper",
                Some((7, "batch")),
            ),
            ("0::/spur/job_12", None),
            ("0::/user.slice/job_x/step_0", None),
            ("4:cpu:/", None),
            ("", None),
        ] {
            let found = found.map(|(job, step)| (job, step.to_owned()));
            assert_eq!(place(line), found, "{line}");
        }
        assert!(Process::read(std::process::id()).is_none());
    }
}

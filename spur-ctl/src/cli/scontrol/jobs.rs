//! `scontrol` on jobs: `hold`, `release`, `requeue`, `suspend`, `resume`, `top` and the like.

mod change;
mod here;

pub(super) use change::update;

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::link::{self, Trouble, refusal_text};
use super::super::{named, output, resolve};
use super::{abbreviates, need, worded};
use spur_core::api::{JobFilter, RefusalKind, Reply, Request};
use spur_core::id::JobId;
use spur_core::job::array::JobTarget;
use spur_core::job::change::JobAct;
use spur_core::job::state::JobState;
use spur_core::slurm::codes;

/// Words, the shortest beginning that is taken for each, what they do, and what stands before a message about them.
const ACTS: [(&str, usize, JobAct, &str); 9] = [
    ("hold", 4, JobAct::Hold, "slurm_suspend error"),
    ("holdu", 5, JobAct::HoldByUser, "slurm_suspend error"),
    ("uhold", 5, JobAct::HoldByUser, "slurm_suspend error"),
    ("release", 3, JobAct::Release, "slurm_suspend error"),
    ("requeue", 3, JobAct::Requeue, "slurm_requeue error"),
    ("requeuehold", 8, JobAct::RequeueHold, "slurm_requeue error"),
    ("suspend", 2, JobAct::Suspend, "slurm_suspend error"),
    ("resume", 3, JobAct::Resume, "slurm_suspend error"),
    ("top", 3, JobAct::Top, "slurm_top_job error"),
];

/// Carries the word out if it is about jobs.
pub(super) fn dispatch(
    options: &Options,
    word: &str,
    rest: &[String],
) -> Option<Result<u8, Failure>> {
    let exact = ACTS
        .iter()
        .find(|(full, ..)| full.eq_ignore_ascii_case(word));
    let begun = || {
        ACTS.iter()
            .find(|(full, least, ..)| abbreviates(word, full, *least))
    };
    if let Some((full, _, act, prefix)) = exact.or_else(begun) {
        return Some(need(full, rest, 1).and_then(|()| control(options, rest, (*act, prefix))));
    }
    let is = |full: &str, least: usize| abbreviates(word, full, least);
    match () {
        () if is("wait_job", 1) => {
            Some(need("wait_job", rest, 1).and_then(|()| here::wait(&rest[0])))
        }
        () if is("completing", 3) => Some(here::completing()),
        () if is("notify", 1) => Some(need("notify", rest, 2).and_then(|()| {
            Err(super::unavailable(
                "notify",
                "write to a file that the job reads, or signal it with scancel",
            ))
        })),
        () if is("token", 1) => Some(Err(super::unavailable(
            "token",
            "callers are known by the kernel (SO_PEERCRED); there are no tokens to fetch",
        ))),
        () => None,
    }
}

/// Jobs, arrays and tasks of words and comma lists.
fn targets(words: &[String], prefix: &str) -> Result<Vec<JobTarget>, Failure> {
    let unknown = || {
        let text = codes::message(RefusalKind::InvalidJobId);
        Failure::plain(format!("{prefix}: {text}"), 1)
    };
    let mut targets = Vec::new();
    for word in words {
        let (key, list) = word
            .split_once('=')
            .map_or(("", word.as_str()), |pair| pair);
        if abbreviates(key, "jobname", 4) && !key.is_empty() || abbreviates(key, "name", 4) {
            targets.extend(named(list, prefix)?);
            continue;
        }
        for text in resolve::filter::names(list) {
            // What cannot be a job's name is shown, since Slurm's words do not.
            let named = |mut failure: Failure| {
                failure
                    .text
                    .push_str(&format!("no job is named {text:?}\n"));
                failure
            };
            targets.push(text.trim().parse().map_err(|_| named(unknown()))?);
        }
    }
    // Nothing named is nothing done, which must not look like success.
    if targets.is_empty() {
        return Err(unknown());
    }
    Ok(targets)
}

/// One's own waiting and running jobs with a name.
fn named(name: &str, prefix: &str) -> Result<Vec<JobTarget>, Failure> {
    let filter = JobFilter {
        names: vec![name.to_owned()],
        ..JobFilter::default()
    };
    let Reply::Jobs(jobs) = super::ask(&Request::Jobs { filter }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let waits = |state: JobState| !state.is_terminal();
    let jobs = jobs.iter().filter(|job| waits(job.state));
    let found: Vec<JobTarget> = jobs.map(|job| JobTarget::of(job)).collect();
    if found.is_empty() {
        return Err(Failure::plain(format!("No jobs with name '{name}'"), 1));
    }
    Ok(found)
}

fn control(
    options: &Options,
    words: &[String],
    (act, prefix): (JobAct, &str),
) -> Result<u8, Failure> {
    let jobs = match words {
        [word, rest @ ..]
            if matches!(act, JobAct::Requeue | JobAct::RequeueHold)
                && abbreviates(word, "incomplete", 3) =>
        {
            incomplete(&targets(rest, prefix)?, prefix)?
        }
        words => targets(words, prefix)?,
    };
    if jobs.is_empty() {
        return Ok(0);
    }
    let reply = super::ask(&Request::Control { jobs, act }, prefix)?;
    Ok(outcome(options, &reply, prefix))
}

/// Of these, what runs or is suspended: what ended stays as it ended, and what waits need not be queued again.
fn incomplete(of: &[JobTarget], prefix: &str) -> Result<Vec<JobTarget>, Failure> {
    let filter = JobFilter {
        targets: of.to_vec(),
        ..JobFilter::default()
    };
    let Reply::Jobs(jobs) = super::ask(&Request::Jobs { filter }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let runs = |state| matches!(state, JobState::Running | JobState::Suspended);
    let jobs = jobs.iter().filter(|job| runs(job.state));
    Ok(jobs.map(|job| JobTarget::of(job)).collect())
}

/// Says of each job why it was refused; the answer is the exit code.
fn outcome(options: &Options, reply: &Reply, prefix: &str) -> u8 {
    let Reply::PerTarget(results) = reply else {
        return 0;
    };
    let mut code = 0;
    for (target, refusal) in results {
        let Some(refusal) = refusal else { continue };
        code = 1;
        if options.on("quiet") {
            continue;
        }
        let why = refusal_text(refusal);
        let line = if refusal.kind == RefusalKind::InvalidJobId {
            format!("{prefix}: {why}")
        } else {
            format!("{why} for job {target}")
        };
        output::complain(&[line]);
    }
    code
}

/// The number of one job.
fn id(text: &str) -> Result<JobId, Failure> {
    let bad = || Failure::error("scontrol", format!("Invalid job_id {text}"));
    let named = named::read(text).ok_or_else(bad)?;
    let unknown = |trouble: Trouble| Failure::error("scontrol", trouble.text());
    named.job_of().map_err(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_named_as_everywhere() {
        let words = ["45_[1,2-3],46", "47_4"].map(str::to_owned);
        let found = targets(&words, "scontrol").unwrap();
        let found: Vec<(u32, usize)> = found
            .iter()
            .map(|target| {
                let tasks = target.tasks.as_ref();
                (target.job.0, tasks.map_or(0, |tasks| tasks.iter().count()))
            })
            .collect();
        assert_eq!(found, [(45, 3), (46, 0), (47, 1)]);
        assert!(targets(&["45_[1".to_owned()], "scontrol").is_err());
    }
}

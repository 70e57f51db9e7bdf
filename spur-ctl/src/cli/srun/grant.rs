//! Getting a step: of a job of its own, or within an allocation.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::super::link::{self, Trouble};
use super::super::resolve::input::Surroundings;
use super::super::resolve::{job, numbers, step};
use super::super::{output, submit};
use super::say;
use spur_core::api::{Grant, JobFilter, RefusalKind, Reply, Request};
use spur_core::id::{JobId, Uid};
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::job::state::JobState;
use spur_core::job::step::StepSpec;
use spur_core::slurm::codes;
use spur_proto::client::Client;
use std::time::Duration;

/// After this time the user is told that the job waits.
const NOTICE_AFTER: Duration = Duration::from_millis(400);
/// What `--immediate` means without a number, in seconds.
const IMMEDIATE: u64 = 1;
/// Pauses between tries to get a step while other steps hold what it needs: doubled up to the second.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A step that may be started.
#[derive(Debug)]
pub struct Granted {
    /// How to reach it.
    pub grant: Grant,
    /// Whether the job is srun's own and ends with the step.
    pub own_job: bool,
}

/// Gets a step by the options and the environment.
pub async fn obtain(
    options: &Options,
    here: &Surroundings,
    program: &str,
) -> Result<Granted, Failure> {
    match options.value("jobid") {
        Some(text) => {
            let bad = || confirm(text, codes::message(RefusalKind::InvalidJobId));
            let job = text
                .split(['.', '_', '+'])
                .next()
                .and_then(|n| n.parse().ok())
                .ok_or_else(bad)?;
            output::complain(&step::notices(options));
            within(options, JobId(job), step::of_allocation(options, program)?).await
        }
        None => alone(options, here, program).await,
    }
}

async fn alone(options: &Options, here: &Surroundings, program: &str) -> Result<Granted, Failure> {
    let (spec, warnings) = job::spec(options, here, step::base_name(program), program)?;
    output::complain(&warnings);
    if options.on("test-only") {
        let code = submit::test_only(Command::Srun, &spec, options.on("verbose"))?;
        return Err(Failure::silent(code));
    }
    let request = Request::Run {
        spec: Box::new(spec.clone()),
        step: step::of_run(options, program),
        immediate: numbers::immediate(options, IMMEDIATE)?,
    };
    let refused =
        |trouble: Trouble| submit::refused(Command::Srun, &spec, &trouble, options.on("verbose"));
    let client = link::connect_patiently().await.map_err(refused)?;
    let answer = run(options, &client, &request, &spec).await;
    let Reply::Granted(grant) = answer.map_err(refused)? else {
        return Err(refused(link::unexpected()));
    };
    Ok(Granted {
        grant: *grant,
        own_job: true,
    })
}

/// Waits for the job to run; tells the user if that takes its time.
async fn run(
    options: &Options,
    client: &Client,
    request: &Request,
    spec: &JobSpec,
) -> Result<Reply, Trouble> {
    let mut call = std::pin::pin!(link::call(client, request));
    if let Ok(answer) = tokio::time::timeout(NOTICE_AFTER, &mut call).await {
        return answer;
    }
    let Some(job) = waiting(client, spec).await else {
        return call.await;
    };
    say(
        options,
        format_args!("job {job} queued and waiting for resources"),
    );
    let answer = match (call.await, request) {
        (
            Err(Trouble::Contact(_)),
            Request::Run {
                step,
                immediate: None,
                ..
            },
        ) => wait_on(job, step).await,
        (answer, _) => answer,
    };
    if let Ok(Reply::Granted(grant)) = &answer {
        say(
            options,
            format_args!("job {} has been allocated resources", grant.job.id),
        );
    }
    answer
}

/// The controller went away while the job waited. The job is in its log: waits on for both, and asks for the step then.
async fn wait_on(job: JobId, step: &StepSpec) -> Result<Reply, Trouble> {
    let Reply::Allocated { job: view } = link::wait_for(&Request::AwaitAllocation { job }).await?
    else {
        return Err(link::unexpected());
    };
    // A step that is there already was granted to the call that broke, and nobody can start it any more.
    if !view.steps.is_empty() {
        return Err(link::unexpected());
    }
    let step = step.clone();
    link::ask(&Request::Step { job, step }).await
}

/// The number of our own pending job: the newest that looks like it.
async fn waiting(client: &Client, spec: &JobSpec) -> Option<JobId> {
    let filter = JobFilter {
        users: vec![Uid(spec.owner.uid.0)],
        names: vec![spec.name.clone()],
        states: vec![JobState::Pending],
        ..JobFilter::default()
    };
    let Ok(Reply::Jobs(jobs)) = link::call(client, &Request::Jobs { filter }).await else {
        return None;
    };
    let ours = |other: &JobSpec| {
        other.kind == JobKind::Run
            && (other.submit_sid, &other.submit_host) == (spec.submit_sid, &spec.submit_host)
            && (&other.command, &other.work_dir) == (&spec.command, &spec.work_dir)
    };
    jobs.iter()
        .filter(|job| ours(&job.spec))
        .map(|job| job.id)
        .max()
}

async fn within(options: &Options, job: JobId, step: StepSpec) -> Result<Granted, Failure> {
    let request = Request::Step { job, step };
    let (mut pause, longest) = BUSY_PAUSES;
    let mut told = false;
    loop {
        match link::ask(&request).await {
            Ok(Reply::Granted(grant)) => {
                return Ok(Granted {
                    grant: *grant,
                    own_job: false,
                });
            }
            Ok(_) => return Err(no_step(job, &link::unexpected().text())),
            // The allocation's time limit bounds how long this may go on.
            Err(trouble) if trouble.kind() == Some(RefusalKind::NodesBusy) => {
                let why = trouble.text();
                if options.on("immediate") {
                    return Err(no_step(job, &why));
                }
                if !told {
                    say(
                        options,
                        format_args!(
                            "Job {job} step creation temporarily disabled, retrying ({why})"
                        ),
                    );
                }
                told = true;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
            Err(trouble) => return Err(unconfirmed(job, &trouble)),
        }
    }
}

fn unconfirmed(job: JobId, trouble: &Trouble) -> Failure {
    let text = trouble.text();
    match trouble.kind() {
        Some(
            RefusalKind::InvalidJobId
            | RefusalKind::AlreadyDone
            | RefusalKind::JobFinished
            | RefusalKind::JobEnded
            | RefusalKind::JobPending
            | RefusalKind::AccessDenied,
        ) => confirm(&job.to_string(), &text),
        None => confirm(&job.to_string(), &text),
        Some(_) => no_step(job, &text),
    }
}

fn no_step(job: JobId, why: &str) -> Failure {
    Failure::error(
        Command::Srun,
        format!("Unable to create step for job {job}: {why}"),
    )
}

/// Slurm's words for an allocation that is not there.
fn confirm(job: &str, why: &str) -> Failure {
    let mut failure = Failure::error(
        Command::Srun,
        format!("Unable to confirm allocation for job {job}: {why}"),
    );
    if why != link::UNREACHABLE {
        failure.text.push_str(&format!(
            "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job}\n"
        ));
    }
    failure
}

//! Getting a step: of a job of its own, or within an allocation.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::{Options, Source, environment};
use super::super::link::{self, Trouble};
use super::super::resolve::input::Surroundings;
use super::super::resolve::{het, job, numbers, step};
use super::super::{named, output, process, submit};
use super::{program, say, signals};
use spur_core::api::{Grant, GrantNode, JobFilter, RefusalKind, Reply, Request};
use spur_core::id::JobId;
use spur_core::job::gpus;
use spur_core::job::spec::JobSpec;
use spur_core::job::step::StepSpec;
use spur_core::resources::GpuCount;
use spur_core::slurm::codes;
use std::time::{Duration, Instant};

/// After this time the user is told that the job waits.
const NOTICE_AFTER: Duration = Duration::from_millis(400);
/// What `--immediate` means without a number, in seconds.
const IMMEDIATE: u64 = 1;
/// Pauses between tries to get a step while other steps hold what it needs and the controller cannot let it wait: doubled up to the
/// second.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Tickets of this age are not used any more. They must be younger than the controller's, which live for 300 s.
const FRESH: Duration = Duration::from_secs(120);

/// A step that may be started.
#[derive(Debug)]
pub struct Granted {
    /// How to reach it: all nodes, of all components.
    pub grant: Grant,
    /// By node: which part of the command line it runs.
    pub parts: Vec<usize>,
    /// Whether the job is srun's own and ends with the step.
    pub own_job: bool,
    /// What the controller is asked to hear of the same step again.
    again: Option<Request>,
    since: Instant,
}

impl Granted {
    /// Puts the parts of a step together; `which` is the part of the command line that each is of.
    fn of(
        grants: Vec<Grant>,
        which: &[usize],
        own_job: bool,
        again: impl FnOnce(JobId) -> Option<Request>,
    ) -> Option<Self> {
        let mut grants = grants.into_iter().zip(which);
        let (mut grant, first) = grants.next()?;
        let mut parts = vec![*first; grant.nodes.len()];
        for (more, part) in grants {
            parts.resize(parts.len() + more.nodes.len(), *part);
            grant.nodes.extend(more.nodes);
            grant.job.nodes.extend(more.job.nodes);
        }
        Some(Self {
            again: again(grant.job.id),
            since: Instant::now(),
            grant,
            parts,
            own_job,
        })
    }

    /// Gets new tickets for those that may soon be worth nothing, since what comes before a step may take its time. Without an
    /// answer the old ones stay: the nodes say what is wrong with them.
    pub async fn renew(&mut self) {
        if self.since.elapsed() < FRESH {
            return;
        }
        let Some(again) = &self.again else {
            return;
        };
        let grants = link::ask_again(again).await.ok().and_then(granted);
        let nodes = grants.into_iter().flatten().flat_map(|grant| grant.nodes);
        let nodes: Vec<_> = nodes.collect();
        let names = |nodes: &[GrantNode]| nodes.iter().map(|n| n.name.clone()).collect::<Vec<_>>();
        if names(&nodes) == names(&self.grant.nodes) {
            (self.grant.nodes, self.since) = (nodes, Instant::now());
        }
    }
}

/// Gets a step by the options and the environment; there is at least one part, and each has a command.
pub async fn obtain(parts: &[Options], here: &Surroundings) -> Result<Granted, Failure> {
    let options = &parts[0];
    let Some(text) = options.value("jobid") else {
        return alone(parts, here).await;
    };
    let bad = || confirm(text, codes::message(RefusalKind::InvalidJobId));
    let named = named::read(text).ok_or_else(bad)?;
    let unknown = |trouble: Trouble| confirm(text, &trouble.text());
    // A component is chosen by its own option.
    let job = match named.target.offset {
        Some(_) => named.target.job,
        None => named.job().await.map_err(unknown)?,
    };
    parts
        .iter()
        .for_each(|part| output::complain(&step::notices(part)));
    if parts.len() == 1 && !options.on("het-group") {
        let step = step::of_allocation(options, &program(options), here.request_id)?;
        return within(options, (job, Request::Step { job, step }), &[0]).await;
    }
    let groups = het::groups(parts, size(job).await?)?;
    let (mut offsets, mut steps, mut which) = (Vec::new(), Vec::new(), Vec::new());
    for (group, at) in groups {
        // Of what the environment says, a component wants only what is said of itself.
        let mut part = parts[at].without(Source::Environment);
        let own = |name: &str| het::variable(name, group, process::var);
        part.merge(environment(Command::Srun, own));
        steps.push(step::of_allocation(
            &part,
            &program(&part),
            here.request_id,
        )?);
        offsets.push(group);
        which.push(at);
    }
    let request = Request::StepHet {
        job,
        offsets,
        steps,
    };
    within(options, (job, request), &which).await
}

/// How many components a job has; `None` if it is not heterogeneous.
async fn size(job: JobId) -> Result<Option<u32>, Failure> {
    let filter = JobFilter {
        ids: vec![job],
        ..JobFilter::default()
    };
    match link::ask_again(&Request::Jobs { filter }).await {
        Ok(Reply::Jobs(jobs)) => Ok(jobs.first().and_then(|job| job.het).map(|part| part.size)),
        Ok(_) => Err(no_step(job, &link::unexpected().text())),
        Err(trouble) => Err(unconfirmed(job, &trouble)),
    }
}

async fn alone(parts: &[Options], here: &Surroundings) -> Result<Granted, Failure> {
    let options = &parts[0];
    let (mut specs, mut steps) = (Vec::new(), Vec::new());
    for part in parts {
        let program = program(part);
        let (spec, warnings) = job::spec(part, here, step::base_name(&program), &program)?;
        output::complain(&warnings);
        output::complain(&step::arbitrary(part));
        let (spec, step) = overcommitted(part, spec, step::of_run(part, &program, here.request_id));
        specs.push(spec);
        steps.push(step);
    }
    let verbose = options.on("verbose");
    if options.on("test-only") {
        let mut codes = specs
            .iter()
            .map(|spec| submit::test_only(Command::Srun, spec, verbose));
        let code = codes.try_fold(0, |worst: u8, code| Ok::<u8, Failure>(worst.max(code?)))?;
        return Err(Failure::silent(code));
    }
    let immediate = numbers::immediate(options, IMMEDIATE)?;
    let spec = specs[0].clone();
    let request = match (specs.as_slice(), steps.as_slice()) {
        ([spec], [step]) => Request::Run {
            spec: Box::new(spec.clone()),
            step: step.clone(),
            immediate,
        },
        (_, _) => Request::RunHet {
            specs,
            steps,
            immediate,
        },
    };
    let refused = |trouble: Trouble| submit::refused(Command::Srun, &spec, &trouble, verbose);
    let Some(answer) = run(options, &request).await else {
        return Err(Failure::silent(1));
    };
    let grants = granted(answer.map_err(refused)?);
    let which: Vec<usize> = (0..parts.len()).collect();
    let granted =
        grants.and_then(|grants| Granted::of(grants, &which, true, |job| same_step(&request, job)));
    granted.ok_or_else(|| refused(link::unexpected()))
}

/// With `--overcommit` a job of srun's own has a CPU on each node, and its step all the tasks. The GPUs that tasks have are the
/// job's.
fn overcommitted(options: &Options, spec: JobSpec, step: StepSpec) -> (JobSpec, StepSpec) {
    if !options.on("overcommit") {
        return (spec, step);
    }
    let mut job = spec.clone();
    if gpus::settle(&mut job).is_err() {
        // The controller says what is wrong with it.
        return (spec, step);
    }
    let per_node = job.tasks_per_node;
    let listed = u32::try_from(job.nodelist.len()).unwrap_or(u32::MAX);
    let mut nodes = job.nodes_min.max(listed).max(1);
    let tasks = if job.tasks_set {
        job.tasks.max(1)
    } else {
        nodes.saturating_mul(per_node.max(1))
    };
    if per_node > 0 && !job.nodes_set {
        nodes = nodes.max(tasks.div_ceil(per_node));
        job.nodes_min = nodes;
    }
    if let Some(each) = job.gpus_per_task.take() {
        let placed = [&job.gpus_total, &job.gpus_per_node, &job.gpus_per_socket];
        if placed.into_iter().all(Option::is_none) {
            let count = each.count.saturating_mul(tasks);
            job.gpus_total = Some(GpuCount { count, ..each });
        }
    }
    (job.tasks, job.tasks_set) = (nodes.min(tasks), true);
    (job.tasks_per_node, job.tasks_per_socket, job.tasks_per_gpu) = (0, 0, 0);
    let step = StepSpec {
        tasks,
        tasks_per_node: per_node,
        overcommit: true,
        ..step
    };
    (job, step)
}

/// The parts of a step that was granted.
fn granted(reply: Reply) -> Option<Vec<Grant>> {
    if let Reply::Granted(grant) = reply {
        return Some(vec![*grant]);
    }
    if let Reply::GrantedHet(grants) = reply {
        return Some(grants);
    }
    None
}

/// Waits for the job to run; tells the user if that takes its time. If the controller goes away meanwhile, what it made of the
/// request is looked for when it is back. `None` if the user wants no more while the job waits: it is cancelled then.
async fn run(options: &Options, request: &Request) -> Option<Result<Reply, Trouble>> {
    let client = match link::connect_patiently().await {
        Ok(client) => client,
        Err(trouble) => return Some(Err(trouble)),
    };
    let mut call = std::pin::pin!(link::call(&client, request));
    let mut waits = None;
    let answer = match tokio::time::timeout(NOTICE_AFTER, &mut call).await {
        Ok(answer) => answer,
        Err(_) => {
            if let Ok(Some(job)) = link::submitted(request).await {
                let text = format_args!("job {job} queued and waiting for resources");
                say(options, text);
                waits = Some(job);
            }
            match waits {
                Some(job) => revocable(options, job, call).await?,
                None => call.await,
            }
        }
    };
    let answer = match answer {
        Err(Trouble::Contact(lost)) => resume(request, Trouble::Contact(lost)).await,
        answer => answer,
    };
    let id = match &answer {
        Ok(Reply::Granted(grant)) => Some(grant.job.id),
        Ok(Reply::GrantedHet(grants)) => grants.first().map(|grant| grant.job.id),
        _ => None,
    };
    if let Some(id) = id.filter(|_| waits.is_some()) {
        say(
            options,
            format_args!("job {id} has been allocated resources"),
        );
    }
    Some(answer)
}

/// Waits for a job to run, and cancels it if the user wants no more.
async fn revocable<T>(options: &Options, job: JobId, call: impl Future<Output = T>) -> Option<T> {
    let answer = signals::unless_stopped(call).await;
    if answer.is_none() {
        super::session::cancel(job).await;
        say(
            options,
            format_args!("Job allocation {job} has been revoked."),
        );
    }
    answer
}

/// The call broke. What waits only for so long is given up; otherwise the job is waited for and its step asked for, or all is asked
/// for again if there is no job.
async fn resume(request: &Request, lost: Trouble) -> Result<Reply, Trouble> {
    if again(request, JobId(0)).is_none() {
        return Err(lost);
    }
    for _ in 0..link::CONNECT_TRIES {
        let job = link::submitted(request).await?;
        if let Some(again) = job.and_then(|job| again(request, job)).zip(job) {
            return wait_on(again.1, &again.0).await;
        }
        let client = link::connect_patiently().await?;
        match link::call(&client, request).await {
            Err(Trouble::Contact(_)) => tokio::time::sleep(link::CONNECT_PAUSE).await,
            answer => return answer,
        }
    }
    Err(lost)
}

/// What is asked for once a job runs whose call broke; `None` for one that waits only for so long.
fn again(request: &Request, job: JobId) -> Option<Request> {
    if let Request::Run { immediate, .. } | Request::RunHet { immediate, .. } = request
        && immediate.is_some()
    {
        return None;
    }
    same_step(request, job)
}

/// Asks for the step of a job that was asked for with it: the controller knows it by the request's number.
fn same_step(request: &Request, job: JobId) -> Option<Request> {
    if let Request::Run { step, .. } = request {
        let step = step.clone();
        return Some(Request::Step { job, step });
    }
    if let Request::RunHet { steps, .. } = request {
        let offsets = (0..).take(steps.len()).collect();
        let steps = steps.clone();
        return Some(Request::StepHet {
            job,
            offsets,
            steps,
        });
    }
    None
}

/// The controller went away while the job waited. The job is in its log: waits on for both, and asks for the step then, which may
/// have been granted to the call that broke: it is the same request.
async fn wait_on(job: JobId, again: &Request) -> Result<Reply, Trouble> {
    let Reply::Allocated { .. } = link::wait_for(&Request::AwaitAllocation { job }).await? else {
        return Err(link::unexpected());
    };
    link::ask_again(again).await
}

async fn within(
    options: &Options,
    (job, mut request): (JobId, Request),
    which: &[usize],
) -> Result<Granted, Failure> {
    let (mut pause, longest) = BUSY_PAUSES;
    let mut told = false;
    loop {
        match link::ask_again(&request).await {
            Ok(reply) => {
                let granted = granted(reply);
                let granted = granted.and_then(|grants| {
                    Granted::of(grants, which, false, |_| Some(request.clone()))
                });
                if let Some(granted) = granted.as_ref().filter(|_| told) {
                    let step = granted.grant.step;
                    say(options, format_args!("Step created for StepId={step}"));
                }
                return granted.ok_or_else(|| no_step(job, &link::unexpected().text()));
            }
            // The allocation's time limit bounds how long this may go on.
            Err(trouble) if is_busy(&trouble, told) => {
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
                if told {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(longest);
                }
                told = true;
                wait_for_room(&mut request);
            }
            Err(trouble) => return Err(unconfirmed(job, &trouble)),
        }
    }
}

/// Whether other steps hold what the step needs; one that waits for them may find that too many calls do.
fn is_busy(trouble: &Trouble, waits: bool) -> bool {
    let kind = trouble.kind();
    kind == Some(RefusalKind::NodesBusy) || waits && kind == Some(RefusalKind::Busy)
}

/// From now on the controller answers when there is room for the step.
fn wait_for_room(request: &mut Request) {
    if let Request::Step { step, .. } = request {
        step.patient = true;
    }
    if let Request::StepHet { steps, .. } = request {
        steps.iter_mut().for_each(|step| step.patient = true);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::flags::getopt;

    /// By words of srun: nodes, tasks, tasks per node and GPUs of its job, and tasks of its step.
    #[test]
    fn tasks_that_share_cpus_ask_for_one_cpu_a_node_and_for_all_their_gpus() {
        for (words, job, gpus, tasks) in [
            ("-O -n8", (1, 1), None, 8),
            ("-O -N2 -n8", (2, 2), None, 8),
            ("-O -N4 -n2", (2, 2), None, 2),
            ("-O -N1 --ntasks-per-node=64", (1, 1), None, 64),
            ("-O -N2 --ntasks-per-node=3", (2, 2), None, 6),
            ("-O -n8 --ntasks-per-node=4", (2, 2), None, 8),
            ("-O -n6 --ntasks-per-socket=2", (1, 1), None, 6),
            ("-O -n8 --gpus-per-task=1", (1, 1), Some(8), 8),
            ("-O -n2 --gpus-per-task=h100:2", (1, 1), Some(4), 2),
            (
                "-O -N2 --ntasks-per-node=2 --gpus-per-task=1",
                (2, 2),
                Some(4),
                4,
            ),
            ("-O -n8 --ntasks-per-gpu=2", (1, 1), Some(4), 8),
            ("-O --gpus=2 --ntasks-per-gpu=4", (1, 1), Some(2), 8),
        ] {
            let words: Vec<_> = words.split(' ').chain(["true"]).map(Into::into).collect();
            let options = getopt::parse(Command::Srun, &words, Source::CommandLine).unwrap();
            let here = process::surroundings();
            let (spec, _) = job::spec(&options, &here, "true", "true").unwrap();
            let step = step::of_run(&options, "true", 1);
            let (spec, step) = overcommitted(&options, spec, step);
            assert_eq!((spec.nodes_min.max(1), spec.tasks), job, "{words:?}");
            let total = spec.gpus_total.map(|gpus| gpus.count);
            assert_eq!((total, spec.gpus_per_task), (gpus, None), "{words:?}");
            let per = (
                spec.tasks_per_node,
                spec.tasks_per_socket,
                spec.tasks_per_gpu,
            );
            assert_eq!(per, (0, 0, 0), "{words:?}");
            assert!(step.overcommit && spec.tasks_set, "{words:?}");
            assert_eq!(step.tasks, tasks, "{words:?}");
        }
    }
}

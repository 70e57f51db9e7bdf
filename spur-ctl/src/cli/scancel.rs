//! `scancel`.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble, refusal_text};
use super::resolve::filter;
use super::{output, process, users};
use spur_core::api::{JobFilter, Refusal, RefusalKind, Reply, Request};
use spur_core::id::{JobId, StepId, StepKind, Uid};
use spur_core::job::array::JobTarget;
use spur_core::slurm::codes::{StateFilter, parse_job_state};
use spur_core::slurm::signal;
use std::collections::BTreeSet;
use std::io::Write as _;

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blow {
    /// `None` ends the job.
    signal: Option<u8>,
    /// Who gets it.
    part: Part,
}

/// Who gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The steps.
    Steps,
    /// The batch shell.
    Batch,
    /// The batch shell and its children, of which srun passes it on; the steps, where there is no script.
    Full,
}

/// Jobs with why nothing came of it.
type Over = Vec<(JobId, Option<Refusal>)>;

/// One request to make: jobs, and perhaps a step of theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    filter: JobFilter,
    step: Option<StepKind>,
}

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let blow = blow(options)?;
    let targets = targets(options)?;
    let mut worst = 0;
    for target in targets {
        let done = strike(options, target, blow).map_err(|trouble| {
            Failure::plain(format!("slurm_load_jobs error: {}", trouble.text()), 1)
        })?;
        worst = worst.max(done);
    }
    Ok(worst)
}

fn blow(options: &Options) -> Result<Blow, Failure> {
    let (batch, full) = (options.on("batch"), options.on("full"));
    let signal = match options.value("signal") {
        None => None,
        Some(text) => Some(
            signal::parse(text)
                .map_err(|_| Failure::plain(format!("Unknown job signal: {text}"), 1))?,
        ),
    };
    let part = match (full, batch) {
        (true, _) => Part::Full,
        (false, true) => Part::Batch,
        (false, false) => Part::Steps,
    };
    // KILL for the whole job is what ending it means.
    let signal = match part {
        Part::Batch => signal.or(Some(9)),
        Part::Steps | Part::Full => signal.filter(|s| *s != 9),
    };
    Ok(Blow { signal, part })
}

fn targets(options: &Options) -> Result<Vec<Target>, Failure> {
    let base = filters(options)?;
    let (mut plain, mut steps) = (Vec::new(), Vec::new());
    for operand in &options.operands {
        let operand = process::text(operand);
        for text in filter::names(&operand) {
            let bad = || Failure::error(Command::Scancel, format!("Invalid job id {text}"));
            match named(text).ok_or_else(bad)? {
                (job, None) => plain.push(job),
                (job, Some(step)) => steps.push((job, step)),
            }
        }
    }
    let nothing = plain.is_empty() && steps.is_empty();
    if nothing && base == JobFilter::default() && !needs_looking(options) {
        return Err(Failure::error(
            Command::Scancel,
            "No job identification provided",
        ));
    }
    let mut targets = Vec::new();
    if !plain.is_empty() || nothing {
        let mut filter = base.clone();
        filter.targets = plain;
        targets.push(Target {
            filter: own_unless_named(filter),
            step: None,
        });
    }
    let one = |(job, step)| Target {
        filter: JobFilter {
            targets: vec![job],
            ..base.clone()
        },
        step: Some(step),
    };
    targets.extend(steps.into_iter().map(one));
    Ok(targets)
}

/// A job or tasks of an array, and perhaps a step, as `scancel` takes them.
fn named(text: &str) -> Option<(JobTarget, Option<StepKind>)> {
    let (head, step) = match text.split_once('.') {
        Some((head, step)) => {
            let plain = step.bytes().all(|b| b.is_ascii_digit());
            let number = step.parse().ok().filter(|_| plain)?;
            (head, Some(StepKind::Numbered(number)))
        }
        None => (text, None),
    };
    Some((head.parse().ok()?, step))
}

/// Without a number or a user, an ordinary user means jobs of their own.
fn own_unless_named(mut filter: JobFilter) -> JobFilter {
    let me = process::uid();
    if filter.targets.is_empty() && filter.users.is_empty() && me != 0 {
        filter.users.push(Uid(me));
    }
    filter
}

fn filters(options: &Options) -> Result<JobFilter, Failure> {
    let words = |long: &str| options.value(long).map(filter::list).unwrap_or_default();
    let mut filter = JobFilter {
        partitions: words("partition"),
        names: words("name"),
        accounts: words("account"),
        nodes: filter::nodes(options, "nodelist")?,
        ..JobFilter::default()
    };
    for user in words("user") {
        let unknown = || Failure::error(Command::Scancel, format!("Invalid user name: {user}"));
        filter.users.push(users::uid_of(&user).ok_or_else(unknown)?);
    }
    if options.on("me") {
        filter.users.push(Uid(process::uid()));
    }
    for state in words("state") {
        match parse_job_state(&state) {
            Some(StateFilter::State(state)) => filter.states.push(state),
            Some(StateFilter::All) => filter.all_states = true,
            Some(StateFilter::Completing | StateFilter::Configuring | StateFilter::Never) => {}
            None => {
                let why = format!(
                    "Invalid job state specified: {state}\nValid job states are PENDING, RUNNING, and SUSPENDED"
                );
                let known = ["PENDING", "RUNNING", "SUSPENDED"];
                return Err(Failure::plain(why, 1).nearest(&state, known));
            }
        }
    }
    Ok(filter)
}

/// Carries out one target; the answer is the exit code.
fn strike(options: &Options, mut target: Target, blow: Blow) -> Result<u8, Trouble> {
    let mut worst = 0;
    if options.on("interactive") || needs_looking(options) {
        let (chosen, over) = confirmed(options, &target)?;
        target.filter.targets = chosen;
        worst = report(options, target.step, blow, &over);
        if target.filter.targets.is_empty() {
            if over.is_empty() {
                none_match(options);
            }
            return Ok(worst);
        }
    }
    let request = Request::Cancel {
        filter: target.filter.clone(),
        signal: blow.signal,
        batch_only: blow.signal.is_some() && blow.part != Part::Steps,
        step: target.step,
        children: blow.part == Part::Full,
    };
    let results = match link::question(&request) {
        Ok(Reply::PerJob(results)) => results,
        Ok(Reply::Done) => Vec::new(),
        Ok(_) => return Err(link::unexpected()),
        // Of jobs that were named each hears why; what others a filter meant is not known.
        Err(Trouble::Refused(refusal)) => {
            let targets = target.filter.targets.iter().map(|target| target.job);
            let named: BTreeSet<JobId> = targets.collect();
            if named.is_empty() {
                return Err(Trouble::Refused(refusal));
            }
            let refused = |job| (job, Some(refusal.clone()));
            named.into_iter().map(refused).collect()
        }
        Err(trouble) => return Err(trouble),
    };
    if results.is_empty() {
        none_match(options);
    }
    Ok(worst.max(report(options, target.step, blow, &results)))
}

/// Says so with `-v`: that nothing is meant is no failure.
fn none_match(options: &Options) {
    if options.on("verbose") {
        let none = "scancel: error: No active jobs match ALL job filters";
        output::complain(&[none.to_owned()]);
    }
}

/// Filters that the controller does not know.
fn needs_looking(options: &Options) -> bool {
    ["qos", "reservation", "wckey"]
        .iter()
        .any(|long| options.on(long))
}

/// The jobs that pass every filter and, with `-i`, that the user agrees to; and those that were named and are over already.
fn confirmed(options: &Options, target: &Target) -> Result<(Vec<JobTarget>, Over), Trouble> {
    let mut filter = target.filter.clone();
    let named = !filter.targets.is_empty();
    filter.all_states |= named && filter.states.is_empty();
    let Reply::Jobs(jobs) = link::question(&Request::Jobs { filter })? else {
        return Err(link::unexpected());
    };
    let among = |long: &str, own: &str| {
        let list = options.value(long).map(filter::list);
        list.is_none_or(|list| list.iter().any(|one| one == own))
    };
    let (mut chosen, mut over) = (Vec::new(), Vec::new());
    for job in jobs {
        if job.state.is_terminal() {
            let refusal = Refusal {
                kind: RefusalKind::AlreadyDone,
                text: String::new(),
            };
            over.extend(named.then_some((job.id, Some(refusal))));
            continue;
        }
        let extras = job.spec.extras();
        let meant = among("qos", &job.spec.qos)
            && among("reservation", &extras.reservation)
            && among("wckey", &extras.wckey);
        let question = || {
            let (name, partition) = (&job.spec.name, &job.spec.partition);
            let what = match target.step {
                Some(step) => format!("step_id={}", StepId { job: job.id, step }),
                None => format!("job_id={}", JobTarget::of(&job)),
            };
            agreed(&format!(
                "Cancel {what} name={name} partition={partition} [y/n]? "
            ))
        };
        if meant && (!options.on("interactive") || question()) {
            chosen.push(JobTarget::of(&job));
        }
    }
    Ok((chosen, over))
}

fn agreed(question: &str) -> bool {
    output::print(question);
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer).is_ok();
    std::io::stdout().flush().is_ok() && read && answer.trim_start().starts_with(['y', 'Y'])
}

/// Says what came of it. Jobs that are not there or have ended are mentioned only with `-v` or `-i`, and are no failure.
fn report(
    options: &Options,
    step: Option<StepKind>,
    blow: Blow,
    results: &[(JobId, Option<Refusal>)],
) -> u8 {
    let mut code = 0;
    for (job, refusal) in results {
        let what = match step {
            Some(step) => format!("step {}", StepId { job: *job, step }),
            None => format!("job {job}"),
        };
        if options.on("verbose") {
            let said = match blow.signal {
                None => format!("scancel: Terminating {what}"),
                Some(signal) => {
                    let part = match blow.part {
                        Part::Full => "full ",
                        Part::Batch => "batch ",
                        Part::Steps => "",
                    };
                    format!("scancel: Signal {signal} to {part}{what}")
                }
            };
            output::complain(&[said]);
        }
        let Some(refusal) = refusal else { continue };
        // Who names a step means it to be there.
        let nothing = refusal.kind == RefusalKind::InvalidJobId && step.is_none();
        let over = [RefusalKind::AlreadyDone, RefusalKind::JobFinished];
        let mild = nothing || over.contains(&refusal.kind);
        if !mild {
            code = 1;
        }
        let told = !mild || options.on("interactive");
        if (told && !options.on("quiet")) || options.on("verbose") {
            let of = if step.is_some() {
                "job step id"
            } else {
                "job id"
            };
            let id = what.split(' ').next_back().unwrap_or_default();
            let text = refusal_text(refusal);
            output::complain(&[format!(
                "scancel: error: Kill job error on {of} {id}: {text}"
            )]);
        }
    }
    code
}

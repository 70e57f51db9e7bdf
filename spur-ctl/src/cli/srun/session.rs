//! A step from its start to its end, seen from srun.

mod begin;
mod due;
mod hear;
mod mpi;
mod screen;
mod watch;

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::super::link;
use super::super::resolve::input::Surroundings;
use super::files::{Feed, Sink, Streams};
use super::grant::Granted;
use super::hooks::{self, Hooks};
use super::interrupt::{Answer, Interrupts};
use super::label::Labels;
use super::printer::{self, Printer};
use super::programs::{self, Programs};
use super::signals::{CONT, INT, KILL, TERM, WINCH};
use super::tasks::Tasks;
use super::terminal::Terminal;
use super::wire::{self, Link};
use super::{err, say, stdin, verbose, words};
use begin::{Begun, begin};
pub use begin::{check, work_dir};
use due::Due;
use spur_core::api::{Grant, JobFilter, Request};
use spur_core::id::{JobId, StepKind};
use spur_core::job::state::{ExitStatus, JobState};
use spur_core::pmi::step::Exchange;
use spur_core::pmix::step::Hub;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use watch::Vigil;

/// How long after a request to end the step srun still waits for it: Slurm's `KillWait` and two seconds.
const END_WAIT: Duration = Duration::from_secs(32);
/// How long a last word to the controller may take.
const LAST_WORD: Duration = Duration::from_secs(5);
/// How long srun waits for the controller to hear of the job's end from its nodes.
const SETTLE: Duration = Duration::from_secs(2);

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Starting,
    Running,
    Done,
}

/// The state of a step.
struct Session<'a> {
    options: &'a Options,
    grant: &'a Grant,
    own_job: bool,
    tasks: Tasks,
    nodes: Vec<Node>,
    links: Vec<Link>,
    /// By node: where what it says goes.
    outlets: Vec<usize>,
    printers: Vec<Printer>,
    /// Told when nobody reads srun's standard output any more.
    gone: Arc<Notify>,
    labels: Option<Labels>,
    /// By outlet, of standard output and error: only this task's is shown.
    only: Vec<[Option<u32>; 2]>,
    interrupts: Interrupts,
    due: Due,
    kill_on_bad_exit: bool,
    /// What the tasks of an MPI program have in common.
    mpi: Exchange,
    pmix: Hub,
    /// `--wait`, until the first task ends; then how long that was.
    wait: Option<Duration>,
    waited: Duration,
    /// Something went wrong besides the tasks themselves.
    failed: bool,
    /// Nothing of the step could be started on some node.
    unlaunched: bool,
    ending: bool,
    /// The user has forced it to end.
    forced: bool,
    /// The nodes' last word is waited for no longer.
    given_up: bool,
    /// That it is ended from outside was said.
    aborted: bool,
    cancelled: bool,
    /// srun's own, while a task has one.
    terminal: Option<Terminal>,
}

/// Runs the step; the answer is srun's exit code.
pub async fn run(
    (parts, programs): (&[Options], Vec<Option<Programs>>),
    here: &Surroundings,
    mut granted: Granted,
) -> Result<u8, Failure> {
    let own_job = granted.own_job;
    let options = &parts[0];
    // Whatever fails here, the job or step that was granted does not stay behind.
    let hooks: Vec<Hooks> = parts.iter().map(|part| hooks::find(part, here)).collect();
    let (mut vigil, begun) = match start((parts, &hooks), here, &mut granted).await {
        Ok(Some(started)) => started,
        Ok(None) => {
            abandon(&granted).await;
            return Ok(1);
        }
        Err(failure) => {
            abandon(&granted).await;
            return Err(failure);
        }
    };
    let Begun {
        streams,
        outlet,
        opens,
        terminal,
    } = begun;
    let Granted {
        grant,
        parts: of_node,
        ..
    } = granted;
    let programs = programs::number(programs, &grant, &of_node);
    let (links, mut inbox) = wire::connect(&grant, (&opens, &programs), &of_node);
    let outlets: Vec<usize> = of_node.iter().map(|part| outlet[*part]).collect();
    let mut session = Session::new(options, &grant, own_job, links);
    session.terminal = terminal;
    let shares = |streams: &Streams| matches!(streams.stdin, Feed::All | Feed::Task(_));
    let shares: Vec<bool> = streams.iter().map(shares).collect();
    for (at, streams) in streams.into_iter().enumerate() {
        if let Err(why) = session.outlet(&streams) {
            drop_step(&grant, own_job).await;
            return Err(Failure::error(Command::Srun, why));
        }
        // One outlet's input is srun's own; others may have a file of their own.
        if at == 0 || matches!(streams.stdin, Feed::File(_)) {
            let links = session.links.iter().zip(&outlets);
            let fed = |outlet: usize| outlet == at || at == 0 && shares[outlet];
            let links = links.filter(|(_, outlet)| fed(**outlet));
            let links = links.map(|(link, _)| link.clone()).collect();
            stdin::pump(streams.stdin, links, None);
        }
    }
    session.outlets = outlets;
    words::start();
    session.announce();
    super::tell_topology(options).await;
    session.follow(&mut inbox, &mut vigil).await;
    vigil.watch_no_more();
    let code = session.finish(&mut vigil).await;
    let after = vigil.during(hooks[0].after(options, &grant)).await;
    vigil.written(Vec::new(), after.is_err()).await;
    Ok(code)
}

/// What comes before the step; `None` if that wants no step, or nobody wants it any more.
async fn start(
    (parts, hooks): (&[Options], &[Hooks]),
    here: &Surroundings,
    granted: &mut Granted,
) -> Result<Option<(Vigil, Begun)>, Failure> {
    let (job, step) = (granted.grant.job.id, granted.grant.step);
    let vigil = Vigil::start(job).map_err(|why| Failure::error(Command::Srun, why));
    let mut vigil = vigil?;
    let before = async {
        let grant = &granted.grant;
        let files = begin::open_files(parts, here, grant).await?;
        let which = (grant, granted.parts.as_slice());
        let begun = begin((parts, hooks), here, which, granted.own_job, files)?;
        if !hooks[0].before(&parts[0], grant).await {
            return Ok(None);
        }
        granted.renew().await;
        Ok(Some(begun))
    };
    match vigil.during(before).await {
        Ok(begun) => Ok(begun?.map(|begun| (vigil, begun))),
        Err(why) => {
            err(format_args!("StepId={step} was not launched: {why}"));
            Ok(None)
        }
    }
}

/// A step that will not be started must not keep its job waiting.
async fn give_up(grant: &Grant, own_job: bool) {
    if own_job {
        let exit = ExitStatus { code: 1, signal: 0 };
        let request = Request::Finish {
            job: grant.job.id,
            exit,
        };
        // The controller notices by itself, later, if this does not reach it.
        tokio::time::timeout(LAST_WORD, link::ask(&request))
            .await
            .ok();
    }
}

/// Ends a step that was granted and is not wanted any more, and a job of srun's own.
pub async fn abandon(granted: &Granted) {
    drop_step(&granted.grant, granted.own_job).await;
}

async fn drop_step(grant: &Grant, own_job: bool) {
    if own_job {
        return give_up(grant, own_job).await;
    }
    cancelled(grant.job.id, Some(grant.step.step)).await;
}

/// Ends a job that is waited for no longer.
pub async fn cancel(job: JobId) {
    cancelled(job, None).await;
}

async fn cancelled(job: JobId, step: Option<StepKind>) {
    let request = Request::Cancel {
        filter: JobFilter {
            ids: vec![job],
            ..JobFilter::default()
        },
        signal: None,
        batch_only: false,
        step,
        children: false,
    };
    // The controller ends what nobody waits for by itself, later, if this does not reach it.
    tokio::time::timeout(LAST_WORD, link::ask(&request))
        .await
        .ok();
}

/// Lets the controller learn of the end first, so that whoever looks after srun has ended does not see the job running.
/// A controller that is away is not waited for: it hears of the end from the nodes when it is back.
async fn settle(grant: &Grant) {
    let request = Request::AwaitEnd { job: grant.job.id };
    tokio::time::timeout(SETTLE, link::ask(&request)).await.ok();
}

fn kill_on_bad_exit(options: &Options) -> bool {
    options
        .last("kill-on-bad-exit")
        .is_some_and(|given| given.value.as_deref() != Some("0"))
}

impl<'a> Session<'a> {
    fn new(options: &'a Options, grant: &'a Grant, own_job: bool, links: Vec<Link>) -> Self {
        let nodes: Vec<_> = grant
            .nodes
            .iter()
            .map(|node| (node.name.to_string(), node.task_ids.clone()))
            .collect();
        let count: usize = nodes.iter().map(|(_, ids)| ids.len()).sum();
        let labels = options
            .on("label")
            .then(|| Labels::new(u32::try_from(count).unwrap_or(u32::MAX)));
        Self {
            options,
            grant,
            own_job,
            tasks: Tasks::new(grant.step, &nodes),
            nodes: vec![Node::Starting; nodes.len()],
            links,
            outlets: Vec::new(),
            printers: Vec::new(),
            gone: Arc::new(Notify::new()),
            labels,
            only: Vec::new(),
            interrupts: Interrupts::new(
                options.on("disable-status"),
                options.on("quit-on-interrupt"),
            ),
            due: Due::default(),
            kill_on_bad_exit: kill_on_bad_exit(options),
            mpi: Exchange::new(grant.nodes.len()),
            pmix: Hub::new(nodes.iter().map(|(_, ids)| ids.clone()).collect()),
            // It was read before the job was asked for.
            wait: wait(options).unwrap_or_default(),
            waited: Duration::ZERO,
            failed: false,
            unlaunched: false,
            ending: false,
            forced: false,
            given_up: false,
            aborted: false,
            cancelled: false,
            terminal: None,
        }
    }

    /// One more place where output may go.
    fn outlet(&mut self, streams: &Streams) -> std::io::Result<()> {
        let printer = Printer::new(&streams.stdout, &streams.stderr, &self.gone)?;
        self.printers.push(printer);
        self.only
            .push([&streams.stdout, &streams.stderr].map(|sink| match sink {
                Sink::OwnOf(task) => Some(*task),
                Sink::Own | Sink::File(_) | Sink::WithStdout | Sink::Remote(_) => None,
            }));
        Ok(())
    }

    fn announce(&self) {
        let grant = self.grant;
        let names: Vec<&str> = grant.nodes.iter().map(|node| node.name.as_str()).collect();
        let list = spur_core::slurm::hostlist::compress(&names);
        if self.own_job {
            verbose(self.options, format_args!("Nodes {list} are ready for job"));
        }
        let cpus = grant.nodes.iter().map(|node| {
            let of_job = grant.job.nodes.iter().find(|held| held.name == node.name);
            of_job.map_or(0, |held| held.share.cpus.len())
        });
        let cpus: Vec<u32> = cpus.collect();
        let counts: Vec<String> = cpus
            .chunk_by(|a, b| a == b)
            .map(|run| format!("{}(x{})", run[0], run.len()))
            .collect();
        verbose(
            self.options,
            format_args!(
                "jobid {}: nodes({}):`{list}', cpu counts: {}",
                grant.job.id,
                names.len(),
                counts.join(",")
            ),
        );
        verbose(self.options, "CpuBindType=(null type)");
        for node in &grant.nodes {
            let ids: spur_core::resources::IdSet = node.task_ids.iter().copied().collect();
            verbose(
                self.options,
                format_args!(
                    "launching StepId={} on host {}, {} tasks: {ids}",
                    grant.step,
                    node.name,
                    ids.len()
                ),
            );
        }
    }

    fn over(&self) -> bool {
        self.nodes.iter().all(|node| *node == Node::Done)
    }

    /// A signal came for srun.
    async fn signal(&mut self, number: u8) {
        let step = self.grant.step;
        match number {
            INT => match self.interrupts.next(Instant::now()) {
                Answer::Show => {
                    say(self.options, "interrupt (one more within 1 sec to abort)");
                    for line in self.tasks.states() {
                        say(self.options, line);
                    }
                }
                answer @ (Answer::Pass | Answer::End) => {
                    say(
                        self.options,
                        format_args!("sending Ctrl-C to StepId={step}"),
                    );
                    self.pass(INT).await;
                    if answer == Answer::End {
                        self.force_end().await;
                    }
                }
            },
            1 | 3 | TERM => self.force_end().await,
            CONT => {
                say(self.options, "got SIGCONT");
                self.on_terminal();
                self.pass(CONT).await;
            }
            WINCH => self.resized(),
            other => self.pass(other).await,
        }
    }

    /// Kills the tasks, as Slurm's srun does, and gives the nodes time to say so.
    async fn force_end(&mut self) {
        let word = if self.forced {
            "job abort in progress"
        } else {
            "forcing job termination"
        };
        say(self.options, word);
        (self.forced, self.ending) = (true, true);
        let now = Instant::now();
        self.due.give_up = Some(now + END_WAIT);
        self.due.unread.get_or_insert(now + printer::LAST_PRINT);
        self.aborted();
        self.pass(KILL).await;
    }

    /// Sends a signal to all tasks: straight to the nodes, or through the controller where input stands in the way.
    async fn pass(&self, number: u8) {
        let mut blocked = false;
        for (link, node) in self.links.iter().zip(&self.nodes) {
            blocked |= *node != Node::Done && !link.signal(number);
        }
        if blocked {
            let request = Request::Cancel {
                filter: JobFilter {
                    ids: vec![self.grant.job.id],
                    ..JobFilter::default()
                },
                signal: Some(number),
                batch_only: false,
                step: Some(self.grant.step.step),
                children: false,
            };
            tokio::time::timeout(LAST_WORD, link::ask(&request))
                .await
                .ok();
        }
    }

    /// Asks the tasks to end, and gives them time. A second call kills.
    async fn end(&mut self) {
        if self.ending {
            return self.pass(KILL).await;
        }
        self.ending = true;
        self.due.give_up = Some(Instant::now() + END_WAIT);
        self.pass(CONT).await;
        self.pass(TERM).await;
    }

    /// The controller says that the job is over. What the nodes still have to say may take its time.
    fn job_ended(&mut self, state: JobState) {
        let cut_short = matches!(
            state,
            JobState::Cancelled | JobState::Timeout | JobState::NodeFail
        );
        if cut_short && !self.ending {
            self.aborted();
        }
        let until = Instant::now() + END_WAIT;
        self.due.give_up = Some(self.due.give_up.map_or(until, |at| at.min(until)));
    }

    /// Says once that the step is ended from outside.
    fn aborted(&mut self) {
        if std::mem::replace(&mut self.aborted, true) {
            return;
        }
        say(
            self.options,
            format_args!(
                "Job step aborted: Waiting up to {} seconds for job step to finish.",
                END_WAIT.as_secs()
            ),
        );
    }

    /// Last words, and the exit code.
    async fn finish(mut self, vigil: &mut Vigil) -> u8 {
        // What the task printed last is still printed as it is, by the printers: only keys mean again what they did.
        drop(self.terminal.take());
        self.report();
        if self.tasks.any_killed() {
            say(
                self.options,
                format_args!("Force Terminated StepId={}", self.grant.step),
            );
        } else if self.own_job && self.cancelled {
            say(
                self.options,
                format_args!("Force Terminated JobId={}", self.grant.job.id),
            );
        }
        if self.unlaunched {
            drop_step(self.grant, self.own_job).await;
        } else if self.own_job {
            settle(self.grant).await;
        }
        let code = self.tasks.exit_code().max(u8::from(self.failed));
        let told = self.forced || self.given_up;
        vigil.written(self.printers, told).await;
        code
    }
}

/// `--wait`: 0 and absent mean for ever.
fn wait(options: &Options) -> Result<Option<Duration>, Failure> {
    let seconds = super::super::resolve::numbers::number(options, "wait", 0)?.unwrap_or(0);
    Ok((seconds > 0).then(|| Duration::from_secs(seconds.into())))
}

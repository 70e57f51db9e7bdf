//! The whole interface of the controller behind one call: what a caller may do, within which bounds. Queries are answered from
//! the published view; everything else goes to the writer.

mod bounds;
mod counts;
mod cron;
mod denials;
mod manage;
mod owners;
mod queries;
mod state;
mod usage;
mod why;

use crate::denials::Denials;
use crate::driver::{Act, Answer, Ask, Asked, Await, Command, Input, Watch};
use crate::front::auth::Users;
use crate::readers::Readers;
use crate::usage::Usage;
use owners::{each_owned, joined, mine, owned, targets};
use spur_core::api::{Caller, Refusal, RefusalKind, Reply, Request};
use spur_core::id::{JobId, NodeName, Uid};
use spur_core::job::spec::{JobKind, JobSpec, Payload};
use spur_core::job::state::JobState;
use spur_core::job::step::StepSpec;
use spur_core::mesh::MeshAsk;
use spur_core::time::Millis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};

pub use manage::Settings;

/// The controller stops: the call was not answered, and may be repeated with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller stops")]
pub struct Stopped;

/// The service.
#[derive(Debug)]
pub struct Service {
    inbox: mpsc::Sender<Input>,
    readers: Arc<Readers>,
    denials: Arc<Denials>,
    usage: Arc<Usage>,
    followers: denials::Followers,
    reads: state::Reads,
    users: Users,
    settings: Arc<Settings>,
    counts: counts::Counts,
    calls: AtomicU64,
    host: String,
    started: Millis,
    shutdown: Arc<Notify>,
}

fn refuse(kind: RefusalKind, text: impl Into<String>) -> Refusal {
    Refusal {
        kind,
        text: text.into(),
    }
}

fn operators_only(caller: &Caller) -> Result<(), Refusal> {
    if caller.operator {
        Ok(())
    } else {
        Err(refuse(RefusalKind::AccessDenied, ""))
    }
}

impl Service {
    /// A service over the writer's parts. `shutdown` is notified when an operator wants the controller to stop.
    pub fn new(
        inbox: mpsc::Sender<Input>,
        readers: Arc<Readers>,
        denials: Arc<Denials>,
        usage: Arc<Usage>,
        users: Users,
        settings: Arc<Settings>,
        shutdown: Arc<Notify>,
    ) -> Self {
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let (calls, started) = (AtomicU64::new(0), crate::driver::now());
        Self {
            inbox,
            readers,
            denials,
            usage,
            followers: denials::Followers::default(),
            reads: state::Reads::default(),
            users,
            settings,
            counts: counts::Counts::default(),
            calls,
            host,
            started,
            shutdown,
        }
    }

    /// The user database.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Whether a job of the user runs on the node, as the published view has it.
    pub fn runs_on(&self, user: Uid, node: &NodeName) -> bool {
        let view = self.readers.view();
        let of_user = |job: &JobId| {
            let job = view.job(*job);
            job.is_some_and(|job| job.spec.owner.uid == user && job.state == JobState::Running)
        };
        let node = view.node_named(node);
        node.is_some_and(|node| node.node.jobs.iter().any(of_user))
    }

    /// Carries out a request. Dropping the future gives up the wait.
    pub async fn call(&self, caller: Caller, request: Request) -> Result<Answer, Stopped> {
        let counting = self.counts.begin(&caller, &request);
        let decided = match bounds::check(&request) {
            Ok(()) => self.decide(&caller, request).await,
            Err(refusal) => Err(refusal),
        };
        let answer = match decided {
            Ok(Decided::Reply(reply)) => Ok(Ok(reply)),
            Ok(Decided::Ask(command)) => self.ask(caller, command).await,
            Err(refusal) => Ok(Err(refusal)),
        };
        self.counts.end(counting);
        answer
    }

    async fn ask(&self, caller: Caller, command: Command) -> Result<Answer, Stopped> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let ask = Input::Ask(Box::new(Ask {
            call,
            caller,
            command,
            reply,
        }));
        match self.inbox.try_send(ask) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Ok(Err(refuse(RefusalKind::Busy, "too many requests wait")));
            }
            Err(TrySendError::Closed(_)) => return Err(Stopped),
        }
        let watch = Watch::new(call, self.inbox.clone());
        let answer = answer.await;
        watch.answered();
        answer.map_err(|_| Stopped)
    }

    /// Who may do what: the one table. What is not allowed is refused here.
    #[expect(
        clippy::too_many_lines,
        reason = "one table: an arm for each kind of request"
    )]
    async fn decide(&self, caller: &Caller, request: Request) -> Result<Decided, Refusal> {
        let view = self.readers.view();
        let own = |job| owned(&view, caller, job);
        let each = |jobs| each_owned(&view, caller, jobs);
        Ok(match request {
            Request::Ping => self.pong(&view).into(),
            Request::Jobs { filter } => queries::jobs(&view, caller, &filter)?.into(),
            Request::JobLines { filter, folded } => {
                queries::lines(&view, caller, &filter, folded).into()
            }
            Request::Nodes => queries::nodes(&view).into(),
            Request::Partitions => queries::partitions(&view).into(),
            Request::Topology => queries::topology(&view).into(),
            Request::Configuration => self.configuration(&view).into(),
            Request::Stats => queries::stats(&view, &self.usage, &self.counts).into(),
            Request::Denials {
                job,
                limit,
                after,
                alarms,
                wait,
            } => {
                let wanted = denials::Wanted {
                    job,
                    limit,
                    after,
                    alarms,
                };
                self.denials(caller, &wanted, wait).await?.into()
            }
            Request::DenialRows { job } => self.denial_rows(&view, own(job)?).into(),
            Request::Submit { spec, payload } => self.submit(caller, spec, payload).await?.into(),
            Request::Run {
                spec,
                step,
                immediate,
            } => self.run(caller, spec, step, immediate).await?.into(),
            Request::SubmitHet { specs, payload } => {
                self.submit_het(caller, specs, payload).await?.into()
            }
            Request::RunHet {
                mut specs,
                steps,
                immediate,
            } => {
                for spec in &mut specs {
                    self.own(caller, spec, JobKind::Run).await?;
                }
                let run = Await::RunHet {
                    specs,
                    steps,
                    immediate,
                };
                run.into()
            }
            Request::StepHet {
                job,
                offsets,
                steps,
            } => {
                let parts = offsets.into_iter().zip(steps).collect();
                step(Asked::Het(mine(&view, caller, job)?, parts))
            }
            Request::AwaitAllocation { job } => Await::Allocation(own(job)?).into(),
            Request::AwaitEnd { job } => Await::End(own(job)?).into(),
            Request::AwaitCleaned { job } => Await::Cleaned(own(job)?).into(),
            Request::Step { job, step: spec } => {
                step(Asked::One(mine(&view, caller, job)?, Box::new(spec)))
            }
            Request::Attach { job, step } => Act::Attach(joined(&view, caller, job)?, step).into(),
            Request::Finish { job, exit } => Act::Finish(own(job)?, exit).into(),
            Request::Cancel {
                filter,
                signal,
                batch_only,
                step,
                children,
            } => {
                let (jobs, named) = targets(&view, caller, filter)?;
                Act::Cancel {
                    jobs,
                    named,
                    signal,
                    batch_only,
                    step,
                    children,
                }
                .into()
            }
            Request::Submission { request_id } => Act::Submission(request_id).into(),
            Request::Script { job } => Act::Script(own(job)?).into(),
            Request::Hold { jobs } => Act::Hold(each(jobs)).into(),
            Request::Release { jobs } => Act::Release(each(jobs)).into(),
            Request::Requeue { job } => Act::Requeue(own(job)?).into(),
            Request::Crontab { user } => cron::shown(&view, cron::whose(caller, user)?).into(),
            Request::SetCrontab(set) => self.set_crontab(caller, *set).await?.into(),
            Request::Control { jobs, act } => Act::Control(jobs, act).into(),
            Request::ChangeJobs { jobs, change } => {
                self.may_change(&view, caller, (&jobs, &change)).await?;
                Act::ChangeJobs(jobs, change).into()
            }
            Request::TestOnly { spec } => self.test_only(caller, spec).await?.into(),
            change @ (Request::UpdateJob { .. }
            | Request::UpdateNode { .. }
            | Request::UpdatePartition { .. }) => manage::changed(&view, caller, change)?.into(),
            Request::Usage {
                job,
                watch,
                details,
            } => self
                .usage_of(view, caller, job, (watch, details))
                .await?
                .into(),
            Request::Accounting {
                filter,
                after,
                limit,
            } => self
                .accounting(view, caller, filter, after, limit)
                .await?
                .into(),
            Request::Explain { job } => {
                why::explain(&view, caller, job, crate::driver::now())?.into()
            }
            Request::IdleGpus => usage::idle_gpus(&view, caller).into(),
            Request::Reservations => Reply::Reservations(view.reservations.to_vec()).into(),
            Request::Licenses => queries::licenses(&view).into(),
            Request::Accounts => Reply::Accounts(Box::new(view.accounts.as_ref().clone())).into(),
            Request::Manage(request) => self.manage(&view, caller, request).await?.into(),
            Request::Mesh(ask) => {
                if *ask != MeshAsk::List {
                    operators_only(caller)?;
                }
                Act::Mesh(*ask).into()
            }
            Request::ResetStats => {
                operators_only(caller)?;
                self.counts.reset();
                Act::ResetStats.into()
            }
            Request::Reconfigure => self.reconfigure(caller).await?.into(),
            Request::State => {
                operators_only(caller)?;
                self.state(caller).await?.into()
            }
            Request::Shutdown => {
                operators_only(caller)?;
                tracing::info!(uid = %caller.uid, "told to stop");
                self.shutdown.notify_one();
                Reply::Done.into()
            }
        })
    }

    async fn run(
        &self,
        caller: &Caller,
        mut spec: Box<JobSpec>,
        step: StepSpec,
        immediate: Option<u64>,
    ) -> Result<Await, Refusal> {
        self.own(caller, &mut spec, JobKind::Run).await?;
        let step = Box::new(step);
        Ok(Await::Run {
            spec,
            step,
            immediate,
        })
    }

    async fn submit(
        &self,
        caller: &Caller,
        mut spec: Box<JobSpec>,
        payload: Option<Payload>,
    ) -> Result<Act, Refusal> {
        let kind = spec.kind;
        scripted(kind, payload.is_some())?;
        self.own(caller, &mut spec, kind).await?;
        Ok(Act::Submit(spec, payload))
    }

    async fn submit_het(
        &self,
        caller: &Caller,
        mut specs: Vec<JobSpec>,
        payload: Option<Payload>,
    ) -> Result<Act, Refusal> {
        for spec in &mut specs {
            let kind = spec.kind;
            scripted(kind, payload.is_some())?;
            self.own(caller, spec, kind).await?;
        }
        Ok(Act::SubmitHet(specs, payload))
    }

    /// Makes a job the caller's, whatever the client wrote.
    async fn own(&self, caller: &Caller, spec: &mut JobSpec, kind: JobKind) -> Result<(), Refusal> {
        if spec.nice < 0 && !caller.operator {
            return Err(refuse(
                RefusalKind::AccessDenied,
                "only an operator may use a negative --nice",
            ));
        }
        // As in Slurm, what only an operator may choose counts for nothing from others.
        if let Some(extras) = spec.extras.as_mut() {
            extras.admin_comment.clear();
            extras.cron = None;
            if !caller.operator {
                extras.priority = None;
            }
        }
        // As in Slurm, only operators set a priority; anybody may hold.
        if !caller.operator && spec.extras().priority.is_some_and(|priority| priority > 0) {
            spec.extras_mut().priority = None;
        }
        spec.kind = kind;
        spec.owner = self.users.owner(caller).await;
        self.may_use(caller, spec).await
    }
}

/// A step, at once or as soon as there is room for it.
fn step(asked: Asked) -> Decided {
    if asked.is_patient() {
        Await::Step(asked).into()
    } else {
        Act::Step(asked).into()
    }
}

/// Whether a job of a kind comes with a script exactly if it needs one.
fn scripted(kind: JobKind, script: bool) -> Result<(), Refusal> {
    let wrong = match (kind, script) {
        (JobKind::Batch, true) | (JobKind::Alloc, false) => return Ok(()),
        (JobKind::Batch, false) => "a batch job needs a script",
        (JobKind::Alloc, true) => "an allocation has no script",
        (JobKind::Run, _) => "a job of this kind is not submitted but run",
    };
    Err(refuse(RefusalKind::Invalid, wrong))
}

/// What becomes of a request.
enum Decided {
    /// It is answered.
    Reply(Reply),
    /// It is for the writer.
    Ask(Command),
}

impl From<Reply> for Decided {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl From<Act> for Decided {
    fn from(act: Act) -> Self {
        Self::Ask(act.into())
    }
}

impl From<Await> for Decided {
    fn from(what: Await) -> Self {
        Self::Ask(what.into())
    }
}

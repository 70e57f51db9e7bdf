//! The whole interface of the controller behind one call: what a caller may do, within which bounds. Queries are answered from
//! the published view; everything else goes to the writer.

mod bounds;
mod queries;

use crate::denials::Denials;
use crate::driver::{Answer, Ask, Command, Input, JobChange, Watch};
use crate::front::auth::Users;
use crate::readers::{Readers, View};
use spur_core::api::{Caller, JobFilter, Refusal, RefusalKind, Reply, Request};
use spur_core::id::JobId;
use spur_core::job::spec::{JobKind, JobSpec, Payload};
use spur_core::time::Millis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};

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
    users: Users,
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
        users: Users,
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
            users,
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

    /// Carries out a request. Dropping the future gives up the wait.
    pub async fn call(&self, caller: Caller, request: Request) -> Result<Answer, Stopped> {
        let decided = match bounds::check(&request) {
            Ok(()) => self.decide(&caller, request).await,
            Err(refusal) => Err(refusal),
        };
        match decided {
            Ok(Decided::Reply(reply)) => Ok(Ok(reply)),
            Ok(Decided::Ask(command)) => self.ask(caller, command).await,
            Err(refusal) => Ok(Err(refusal)),
        }
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

    /// Who may do what. Everything else is answered or refused here.
    async fn decide(&self, caller: &Caller, request: Request) -> Result<Decided, Refusal> {
        let view = self.readers.view();
        let command = match request {
            Request::Ping
            | Request::Jobs { .. }
            | Request::Nodes
            | Request::Partitions
            | Request::Denials { .. }
            | Request::Stats => return self.query(&view, caller, request).map(Decided::Reply),
            Request::Shutdown => {
                operators_only(caller)?;
                tracing::info!(uid = %caller.uid, "told to stop");
                self.shutdown.notify_one();
                return Ok(Decided::Reply(Reply::Done));
            }
            Request::Submit { spec, payload } => self.submit(caller, spec, payload).await?,
            Request::Run {
                mut spec,
                step,
                immediate,
            } => {
                self.own(caller, &mut spec, JobKind::Run).await?;
                Command::Run {
                    spec,
                    step: Box::new(step),
                    immediate,
                }
            }
            Request::AwaitAllocation { job } => Command::AwaitAllocation {
                job: owned(&view, caller, job)?,
            },
            Request::AwaitEnd { job } => Command::AwaitEnd {
                job: owned(&view, caller, job)?,
            },
            Request::Step { job, step } => Command::Step {
                job: mine(&view, caller, job)?,
                step: Box::new(step),
            },
            Request::Finish { job, exit } => Command::Finish {
                job: owned(&view, caller, job)?,
                exit,
            },
            Request::Cancel {
                filter,
                signal,
                batch_only,
                step,
            } => Command::Cancel {
                jobs: targets(&view, caller, &filter)?,
                signal,
                batch_only,
                step,
            },
            Request::Script { job } => Command::Script {
                job: owned(&view, caller, job)?,
            },
            Request::Hold { jobs } => Command::Hold {
                jobs: each_owned(&view, caller, jobs),
            },
            Request::Release { jobs } => Command::Release {
                jobs: each_owned(&view, caller, jobs),
            },
            Request::Requeue { job } => Command::Requeue {
                job: owned(&view, caller, job)?,
            },
            Request::UpdateJob {
                job,
                time_limit,
                name,
                comment,
                partition,
                priority,
            } => {
                let change = JobChange {
                    time_limit,
                    name,
                    comment,
                    partition,
                    priority,
                };
                Command::UpdateJob {
                    job: owned(&view, caller, job)?,
                    change,
                }
            }
            Request::UpdateNode {
                nodes,
                admin,
                reason,
            } => {
                operators_only(caller)?;
                Command::UpdateNode {
                    nodes,
                    admin,
                    reason,
                }
            }
            Request::UpdatePartition { name, state } => {
                operators_only(caller)?;
                Command::UpdatePartition { name, state }
            }
        };
        Ok(Decided::Ask(command))
    }

    async fn submit(
        &self,
        caller: &Caller,
        mut spec: Box<JobSpec>,
        payload: Option<Payload>,
    ) -> Result<Command, Refusal> {
        let kind = match (spec.kind, &payload) {
            (JobKind::Batch, Some(_)) | (JobKind::Alloc, None) => spec.kind,
            (JobKind::Batch, None) => {
                return Err(refuse(RefusalKind::Invalid, "a batch job needs a script"));
            }
            (JobKind::Alloc, Some(_)) => {
                return Err(refuse(RefusalKind::Invalid, "an allocation has no script"));
            }
            (JobKind::Run, _) => {
                return Err(refuse(
                    RefusalKind::Invalid,
                    "a job of this kind is not submitted but run",
                ));
            }
        };
        self.own(caller, &mut spec, kind).await?;
        Ok(Command::Submit { spec, payload })
    }

    /// Makes a job the caller's, whatever the client wrote.
    async fn own(&self, caller: &Caller, spec: &mut JobSpec, kind: JobKind) -> Result<(), Refusal> {
        if spec.nice < 0 && !caller.operator {
            return Err(refuse(
                RefusalKind::AccessDenied,
                "only an operator may use a negative --nice",
            ));
        }
        spec.kind = kind;
        spec.owner = self.users.owner(caller).await;
        Ok(())
    }
}

/// What became of a request.
enum Decided {
    /// Answered.
    Reply(Reply),
    /// For the writer.
    Ask(Command),
}

/// A job that the caller owns, or any job for an operator.
fn owned(view: &View, caller: &Caller, job: JobId) -> Result<JobId, Refusal> {
    let row = view
        .job(job)
        .ok_or_else(|| refuse(RefusalKind::InvalidJobId, job.to_string()))?;
    let allowed = caller.operator || row.spec.owner.uid == caller.uid;
    if allowed {
        Ok(job)
    } else {
        Err(refuse(RefusalKind::AccessDenied, job.to_string()))
    }
}

/// A job that the caller owns: nobody, not even an operator, starts steps as somebody else.
fn mine(view: &View, caller: &Caller, job: JobId) -> Result<JobId, Refusal> {
    let row = view
        .job(job)
        .ok_or_else(|| refuse(RefusalKind::InvalidJobId, job.to_string()))?;
    let allowed = row.spec.owner.uid == caller.uid;
    if allowed {
        Ok(job)
    } else {
        Err(refuse(RefusalKind::AccessDenied, job.to_string()))
    }
}

fn each_owned(view: &View, caller: &Caller, jobs: Vec<JobId>) -> Vec<(JobId, Option<Refusal>)> {
    jobs.into_iter()
        .map(|job| (job, owned(view, caller, job).err()))
        .collect()
}

/// The jobs that a filter means: those named one by one, each with what stands against it; otherwise those that match, have not
/// ended and are the caller's to end.
fn targets(
    view: &View,
    caller: &Caller,
    filter: &JobFilter,
) -> Result<Vec<(JobId, Option<Refusal>)>, Refusal> {
    if filter == &JobFilter::default() {
        return Err(refuse(
            RefusalKind::Invalid,
            "no job identification provided",
        ));
    }
    if !filter.ids.is_empty() {
        let meant = |job: &JobId| {
            view.job(*job).is_none_or(|row| {
                filter.matches(row)
                    || JobFilter {
                        ids: filter.ids.clone(),
                        ..JobFilter::default()
                    } == *filter
            })
        };
        return Ok(each_owned(
            view,
            caller,
            filter.ids.iter().copied().filter(meant).collect(),
        ));
    }
    let matching = view
        .jobs
        .iter()
        .filter(|row| !row.state.is_terminal() && filter.matches(row));
    let own = matching.filter(|row| caller.operator || row.spec.owner.uid == caller.uid);
    Ok(own.map(|row| (row.id, None)).collect())
}

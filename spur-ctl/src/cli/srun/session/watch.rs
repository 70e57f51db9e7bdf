//! While a step runs: what comes from its nodes, from the user, and from the controller, which srun asks about the job.

use super::super::printer::{self, Printer};
use super::super::signals::{self, KILL};
use super::super::wire::News;
use super::{Session, due};
use crate::cli::link;
use spur_core::api::{Reply, Request};
use spur_core::id::JobId;
use spur_core::job::state::JobState;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Pause before srun watches its job at the controller, so that short jobs cost one call less. Must be well below the
/// controller's patience with owners that do not watch (30 s).
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// How much later than the end of a cancelled step its signals may come to srun.
const SIGNALS_LATE: Duration = Duration::from_millis(50);

/// Watches the job: an owner must, or the controller takes a job of its own for abandoned. Returns when the job has ended.
async fn watch(job: JobId) -> JobState {
    tokio::time::sleep(WATCH_AFTER).await;
    match link::wait_for(&Request::AwaitEnd { job }).await {
        Ok(Reply::Ended { job }) => job.state,
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

/// What is heard from the time that something is granted.
pub(super) struct Vigil {
    signals: mpsc::Receiver<u8>,
    watch: Pin<Box<dyn Future<Output = JobState>>>,
    watching: bool,
    /// The user wants no more, so that nobody is waited for who reads.
    no_more: bool,
}

impl Vigil {
    pub(super) fn start(job: JobId) -> std::io::Result<Self> {
        Ok(Self {
            signals: signals::listen()?,
            watch: Box::pin(watch(job)),
            watching: true,
            no_more: false,
        })
    }

    /// The end of the job means nothing any more.
    pub(super) fn watch_no_more(&mut self) {
        self.watching = false;
    }

    /// Does something before or after the step, unless a signal or the job's end makes that needless: why.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, String> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(signal) = self.signals.recv() => {
                    if signals::ENDING.contains(&signal) {
                        return Err(format!("srun got signal {signal}"));
                    }
                }
                _state = &mut self.watch, if self.watching => {
                    self.watching = false;
                    return Err("its job has ended".to_owned());
                }
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Waits until everything is written.
    pub(super) async fn written(&mut self, printers: Vec<Printer>, wants_no_more: bool) {
        self.no_more |= wants_no_more;
        self.no_more = printer::finish(printers, &mut self.signals, self.no_more).await;
    }
}

impl Session<'_> {
    /// Takes what comes until every node is done. What nodes say comes last, and waits while output of before has no reader.
    pub(super) async fn follow(
        &mut self,
        inbox: &mut mpsc::Receiver<(usize, News)>,
        vigil: &mut Vigil,
    ) {
        let mut read = true;
        let gone = Arc::clone(&self.gone);
        while !self.over() {
            let deadline = self.due.next();
            let full = printer::any_holds(&self.printers);
            tokio::select! {
                biased;
                Some(signal) = vigil.signals.recv() => self.signal(signal).await,
                () = due::until(deadline) => self.on_time().await,
                // As Slurm's srun, on SIGPIPE.
                () = gone.notified(), if read => {
                    read = false;
                    self.pass(KILL).await;
                }
                state = &mut vigil.watch, if vigil.watching => {
                    vigil.watching = false;
                    self.job_ended(state);
                }
                () = printer::room(&mut self.printers), if full => {}
                Some((at, news)) = inbox.recv(), if !full => self.hear(at, news).await,
            }
        }
        // Whoever cancels a job signals its script's processes, of which this is one, and its steps at the same time.
        while self.cancelled
            && let Ok(Some(signal)) = timeout(SIGNALS_LATE, vigil.signals.recv()).await
        {
            self.signal(signal).await;
        }
    }
}

//! While a step runs: what comes from its nodes, from the user, and from the controller, which srun asks about the job.

use super::super::printer;
use super::super::signals::KILL;
use super::super::wire::News;
use super::{Session, due};
use crate::cli::link;
use spur_core::api::{Grant, Reply, Request};
use spur_core::job::state::JobState;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pause before srun watches its job at the controller, so that short jobs cost one call less. Must be well below the
/// controller's patience with owners that do not watch (30 s).
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// Watches the job: an owner must, or the controller takes a job of its own for abandoned. Returns when the job has ended.
async fn watch(grant: &Grant) -> JobState {
    tokio::time::sleep(WATCH_AFTER).await;
    match link::wait_for(&Request::AwaitEnd { job: grant.job.id }).await {
        Ok(Reply::Ended { job }) => job.state,
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

impl Session<'_> {
    /// Takes what comes until every node is done. What nodes say comes last, and waits while output of before has no reader.
    pub(super) async fn follow(
        &mut self,
        inbox: &mut mpsc::Receiver<(usize, News)>,
        signals: &mut mpsc::Receiver<u8>,
    ) {
        let mut watch = std::pin::pin!(watch(self.grant));
        let (mut watching, mut read) = (true, true);
        let gone = Arc::clone(&self.gone);
        while !self.over() {
            let deadline = self.due.next();
            let full = printer::any_holds(&self.printers);
            tokio::select! {
                biased;
                Some(signal) = signals.recv() => self.signal(signal).await,
                () = due::until(deadline) => self.on_time().await,
                // As Slurm's srun, on SIGPIPE.
                () = gone.notified(), if read => {
                    read = false;
                    self.pass(KILL).await;
                }
                state = &mut watch, if watching => {
                    watching = false;
                    self.job_ended(state);
                }
                () = printer::room(&mut self.printers), if full => {}
                Some((at, news)) = inbox.recv(), if !full => self.hear(at, news).await,
            }
        }
    }
}

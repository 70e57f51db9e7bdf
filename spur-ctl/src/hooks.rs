//! Runs the operator's programs around allocations on the controller's host: Slurm's `PrologSlurmctld` and `EpilogSlurmctld`.
//!
//! Nobody waits for them but the job that they are for. A program that was running when the controller was killed is run again by the
//! next one, so that it has to bear that.

use crate::driver::Input;
use crate::programs::{self, Outcome};
use spur_core::cluster::hooks::{Hook, HookKind, Hooks};
use spur_core::id::{Generation, JobId};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Most programs that run at once.
pub(crate) const AT_ONCE: usize = 64;

/// What stands for no limit of time.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The programs of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerPrograms {
    /// Run before a job starts, in order, until one fails.
    pub prolog: Vec<PathBuf>,
    /// Run after it has left its allocation.
    pub epilog: Vec<PathBuf>,
    /// Seconds that each may take; 0: no limit.
    pub prolog_timeout: u64,
    /// Seconds that each may take; 0: no limit.
    pub epilog_timeout: u64,
}

impl ControllerPrograms {
    /// Which there are.
    #[must_use]
    pub fn hooks(&self) -> Hooks {
        Hooks {
            prolog: !self.prolog.is_empty(),
            epilog: !self.epilog.is_empty(),
        }
    }

    /// Runs what is due. What went wrong, if something did; what follows the first that failed is not run.
    async fn run(&self, hook: &Hook) -> Option<String> {
        let (all, secs) = match hook.kind {
            HookKind::Prolog => (&self.prolog, self.prolog_timeout),
            HookKind::Epilog => (&self.epilog, self.epilog_timeout),
        };
        let within = if secs == 0 {
            FOR_EVER
        } else {
            Duration::from_secs(secs)
        };
        for path in all {
            if let Some(why) = one(path, hook, within).await.trouble() {
                return Some(format!("{}: {why}", path.display()));
            }
        }
        None
    }
}

async fn one(path: &Path, hook: &Hook, within: Duration) -> Outcome {
    let env = hook
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()));
    programs::run(path, [], env, within).await
}

/// A program that is due.
#[derive(Debug)]
pub struct HookRun {
    /// For which job.
    pub job: JobId,
    /// What.
    pub hook: Hook,
}

/// How it ended.
#[derive(Debug)]
pub struct HookEnd {
    /// For which job.
    pub job: JobId,
    /// Of which placement.
    pub generation: Generation,
    /// Before or after.
    pub kind: HookKind,
    /// What went wrong, if something did.
    pub trouble: Option<String>,
}

/// Runs programs until nobody can ask for one any more. Those that run by then are killed, and are due again at the next start.
pub async fn run_all(
    programs: ControllerPrograms,
    mut due: mpsc::Receiver<HookRun>,
    writer: mpsc::Sender<Input>,
) {
    let programs = Arc::new(programs);
    let mut running = JoinSet::new();
    while let Some(HookRun { job, hook }) = due.recv().await {
        while running.try_join_next().is_some() {}
        let (programs, writer) = (Arc::clone(&programs), writer.clone());
        running.spawn(async move {
            let trouble = programs.run(&hook).await;
            if let Some(why) = &trouble {
                tracing::warn!(%job, kind = ?hook.kind, "a program around the job failed: {why}");
            }
            let ended = HookEnd {
                job,
                generation: hook.generation,
                kind: hook.kind,
                trouble,
            };
            writer.send(Input::Hook(ended)).await.ok();
        });
    }
}

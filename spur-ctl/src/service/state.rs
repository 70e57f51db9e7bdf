//! The whole state for operators' questions about the future. The writer only copies it; encoding it is left to a thread that may
//! take its time.

use super::{Service, refuse};
use crate::driver::Act;
use spur_core::api::{Caller, Refusal, RefusalKind, Reply};
use spur_core::job::spec::JobSpec;
use spur_core::plan::would;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Reads of the state at one time: each needs as much memory as the writer's own, and more.
const READS: usize = 1;

/// Whose turn it is to read the state.
#[derive(Debug)]
pub(super) struct Reads(Arc<Semaphore>);

impl Default for Reads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(READS)))
    }
}

impl Service {
    /// When and where a job would start, worked out on a copy of the state by a thread that may take its time.
    pub(super) async fn test_only(
        &self,
        caller: &Caller,
        mut spec: Box<JobSpec>,
    ) -> Result<Reply, Refusal> {
        let kind = spec.kind;
        self.own(caller, &mut spec, kind).await?;
        let busy = |why: &str| refuse(RefusalKind::Busy, why);
        let stops = |_| busy("the controller stops");
        let turn = Arc::clone(&self.reads.0).acquire_owned();
        let turn = turn.await.map_err(|_| busy("the controller stops"))?;
        let (tell, told) = oneshot::channel();
        let asked = self.ask(caller.clone(), Act::State(tell).into()).await;
        asked.map_err(|stopped| busy(&stopped.to_string()))??;
        let (at, mut cluster) = told.await.map_err(stops)?;
        let work = move || {
            let _turn = turn;
            would::would_start(&mut cluster, *spec, at)
        };
        let done = tokio::task::spawn_blocking(work).await;
        let would = done.unwrap_or_else(|_| Err(busy("it could not be worked out")))?;
        Ok(Reply::WouldStart(Box::new(would)))
    }

    /// The state as it stands.
    pub(super) async fn state(&self, caller: &Caller) -> Result<Reply, Refusal> {
        let busy = |why: &str| refuse(RefusalKind::Busy, why);
        let Ok(turn) = Arc::clone(&self.reads.0).try_acquire_owned() else {
            return Err(busy("somebody else reads the state now: try again"));
        };
        let (tell, told) = oneshot::channel();
        let asked = self.ask(caller.clone(), Act::State(tell).into()).await;
        asked.map_err(|stopped| busy(&stopped.to_string()))??;
        let state = told.await.map_err(|_| busy("the controller stops"))?;
        let work = move || {
            let _turn = turn;
            rmp_serde::to_vec_named(&state).map_err(|error| error.to_string())
        };
        let done = tokio::task::spawn_blocking(work).await;
        match done.unwrap_or_else(|_| Err("the state could not be encoded".to_owned())) {
            Ok(bytes) => Ok(Reply::State(bytes)),
            Err(why) => Err(refuse(RefusalKind::Invalid, why)),
        }
    }
}

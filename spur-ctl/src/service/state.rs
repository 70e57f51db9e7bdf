//! The whole state for operators' questions about the future. It is read from the database by a connection of its own, on a
//! thread that may wait, so that neither the writer nor a reader of views notices.

use super::refuse;
use crate::store::peek::peek;
use spur_core::api::{Refusal, RefusalKind, Reply};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Reads of the state at one time: each may need as much memory as the writer's own.
const READS: usize = 1;

/// Where the state is kept.
#[derive(Debug)]
pub struct State {
    database: PathBuf,
    reads: Arc<Semaphore>,
}

impl State {
    /// The state in this database.
    pub fn of(database: PathBuf) -> Self {
        Self {
            database,
            reads: Arc::new(Semaphore::new(READS)),
        }
    }

    /// The state as it was last durable.
    pub(super) async fn read(&self) -> Result<Reply, Refusal> {
        let Ok(turn) = Arc::clone(&self.reads).try_acquire_owned() else {
            return Err(refuse(
                RefusalKind::Busy,
                "somebody else reads the state now: try again",
            ));
        };
        let database = self.database.clone();
        let work = move || {
            let _turn = turn;
            let loaded = peek(&database).map_err(|error| error.to_string())?;
            let (cluster, at) = loaded.replay();
            rmp_serde::to_vec_named(&(at, cluster)).map_err(|error| error.to_string())
        };
        let done = tokio::task::spawn_blocking(work).await;
        match done.unwrap_or_else(|_| Err("reading the state failed".to_owned())) {
            Ok(bytes) => Ok(Reply::State(bytes)),
            Err(why) => Err(refuse(RefusalKind::NotDurable, why)),
        }
    }
}

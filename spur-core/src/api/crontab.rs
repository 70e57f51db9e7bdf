//! What `scrontab` asks for.

use crate::id::Uid;
use crate::job::spec::{JobSpec, Payload};
use serde::{Deserialize, Serialize};

/// A crontab to keep in place of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetCrontab {
    /// Whose; `None`: the caller's. Anybody's for root.
    pub user: Option<Uid>,
    /// As written; `None`: none.
    pub table: Option<String>,
    /// What each entry asks for; with [`crate::job::extras::Extras::cron`].
    pub specs: Vec<JobSpec>,
    /// The script of each.
    pub payloads: Vec<Payload>,
}

//! Requests counted by kind and by user, with Slurm's names and numbers for the kinds, for `sdiag`.

use spur_core::api::{Caller, Request, RequestCount, Stats};
use spur_core::job::change::JobAct;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Most users that are counted apart; further ones are not.
const USERS_MAX: usize = 10_000;

/// How many, and microseconds.
type Sum = (u64, u64);

#[derive(Debug, Default)]
struct Sums {
    kinds: BTreeMap<(u32, &'static str), Sum>,
    users: BTreeMap<u32, Sum>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Counts {
    sums: Mutex<Sums>,
}

/// A request that is being answered.
pub(super) struct Counting {
    kind: (u32, &'static str),
    uid: u32,
    /// `None` where the answer waits for something.
    since: Option<Instant>,
}

impl Counts {
    /// A request came.
    pub(super) fn begin(&self, caller: &Caller, request: &Request) -> Counting {
        let (kind, waits) = kind(request);
        Counting {
            kind,
            uid: caller.uid.0,
            since: (!waits).then(Instant::now),
        }
    }

    /// It was answered.
    pub(super) fn end(&self, counting: Counting) {
        let took = counting
            .since
            .map_or(0, |since| since.elapsed().as_micros());
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let add = |sum: &mut Sum| *sum = (sum.0 + 1, sum.1.saturating_add(took));
        add(sums.kinds.entry(counting.kind).or_default());
        if sums.users.len() < USERS_MAX || sums.users.contains_key(&counting.uid) {
            add(sums.users.entry(counting.uid).or_default());
        }
    }

    /// Begins anew.
    pub(super) fn reset(&self) {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner) = Sums::default();
    }

    /// Fills in what was counted.
    pub(super) fn tell(&self, stats: &mut Stats) {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |id: u32, name: &str, (count, micros): Sum| RequestCount {
            id,
            name: name.to_owned(),
            count,
            micros,
        };
        let kinds = sums.kinds.iter();
        stats.requests = kinds
            .map(|((id, name), sum)| row(*id, name, *sum))
            .collect();
        stats.requesters = sums
            .users
            .iter()
            .map(|(uid, sum)| row(*uid, "", *sum))
            .collect();
    }
}

/// Slurm's number and name of the kind, and whether the answer waits for something. What Slurm does not have has numbers from
/// 9000 on.
fn kind(request: &Request) -> ((u32, &'static str), bool) {
    let kind = match request {
        Request::Ping => (1008, "REQUEST_PING"),
        Request::Submit { .. } => (4003, "REQUEST_SUBMIT_BATCH_JOB"),
        Request::SubmitHet { .. } => (4027, "REQUEST_SUBMIT_BATCH_HET_JOB"),
        Request::RunHet { .. } => return ((4025, "REQUEST_HET_JOB_ALLOCATION"), true),
        Request::Run { .. } => return ((4001, "REQUEST_RESOURCE_ALLOCATION"), true),
        Request::AwaitAllocation { .. } => return ((4019, "REQUEST_JOB_READY"), true),
        Request::AwaitEnd { .. } | Request::AwaitCleaned { .. } => {
            return ((9001, "SPUR_AWAIT_END"), true);
        }
        Request::Step { .. } | Request::StepHet { .. } => (5001, "REQUEST_JOB_STEP_CREATE"),
        Request::Attach { .. } => (5021, "REQUEST_STEP_LAYOUT"),
        Request::Submission { .. } => (9008, "SPUR_SUBMISSION"),
        Request::Finish { .. } => (5017, "REQUEST_COMPLETE_JOB_ALLOCATION"),
        Request::Cancel { step: Some(_), .. } => (5005, "REQUEST_CANCEL_JOB_STEP"),
        Request::Cancel { .. } => (5032, "REQUEST_KILL_JOB"),
        Request::Jobs { filter } if filter.ids.len() == 1 => (2021, "REQUEST_JOB_INFO_SINGLE"),
        Request::Jobs { .. } | Request::JobLines { .. } => (2003, "REQUEST_JOB_INFO"),
        Request::Nodes => (2007, "REQUEST_NODE_INFO"),
        Request::Partitions => (2009, "REQUEST_PARTITION_INFO"),
        Request::Topology => (2018, "REQUEST_TOPO_INFO"),
        Request::Configuration => (2001, "REQUEST_BUILD_INFO"),
        Request::Crontab { .. } => (2200, "REQUEST_CRONTAB"),
        Request::SetCrontab(_) => (2202, "REQUEST_UPDATE_CRONTAB"),
        Request::Script { .. } => (2051, "REQUEST_BATCH_SCRIPT"),
        Request::Hold { .. }
        | Request::Release { .. }
        | Request::UpdateJob { .. }
        | Request::ChangeJobs { .. } => (3001, "REQUEST_UPDATE_JOB"),
        Request::Control { act, .. } => controlled(*act),
        Request::TestOnly { .. } => (4012, "REQUEST_JOB_WILL_RUN"),
        Request::Requeue { .. } => (5023, "REQUEST_JOB_REQUEUE"),
        Request::UpdateNode { .. } => (3002, "REQUEST_UPDATE_NODE"),
        Request::UpdatePartition { .. } => (3005, "REQUEST_UPDATE_PARTITION"),
        Request::Manage(request) => managed(request),
        Request::Licenses => (2031, "REQUEST_LICENSE_INFO"),
        Request::Reservations => (2024, "REQUEST_RESERVATION_INFO"),
        Request::Accounts => (2022, "REQUEST_SHARE_INFO"),
        Request::Stats => (2035, "REQUEST_STATS_INFO"),
        Request::ResetStats => (2034, "REQUEST_STATS_RESET"),
        Request::Reconfigure => (1003, "REQUEST_RECONFIGURE"),
        Request::Shutdown => (1005, "REQUEST_SHUTDOWN"),
        Request::Denials { wait: true, .. } => return ((9002, "SPUR_DENIALS"), true),
        Request::Denials { .. } | Request::DenialRows { .. } => (9002, "SPUR_DENIALS"),
        Request::Usage { .. } | Request::IdleGpus => (9003, "SPUR_USAGE"),
        Request::Accounting { .. } => (9004, "SPUR_ACCOUNTING"),
        Request::Explain { .. } => (9005, "SPUR_EXPLAIN"),
        Request::State => (9006, "SPUR_STATE"),
        Request::Mesh(_) => (9009, "SPUR_MESH"),
    };
    (kind, false)
}

fn controlled(act: JobAct) -> (u32, &'static str) {
    match act {
        JobAct::Hold | JobAct::HoldByUser | JobAct::Release => (3001, "REQUEST_UPDATE_JOB"),
        JobAct::Requeue | JobAct::RequeueHold => (5023, "REQUEST_JOB_REQUEUE"),
        JobAct::Suspend | JobAct::Resume => (5014, "REQUEST_SUSPEND"),
        JobAct::Top => (5038, "REQUEST_TOP_JOB"),
    }
}

fn managed(request: &spur_core::manage::Manage) -> (u32, &'static str) {
    use spur_core::manage::{Entity, Verb};
    match (request.entity, request.verb) {
        (Entity::Partition, Verb::Delete) => (3010, "REQUEST_DELETE_PARTITION"),
        (Entity::Partition, _) => (3005, "REQUEST_UPDATE_PARTITION"),
        (Entity::Node, _) => (3002, "REQUEST_UPDATE_NODE"),
        (Entity::Reservation, Verb::Create) => (3006, "REQUEST_CREATE_RESERVATION"),
        (Entity::Reservation, Verb::Update) => (3009, "REQUEST_UPDATE_RESERVATION"),
        (Entity::Reservation, Verb::Delete) => (3008, "REQUEST_DELETE_RESERVATION"),
        (Entity::Account | Entity::User | Entity::Qos, _) => (9007, "SPUR_ACCOUNTS"),
    }
}

//! Nodes where launches fail: left alone for a while, longer each time, forgiven after a success; and what becomes of the job.
//!
//! A bad node is the emptiest one, so without this it would get every job, fail it, and get the next (ROCm/spur#520). The rest is a
//! deadline that follows from the failure's event, so that every replica and every replay has the same.

use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::id::{JobId, NodeId, Uid};
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::{AdminState, LaunchTrouble, Node};
use crate::time::Millis;

/// Rest after the first failure, in seconds; twice as long after each further one.
const REST_SECS: u64 = 30;

/// Longest rest, in seconds.
const REST_SECS_MAX: u64 = 3600;

/// Failures in a row after which the node is drained, for a person to look at: about two hours of rests.
const FAILURES_MAX: u32 = 8;

/// How long another job must have run since the last failure to show that launches work again, in seconds.
const PROVEN_SECS: u64 = 60;

/// Nodes that may fail to start a job before it is held: then it may be the job.
const TRIES_MAX: usize = 3;

impl Cluster {
    /// Counts a failed launch against the node. Jobs that were placed before the rest began and fail as well count once.
    pub(super) fn launch_failed_on(&mut self, at: Millis, id: NodeId, job: JobId, why: &str) {
        let proven = self.has_proven_job(at, id, job);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let before = node.trouble.take().filter(|_| !proven);
        let trouble = match before {
            Some(resting) if resting.until.is_some() => resting,
            before => {
                let failures = before.map_or(0, |before| before.failures).saturating_add(1);
                LaunchTrouble {
                    failures,
                    last: at,
                    until: Some(at.plus_secs(rest_secs(failures))),
                    job,
                    why: why.to_owned(),
                }
            }
        };
        if trouble.failures >= FAILURES_MAX && node.admin == AdminState::Up {
            node.admin = AdminState::Drain;
            node.reason = format!(
                "{} launches failed in a row, last job {job}: {why}",
                trouble.failures
            );
            node.reason_by = Some((Uid(0), at));
        }
        node.trouble = Some(trouble);
    }

    /// Whether another job that was started after the last failure runs well there.
    fn has_proven_job(&self, at: Millis, id: NodeId, failed: JobId) -> bool {
        let node = self.nodes.get(&id);
        let Some((node, trouble)) = node.and_then(|node| Some((node, node.trouble.as_ref()?)))
        else {
            return false;
        };
        let runs = |job: &Job| {
            job.state == JobState::Running
                && job.started.is_some_and(|started| {
                    started > trouble.last && at.secs_since(started) >= PROVEN_SECS
                })
        };
        let others = node.jobs.iter().filter(|job| **job != failed);
        others.filter_map(|job| self.jobs.get(job)).any(runs)
    }

    /// A step ran on the node: launches work there, if the job was started after the last failure.
    pub(super) fn launch_worked_on(
        &mut self,
        id: NodeId,
        started: Option<Millis>,
        fx: &mut Effects,
    ) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let later = |trouble: &LaunchTrouble| started.is_some_and(|started| started > trouble.last);
        if node.trouble.as_ref().is_some_and(later) {
            node.trouble = None;
            fx.touched_nodes.insert(id);
            fx.replan = true;
        }
    }

    pub(super) fn on_node_rested(&mut self, id: NodeId, fx: &mut Effects) -> Taken {
        let node = self.nodes.get_mut(&id).ok_or("no such node")?;
        let trouble = node.trouble.as_mut().ok_or("no launch failed there")?;
        trouble.until.take().ok_or("the node does not rest")?;
        fx.touched_nodes.insert(id);
        fx.replan = true;
        Ok(())
    }

    /// Whether a job whose launch failed may be tried elsewhere: not after too many nodes, not where it has to be, and not where too
    /// few others are left.
    pub(super) fn may_try_elsewhere(&self, job: &Job) -> bool {
        let named = |node: &Node| {
            job.spec
                .nodelist
                .iter()
                .any(|name| name == node.name.as_str())
        };
        let avoided = job.avoid.iter().filter_map(|id| self.nodes.get(id));
        if job.avoid.len() >= TRIES_MAX || avoided.clone().any(named) {
            return false;
        }
        let partition = self
            .partitions
            .iter()
            .find(|known| known.name == job.spec.partition);
        let member = |node: &&Node| {
            partition.is_some_and(|partition| {
                partition
                    .nodes
                    .as_ref()
                    .is_none_or(|nodes| nodes.contains(&node.name))
            })
        };
        let left = self.nodes.values().filter(member);
        let left = left.filter(|node| !job.avoid.contains(&node.id)).count();
        left >= job.spec.nodes_min.max(1) as usize
    }
}

fn rest_secs(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1).min(16);
    (REST_SECS << doublings).min(REST_SECS_MAX)
}

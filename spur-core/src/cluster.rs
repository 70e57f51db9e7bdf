//! The cluster's state and the one function that changes it.
//!
//! [`Cluster::apply`] only dispatches; each family of events has its handler below `cluster/`. An event that makes no sense
//! in the present state changes nothing: it is ignored, with a reason.

mod array;
mod cancel;
mod change;
mod configured;
mod cron;
mod due;
mod end;
mod follow;
mod het;
pub mod hooks;
mod index;
mod letter;
mod mesh;
mod node;
pub mod orders;
mod pause;
mod place;
mod purge;
mod report;
mod rest;
mod step;
mod stored;
mod submit;
mod update;
mod usage;

#[cfg(test)]
mod tests;

pub(crate) use index::{Bucket, BucketKey, MOST_PARTITIONS, Row, Said};
pub(crate) use place::takes_jobs;

use crate::effect::Effects;
use crate::event::Event;
use crate::id::{Generation, JobId, NodeId, NodeName, Uid};
use crate::job::Job;
use crate::job::array::Arrays;
use crate::job::licenses::Licenses;
use crate::manage::Managed;
use crate::mesh::Roster;
use crate::node::{Node, NodeConfig};
use crate::partition::Partition;
use crate::plan::mix::Mix;
use crate::plan::predict::History;
use crate::resources::MemoryRequest;
use crate::time::Millis;
use crate::topology::Topology;
use hooks::{Hook, Hooks};
use index::Index;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that the controller knows and that survives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "stored::Stored")]
pub struct Cluster {
    /// Cluster name.
    pub name: String,
    /// Partitions in configured order.
    pub partitions: Vec<Partition>,
    /// Nodes.
    pub nodes: BTreeMap<NodeId, Node>,
    /// Names of nodes.
    pub node_ids: BTreeMap<NodeName, NodeId>,
    /// Jobs that are not yet purged.
    pub jobs: BTreeMap<JobId, Job>,
    /// The number that the next job gets; never falls. 0 in a cluster that never had a job (numbers start at 1).
    pub next_job: JobId,
    /// Last generation given out; never falls.
    pub generation: Generation,
    /// Seconds that an ended job stays visible.
    pub min_job_age: u64,
    /// Seconds of silence after which a node is lost.
    pub node_timeout: u64,
    /// What is configured of nodes, by name, whether they have registered or not.
    pub node_config: BTreeMap<NodeName, NodeConfig>,
    /// Which nodes are near one another.
    pub topology: Topology,
    /// How long jobs ran.
    #[serde(default)]
    pub history: History,
    /// What jobs ask for on a node, learned; scores of placements use it.
    #[serde(default)]
    pub mix: Mix,
    /// Job arrays of which a record is left.
    #[serde(default)]
    pub arrays: Arrays,
    /// One more than the greatest index of an array's task; 0: Slurm's default.
    #[serde(default)]
    pub max_array_size: u32,
    /// Memory of jobs that ask for none, in partitions that say nothing of it; `Default` is all that a node has.
    #[serde(default)]
    pub default_memory: MemoryRequest,
    /// What operators changed over the configuration, reservations, and accounts.
    #[serde(default)]
    pub managed: Managed,
    /// What users had `scrontab` keep, as written.
    #[serde(default)]
    pub crontabs: BTreeMap<Uid, String>,
    /// How many licenses there are.
    #[serde(default)]
    pub licenses: Licenses,
    /// Which programs the controller runs around allocations.
    #[serde(default)]
    pub hooks: Hooks,
    /// Those that are due, by job.
    #[serde(default)]
    pub hooks_due: BTreeMap<JobId, Vec<Hook>>,
    /// Who is a member of the mesh.
    #[serde(default)]
    pub mesh: Roster,
    /// What can be derived from the rest: who waits, and what time alone makes due.
    #[serde(skip)]
    index: Index,
}

impl Cluster {
    /// Applies one logged event. Same state, same event, same result, on every replica, for ever. Cannot fail.
    pub fn apply(&mut self, at: Millis, event: &Event) -> Effects {
        let mut fx = Effects::default();
        let taken = self.dispatch(at, event, &mut fx);
        if let Err(why) = taken {
            debug_assert!(
                fx.effects.is_empty(),
                "an ignored event has no effect: {event:?}"
            );
            fx.ignored = Some(why);
        }
        if !matches!(event, Event::Explained { .. }) {
            self.reindex(&fx);
            self.follow(at, &mut fx);
        }
        #[cfg(debug_assertions)]
        self.recheck(event);
        fx
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one table: an arm for each kind of event"
    )]
    fn dispatch(&mut self, at: Millis, event: &Event, fx: &mut Effects) -> Taken {
        match event {
            Event::Configured {
                cluster,
                partitions,
                min_job_age,
                node_timeout,
                node_config,
                topology,
                max_array_size,
                default_memory,
                licenses,
            } => {
                let new = update::Configuration {
                    cluster,
                    partitions,
                    min_job_age: *min_job_age,
                    node_timeout: *node_timeout,
                    node_config,
                    topology,
                    max_array_size: *max_array_size,
                    default_memory: *default_memory,
                    licenses,
                };
                self.on_configured(&new, fx)
            }
            Event::PartitionUpdated { name, state } => self.on_partition_updated(name, *state, fx),
            Event::NodeConnected(hello) => self.on_node_connected(at, hello, fx),
            Event::NodeDisconnected { node } => self.on_node_disconnected(at, *node, fx),
            Event::NodeLost { node } => self.on_node_lost(at, *node, fx),
            Event::NodeUpdated {
                node,
                admin,
                reason,
                by,
            } => self.on_node_updated(at, *node, *admin, (reason, *by), fx),
            Event::FenceChanged {
                node,
                fence,
                note,
                suffices,
                gpus_sick,
                gpu_notes,
                stuck,
            } => {
                let condition = (*fence, note.as_str(), *suffices);
                let gpus = gpus_sick.as_ref().map(|sick| (sick, gpu_notes.as_slice()));
                self.on_fence_changed(*node, condition, (gpus, stuck), fx)
            }
            Event::Submitted {
                job,
                spec,
                priority,
            } => self.on_submitted(at, *job, spec, *priority, fx),
            Event::Placed {
                job,
                shares,
                generation,
                backfilled,
                time_limit,
            } => {
                let start = place::Start {
                    shares,
                    generation: *generation,
                    backfilled: *backfilled,
                    time_limit: *time_limit,
                };
                self.on_placed(at, *job, start, fx)
            }
            Event::Explained { reasons } => self.on_explained(reasons, fx),
            Event::StepGranted {
                job,
                step,
                name,
                uid,
                shares,
                cpus_per_task,
                with,
                request_id,
                sharing,
            } => {
                let asked = step::Granted {
                    name,
                    uid: *uid,
                    shares,
                    cpus_per_task: *cpus_per_task,
                    with,
                    request_id: *request_id,
                    sharing: *sharing,
                };
                self.on_step_granted(at, *job, *step, asked, fx)
            }
            Event::StepEnded {
                job,
                step,
                node,
                generation,
                exit,
                oom,
            } => {
                let from = report::Origin {
                    job: *job,
                    node: *node,
                    generation: *generation,
                };
                self.on_step_ended(at, from, *step, (*exit, *oom), fx)
            }
            Event::LaunchFailed {
                job,
                node,
                generation,
                why,
                node_fault,
                rests,
            } => {
                let from = report::Origin {
                    job: *job,
                    node: *node,
                    generation: *generation,
                };
                self.on_launch_failed(at, from, why, (*node_fault, *rests), fx)
            }
            Event::Cleaned {
                job,
                node,
                generation,
            } => {
                let from = report::Origin {
                    job: *job,
                    node: *node,
                    generation: *generation,
                };
                self.on_cleaned(at, from, fx)
            }
            Event::Denials { job, node, count } => self.on_denials(*job, *node, *count, fx),
            Event::Cancelled { job, by } => self.on_cancelled(at, *job, *by, fx),
            Event::Finished { job, exit } => self.on_finished(at, *job, *exit, fx),
            Event::TimedOut { job } => self.on_timed_out(at, *job, fx),
            Event::Held { job, by_admin } => self.on_held(*job, *by_admin, fx),
            Event::Released { job } => self.on_released(at, *job, fx),
            Event::Requeued { job } => self.on_requeued(at, *job, fx),
            Event::JobUpdated {
                job,
                time_limit,
                name,
                comment,
                partition,
                priority,
            } => {
                let change = update::Change {
                    time_limit,
                    name,
                    comment,
                    partition,
                    priority,
                };
                self.on_job_updated(*job, &change, fx)
            }
            Event::Purged { jobs } => self.on_purged(jobs, fx),
            Event::GpuIdle {
                node,
                job,
                gpu,
                idle,
            } => self.on_gpu_idle(*job, (*node, *gpu), idle.as_ref(), fx),
            Event::Utilization { node, gpus } => self.on_utilization(at, *node, gpus, fx),
            Event::NodeRested { node } => self.on_node_rested(*node, fx),
            Event::TaskSplit { job, task, new } => {
                let tasks = std::iter::once(*task).collect();
                self.on_array_split(*job, &tasks, *new, fx)
            }
            Event::ArraySplit { job, tasks, new } => self.on_array_split(*job, tasks, *new, fx),
            Event::JobChanged {
                job,
                spec,
                priority,
                throttle,
            } => self.on_job_changed(at, *job, spec, (*priority, *throttle), fx),
            Event::Suspended { job } => self.on_suspended(at, *job, fx),
            Event::Resumed { job } => self.on_resumed(at, *job, fx),
            Event::Warned { job } => self.on_warned(*job, fx),
            Event::ProgramFailed {
                job,
                node,
                generation,
                epilog,
                why,
            } => {
                let from = report::Origin {
                    job: *job,
                    node: *node,
                    generation: *generation,
                };
                self.on_program_failed(at, from, (*epilog, why), fx)
            }
            Event::CrontabSet { uid, table, jobs } => {
                self.on_crontab_set(at, *uid, (table, jobs), fx)
            }
            Event::CronAgain { job, next } => self.on_cron_again(at, *job, *next, fx),
            Event::LimitNears { job, percent } => self.on_limit_nears(at, *job, *percent, fx),
            Event::HooksConfigured { hooks } => self.on_hooks_configured(*hooks),
            Event::HookEnded {
                job,
                generation,
                kind,
                trouble,
            } => self.on_hook_ended(at, *job, (*generation, *kind), trouble.as_deref(), fx),
            Event::DeadlineMissed { job } => self.on_deadline_missed(at, *job, fx),
            Event::HetSubmitted { job, parts } => self.on_het_submitted(at, *job, parts, fx),
            Event::HetPlaced { parts, generation } => {
                self.on_het_placed(at, parts, *generation, fx)
            }
            Event::Managed(change) => self.on_managed(at, change, fx),
            Event::Mesh(event) => self.on_mesh(at, event),
        }
    }

    /// Debug builds check every rule after every event, as long as that is cheap.
    #[cfg(debug_assertions)]
    fn recheck(&self, event: &Event) {
        const CHEAP: usize = 64;
        if self.jobs.len() < CHEAP
            && self.nodes.len() < CHEAP
            && let Err(broken) = crate::check::check(self)
        {
            panic!("{broken}, after {event:?}");
        }
    }
}

/// Whether an event made sense; the error says why not.
pub(crate) type Taken = Result<(), &'static str>;

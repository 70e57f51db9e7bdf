//! Changes by people: the configuration, partitions, holds, job attributes.

use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::id::{JobId, NodeName};
use crate::job::admit::starting_priority;
use crate::job::licenses::Licenses;
use crate::job::state::{JobState, Reason};
use crate::node::NodeConfig;
use crate::partition::{Partition, PartitionState};
use crate::resources::MemoryRequest;
use crate::time::{Millis, TimeLimit};
use crate::topology::Topology;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a [`crate::event::Event::JobUpdated`] changes.
pub(super) struct Change<'a> {
    pub(super) time_limit: &'a Option<TimeLimit>,
    pub(super) name: &'a Option<String>,
    pub(super) comment: &'a Option<String>,
    pub(super) partition: &'a Option<String>,
    pub(super) priority: &'a Option<u32>,
}

/// A [`crate::event::Event::Configured`].
pub(super) struct Configuration<'a> {
    pub(super) cluster: &'a str,
    pub(super) partitions: &'a [Partition],
    pub(super) min_job_age: u64,
    pub(super) node_timeout: u64,
    pub(super) node_config: &'a BTreeMap<NodeName, NodeConfig>,
    pub(super) topology: &'a Topology,
    pub(super) max_array_size: u32,
    pub(super) default_memory: MemoryRequest,
    pub(super) licenses: &'a Licenses,
}

impl Cluster {
    /// New configuration. The state that an operator gave a partition outlives it.
    pub(super) fn on_configured(&mut self, new: &Configuration<'_>, fx: &mut Effects) -> Taken {
        new.cluster.clone_into(&mut self.name);
        self.configure_partitions(new.partitions);
        self.min_job_age = new.min_job_age;
        self.node_timeout = new.node_timeout;
        self.max_array_size = new.max_array_size;
        self.default_memory = new.default_memory;
        self.licenses.clone_from(new.licenses);
        self.node_config.clone_from(new.node_config);
        if self.topology != *new.topology {
            self.topology.clone_from(new.topology);
            self.reindex_fabric();
        }
        self.reindex_all();
        fx.touched_nodes.extend(self.nodes.keys());
        fx.replan = true;
        Ok(())
    }

    pub(super) fn on_partition_updated(
        &mut self,
        name: &str,
        state: PartitionState,
        fx: &mut Effects,
    ) -> Taken {
        let partition = self
            .partitions
            .iter_mut()
            .find(|partition| partition.name == name);
        partition.ok_or("no such partition")?.state = state;
        if let Some(Some(changed)) = self.managed.partitions.get_mut(name) {
            changed.state = state;
        }
        let mut configured = self.managed.configured.iter_mut();
        if let Some(configured) = configured.find(|partition| partition.name == name) {
            configured.state = state;
        }
        fx.replan = true;
        Ok(())
    }

    pub(super) fn on_held(&mut self, id: JobId, by_admin: bool, fx: &mut Effects) -> Taken {
        self.each_waiting(id, fx, |job| {
            job.priority = 0;
            job.reason = if by_admin {
                Reason::JobHeldAdmin
            } else {
                Reason::JobHeldUser
            };
            job.reason_text.clear();
        })
    }

    pub(super) fn on_released(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> Taken {
        self.each_waiting(id, fx, |job| {
            if job.priority == 0 {
                job.priority = starting_priority(&job.spec).max(1);
                job.eligible = job.spec.begin.map_or(at, |begin| begin.max(at));
            }
            job.avoid.clear();
            job.reason = Reason::None;
            job.reason_text.clear();
        })
    }

    pub(super) fn on_job_updated(
        &mut self,
        id: JobId,
        change: &Change<'_>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        if job.state.is_terminal() {
            return Err("the job has ended");
        }
        if let Some(name) = change.partition {
            if job.state != JobState::Pending {
                return Err("the job waits no more");
            }
            if !self
                .partitions
                .iter()
                .any(|partition| &partition.name == name)
            {
                return Err("no such partition");
            }
        }
        let spec = Arc::make_mut(&mut job.spec);
        change
            .name
            .as_ref()
            .inspect(|name| spec.name.clone_from(name));
        change
            .comment
            .as_ref()
            .inspect(|comment| spec.comment.clone_from(comment));
        change
            .partition
            .as_ref()
            .inspect(|partition| spec.partition.clone_from(partition));
        if let Some(limit) = *change.time_limit {
            spec.time_limit = Some(limit);
            if job.state == JobState::Running {
                job.ended = job.limit_end();
            }
        }
        if let Some(priority) = *change.priority {
            job.priority = priority;
            if job.state == JobState::Pending {
                let held = priority == 0;
                job.reason = if held {
                    Reason::JobHeldAdmin
                } else {
                    Reason::None
                };
                job.reason_text.clear();
            }
        }
        fx.touched_jobs.insert(id);
        fx.replan = true;
        Ok(())
    }
}

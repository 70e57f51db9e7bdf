//! A change carried out on a request.

use super::JobChange;
use crate::api::{Refusal, RefusalKind};
use crate::job::spec::JobSpec;
use crate::slurm::hostlist;

fn set<T: Clone>(field: &mut T, new: Option<&T>) {
    if let Some(new) = new {
        field.clone_from(new);
    }
}

fn hosts(field: &mut Vec<String>, list: Option<&String>) -> Result<(), Refusal> {
    let bad = |why: hostlist::BadHostlist| Refusal {
        kind: RefusalKind::InvalidNode,
        text: why.to_string(),
    };
    match list.map(String::as_str) {
        None => {}
        Some("") => field.clear(),
        Some(list) => *field = hostlist::parse(list).map_err(bad)?,
    }
    Ok(())
}

impl JobChange {
    /// Whether it changes where, when or how a job may start, so that it must still wait.
    #[must_use]
    pub fn needs_waiting(&self) -> bool {
        self.reshapes()
            || self.dependency.is_some()
            || self.begin.is_some()
            || self.work_dir.is_some()
            || self.stdin.is_some()
            || self.stdout.is_some()
            || self.stderr.is_some()
    }

    /// Whether the request must be checked against the cluster anew.
    #[must_use]
    pub fn reshapes(&self) -> bool {
        self.partition.is_some()
            || self.nodes_min.is_some()
            || self.nodes_max.is_some()
            || self.tasks.is_some()
            || self.tasks_per_node.is_some()
            || self.cpus_per_task.is_some()
            || self.mincpus.is_some()
            || self.memory.is_some()
            || self.gpus_per_node.is_some()
            || self.nodelist.is_some()
            || self.exclude.is_some()
            || self.constraint.is_some()
            || self.prefer.is_some()
            || self.reservation.is_some()
            || self.exclusive.is_some()
            || self.contiguous.is_some()
    }

    /// Writes the new values into a request. Priority and throttle are not part of one.
    pub fn apply(&self, spec: &mut JobSpec) -> Result<(), Refusal> {
        spec.time_limit = self.time_limit.or(spec.time_limit);
        set(&mut spec.name, self.name.as_ref());
        set(&mut spec.comment, self.comment.as_ref());
        set(&mut spec.partition, self.partition.as_ref());
        set(&mut spec.nice, self.nice.as_ref());
        set(&mut spec.account, self.account.as_ref());
        set(&mut spec.qos, self.qos.as_ref());
        set(&mut spec.dependency, self.dependency.as_ref());
        spec.begin = self.begin.or(spec.begin);
        if let Some(least) = self.nodes_min {
            (spec.nodes_min, spec.nodes_max) = (least, self.nodes_max.unwrap_or(least).max(least));
            spec.nodes_set = true;
            // A node without a task is of no use; as Slurm raises a job's CPUs to its nodes.
            if spec.tasks_set && self.tasks.is_none() {
                spec.tasks = spec.tasks.max(least);
            }
        } else if let Some(most) = self.nodes_max {
            (spec.nodes_max, spec.nodes_set) = (most, true);
        }
        if let Some(tasks) = self.tasks {
            (spec.tasks, spec.tasks_set) = (tasks, true);
        }
        set(&mut spec.tasks_per_node, self.tasks_per_node.as_ref());
        if let Some(cpus) = self.cpus_per_task {
            (spec.cpus_per_task, spec.cpus_per_task_set) = (cpus, true);
        }
        set(&mut spec.mincpus, self.mincpus.as_ref());
        set(&mut spec.memory, self.memory.as_ref());
        if let Some(gpus) = &self.gpus_per_node {
            spec.gpus_per_node = (gpus.count > 0).then(|| gpus.clone());
            spec.gpus_total = None;
        }
        hosts(&mut spec.nodelist, self.nodelist.as_ref())?;
        hosts(&mut spec.exclude, self.exclude.as_ref())?;
        set(&mut spec.constraint, self.constraint.as_ref());
        set(&mut spec.exclusive, self.exclusive.as_ref());
        set(&mut spec.contiguous, self.contiguous.as_ref());
        set(&mut spec.requeue, self.requeue.as_ref());
        set(&mut spec.work_dir, self.work_dir.as_ref());
        set(&mut spec.stdin, self.stdin.as_ref());
        set(&mut spec.stdout, self.stdout.as_ref());
        set(&mut spec.stderr, self.stderr.as_ref());
        set(&mut spec.prefer, self.prefer.as_ref());
        self.apply_extras(spec);
        Ok(())
    }

    /// What few jobs have; a request that has none of it stays without.
    fn apply_extras(&self, spec: &mut JobSpec) {
        let texts = [
            &self.reservation,
            &self.licenses,
            &self.wckey,
            &self.admin_comment,
            &self.extra,
            &self.mcs_label,
            &self.mail_type,
            &self.mail_user,
        ];
        let given = texts.iter().any(|text| text.is_some());
        if !given && self.deadline.is_none() && self.time_min.is_none() && self.tmp_mib.is_none() {
            return;
        }
        let extras = spec.extras_mut();
        set(&mut extras.reservation, self.reservation.as_ref());
        set(&mut extras.licenses, self.licenses.as_ref());
        set(&mut extras.wckey, self.wckey.as_ref());
        set(&mut extras.admin_comment, self.admin_comment.as_ref());
        set(&mut extras.extra, self.extra.as_ref());
        set(&mut extras.mcs_label, self.mcs_label.as_ref());
        set(&mut extras.mail_type, self.mail_type.as_ref());
        set(&mut extras.mail_user, self.mail_user.as_ref());
        extras.deadline = self.deadline.or(extras.deadline);
        extras.time_min = self.time_min.or(extras.time_min);
        extras.tmp_mib = self.tmp_mib.unwrap_or(extras.tmp_mib);
    }
}

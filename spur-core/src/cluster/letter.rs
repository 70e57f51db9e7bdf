//! What owners of jobs hear by mail, and what programs that are run for a job are told of it: in Slurm's words.

use super::{Cluster, Taken};
use crate::effect::{Effect, Effects, Letter};
use crate::id::JobId;
use crate::job::Job;
use crate::job::array::Array;
use crate::job::het::HetPart;
use crate::job::state::JobState;
use crate::slurm::mail::{Occasion, each_task};
use crate::slurm::{codes, hostlist, timespec};
use crate::time::Millis;

impl Cluster {
    /// A job started: of an array, unless each task is told of, only the first is worth a mail.
    pub(super) fn tell_begin(&mut self, at: Millis, id: JobId, fx: &mut Effects) {
        let job = self.jobs.get(&id);
        let Some(job) = job.filter(|job| !job.spec.extras().mail_type.is_empty()) else {
            return;
        };
        let array = job.array.as_ref().map(|part| part.view.job);
        let array = array.and_then(|array| self.arrays.get_mut(&array));
        let first = array.is_none_or(|array| !std::mem::replace(&mut array.began, true));
        if first || self.tells_each_task(id) {
            self.tell(at, id, Occasion::Begin, fx);
        }
    }

    /// A job ended. Of an array only the end of its last task is worth a mail, unless each task is told of.
    pub(super) fn tell_end(&self, at: Millis, id: JobId, fx: &mut Effects) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if job.array.is_some() && !self.tells_each_task(id) {
            return;
        }
        let wants = |what: Occasion| what.is_wanted(&job.spec.extras().mail_type);
        let failed = match job.state {
            JobState::Failed
            | JobState::Timeout
            | JobState::NodeFail
            | JobState::OutOfMemory
            | JobState::Deadline => true,
            JobState::Pending
            | JobState::Running
            | JobState::Suspended
            | JobState::Completed
            | JobState::Cancelled => false,
        };
        let what = if failed && wants(Occasion::Fail) {
            Occasion::Fail
        } else {
            Occasion::End
        };
        self.tell(at, id, what, fx);
    }

    /// A job that runs goes back to the queue; it still is as it ran.
    pub(super) fn tell_requeue(&mut self, at: Millis, id: JobId, fx: &mut Effects) {
        let job = self.jobs.get(&id);
        let runs = |job: &&Job| job.state == JobState::Running;
        let mailed = |job: &&Job| !job.spec.extras().mail_type.is_empty();
        let Some(job) = job.filter(runs).filter(mailed) else {
            return;
        };
        let array = job.array.as_ref().map(|part| part.view.job);
        if let Some(array) = array.and_then(|array| self.arrays.get_mut(&array)) {
            array.requeued = true;
            if !self.tells_each_task(id) {
                return;
            }
        }
        self.tell(at, id, Occasion::Requeue, fx);
    }

    /// The last task of an array is over; which one that was.
    pub(super) fn tell_array_over(&self, last: JobId, fx: &mut Effects) {
        let Some((job, array)) = self.jobs.get(&last).and_then(|job| {
            let array = self.arrays.get(&job.array.as_ref()?.view.job)?;
            Some((job, array))
        }) else {
            return;
        };
        if self.tells_each_task(last) {
            return;
        }
        let at = job.ended.unwrap_or_default();
        let wants = |what: Occasion| what.is_wanted(&job.spec.extras().mail_type);
        if array.requeued {
            self.tell(at, last, Occasion::Requeue, fx);
        }
        let failed = array.exits.is_some_and(|(_, most)| most >> 8 != 0);
        let what = if failed && wants(Occasion::Fail) {
            Occasion::Fail
        } else {
            Occasion::End
        };
        self.tell(at, last, what, fx);
    }

    /// A share of a job's limit is used up.
    pub(super) fn on_limit_nears(
        &mut self,
        at: Millis,
        id: JobId,
        percent: u8,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        if job
            .share_due()
            .is_none_or(|(due, share)| at < due || share != percent)
        {
            return Err("the job has not come so far, or its owner has heard of it");
        }
        job.told_percent = percent;
        fx.touched_jobs.insert(id);
        self.tell(at, id, Occasion::TimeLimit(percent), fx);
        Ok(())
    }

    fn tells_each_task(&self, id: JobId) -> bool {
        let job = self.jobs.get(&id);
        job.is_some_and(|job| each_task(&job.spec.extras().mail_type))
    }

    /// Writes to a job's owner, if that is wanted. Of a heterogeneous job only the first component is worth it.
    pub(super) fn tell(&self, at: Millis, id: JobId, what: Occasion, fx: &mut Effects) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let extras = job.spec.extras();
        if !what.is_wanted(&extras.mail_type) || job.het.is_some_and(|part| !part.leads()) {
            return;
        }
        let local = extras.mail_user.is_empty();
        let to = if local {
            job.spec.owner.user.clone()
        } else {
            extras.mail_user.clone()
        };
        let over = matches!(what, Occasion::End | Occasion::Fail);
        let mut env = self.job_env(job, over);
        let time = time(job, what, at);
        let summary = job.array.as_ref().filter(|_| !each_task(&extras.mail_type));
        let summary = summary.and_then(|part| self.arrays.get(&part.view.job));
        let term = match (over, summary) {
            (false, _) => (String::new(), Vec::new()),
            (true, Some(array)) => summed_up(job, array),
            (true, None) => ended(job),
        };
        env.push((
            "SLURM_JOB_STATE",
            codes::job_state(job.state, false).to_owned(),
        ));
        env.push(("SLURM_JOB_MAIL_TYPE", what.words()));
        env.extend(time.clone());
        env.extend(term.1);
        let time = time.map_or_else(String::new, |(name, span)| match name {
            "SLURM_JOB_QUEUED_TIME" => format!(", Queued time {span}"),
            _ => format!(", Run time {span}"),
        });
        let (name, words, term) = (&job.spec.name, what.words(), term.0);
        let view = job.array.as_ref().map(|part| &part.view);
        let subject = match view {
            Some(view) if summary.is_some() => {
                let array = view.job;
                format!("Slurm Array Summary Job_id={array}_* ({array}) Name={name} {words}{term}")
            }
            Some(view) if view.task.is_some() => {
                let task = view.task.unwrap_or_default();
                let array = view.job;
                format!(
                    "Slurm Array Task Job_id={array}_{task} ({id}) Name={name} {words}{time}{term}"
                )
            }
            Some(_) | None => format!("Slurm Job_id={id} Name={name} {words}{time}{term}"),
        };
        fx.effects.push(Effect::Mail(Box::new(Letter {
            job: id,
            to,
            local,
            subject,
            env,
        })));
    }

    /// What a program that is run for a job is told of it by its environment.
    pub fn job_env(&self, job: &Job, over: bool) -> Vec<(&'static str, String)> {
        let (spec, extras) = (&job.spec, job.spec.extras());
        let secs = |at: Option<Millis>| (at.unwrap_or_default().0 / 1000).to_string();
        let mut env = vec![
            ("SLURM_JOB_ACCOUNT", spec.account.clone()),
            ("SLURM_CLUSTER_NAME", self.name.clone()),
            ("SLURM_JOB_END_TIME", secs(job.ended)),
            ("SLURM_JOB_GID", spec.owner.gid.to_string()),
            ("SLURM_JOB_GROUP", spec.owner.group.clone()),
            ("SLURM_JOBID", job.id.to_string()),
            ("SLURM_JOB_ID", job.id.to_string()),
            ("SLURM_JOB_NAME", spec.name.clone()),
            ("SLURM_JOB_NODELIST", self.held_nodes(job)),
            ("SLURM_JOB_PARTITION", spec.partition.clone()),
            ("SLURM_JOB_RESTART_COUNT", job.restarts.to_string()),
            ("SLURM_JOB_START_TIME", secs(job.started)),
            ("SLURM_JOB_UID", spec.owner.uid.to_string()),
            ("SLURM_JOB_USER", spec.owner.user.clone()),
            ("SLURM_JOB_WORK_DIR", spec.work_dir.clone()),
        ];
        if over {
            let exit = job.exit;
            env.push(("SLURM_JOB_DERIVED_EC", job.derived_exit.raw().to_string()));
            env.push(("SLURM_JOB_EXIT_CODE2", exit.to_string()));
            env.push(("SLURM_JOB_EXIT_CODE", exit.raw().to_string()));
        }
        if let Some(view) = job.array.as_ref().map(|part| &part.view) {
            env.push(("SLURM_ARRAY_JOB_ID", view.job.to_string()));
            if let Some(task) = view.task {
                env.push(("SLURM_ARRAY_TASK_ID", task.to_string()));
            }
        }
        if let Some(HetPart { leader, offset, .. }) = job.het {
            env.push(("SLURM_HET_JOB_ID", leader.to_string()));
            env.push(("SLURM_HET_JOB_OFFSET", offset.to_string()));
        }
        let texts = [
            ("SLURM_JOB_QOS", &spec.qos),
            ("SLURM_JOB_COMMENT", &spec.comment),
            ("SLURM_JOB_CONSTRAINTS", &spec.constraint),
            ("SLURM_JOB_STDIN", &spec.stdin),
            ("SLURM_JOB_STDOUT", &spec.stdout),
            ("SLURM_JOB_STDERR", &spec.stderr),
            ("SLURM_JOB_EXTRA", &extras.extra),
            ("SLURM_JOB_LICENSES", &extras.licenses),
            ("SLURM_JOB_RESERVATION", &extras.reservation),
            ("SLURM_WCKEY", &extras.wckey),
        ];
        let given = texts.into_iter().filter(|(_, text)| !text.is_empty());
        env.extend(given.map(|(name, text)| (name, text.clone())));
        env
    }

    /// The nodes that a job holds, or held last.
    fn held_nodes(&self, job: &Job) -> String {
        let shares = if job.allocation.is_empty() {
            &job.last_nodes
        } else {
            &job.allocation
        };
        let node = |share: &crate::resources::NodeShare| self.nodes.get(&share.node);
        let names = shares
            .iter()
            .filter_map(node)
            .map(|node| node.name.as_str());
        let names: Vec<&str> = names.collect();
        hostlist::compress(&names)
    }
}

/// How long the job waited or ran, as a variable.
fn time(job: &Job, what: Occasion, at: Millis) -> Option<(&'static str, String)> {
    let ran = || {
        let started = job.started.unwrap_or(at);
        let secs = at
            .secs_since(started)
            .saturating_sub(job.stopped_ms(at) / 1000);
        ("SLURM_JOB_RUN_TIME", timespec::elapsed_long(secs))
    };
    match what {
        Occasion::Begin => {
            let secs = at.secs_since(job.submitted);
            Some(("SLURM_JOB_QUEUED_TIME", timespec::elapsed_long(secs)))
        }
        Occasion::End | Occasion::Fail | Occasion::Requeue | Occasion::TimeLimit(_) => Some(ran()),
        Occasion::InvalidDepend => None,
    }
}

type Term = (String, Vec<(&'static str, String)>);

/// How a job ended. A job that a signal ended has no exit code to tell.
fn ended(job: &Job) -> Term {
    let state = codes::job_state(job.state, false);
    let code = job.exit.code;
    let text = match job.exit.signal {
        0 => format!(", {state}, ExitCode {code}"),
        _ => format!(", {state}"),
    };
    (text, vec![("SLURM_JOB_EXIT_CODE_MAX", code.to_string())])
}

/// How the tasks of an array ended, whose last one this is.
fn summed_up(last: &Job, array: &Array) -> Term {
    let (least, most) = array.exits.unwrap_or_default();
    let (low, high, signal) = (least >> 8, most >> 8, most & 0x7f);
    let state = codes::job_state(last.state, false);
    let (mut text, env) = if least & 0x7f == 0 && signal == 0 {
        let state = if low == 0 && high > 0 { "Mixed" } else { state };
        let env = vec![
            ("SLURM_JOB_EXIT_CODE_MIN", low.to_string()),
            ("SLURM_JOB_EXIT_CODE_MAX", high.to_string()),
        ];
        (format!(", {state}, ExitCode [{low}-{high}]"), env)
    } else if signal != 0 {
        let env = vec![("SLURM_JOB_TERM_SIGNAL_MAX", signal.to_string())];
        (format!(", Mixed, MaxSignal [{signal}]"), env)
    } else {
        let env = vec![("SLURM_JOB_EXIT_CODE_MAX", high.to_string())];
        (format!(", Mixed, MaxExitCode [{high}]"), env)
    };
    if array.requeued {
        text.push_str(", with requeued tasks");
    }
    (text, env)
}

#[cfg(test)]
mod tests;

//! The fence's condition: proven, lost, put back; taken over after a restart; and GPUs that are taken from jobs.

use super::{Agent, Input};
use crate::act;
use crate::cgroup::Cgroup;
use crate::config::Require;
use crate::fence::node::{Lost, NodeFence, chain};
use crate::journal;
use crate::node::Condition;
use crate::sys::clock::local_now;
use crate::watchdog::Repaired;
use spur_core::agent::order::{FromAgent, JobOrder};
use spur_core::id::JobId;
use spur_core::node::{FenceState, GpuNote, StuckJob};
use spur_core::resources::{GpuVendor, IdSet};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The GPUs that notes are about.
pub(super) fn sick(notes: &[GpuNote]) -> IdSet {
    notes.iter().map(|note| note.gpu).collect()
}

impl Agent {
    /// Whether jobs may be started here now.
    pub(super) fn takes_jobs(&self) -> bool {
        !self.repairing && self.full.is_none() && self.node.accepts(self.condition.state)
    }

    pub(super) fn set_condition(&mut self, condition: Condition) {
        if self.condition == condition {
            return;
        }
        let takes_jobs = !self.repairing && self.node.accepts(condition.state);
        if takes_jobs && condition.state >= self.condition.state {
            tracing::info!(state = ?condition.state, note = condition.note, takes_jobs, "the fence's condition changed");
        } else {
            tracing::error!(state = ?condition.state, note = condition.note, takes_jobs, "the fence's condition changed");
        }
        self.condition = condition;
        self.send_condition();
    }

    /// GPUs that cannot be granted now, and why.
    pub(super) fn gpus_out(&self) -> Vec<GpuNote> {
        let closed = match self.node.fence() {
            Some(fence) => fence.ungrantable(),
            None => self.node.machine.absent.clone(),
        };
        let note = |(gpu, why)| GpuNote { gpu, why };
        closed.into_iter().map(note).collect()
    }

    /// Jobs that do not end.
    pub(super) fn stuck_jobs(&self) -> Vec<StuckJob> {
        let told = |(job, what): (&JobId, &String)| StuckJob {
            job: *job,
            what: what.clone(),
        };
        self.stuck.iter().map(told).collect()
    }

    pub(super) fn send_condition(&mut self) {
        if self.link.is_none() {
            return;
        }
        let gpu_notes = self.gpus_out();
        self.send(FromAgent::Fence {
            state: self.condition.state,
            note: self.note(),
            suffices: Some(self.takes_jobs()),
            gpus_sick: Some(sick(&gpu_notes)),
            gpu_notes,
            stuck: self.stuck_jobs(),
        });
    }

    /// Something went wrong that could be the fence, or is to be better by now: it is proven again, off the loop.
    pub(super) fn prove_again(&mut self) {
        if !self.proving {
            self.proving = true;
            let (node, losses) = (Arc::clone(&self.node), self.losses);
            self.off_loop(
                move || node.prove(),
                move |proven| {
                    let condition = proven.unwrap_or_else(|failure| Condition {
                        state: FenceState::Unfenced,
                        note: failure.why,
                    });
                    Input::Proven(condition, losses)
                },
            );
        }
    }

    pub(super) fn proven(&mut self, condition: Condition, losses: u64) {
        self.proving = false;
        if self.losses != losses {
            // Older than a loss, whose repair ends with a proof of its own.
            return;
        }
        self.set_condition(condition);
        self.attend();
    }

    /// What a fence that came up late needs: its refusals read, and the jobs that are here without one.
    fn attend(&mut self) {
        if self.node.fence().is_none() {
            return;
        }
        self.read_refusals();
        let jobs: Vec<(JobId, journal::Job)> = self
            .journal
            .jobs()
            .iter()
            .filter(|(job, _)| !self.fences.contains_key(job) && !self.busy.contains(job))
            .map(|(job, entry)| (*job, entry.clone()))
            .collect();
        for (job, entry) in jobs {
            if let Ok(Some(cgroup)) = self.node.root.job(job) {
                self.adopt_fences(&entry.order, &cgroup, &entry);
            }
        }
    }

    /// Begins to read the audit ring, once there is one.
    pub(super) fn read_refusals(&mut self) {
        let Some(fence) = self.node.fence().filter(|_| !self.audited) else {
            return;
        };
        self.audited = true;
        let begun = fence
            .audit()
            .map_err(|error| chain(&error))
            .and_then(|ring| {
                crate::audit::watch(ring, &self.refusals, self.inputs.clone())
                    .map_err(|error| error.to_string())
            });
        if let Err(why) = begun {
            tracing::error!(why, "refusals are counted but not shown");
        }
    }

    /// With every beat: a fence that is not what is required is tried again, and what no event tells of is looked at.
    pub(super) fn look_after_fence(&mut self) {
        if self.repairing {
            return;
        }
        if self.condition.state == FenceState::Unfenced {
            self.prove_again();
        }
        // The driver sends no event when it partitions a GPU.
        let gpus = &self.node.machine.inventory.gpus;
        if gpus.iter().any(|gpu| gpu.vendor == GpuVendor::Nvidia)
            && let Some(Ok(lost)) = self.node.fence().map(|fence| fence.refresh())
        {
            self.devices_lost(&lost);
        }
        // Nor when one is made of a GPU that is offered by instance.
        if !self.node.machine.split.is_empty() && self.look_for_new() {
            self.send_condition();
        }
    }

    pub(super) fn fence_lost(&mut self, what: String) {
        self.repairing = true;
        self.losses += 1;
        tracing::error!(
            what,
            "a fence was taken off by hand: nothing is started until it is back"
        );
        self.set_condition(Condition {
            state: FenceState::Unfenced,
            note: what,
        });
    }

    pub(super) fn fence_back(&mut self, repaired: Repaired) {
        let Repaired {
            condition,
            lost,
            killed,
            complete,
        } = repaired;
        self.repairing = false;
        let at = local_now();
        let mut said = format!("{at}: {lost}, and put back");
        for (job, why) in killed {
            tracing::error!(%job, why, "the job is killed");
            let told = format!("job {job} was killed: {why}");
            if complete {
                said.push_str("; ");
                said.push_str(&told);
            } else {
                self.cut_off.insert(job, format!("{at}: {told}"));
            }
        }
        if complete {
            tracing::warn!(said, "the fence is back and proven");
            self.last_loss = Some(said);
        } else {
            tracing::error!(
                lost,
                note = condition.note,
                "the fence is not back; it is tried again"
            );
        }
        self.set_condition(condition);
    }

    pub(super) fn devices_changed(&mut self) {
        let Some(fence) = self.node.fence().cloned() else {
            return;
        };
        match fence.settle() {
            Ok(lost) => self.devices_lost(&lost),
            Err(error) => {
                tracing::error!(
                    error = chain(&error),
                    "the device table cannot be brought up to date"
                );
            }
        }
        self.look_for_new();
        self.send_condition();
    }

    /// Notes what came since the agent started. Says whether that is something else than before.
    fn look_for_new(&mut self) -> bool {
        let appeared = self.node.fence().map(NodeFence::appeared);
        let appeared = appeared.unwrap_or_default();
        if appeared == self.appeared {
            return false;
        }
        for what in &appeared {
            tracing::warn!("{what}");
        }
        self.appeared = appeared;
        true
    }

    /// GPUs that cannot be granted any more are closed. Jobs that hold them end if they could go on with what they have of them.
    pub(super) fn devices_lost(&mut self, lost: &Lost) {
        let Some(fence) = self.node.fence().cloned().filter(|_| !lost.is_empty()) else {
            return;
        };
        let known = fence.ungrantable();
        for (gpu, nodes) in lost {
            let why = known
                .iter()
                .find(|(index, _)| index == gpu)
                .map(|(_, why)| why.as_str());
            let jobs = fence.jobs_with(&BTreeSet::from([*gpu]));
            tracing::error!(
                gpu,
                why,
                ?jobs,
                "a GPU cannot be granted any more; its numbers are closed"
            );
            let hold_on = fence.hold_on([*gpu]);
            for job in jobs {
                let (node, nodes) = (Arc::clone(&self.node), nodes.clone());
                self.off_loop(
                    move || act::cut_off(&node.root, job, &nodes, hold_on),
                    move |outcome| {
                        let outcome = outcome.map_err(|failure| failure.why);
                        let outcome =
                            outcome.and_then(|outcome| outcome.map_err(|error| error.to_string()));
                        Input::CutOff(job, outcome)
                    },
                );
            }
        }
        self.send_condition();
    }

    pub(super) fn was_cut_off(&mut self, job: JobId, outcome: Result<Option<String>, String>) {
        let at = local_now();
        let said = match outcome {
            Ok(None) => return,
            Ok(Some(why)) => {
                format!("{at}: job {job} was killed, since a GPU was taken from it and {why}")
            }
            Err(why) => {
                format!("{at}: job {job} lost a GPU, and what it has of it cannot be ended: {why}")
            }
        };
        tracing::error!("{said}");
        self.cut_off.insert(job, said);
        self.send_condition();
    }

    /// The fence of a job and of its narrowed steps. It held while no agent lived; if somebody took it away it is put up again, and
    /// the job ended: what it opened meanwhile nobody knows. A job that never had one gets one and goes on.
    pub(super) fn adopt_fences(
        &mut self,
        order: &Arc<JobOrder>,
        cgroup: &Cgroup,
        entry: &journal::Job,
    ) {
        let job = order.job;
        let waived = self.node.config.require == Require::None;
        let never_had_one = entry.fenced.map_or(waived, |fenced| !fenced);
        let (Some(fence), Some(here)) = (self.node.fence().cloned(), order.here()) else {
            return;
        };
        if never_had_one && self.condition.state == FenceState::Unfenced {
            return;
        }
        let mut intact = true;
        let holder = act::holder(order, None, here.share.gpus.clone());
        match fence.adopt(cgroup.path(), &holder) {
            Ok((own, was_gone)) => {
                intact &= !was_gone;
                self.fences.insert(job, own);
            }
            Err(error) => {
                tracing::error!(%job, error = chain(&error), "its fence cannot be taken over");
                intact = false;
            }
        }
        let narrow = entry
            .steps
            .iter()
            .filter(|(_, state)| state.narrow && !state.ended);
        for (step, _) in narrow {
            let path = cgroup.step_path(*step);
            let holder = act::holder(order, Some(*step), IdSet::new());
            if path.exists() && !fence.adopt_step(&path, &holder).unwrap_or(false) {
                tracing::error!(%job, %step, "the narrower fence of this step is gone");
                intact = false;
            }
        }
        if intact {
            return;
        }
        if never_had_one {
            let fenced = self.fences.contains_key(&job);
            tracing::warn!(%job, fenced, "it was started without a fence, as require = \"none\" allowed, and goes on");
            return;
        }
        tracing::error!(%job, "its fence was taken away while no agent ran: the job is killed");
        let at = local_now();
        let mut said =
            format!("{at}: job {job} was killed: its fence was taken away while no agent ran");
        if let Err(error) = cgroup.kill() {
            tracing::error!(%job, %error, "and cannot be");
            said = format!(
                "{at}: job {job} lost its fence while no agent ran, and cannot be killed: {error}"
            );
        }
        self.cut_off.insert(job, said);
        self.send_condition();
    }
}

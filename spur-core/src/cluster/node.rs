//! Nodes that come, go, and are changed.

use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::event::NodeHello;
use crate::id::{Generation, JobId, NodeId, Uid};
use crate::job::state::JobState;
use crate::job::step::StepState;
use crate::node::{AdminState, FenceState, GpuNote, Node, StuckJob};
use crate::resources::{IdSet, Inventory};
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// Longest note on one GPU or job, in characters.
const NOTE_CHARS_MAX: usize = 300;

/// Most jobs of one node of which it is said that they do not end.
const STUCK_MAX: usize = 16;

impl Cluster {
    /// An agent is there. What it holds and should not is revoked; what it should hold and does not is ordered again.
    pub(super) fn on_node_connected(
        &mut self,
        at: Millis,
        hello: &NodeHello,
        fx: &mut Effects,
    ) -> Taken {
        let id = self.known_or_new(hello)?;
        let node = self.nodes.get_mut(&id).ok_or("no such node")?;
        let rebooted = node.boot_id != hello.boot_id;
        if rebooted {
            node.utilization.clear();
            node.trouble = None;
        } else if node.agent_start != hello.agent_start
            && let Some(trouble) = &mut node.trouble
        {
            // Somebody may have put it right: it is tried again at once, and its failures still count.
            trouble.until = None;
        }
        update_from(node, hello, at);
        fx.touched_nodes.insert(id);
        fx.replan = true;
        let highest = hello.jobs.iter().map(|(_, generation)| *generation).max();
        self.generation = self.generation.max(highest.unwrap_or_default());
        if rebooted {
            self.after_reboot(at, id, fx);
        }
        let held: BTreeMap<JobId, Generation> = hello.jobs.iter().copied().collect();
        self.clean_absent(at, id, &held, fx);
        self.adopt_inventory(at, id, hello);
        self.revoke_unwanted(id, &held, fx);
        self.order_again(id, &held, fx);
        Ok(())
    }

    fn known_or_new(&mut self, hello: &NodeHello) -> Result<NodeId, &'static str> {
        if let Some(id) = self.node_ids.get(&hello.name) {
            return Ok(*id);
        }
        let id = u32::try_from(self.nodes.len())
            .map(NodeId)
            .map_err(|_| "too many nodes")?;
        self.node_ids.insert(hello.name.clone(), id);
        self.nodes.insert(id, new_node(id, hello));
        Ok(id)
    }

    /// Nothing from before the reboot is alive, so nothing is held.
    fn after_reboot(&mut self, at: Millis, id: NodeId, fx: &mut Effects) {
        let jobs = self
            .nodes
            .get(&id)
            .map(|node| node.jobs.clone())
            .unwrap_or_default();
        for job in jobs {
            self.clean(at, job, id, fx);
            if self.runs_on(job, id) {
                let lost = self.lose_job(at, job, id, Some(id), fx);
                debug_assert!(lost.is_ok(), "a running job can be lost");
            }
        }
    }

    /// What the agent does not name is not there any more.
    fn clean_absent(
        &mut self,
        at: Millis,
        id: NodeId,
        held: &BTreeMap<JobId, Generation>,
        fx: &mut Effects,
    ) {
        let jobs = self
            .nodes
            .get(&id)
            .map(|node| node.jobs.clone())
            .unwrap_or_default();
        for job in jobs.into_iter().filter(|job| !held.contains_key(job)) {
            self.clean(at, job, id, fx);
        }
    }

    fn revoke_unwanted(
        &mut self,
        id: NodeId,
        held: &BTreeMap<JobId, Generation>,
        fx: &mut Effects,
    ) {
        for (&job, &generation) in held {
            if !self.runs_on(job, id) {
                fx.effects.push(Effect::Revoke {
                    node: id,
                    job,
                    generation,
                });
            }
        }
    }

    fn order_again(&self, id: NodeId, held: &BTreeMap<JobId, Generation>, fx: &mut Effects) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        for job in node.jobs.iter().filter_map(|job| self.jobs.get(job)) {
            if !self.runs_on(job.id, id) || held.get(&job.id) == Some(&job.generation) {
                continue;
            }
            fx.effects.push(Effect::Assign {
                node: id,
                job: job.id,
            });
            let open = |step: &&crate::job::step::Step| {
                step.state == StepState::Running
                    && !step.reported.contains_key(&id)
                    && step.shares.iter().any(|part| part.share.node == id)
            };
            for step in job.steps.values().filter(open) {
                fx.effects.push(Effect::Launch {
                    node: id,
                    job: job.id,
                    step: step.kind,
                });
            }
        }
    }

    fn runs_on(&self, job: JobId, node: NodeId) -> bool {
        self.jobs.get(&job).is_some_and(|job| {
            job.state == JobState::Running && job.allocation.iter().any(|share| share.node == node)
        })
    }

    /// Takes over what the node offers now. If that does not cover what jobs hold there, it waits until they hold nothing; until
    /// then no job is placed there. Of an agent that does not keep its GPUs in their places the node is drained as well.
    fn adopt_inventory(&mut self, at: Millis, id: NodeId, hello: &NodeHello) {
        let found = &hello.inventory;
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        node.next_inventory = None;
        if let Err(gone) = covers(found, node) {
            node.next_inventory = Some(found.clone());
            if hello.keeps_gpus != Some(true) && node.admin == AdminState::Up {
                node.admin = AdminState::Drain;
                node.reason = format!("jobs hold {gone}, which the node has no more");
                node.reason_by = Some((Uid(0), at));
            }
        } else {
            node.inventory = found.clone();
            let gpus = found.gpus.len();
            node.utilization
                .retain(|recent| (recent.gpu as usize) < gpus);
        }
    }

    pub(super) fn on_node_disconnected(
        &mut self,
        at: Millis,
        id: NodeId,
        fx: &mut Effects,
    ) -> Taken {
        let node = self.nodes.get_mut(&id).ok_or("no such node")?;
        if !node.connected {
            return Err("the node is not connected");
        }
        node.connected = false;
        node.last_seen = at;
        fx.touched_nodes.insert(id);
        fx.replan = true;
        Ok(())
    }

    pub(super) fn on_node_lost(&mut self, at: Millis, id: NodeId, fx: &mut Effects) -> Taken {
        let node = self.nodes.get_mut(&id).ok_or("no such node")?;
        if node.connected || node.lost {
            return Err("the node is not silent");
        }
        node.lost = true;
        fx.touched_nodes.insert(id);
        fx.replan = true;
        self.lose_jobs_of(at, id, fx);
        Ok(())
    }

    /// Running jobs of a node that is given up. The devices there stay held until the node is known to be clean.
    fn lose_jobs_of(&mut self, at: Millis, id: NodeId, fx: &mut Effects) {
        let jobs: BTreeSet<JobId> = self
            .nodes
            .get(&id)
            .map(|node| node.jobs.clone())
            .unwrap_or_default();
        for job in jobs {
            // A component of a job that was lost with another one runs no more.
            if !self.runs_on(job, id) {
                continue;
            }
            let lost = self.lose_job(at, job, id, None, fx);
            debug_assert!(lost.is_ok(), "a running job can be lost");
        }
    }

    pub(super) fn on_node_updated(
        &mut self,
        at: Millis,
        id: NodeId,
        admin: AdminState,
        (reason, by): (&str, Uid),
        fx: &mut Effects,
    ) -> Taken {
        let node = self.nodes.get_mut(&id).ok_or("no such node")?;
        node.admin = admin;
        if admin == AdminState::Up {
            node.trouble = None;
        }
        reason.clone_into(&mut node.reason);
        node.reason_by = if reason.is_empty() {
            None
        } else {
            Some((by, at))
        };
        fx.touched_nodes.insert(id);
        fx.replan = true;
        if admin == AdminState::Down {
            self.lose_jobs_of(at, id, fx);
        }
        Ok(())
    }

    pub(super) fn on_fence_changed(
        &mut self,
        id: NodeId,
        (fence, note, suffices): (FenceState, &str, Option<bool>),
        (gpus, stuck): (Option<(&IdSet, &[GpuNote])>, &[StuckJob]),
        fx: &mut Effects,
    ) -> Taken {
        let node = self.nodes.get_mut(&id).ok_or("no such node")?;
        node.fence = fence;
        node.fence_suffices = suffices;
        if let Some((sick, notes)) = gpus {
            node.gpus_sick = known(sick, &node.inventory);
            node.gpu_notes = noted(&node.gpus_sick, notes);
        }
        node.stuck = told(stuck);
        note.clone_into(&mut node.fence_note);
        fx.touched_nodes.insert(id);
        fx.replan = true;
        Ok(())
    }
}

/// Whether an inventory still has what is held on the node, by identity; otherwise what is missing.
fn covers(found: &Inventory, node: &Node) -> Result<(), String> {
    for index in node.gpus_used.iter() {
        let at = index as usize;
        let (old, new) = (node.inventory.gpus.get(at), found.gpus.get(at));
        let same = old.zip(new).is_some_and(|(old, new)| {
            (&old.uuid, &old.pci, &old.model) == (&new.uuid, &new.pci, &new.model)
        });
        if !same {
            return Err(format!("GPU {index}"));
        }
    }
    if let Some(cpu) = node.cpus_used.iter().find(|cpu| *cpu >= found.cpus) {
        return Err(format!("CPU {cpu}"));
    }
    if node.memory_used > found.memory_mib {
        return Err(format!("{} MiB of memory", node.memory_used));
    }
    Ok(())
}

/// Those GPUs of a set that the inventory has.
fn known(gpus: &IdSet, inventory: &Inventory) -> IdSet {
    let count = u32::try_from(inventory.gpus.len()).unwrap_or(u32::MAX);
    gpus.iter().filter(|gpu| *gpu < count).collect()
}

/// What is said of those GPUs: the first note of each, cut to a line.
fn noted(sick: &IdSet, notes: &[GpuNote]) -> Vec<GpuNote> {
    let of = |gpu: u32| {
        let note = notes.iter().find(|note| note.gpu == gpu)?;
        let why = note.why.chars().take(NOTE_CHARS_MAX).collect();
        Some(GpuNote { gpu, why })
    };
    sick.iter().filter_map(of).collect()
}

/// What is said of jobs that do not end, bounded.
fn told(stuck: &[StuckJob]) -> Vec<StuckJob> {
    let cut = |job: &StuckJob| StuckJob {
        job: job.job,
        what: job.what.chars().take(NOTE_CHARS_MAX).collect(),
    };
    stuck.iter().take(STUCK_MAX).map(cut).collect()
}

fn update_from(node: &mut Node, hello: &NodeHello, at: Millis) {
    node.connected = true;
    node.lost = false;
    node.last_seen = at;
    node.boot_id.clone_from(&hello.boot_id);
    node.boot_time = hello.boot_time;
    node.agent_start = hello.agent_start;
    node.fence = hello.fence;
    node.fence_note.clone_from(&hello.fence_note);
    node.fence_suffices = hello.fence_suffices;
    node.gpus_sick = known(
        hello.gpus_sick.as_ref().unwrap_or(&IdSet::new()),
        &hello.inventory,
    );
    node.gpu_notes = noted(&node.gpus_sick, &hello.gpu_notes);
    node.stuck = told(&hello.stuck);
    node.version.clone_from(&hello.version);
    node.os.clone_from(&hello.os);
    node.hostname.clone_from(&hello.hostname);
    node.address.clone_from(&hello.address);
}

fn new_node(id: NodeId, hello: &NodeHello) -> Node {
    Node {
        id,
        name: hello.name.clone(),
        inventory: hello.inventory.clone(),
        admin: AdminState::Up,
        reason: String::new(),
        reason_by: None,
        connected: false,
        last_seen: Millis::default(),
        boot_id: hello.boot_id.clone(),
        boot_time: hello.boot_time,
        agent_start: hello.agent_start,
        fence: hello.fence,
        fence_note: String::new(),
        version: String::new(),
        os: String::new(),
        hostname: String::new(),
        address: String::new(),
        load_x100: 0,
        free_mib: 0,
        cpus_used: IdSet::new(),
        memory_used: 0,
        gpus_used: IdSet::new(),
        gpus_sick: IdSet::new(),
        jobs: BTreeSet::new(),
        generation: Generation::default(),
        last_busy: Millis::default(),
        lost: false,
        next_inventory: None,
        fence_suffices: hello.fence_suffices,
        utilization: Vec::new(),
        trouble: None,
        gpu_notes: Vec::new(),
        stuck: Vec::new(),
    }
}

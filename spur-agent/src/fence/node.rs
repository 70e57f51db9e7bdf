//! The fence of this node: the BPF program and its pins, the device table, and one link for each job (and narrowed step).

mod adopt;
mod answers;

use super::bits::{self, Bits};
use super::change::{self, Memory};
use super::resolve::{Devices, Ungrantable, resolve};
use super::watched::{Wards, Watched};
use super::{mount, table};
use crate::config::Config;
use crate::discover::{Identity, Machine, tree::Tree};
use spur_core::id::{Generation, JobId, StepKind};
use spur_core::resources::IdSet;
use spur_ebpf::{
    Adopted, Audit, Counters, DeviceTable, Fence, Grants, JobFence, Policy, Rule, doctor,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub use super::mount::{MOUNTED_BY_AGENT, pins_of};

/// Name of the pin (and of the cgroup) of the self-test.
pub const PROBE: &str = "probe";

/// Refusals of a job that the kernel hands on at once and for each second; it counts all. More than the lines that are shown, since
/// [`crate::audit`] limits those for each device, and this limit knows no devices; little enough for the ring and its reader.
const AUDIT_BURST: u32 = 256;
const AUDIT_PER_SECOND: u32 = 200;

/// How old the last look at the devices may be when a job without GPUs is fenced.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What went wrong with the fence.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// BPF said no.
    #[error("{}", chain(.0))]
    Bpf(#[from] spur_ebpf::Error),
    /// A GPU cannot be granted.
    #[error(transparent)]
    Ungrantable(#[from] Ungrantable),
    /// The grant bits cannot be kept.
    #[error(transparent)]
    Bits(#[from] bits::BitsError),
    /// The guard's folder of cgroups cannot be found, or the like.
    #[error("no cgroup: {0}")]
    Cgroup(#[from] crate::cgroup::CgroupError),
    /// A GPU that the agent did not see when it started.
    #[error("GPU {0} has no grant bit: it was not there when spurd started; restart spurd")]
    NoBit(u32),
}

/// An error with its causes on one line, each said once (some errors name their cause in their own text).
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// A holder of a fence: what its policy says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Job.
    pub job: JobId,
    /// Step, for a narrowed one.
    pub step: Option<StepKind>,
    /// Generation of the placement.
    pub generation: Generation,
    /// GPUs, by index.
    pub gpus: IdSet,
}

impl Holder {
    /// The pin's name.
    pub fn pin(&self) -> String {
        match self.step {
            None => format!("job_{}", self.job),
            Some(step) => format!("job_{}_step_{step}", self.job),
        }
    }

    /// The step's number in policies: 0 for the job itself, 1 for the batch step, then counted from 2.
    fn step_code(&self) -> u32 {
        match self.step {
            None => 0,
            Some(StepKind::Batch) => 1,
            Some(StepKind::Numbered(number)) => number.saturating_add(2),
        }
    }
}

/// The fence of this node. Clones share everything; may be used from any thread.
#[derive(Clone, Debug)]
pub struct NodeFence(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: Config,
    pub(super) fence: Fence,
    /// What was proven of its program, which is ours to hold on to: not again for each cgroup.
    program: OnceLock<doctor::Program>,
    tree: Tree,
    machine: Machine,
    bits: Bits,
    look: Mutex<Look>,
    /// Every fence that must be up.
    pub(super) wards: Wards,
    /// The guard, once it was tried.
    pub(super) guard: Mutex<Option<spur_ebpf::Guard>>,
}

/// The last look at the devices, so that nothing is written when nothing changed.
#[derive(Debug)]
struct Look {
    /// When.
    at: Instant,
    devices: Devices,
    table: DeviceTable,
    memory: Memory,
    /// GPUs that were closed since they are about to go, and may be found again.
    leaving: Lost,
    /// GPUs that an earlier agent granted, until all its jobs are taken over.
    inherited: BTreeSet<u32>,
}

/// GPUs that were grantable until a look at the devices, with the numbers that they had.
pub type Lost = BTreeMap<u32, BTreeSet<(u32, u32)>>;

/// Opens the pinned fence, or loads it, and brings its device table up to date. From here on everything that is pinned by an
/// earlier agent is in force with this one's table.
pub fn open(config: &Config, machine: &Machine) -> Result<NodeFence, FenceError> {
    open_as(config, machine, Opened::ByAgent)
}

/// As [`open`], for somebody who only looks: the table of a fence that is in use stays as it is, and no grant bit is written down.
pub fn open_to_look(config: &Config, machine: &Machine) -> Result<NodeFence, FenceError> {
    open_as(config, machine, Opened::ToLook)
}

/// What for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    ByAgent,
    ToLook,
}

fn open_as(config: &Config, machine: &Machine, opened: Opened) -> Result<NodeFence, FenceError> {
    mount::mount(config)?;
    let pins = pins_of(config);
    let fence = match &config.fence_object {
        Some(object) => Fence::load_from_file(&pins, object)?,
        None => Fence::open_or_load(&pins)?,
    };
    let held = held_bits(&fence, &config.cgroup)?;
    let shared = machine.identities.iter().flat_map(Identity::shares);
    let identities: Vec<Identity> = machine.identities.iter().cloned().chain(shared).collect();
    let mut bits = Bits::open(&config.state_dir, &identities, &held)?;
    if opened == Opened::ByAgent {
        bits.keep()?;
    }
    let (granted, inherited) = granted_before(&fence.devices()?, machine, &bits, &held);
    let mut memory = Memory::starting_from(&granted);
    let tree = Tree::new(&config.root);
    let mut devices = resolve(&tree, machine, &config.declare, config.fence_infiniband);
    memory.apply(&mut devices, &inherited);
    let in_force = fence.devices()?;
    let table = if opened == Opened::ToLook && in_force != DeviceTable::default() {
        in_force
    } else {
        let table = table::of(&devices, machine, &bits)?;
        fence.set_devices(&table)?;
        table
    };
    let look = Look {
        at: Instant::now(),
        devices,
        table,
        memory,
        leaving: Lost::new(),
        inherited,
    };
    Ok(NodeFence(Arc::new(Inner {
        config: config.clone(),
        fence,
        program: OnceLock::new(),
        tree,
        machine: machine.clone(),
        bits,
        look: Mutex::new(look),
        wards: Wards::default(),
        guard: Mutex::new(None),
    })))
}

/// The numbers that an earlier agent's table gave to each GPU that a living policy holds, and which GPUs those are.
fn granted_before(
    table: &DeviceTable,
    machine: &Machine,
    bits: &Bits,
    held: &BTreeSet<u16>,
) -> (Lost, BTreeSet<u32>) {
    let mut granted = Lost::new();
    for (index, identity) in (0u32..).zip(&machine.identities) {
        let Some(bit) = bits.of(identity).filter(|bit| held.contains(&bit.number())) else {
            continue;
        };
        let numbers = table.devices().filter(|(_, rule)| *rule == Rule::Bit(bit));
        granted.insert(
            index,
            numbers
                .map(|(device, _)| (device.major, device.minor))
                .collect(),
        );
    }
    let inherited = granted.keys().copied().collect();
    (granted, inherited)
}

/// Bits that policies of living links hold.
fn held_bits(fence: &Fence, folder: &Path) -> Result<BTreeSet<u16>, FenceError> {
    let mut held = BTreeSet::new();
    let Ok(mount) = crate::cgroup::Root::mount() else {
        return Ok(held);
    };
    for link in fence
        .links()?
        .into_iter()
        .filter(|link| link.cgroup.is_some())
    {
        let Some(path) = cgroup_of_pin(&mount.join(folder), &link.name) else {
            continue;
        };
        if let Adopted::Fence(job) = fence.adopt(&link.name, &path)? {
            let policy = job.read_policy()?.unwrap_or_default();
            held.extend(policy.grants.iter().map(spur_ebpf::GrantBit::number));
        }
    }
    Ok(held)
}

/// The cgroup that a pin of ours fences, by its name; `None` if there is no such cgroup.
fn cgroup_of_pin(root: &Path, pin: &str) -> Option<PathBuf> {
    let path = match pin.split_once("_step_") {
        Some((job, step)) => root.join(job).join(format!("step_{step}")),
        None => root.join(pin),
    };
    path.is_dir().then_some(path)
}

impl NodeFence {
    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    fn look(&self) -> MutexGuard<'_, Look> {
        self.0.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks all devices up again and, if a number changed, writes the table: what is gone is closed before anything new opens.
    /// Gives the GPUs that could be granted before and cannot any more.
    pub fn refresh(&self) -> Result<Lost, FenceError> {
        self.look_again(|_| {})
    }

    /// As [`Self::refresh`], when the kernel has done what it announced to [`Self::close`]. What was closed then and is not found again
    /// is among what is given.
    pub fn settle(&self) -> Result<Lost, FenceError> {
        let mut lost = self.look_again(Memory::settled)?;
        let mut look = self.look();
        let closed = std::mem::take(&mut look.leaving).into_iter();
        lost.extend(closed.filter(|(index, _)| {
            let own = look.devices.own.get(*index as usize);
            own.is_some_and(Result::is_err)
        }));
        Ok(lost)
    }

    /// Closes the GPUs whose identity `leaves`, at once and until [`Self::settle`]: the number of a device that goes away may be
    /// another's in the next moment.
    pub fn close(&self, leaves: impl Fn(&Identity) -> bool) -> Result<(), FenceError> {
        let identities = (0u32..).zip(&self.0.machine.identities);
        let gone: Vec<u32> = identities
            .filter(|(_, identity)| leaves(identity))
            .map(|(index, _)| index)
            .collect();
        if !gone.is_empty() {
            let lost = self.look_again(|memory| memory.leaves(gone))?;
            self.look().leaving.extend(lost);
        }
        Ok(())
    }

    fn look_again(&self, remember: impl FnOnce(&mut Memory)) -> Result<Lost, FenceError> {
        let Inner {
            config,
            fence,
            tree,
            machine,
            bits,
            wards,
            ..
        } = &*self.0;
        let mut look = self.look();
        remember(&mut look.memory);
        let mut held = wards.gpus();
        held.extend(&look.inherited);
        let mut devices = resolve(tree, machine, &config.declare, config.fence_infiniband);
        look.memory.apply(&mut devices, &held);
        look.at = Instant::now();
        if look.devices == devices {
            return Ok(Lost::new());
        }
        let table = table::of(&devices, machine, bits)?;
        fence.set_devices(&table)?;
        let lost = change::lost(&look.devices, &devices);
        (look.devices, look.table) = (devices, table);
        Ok(lost)
    }

    /// Whether the kernel has the table that was written last.
    pub(super) fn has_its_table(&self) -> bool {
        let look = self.look();
        self.0
            .fence
            .devices()
            .is_ok_and(|table| table == look.table)
    }

    /// Writes it again.
    pub(super) fn write_table_again(&self) -> Result<(), FenceError> {
        let look = self.look();
        Ok(self.0.fence.set_devices(&look.table)?)
    }

    /// Fences a cgroup that has no process yet, for this holder: link, pin, policy, and a second look by other code.
    pub fn attach(&self, cgroup: &Path, holder: &Holder) -> Result<JobFence, FenceError> {
        // Who is granted nothing is refused every number of the table, so nothing hangs on this moment.
        if !holder.gpus.is_empty() || self.look().at.elapsed() > LOOK_AGAIN {
            self.refresh()?;
        }
        self.look().devices.grant(&holder.gpus)?;
        let policy = self.policy(holder)?;
        self.put_up(cgroup, &holder.pin(), &policy, holder.gpus.clone())
    }

    /// Link, pin, policy, the second look; from then on it is watched.
    fn put_up(
        &self,
        cgroup: &Path,
        pin: &str,
        policy: &Policy,
        gpus: IdSet,
    ) -> Result<JobFence, FenceError> {
        let job = self.0.fence.attach(cgroup, pin)?;
        job.write_policy(policy)?;
        self.verify(pin, cgroup)?;
        self.0
            .wards
            .add(pin, Watched::new(cgroup, &job, policy.clone(), gpus));
        Ok(job)
    }

    /// Fences a cgroup without granting anything, for the self-test.
    pub fn attach_empty(&self, cgroup: &Path, pin: &str) -> Result<JobFence, FenceError> {
        let job = self.0.fence.attach(cgroup, pin)?;
        job.write_policy(&Policy {
            quiet: true,
            ..Policy::default()
        })?;
        self.verify(pin, cgroup)?;
        Ok(job)
    }

    /// Reads back, through aya, that the kernel runs our program for this cgroup.
    pub fn verify(&self, pin: &str, cgroup: &Path) -> Result<doctor::Proof, FenceError> {
        let pins = self.0.fence.pins();
        let program = match self.0.program.get() {
            Some(program) => *program,
            None => {
                let program = doctor::verify_program(pins)?;
                *self.0.program.get_or_init(|| program)
            }
        };
        Ok(doctor::verify_link(pins, pin, cgroup, program)?)
    }

    /// What a holder's policy says, whether or not its GPUs are there now.
    fn policy(&self, holder: &Holder) -> Result<Policy, FenceError> {
        Ok(Policy {
            job: u64::from(holder.job.0),
            step: holder.step_code(),
            generation: holder.generation.0,
            grants: self.grants(&holder.gpus)?,
            audit_burst: AUDIT_BURST,
            audit_per_second: AUDIT_PER_SECOND,
            ..Policy::default()
        })
    }

    fn grants(&self, gpus: &IdSet) -> Result<Grants, FenceError> {
        let look = self.look();
        let mut grants = Grants::none();
        for index in gpus.iter() {
            let at = index as usize;
            let identity = self
                .0
                .machine
                .identities
                .get(at)
                .ok_or(FenceError::NoBit(index))?;
            for needed in std::iter::once(identity.clone()).chain(identity.shares()) {
                let bit = self.0.bits.of(&needed);
                grants.insert(bit.ok_or(FenceError::NoBit(index))?);
            }
            let vendor = look.devices.vendors.get(at);
            grants.insert(bits::shared(*vendor.ok_or(FenceError::NoBit(index))?));
        }
        Ok(grants)
    }

    /// Pins that nobody in `wanted` needs are removed: of cgroups that are gone, and of jobs that are unknown.
    pub fn collect_garbage(&self, wanted: &BTreeSet<String>) -> Result<Vec<String>, FenceError> {
        let mut removed = self.0.fence.remove_stale_links()?;
        for link in self.0.fence.links()? {
            if !wanted.contains(&link.name) {
                self.unpin(&link.name)?;
                removed.push(link.name);
            }
        }
        Ok(removed)
    }

    /// Removes a pin, whatever it fences.
    fn unpin(&self, name: &str) -> Result<(), FenceError> {
        Ok(self.0.fence.unpin(name)?)
    }

    /// Stops watching a job's fences, and gives them: its cgroups are about to be removed, and their links with them.
    pub fn stop_watching(&self, job: JobId) -> Vec<JobFence> {
        self.0.wards.remove_job(job)
    }

    /// Lifts the fence of a job and of its steps, whose cgroups are gone: `known` are those that were watched. Costs no more for other
    /// jobs that run.
    pub fn detach(&self, job: JobId, known: &[JobFence]) -> Result<(), FenceError> {
        for fence in known {
            fence.follow_cgroup()?;
        }
        let own = format!("job_{job}");
        let steps = format!("job_{job}_step_");
        for name in self.0.fence.link_names()? {
            if name == own || name.starts_with(&steps) {
                self.unpin(&name)?;
            }
        }
        if self.look().memory.has_frozen() {
            self.refresh()?;
        }
        Ok(())
    }

    /// A reader of the audit ring.
    pub fn audit(&self) -> Result<Audit, FenceError> {
        Ok(self.0.fence.audit()?)
    }

    /// Kernel id of the program.
    pub fn program_id(&self) -> u32 {
        self.0.fence.program_id()
    }
}

/// Refusals of a fence; zero when they cannot be read (the cgroup may be gone).
pub fn counters(fence: &JobFence) -> Counters {
    fence.counters().unwrap_or_default()
}

#[cfg(test)]
mod tests;

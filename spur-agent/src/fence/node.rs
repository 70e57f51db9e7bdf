//! The fence of this node: the BPF program and its pins, the device table, and one link for each job (and narrowed step).

use super::bits::{self, Bits};
use super::classes::Fenced;
use super::resolve::{Devices, Ungrantable, resolve};
use crate::config::{Config, Declare};
use crate::discover::{Machine, tree::Tree};
use spur_core::id::{Generation, JobId, StepKind};
use spur_core::resources::IdSet;
use spur_ebpf::{
    Adopted, Audit, Counters, DeviceNumber, DeviceTable, Fence, Grants, JobFence, MajorClass,
    Policy, Rule, doctor,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the pin (and of the cgroup) of the self-test.
pub const PROBE: &str = "probe";

/// Refusals of a job that the kernel hands on at once and for each second; it counts all. More than the lines that are shown, since
/// [`crate::audit`] limits those for each device, and this limit knows no devices; little enough for the ring and its reader.
const AUDIT_BURST: u32 = 256;
const AUDIT_PER_SECOND: u32 = 200;

/// Folder in a BPF file system that an agent mounted.
pub const MOUNTED_BY_AGENT: &str = "mounted_by_spurd";

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
struct Inner {
    fence: Fence,
    tree: Tree,
    machine: Machine,
    declare: Declare,
    infiniband: bool,
    bits: Bits,
    /// The devices and the table of the last look, so that nothing is written when nothing changed.
    last: Mutex<(Devices, DeviceTable)>,
}

/// Opens the pinned fence, or loads it, and brings its device table up to date. From here on everything that is pinned by an
/// earlier agent is in force with this one's table.
pub fn open(config: &Config, machine: &Machine) -> Result<NodeFence, FenceError> {
    mount(config)?;
    let pins = pins_of(config);
    let fence = match &config.fence_object {
        Some(object) => Fence::load_from_file(&pins, object)?,
        None => Fence::open_or_load(&pins)?,
    };
    let held = held_bits(&fence, &config.cgroup)?;
    let bits = Bits::open(&config.state_dir, &machine.identities, &held)?;
    let tree = Tree::new(&config.root);
    let devices = resolve(&tree, machine, &config.declare, config.fence_infiniband);
    let table = table(&devices, machine, &bits)?;
    fence.set_devices(&table)?;
    Ok(NodeFence(Arc::new(Inner {
        fence,
        tree,
        machine: machine.clone(),
        declare: config.declare.clone(),
        infiniband: config.fence_infiniband,
        bits,
        last: Mutex::new((devices, table)),
    })))
}

/// Mounts a BPF file system if there is none, and leaves a mark in it, so that the last agent to leave takes it away.
fn mount(config: &Config) -> Result<(), FenceError> {
    // Agents of one cluster may share a machine and its mount and start at once: a second mount would hide the first one's pins.
    // The kernel gives the turn back with the file.
    let _turn = take_turn(&config.token_file);
    let at = config.bpffs.to_string_lossy().into_owned();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let before = mounts.lines().any(|line| {
        let mut fields = line.split(' ');
        (fields.nth(1), fields.next()) == (Some(&*at), Some("bpf"))
    });
    spur_ebpf::mount_bpffs_if_needed(&config.bpffs)?;
    if !before && let Err(error) = std::fs::create_dir(config.bpffs.join(MOUNTED_BY_AGENT)) {
        tracing::warn!(bpffs = at, %error, "it will stay mounted");
    }
    Ok(())
}

/// Waits until no other agent of the cluster is at this. The lock is on the token because only root can open that: whoever can open
/// what is locked here can keep every agent from starting. Without a token there is no second agent either.
fn take_turn(token_file: &Path) -> Option<std::fs::File> {
    let token = std::fs::File::open(token_file).ok()?;
    rustix::fs::flock(&token, rustix::fs::FlockOperation::LockExclusive).ok()?;
    Some(token)
}

/// Where the agent's pins are.
pub fn pins_of(config: &Config) -> PathBuf {
    config.bpffs.join(&config.pins)
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

/// The BPF table for the devices of this moment.
fn table(devices: &Devices, machine: &Machine, bits: &Bits) -> Result<DeviceTable, FenceError> {
    let mut table = DeviceTable::new();
    table.deny_memory();
    for fenced in &devices.fenced {
        match *fenced {
            Fenced::Major(major) => {
                table.set_major(major, MajorClass::Whole);
            }
            Fenced::Device(major, minor) => {
                if table.class(major).is_none() {
                    table.set_major(major, MajorClass::Listed);
                }
                table.list(DeviceNumber { major, minor }, Rule::Never);
            }
        }
    }
    for (identity, files) in machine.identities.iter().zip(&devices.own) {
        let (Ok(files), Some(bit)) = (files, bits.of(identity)) else {
            continue;
        };
        for file in files {
            table.list(number(file), Rule::Bit(bit));
        }
    }
    for (vendor, files) in &devices.shared {
        for file in files {
            table.list(number(file), Rule::Bit(bits::shared(*vendor)));
        }
    }
    table.check()?;
    Ok(table)
}

fn number(file: &spur_core::resources::DeviceFile) -> DeviceNumber {
    DeviceNumber {
        major: file.major,
        minor: file.minor,
    }
}

impl NodeFence {
    /// Looks all devices up again and, if a number changed, writes the table: what is gone is closed before anything new opens.
    pub fn refresh(&self) -> Result<(), FenceError> {
        let Inner {
            fence,
            tree,
            machine,
            declare,
            infiniband,
            bits,
            last,
        } = &*self.0;
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let devices = resolve(tree, machine, declare, *infiniband);
        if last.0 != devices {
            let table = table(&devices, machine, bits)?;
            fence.set_devices(&table)?;
            *last = (devices, table);
        }
        Ok(())
    }

    /// Fences a cgroup that has no process yet, for this holder: link, pin, policy, and a second look by other code.
    pub fn attach(&self, cgroup: &Path, holder: &Holder) -> Result<JobFence, FenceError> {
        self.refresh()?;
        let policy = self.policy(holder)?;
        let job = self.0.fence.attach(cgroup, &holder.pin())?;
        job.write_policy(&policy)?;
        self.verify(&holder.pin(), cgroup)?;
        Ok(job)
    }

    /// Takes over the fence of a job after a restart. One that is gone is put up again at once, closed until its policy is written.
    /// The second value says that it was gone.
    pub fn adopt(&self, cgroup: &Path, holder: &Holder) -> Result<(JobFence, bool), FenceError> {
        match self.0.fence.adopt(&holder.pin(), cgroup)? {
            Adopted::Fence(job) if job.read_policy()?.is_some() => Ok((job, false)),
            Adopted::Fence(_) | Adopted::Missing => Ok((self.attach(cgroup, holder)?, true)),
            Adopted::Elsewhere(_) => {
                self.unpin(&holder.pin())?;
                Ok((self.attach(cgroup, holder)?, true))
            }
        }
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
        Ok(doctor::verify(self.0.fence.pins(), pin, cgroup)?)
    }

    fn policy(&self, holder: &Holder) -> Result<Policy, FenceError> {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.0.grant(&holder.gpus)?;
        let mut grants = Grants::none();
        for index in holder.gpus.iter() {
            let at = index as usize;
            let identity = self
                .0
                .machine
                .identities
                .get(at)
                .ok_or(FenceError::NoBit(index))?;
            grants.insert(self.0.bits.of(identity).ok_or(FenceError::NoBit(index))?);
            grants.insert(bits::shared(
                *last.0.vendors.get(at).ok_or(FenceError::NoBit(index))?,
            ));
        }
        Ok(Policy {
            job: u64::from(holder.job.0),
            step: holder.step_code(),
            generation: holder.generation.0,
            grants,
            audit_burst: AUDIT_BURST,
            audit_per_second: AUDIT_PER_SECOND,
            ..Policy::default()
        })
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

    /// Lifts the fence of a job and of its steps. The cgroup must be empty.
    pub fn detach(&self, job: JobId) -> Result<(), FenceError> {
        let own = format!("job_{job}");
        let steps = format!("job_{job}_step_");
        for link in self.0.fence.links()? {
            if link.name == own || link.name.starts_with(&steps) {
                self.unpin(&link.name)?;
            }
        }
        Ok(())
    }

    /// The nodes of these GPUs that have a driver behind them, to be looked for among open files; stand-ins have none.
    pub fn real_nodes(&self, gpus: &IdSet) -> BTreeSet<(u32, u32)> {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let simulated = spur_core::resources::GpuVendor::Simulated;
        gpus.iter()
            .filter(|index| last.0.vendors.get(*index as usize) != Some(&simulated))
            .filter_map(|index| last.0.own.get(index as usize)?.as_ref().ok())
            .flatten()
            .map(|file| (file.major, file.minor))
            .collect()
    }

    /// The numbers of all nodes that a holder of these GPUs may open.
    pub fn nodes(&self, gpus: &IdSet) -> BTreeSet<(u32, u32)> {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let files = last.0.grant(gpus).unwrap_or_default();
        files.iter().map(|file| (file.major, file.minor)).collect()
    }

    /// The path of a device, for people; empty if unknown.
    pub fn path_of(&self, major: u32, minor: u32) -> String {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.0.path_of(major, minor).to_owned()
    }

    /// The maker of the GPU that a device belongs to.
    pub fn vendor_of(&self, major: u32, minor: u32) -> Option<spur_core::resources::GpuVendor> {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.0.vendor_of(major, minor)
    }

    /// GPUs that cannot be granted now, with the reason.
    pub fn ungrantable(&self) -> Vec<(u32, String)> {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let all = (0u32..).zip(&last.0.own);
        all.filter_map(|(index, own)| Some((index, own.as_ref().err()?.to_string())))
            .collect()
    }

    /// The table in force, for `doctor`.
    pub fn table(&self) -> DeviceTable {
        self.0
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .clone()
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

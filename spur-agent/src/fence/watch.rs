//! Is every fence still up? Root can take programs off by hand, and the kernel tells nobody: so it is looked, several times a
//! second, and what was taken off is put back.

use super::node::{FenceError, NodeFence, chain};
use super::watched::Watched;
use super::{mount, table};
use spur_core::id::JobId;
use spur_ebpf::{GuardFault, Hook, LinkState};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::sync::PoisonError;

/// What is wrong with one fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its link.
    Link(LinkState),
    /// Its policy is not the one that was written.
    Policy,
    /// It cannot be looked at.
    Unknown,
}

/// Everything that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Fences, by pin.
    pub fences: Vec<(String, Fault)>,
    /// Pins of the program and its maps that are gone.
    pub pins: Vec<&'static str>,
    /// Programs of the guard.
    pub guard: Vec<(Hook, GuardFault)>,
    /// The table of devices is not the one that was written.
    pub table: bool,
}

impl Faults {
    /// Whether all is well.
    pub fn is_empty(&self) -> bool {
        self.fences.is_empty() && self.pins.is_empty() && self.guard.is_empty() && !self.table
    }

    /// In words, bounded however many there are.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        let names: Vec<&str> = self.fences.iter().map(|(pin, _)| pin.as_str()).collect();
        if !names.is_empty() {
            parts.push(format!("the fence of {} was taken off", some(&names)));
        }
        if self.table {
            parts.push("the table of devices was changed".to_owned());
        }
        if !self.pins.is_empty() {
            parts.push(format!("pins {} were removed", some(&self.pins)));
        }
        let hooks: Vec<&str> = self.guard.iter().map(|(hook, _)| hook.name()).collect();
        if !hooks.is_empty() {
            parts.push(format!("the guard's {} were unpinned", some(&hooks)));
        }
        parts.join("; ")
    }
}

/// The first few of many names.
fn some(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 4;
    let shown = names.get(..SHOWN_MAX).unwrap_or(names).join(", ");
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl NodeFence {
    /// Looks at every fence: three system calls each.
    pub fn faults(&self) -> Faults {
        let inner = self.inner();
        let mut faults = Faults {
            pins: inner.fence.missing_pins(),
            table: !self.has_its_table(),
            ..Faults::default()
        };
        for pin in inner.wards.pins() {
            match inner.wards.with(&pin, look_at) {
                Some(Look::Fault(fault)) => faults.fences.push((pin, fault)),
                Some(Look::Gone) => inner.wards.remove(&pin),
                Some(Look::Up) | None => {}
            }
        }
        let guard = inner.guard.lock().unwrap_or_else(PoisonError::into_inner);
        faults.guard = guard
            .as_ref()
            .map(spur_ebpf::Guard::check)
            .unwrap_or_default();
        faults
    }

    /// Puts everything back. Gives the jobs whose fence cannot be put back, with the reason, and what else is wrong still.
    pub fn repair(&self, faults: &Faults) -> (Vec<(JobId, String)>, Result<(), FenceError>) {
        let inner = self.inner();
        let base = mount::mount(&inner.config)
            .and_then(|()| inner.fence.restore_pins().map_err(FenceError::from))
            .and_then(|()| self.write_table_again());
        let mut open = Vec::new();
        for (pin, _) in &faults.fences {
            // Under the list's lock, so that a job that is just being removed is not fenced anew.
            let outcome = inner
                .wards
                .with(pin, |ward| (ward.job(), self.put_back(pin, ward)));
            if let Some((job, Err(error))) = outcome {
                open.push((job, chain(&error)));
            }
        }
        let guard = inner.guard.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = guard.as_ref().map_or(Ok(()), |guard| Ok(guard.restore()?));
        (open, base.and(guard))
    }

    /// The jobs whose fences these are.
    pub fn jobs_of(&self, faults: &Faults) -> BTreeSet<JobId> {
        let wards = &self.inner().wards;
        let jobs = faults.fences.iter();
        jobs.filter_map(|(pin, _)| wards.with(pin, Watched::job))
            .collect()
    }

    /// Every job with a fence.
    pub fn jobs(&self) -> BTreeSet<JobId> {
        let wards = &self.inner().wards;
        let pins = wards.pins().into_iter();
        pins.filter_map(|pin| wards.with(&pin, Watched::job))
            .collect()
    }

    /// What tells devices that this job must not hold from all others; `None` if the job has no fence here.
    pub fn foreign(&self, job: JobId) -> Option<impl Fn(u32, u32) -> bool + use<>> {
        let grants = self
            .inner()
            .wards
            .with(&format!("job_{job}"), |ward| ward.policy.grants.clone())?;
        let table = self.table();
        Some(move |major, minor| table::refuses(&table, &grants, major, minor))
    }

    fn put_back(&self, pin: &str, ward: &Watched) -> Result<(), FenceError> {
        let job = self.inner().fence.restore(&ward.cgroup, pin)?;
        job.write_policy(&ward.policy)?;
        self.verify(pin, &ward.cgroup)?;
        Ok(())
    }
}

enum Look {
    Up,
    /// The cgroup is gone, and its fence with it.
    Gone,
    Fault(Fault),
}

fn look_at(ward: &Watched) -> Look {
    let fault = match ward.fence.check() {
        Ok(LinkState::Up) => match ward.fence.read_policy() {
            Ok(Some(policy)) if policy == ward.policy => return Look::Up,
            Ok(_) => Fault::Policy,
            Err(_) => Fault::Unknown,
        },
        Ok(state) => Fault::Link(state),
        Err(_) => Fault::Unknown,
    };
    let same =
        std::fs::metadata(&ward.cgroup).is_ok_and(|meta| meta.ino() == ward.fence.cgroup().0);
    if same { Look::Fault(fault) } else { Look::Gone }
}

//! The thread that looks at devices through the kernel: amdgpu's files, who has which GPU open, and what DRM clients say. A driver
//! that hangs holds this thread alone.

use super::claims::{Board, Claims};
use super::device::DeviceLook;
use super::kernel::Kernel;
use super::latest::Latest;
use super::read::amd::{self, AmdGpu};
use super::read::fdinfo::{self, Seen};
use super::sampler::uptime;
use super::whose;
use crate::discover::tree::Tree;
use crate::fence::holders;
use crate::sys::clock;
use spur_core::id::JobId;
use spur_core::resources::{Gpu, GpuVendor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What is read seldom is read every so many milliseconds.
const DEEP_EVERY: u64 = 10_000;

/// Between two lists of who has a GPU open, at least and at most, ms; in between, so that it takes a four hundredth of the time.
const HOLDERS_MIN: u64 = 2_000;
const HOLDERS_MAX: u64 = 60_000;
const HOLDERS_SHARE: u64 = 400;

/// Between two questions to clients, ms.
const CLIENTS_EVERY: u64 = 1_000;

/// Whoever has a GPU open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holding {
    job: JobId,
    pid: u32,
    gpu: u32,
}

/// What the thread looks at.
#[derive(Debug)]
pub struct Watcher {
    /// Where it finds `/proc` and `/sys`.
    pub tree: Tree,
    /// `/proc`.
    pub proc: PathBuf,
    /// The agent's folder in the v2 tree.
    pub folder: PathBuf,
    /// AMD's GPUs.
    pub amd: Vec<AmdGpu>,
    /// GPUs with a device node of their own, of which clients can be asked if they are plain DRM devices.
    pub gpus: Vec<Gpu>,
    /// Finds who has what open.
    pub kernel: Arc<dyn Kernel>,
    /// Where the looks go. The thread ends when nobody is left to see them.
    pub latest: Weak<Latest>,
    /// Where the claims go.
    pub board: Arc<Board>,
}

#[derive(Debug, Default)]
struct Times {
    looked: u64,
    deep: u64,
    holders: u64,
    clients: u64,
}

impl Watcher {
    /// Looks until nobody sees it.
    pub fn run(mut self) {
        let mut times = Times::default();
        let mut seen = Seen::default();
        let mut holdings = BTreeSet::new();
        let mut buffer = Vec::new();
        loop {
            let Some(latest) = self.latest.upgrade() else {
                return;
            };
            let now = uptime();
            let mut interval = CLIENTS_EVERY;
            if !self.amd.is_empty() {
                interval = latest.wanted();
                let looks = self.look_amd(&mut times, now, &mut buffer);
                latest.publish(now, looks);
            }
            let (wanted, ask) = self.board.wanted();
            if wanted {
                if now >= times.holders {
                    holdings = self.holdings();
                    let took = uptime() - now;
                    times.holders = now + (took * HOLDERS_SHARE).clamp(HOLDERS_MIN, HOLDERS_MAX);
                    self.publish(&holdings, ask, &mut seen, &mut times, now);
                } else if ask && now >= times.clients {
                    self.publish(&holdings, ask, &mut seen, &mut times, now);
                }
            }
            let cpu = u64::try_from(clock::thread_cpu().as_micros()).unwrap_or(u64::MAX);
            latest.set_cost(cpu, 0);
            drop(latest);
            let rest = interval.saturating_sub(uptime() - now).max(10);
            std::thread::sleep(Duration::from_millis(rest));
        }
    }

    fn look_amd(
        &mut self,
        times: &mut Times,
        now: u64,
        buffer: &mut Vec<u8>,
    ) -> BTreeMap<u32, DeviceLook> {
        let span = if times.looked == 0 {
            0
        } else {
            now - times.looked
        };
        let deep = now >= times.deep;
        if deep {
            times.deep = now + DEEP_EVERY;
        }
        times.looked = now;
        let mut looks: BTreeMap<u32, DeviceLook> = self
            .amd
            .iter_mut()
            .filter_map(|gpu| gpu.look(span, deep, buffer).map(|look| (gpu.index, look)))
            .collect();
        amd::processes(&self.tree, &self.amd, &mut looks);
        looks
    }

    /// Who of the jobs has which GPU open: by the kernel's iterator over open files, or else by looking through the jobs' processes.
    fn holdings(&self) -> BTreeSet<Holding> {
        let numbers: BTreeMap<(u32, u32), u32> = self
            .gpus
            .iter()
            .filter_map(|gpu| {
                gpu.files
                    .first()
                    .map(|file| ((file.major, file.minor), gpu.index))
            })
            .collect();
        let wanted = |major, minor| numbers.contains_key(&(major, minor));
        let found: Vec<(u32, (u32, u32))> = self.kernel.holders(&wanted).unwrap_or_else(|| {
            let everybody = holders::everybody();
            let ours =
                everybody.filter(|pid| whose::job_of(&self.proc, &self.folder, *pid).is_some());
            let found = holders::find(ours, &wanted);
            found
                .into_iter()
                .map(|holder| (holder.pid, holder.device))
                .collect()
        });
        let holding = |(pid, device): (u32, (u32, u32))| {
            let gpu = *numbers.get(&device)?;
            let job = whose::job_of(&self.proc, &self.folder, pid)?;
            Some(Holding { job, pid, gpu })
        };
        found.into_iter().filter_map(holding).collect()
    }

    fn publish(
        &self,
        holdings: &BTreeSet<Holding>,
        ask: bool,
        seen: &mut Seen,
        times: &mut Times,
        now: u64,
    ) {
        let span = if times.clients == 0 {
            0
        } else {
            (now + CLIENTS_EVERY).saturating_sub(times.clients)
        };
        let mut claims = Claims {
            uptime: now,
            span,
            asked: ask,
            gpus: self.gpus.iter().map(|gpu| gpu.index).collect(),
            ..Claims::default()
        };
        for holding in holdings {
            claims
                .by
                .entry((holding.job, holding.gpu))
                .or_default()
                .holders += 1;
        }
        if ask {
            times.clients = now + CLIENTS_EVERY;
            self.ask(holdings, seen, span, &mut claims);
        }
        self.board.publish(claims);
    }

    /// Asks the clients of plain DRM devices. A client that several processes have is the first one's.
    fn ask(&self, holdings: &BTreeSet<Holding>, seen: &mut Seen, span: u64, claims: &mut Claims) {
        let mut all = BTreeSet::new();
        for holding in holdings {
            let gpu = self.gpus.iter().find(|gpu| gpu.index == holding.gpu);
            let Some(gpu) = gpu.filter(|gpu| gpu.vendor == GpuVendor::Drm) else {
                continue;
            };
            let Some(node) = gpu.files.first() else {
                continue;
            };
            for client in fdinfo::of_process(&self.proc, holding.pid, &node.path) {
                if !all.insert((gpu.index, client.id)) {
                    continue;
                }
                let claim = claims.by.entry((holding.job, holding.gpu)).or_default();
                if !client.busy_ns.is_empty() || !client.cycles.is_empty() {
                    let us = seen.take(gpu.index, &client, span);
                    claim.busy_us = Some(claim.busy_us.unwrap_or(0).saturating_add(us));
                }
                if let Some(bytes) = client.memory {
                    claim.memory = Some(claim.memory.unwrap_or(0).saturating_add(bytes));
                }
            }
        }
        seen.pass(&all);
    }
}

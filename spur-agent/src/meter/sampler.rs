//! The sampler: one thread that reads everything, once a second, ten times a second while somebody looks, and keeps the accounts.

mod devices;
mod jobs;
mod look;
mod tell;

use super::account::job::Job;
use super::claims::Board;
use super::governor::Governor;
use super::input::Input;
use super::kernel::{Counts, GpuWork, Kernel};
use super::latest::Latest;
use super::outlet::Outlet;
use super::read::group::Files;
use super::read::rss::Processes;
use super::read::standin::StandIn;
use super::ring::Ring;
use super::state::Saved;
use super::stream::{Item, Shared};
use crate::sys::clock;
use devices::{Device, Watched};
use spur_core::id::{JobId, NodeName, StepKind};
use spur_core::resources::Gpu;
use spur_core::usage::idle::IdlePolicy;
use spur_core::usage::words::UsageRecord;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Milliseconds between readings when nobody looks, and between readings of files always.
pub const SECOND: u64 = 1_000;

/// A longer time without a look is a gap: what is known by looking only is not known of it, ms.
pub const GAP: u64 = 15_000;

/// How often what a restarted meter needs is written, ms.
const SAVE_EVERY: u64 = 5_000;

/// How soon after a step's beginning or end, and after the write before, ms: a meter that is killed shall know of it.
const SAVE_SOON: u64 = 250;

/// Records that may wait for the stream's thread.
const BACKLOG_MAX: usize = 10_000;

/// What does not change while the meter runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// This node.
    pub node: NodeName,
    /// Its GPUs.
    pub gpus: Vec<Gpu>,
    /// GPUs by the name of their device on its bus, as `drm_sched` tells it.
    pub names: BTreeMap<String, u32>,
    /// GPUs by the name of their device, as `dmem.current` calls their memory.
    pub regions: BTreeMap<String, u32>,
    /// Files of stand-ins.
    pub standins: Vec<(u32, PathBuf)>,
    /// When a GPU counts as idle.
    pub policy: IdlePolicy,
    /// Where jobs' control groups are.
    pub groups: PathBuf,
    /// The same within the v2 tree.
    pub folder: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

/// A group whose files are open.
#[derive(Debug)]
struct OpenGroup {
    path: PathBuf,
    cgroup: u64,
    /// Opened when they are read first: most of a short step's life is its beginning.
    files: Option<Files>,
    processes: Processes,
    /// When its processes' memory is added up next, where no file tells it, ms since boot.
    resident_at: u64,
    /// `memory.stat` was read once.
    seen: bool,
}

impl OpenGroup {
    fn files(&mut self) -> &mut Files {
        self.files.get_or_insert_with(|| Files::open(&self.path))
    }
}

/// A job that is here.
#[derive(Debug, Default)]
struct Present {
    job: Job,
    groups: BTreeMap<StepKind, OpenGroup>,
}

/// What the sampler is given.
#[derive(Debug)]
pub struct Ends {
    /// From the agent.
    pub inputs: Receiver<Input>,
    /// To the stream.
    pub items: mpsc::Sender<Item>,
    /// Between the two.
    pub shared: Arc<Shared>,
    /// The last ten minutes.
    pub ring: Arc<Mutex<Ring>>,
    /// Who has which GPU open.
    pub board: Arc<Board>,
}

/// The sampler.
#[derive(Debug)]
pub struct Sampler {
    setup: Setup,
    kernel: Arc<dyn Kernel>,
    ends: Ends,
    sources: Vec<Watched>,
    standins: Vec<StandIn>,
    board: Arc<Board>,
    /// The last claims that were taken.
    claimed: u64,
    /// What an earlier meter kept of jobs that were not named yet.
    saved: Saved,
    jobs: BTreeMap<JobId, Present>,
    devices: BTreeMap<u32, Device>,
    outlet: Outlet,
    governor: Governor,
    backlog: VecDeque<UsageRecord>,
    /// Somebody looks: interval and end, ms.
    watch: Option<(u64, u64)>,
    times: Times,
    own: Own,
    buffer: Vec<u8>,
    counts: Vec<(u64, Counts)>,
    work: Vec<GpuWork>,
}

/// When what is due, in milliseconds since boot.
#[derive(Debug, Default)]
struct Times {
    tick: u64,
    next: u64,
    second: u64,
    save: u64,
    saved: u64,
    seconds: u64,
}

/// The meter's own cost.
#[derive(Debug, Default)]
struct Own {
    /// CPU time of all of its threads and children, µs, at the last second.
    cost: u64,
    memory: u64,
    /// Time of the programs in the kernel, µs; asking takes a system call for each.
    bpf: Option<u64>,
    overruns: u64,
    lost: u64,
    /// Values of the last reading.
    told: usize,
    /// Ticks of the last ten seconds, newest last.
    rates: VecDeque<u64>,
    ticks: u64,
}

/// Milliseconds since boot.
pub fn uptime() -> u64 {
    u64::try_from(clock::uptime().as_millis()).unwrap_or(u64::MAX)
}

impl Sampler {
    /// A sampler that goes on where `saved` left off.
    pub fn new(
        setup: Setup,
        kernel: Arc<dyn Kernel>,
        ends: Ends,
        sources: Vec<Arc<Latest>>,
        saved: Saved,
    ) -> Self {
        Self {
            kernel,
            standins: setup
                .standins
                .iter()
                .map(|(index, path)| StandIn::new(*index, path.clone()))
                .collect(),
            setup,
            board: Arc::clone(&ends.board),
            ends,
            claimed: 0,
            sources: sources.into_iter().map(Watched::new).collect(),
            saved,
            jobs: BTreeMap::new(),
            devices: BTreeMap::new(),
            outlet: Outlet::default(),
            governor: Governor::default(),
            backlog: VecDeque::new(),
            watch: None,
            times: Times::default(),
            own: Own::default(),
            buffer: Vec::new(),
            counts: Vec::new(),
            work: Vec::new(),
        }
    }

    /// Runs until told to stop.
    pub fn run(mut self) {
        let now = uptime();
        self.times = Times {
            tick: now,
            next: now + SECOND,
            second: now + SECOND,
            save: now + SAVE_EVERY,
            saved: 0,
            seconds: 0,
        };
        loop {
            let now = uptime();
            if now >= self.times.next {
                self.tick(now);
            }
            if now >= self.times.save {
                self.save(now);
            }
            let next = self.times.next.min(self.times.save);
            let pause = Duration::from_millis(next.saturating_sub(uptime()));
            match self.ends.inputs.recv_timeout(pause) {
                Ok(Input::Stop(done)) => {
                    return self.stop(Some(done));
                }
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.stop(None),
            }
        }
    }

    fn take(&mut self, input: Input) {
        let now = uptime();
        match input {
            Input::Job(begins) => self.job_begins(&begins, now),
            Input::Step(begins) => self.step_begins(&begins, now),
            Input::StepEnded(job, step) => self.step_ended(job, step, now),
            Input::JobEnds(job, done) => {
                self.job_ends(job, now);
                // Who asked may have given up.
                done.try_send(()).ok();
            }
            Input::TakenOver => self.saved.jobs.clear(),
            Input::Watch {
                interval,
                time_to_live,
            } => {
                let until = now.saturating_add(u64::from(time_to_live));
                self.watch = Some((u64::from(interval), until));
                self.times.next = self.times.next.min(now + self.interval(now));
            }
            Input::Stop(_) => {}
        }
    }

    /// Milliseconds between readings now.
    fn interval(&self, now: u64) -> u64 {
        match self.watch {
            Some((interval, until)) if now < until => {
                interval.clamp(self.governor.interval_min(), SECOND)
            }
            Some(_) | None => SECOND,
        }
    }

    fn tick(&mut self, now: u64) {
        let interval = self.interval(now);
        let millis = now.saturating_sub(self.times.tick);
        self.times.tick = now;
        self.own.ticks += 1;
        self.read_kernel(now, millis);
        let second = now >= self.times.second;
        if second {
            self.read_groups(now);
        }
        self.read_devices(now);
        self.read_claims();
        self.judge(now, second);
        self.tell(now, millis);
        if second {
            self.second(now);
        }
        self.times.next += interval;
        let late = uptime();
        if self.times.next <= late {
            self.own.overruns += (late - self.times.next) / interval + 1;
            self.times.next = late + interval;
        }
    }

    /// What is done once a second.
    fn second(&mut self, now: u64) {
        self.times.seconds += 1;
        self.times.second = (self.times.second + SECOND).max(now + SECOND / 2);
        self.settle_steps(now);
        self.take_notes();
        self.account();
        if self.times.seconds.is_multiple_of(10) {
            self.kernel.attach_late();
        }
        self.flush();
    }

    /// What a restarted meter must know changed.
    fn save_soon(&mut self, now: u64) {
        let soon = now.max(self.times.saved + SAVE_SOON);
        self.times.save = self.times.save.min(soon);
    }

    fn stop(&mut self, done: Option<SyncSender<()>>) {
        let now = uptime();
        self.read_kernel(now, 0);
        self.read_groups(now);
        self.judge(now, true);
        self.save(now);
        self.flush();
        // A full queue is read by a stream that stops anyway.
        drop(self.ends.items.try_send(Item::Stop(done)));
    }

    /// What the meter costs, and what follows from that.
    fn account(&mut self) {
        let others: u64 = self
            .sources
            .iter()
            .map(|source| source.latest.cost().0)
            .sum();
        let own = u64::try_from(clock::thread_cpu().as_micros()).unwrap_or(u64::MAX);
        let cost = own + others + self.ends.shared.cpu_us();
        // A child that was started anew begins at 0.
        let second = cost.saturating_sub(std::mem::replace(&mut self.own.cost, cost));
        let before = self.governor.level();
        let level = self.governor.second(second);
        if level != before {
            tracing::info!(
                level,
                cost_us = second,
                "the meter's cost moves the governor"
            );
        }
        self.own
            .rates
            .push_back(std::mem::take(&mut self.own.ticks));
        while self.own.rates.len() > 10 {
            self.own.rates.pop_front();
        }
        self.own.bpf = self.kernel.own_time();
        if self.times.seconds % 10 == 1 {
            self.own.memory = resident().unwrap_or(0);
        }
    }
}

/// The agent's own resident memory, bytes.
pub fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests;

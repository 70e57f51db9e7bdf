//! Daemons killed at random under a mixed workload: whatever dies, every job that was acknowledged ends once, in the right state,
//! with the right exit code and all of its output, and the accounting record says the same.
//!
//! One thread does it all: it submits without waiting for the answers, kills a daemon, starts it again a moment later, and goes on.
//! Everything is drawn from one seed, but for what the kernel's scheduler does: a seed names a workload, not a run.

mod work;

use crate::cluster::{Cluster, SOON};
use crate::procs::Process;
use crate::user::{NOBODY, Output, User};
use fastrand::Rng;
use std::collections::VecDeque;
use std::process::Child;
use std::time::{Duration, Instant};
use work::{Act, Made, Record, Submission, Work};

/// Nodes, and GPUs on each.
const NODES: u32 = 3;
const GPUS: u32 = 4;
/// Most submissions that are under way or jobs that have not been seen to end.
const OPEN_MAX: usize = 16;
/// How long a killed daemon stays away, and how long all are left alone, at most.
const AWAY_MS: u64 = 400;
const CALM_MS: u64 = 500;

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Jobs whose submission was acknowledged, and tasks among them: all were looked at.
    pub jobs: usize,
    /// Times that a daemon was killed: the controller, agents.
    pub kills: (u32, u32),
    /// What was wrong, a sentence for each job.
    pub wrong: Vec<String>,
}

/// Runs a workload while `kills` daemons are killed, and checks every job.
pub fn run(seed: u64, kills: u32) -> Outcome {
    let mut cluster = Cluster::up_with(&[
        "--nodes",
        &NODES.to_string(),
        "--gpus",
        &GPUS.to_string(),
        "--cpus",
        "16",
        "--memory",
        "64G",
    ]);
    let mut chaos = Chaos {
        rng: Rng::with_seed(seed),
        work: Vec::new(),
        pending: VecDeque::new(),
        acts: Vec::new(),
        outcome: Outcome::default(),
    };
    for _ in 0..kills {
        chaos.submit(&cluster);
        chaos.collect(&cluster, false);
        let killed = chaos.kill(&cluster);
        chaos.pause(AWAY_MS);
        for process in &killed {
            cluster.restart(process);
        }
        chaos.pause(CALM_MS);
    }
    chaos.collect(&cluster, true);
    chaos.settle(&cluster);
    chaos.judge(&cluster);
    cluster.await_idle();
    cluster.down();
    chaos.outcome
}

struct Chaos {
    rng: Rng,
    /// Acknowledged.
    work: Vec<Made>,
    /// Not answered yet.
    pending: VecDeque<(Work, Child)>,
    /// What is to be done to jobs once they run.
    acts: Vec<(String, Act, Option<Child>)>,
    outcome: Outcome,
}

impl Chaos {
    fn pause(&mut self, most: u64) {
        std::thread::sleep(Duration::from_millis(self.rng.u64(0..most)));
    }

    /// Starts as many submissions as there is room for, a few at a time.
    fn submit(&mut self, cluster: &Cluster) {
        let open = self.pending.len() + self.work.iter().filter(|made| !made.seen_ended).count();
        let count = self.rng.usize(0..4).min(OPEN_MAX.saturating_sub(open));
        for _ in 0..count {
            let number = self.work.len() + self.pending.len() + self.outcome.wrong.len();
            let name = format!("w{number}x{}", self.rng.u32(0..100_000));
            let work = Work::any(&mut self.rng, name, &self.work);
            let child = work.submit(cluster);
            self.pending.push_back((work, child));
        }
    }

    /// Takes the answers that have come, or waits for all; then does what is due to jobs that run.
    fn collect(&mut self, cluster: &Cluster, all: bool) {
        for _ in 0..self.pending.len() {
            let Some((work, mut child)) = self.pending.pop_front() else {
                break;
            };
            if !all && child.try_wait().is_ok_and(|ended| ended.is_none()) {
                self.pending.push_back((work, child));
                continue;
            }
            match work.answered(Output::of(child)) {
                Submission::Acknowledged(made) => {
                    if let Some(act) = made.work.act {
                        self.acts.push((made.id.clone(), act, None));
                    }
                    self.work.push(*made);
                }
                // Whether it was taken is not known: that nothing came of it twice is still looked at.
                Submission::Unknown(made) => self.work.push(*made),
                Submission::Wrong(why) => self.outcome.wrong.push(why),
            }
        }
        self.act(cluster);
        self.look(cluster);
    }

    /// Cancels and requeues what runs by now; a command that failed, as it may with a controller that is away, is given again.
    fn act(&mut self, cluster: &Cluster) {
        let acts = std::mem::take(&mut self.acts);
        for (id, act, child) in acts {
            let done = match child {
                Some(child) => Output::of(child).code == 0,
                None => false,
            };
            if done {
                continue;
            }
            let child = act.ready(cluster, &id).then(|| act.start(cluster, &id));
            self.acts.push((id, act, child));
        }
    }

    /// Which jobs have ended, if the controller answers.
    fn look(&mut self, cluster: &Cluster) {
        let shown = cluster.run(User::Root, &["squeue", "-h", "-r", "-o", "%F"]);
        if shown.code != 0 {
            return;
        }
        for made in &mut self.work {
            made.seen_ended = !shown.out.lines().any(|line| line.trim() == made.id);
        }
    }

    /// `kill -9` of one daemon, or now and then of two at once.
    fn kill(&mut self, cluster: &Cluster) -> Vec<Process> {
        let mut names = vec!["spurctld".to_owned()];
        names.extend((1..=NODES).map(|node| format!("n{node}")));
        self.rng.shuffle(&mut names);
        // The controller is half of the victims.
        if self.rng.bool() {
            names.retain(|name| name != "spurctld");
            names.insert(0, "spurctld".to_owned());
        }
        names.truncate(if self.rng.u32(0..5) == 0 { 2 } else { 1 });
        let killed: Vec<Process> = names.iter().map(|name| cluster.kill(name)).collect();
        for name in &names {
            let count = match name.as_str() {
                "spurctld" => &mut self.outcome.kills.0,
                _ => &mut self.outcome.kills.1,
            };
            *count += 1;
        }
        killed
    }

    /// Waits until nothing is left in the queue.
    fn settle(&mut self, cluster: &Cluster) {
        let end = Instant::now() + SOON;
        loop {
            self.act(cluster);
            let shown = cluster.run(User::Root, &["squeue", "-h", "-o", "%i %j %T %r"]);
            if shown.code == 0 && shown.out.trim().is_empty() && self.acts.is_empty() {
                return;
            }
            if Instant::now() > end {
                let left = shown.out.lines().map(str::trim);
                let left = left.map(|line| format!("still in the queue: {line}"));
                self.outcome.wrong.extend(left);
                self.outcome.wrong.push(cluster.logs());
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Compares what is known of each job with what must have come of it.
    fn judge(&mut self, cluster: &Cluster) {
        let end = Instant::now() + SOON;
        loop {
            let record = record(cluster);
            let wrong: Vec<String> = self
                .work
                .iter()
                .flat_map(|made| made.judge(&cluster.home(NOBODY), &record))
                .collect();
            // The accounting record follows the controller's log, a moment later.
            if wrong.is_empty() || Instant::now() > end {
                self.outcome.wrong.extend(wrong);
                break;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        let heard = self.work.iter().filter(|made| made.heard);
        self.outcome.jobs = heard.map(|made| made.work.expect.len()).sum();
    }
}

/// The accounting record.
fn record(cluster: &Cluster) -> Record {
    let args = [
        "sacct",
        "-n",
        "-P",
        "-X",
        "-a",
        "-S",
        "now-1days",
        "-o",
        "JobID,JobName,State,ExitCode",
    ];
    let shown = cluster.run(User::Root, &args);
    let mut record = Record::default();
    for line in shown.out.lines() {
        let cells: Vec<String> = line.split('|').map(str::to_owned).collect();
        if let Ok([id, name, state, code]) = <[String; 4]>::try_from(cells) {
            record.names.insert(name, id.clone());
            record.jobs.insert(id, (state, code));
        }
    }
    record
}

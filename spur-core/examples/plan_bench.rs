//! Figures for the planner: what a pass costs, by jobs, nodes and reservations, and what an event costs. Prints one line of
//! `name value unit` for each figure; `cargo xtask bench --only plan` reads them. With `--curves`, lines of
//! `curve;NAME;X;MILLISECONDS` besides; with a number, that many passes for each figure.

#[path = "plan_bench/world.rs"]
mod world;

use spur_core::cluster::Cluster;
use spur_core::event::Event;
use spur_core::id::Uid;
use spur_core::job::state::JobState;
use spur_core::plan::{Budget, Plan, plan};
use spur_core::time::Millis;
use std::time::{Duration, Instant};
use world::{Dice, World};

const NODES: u32 = 10_000;
const JOBS: u32 = 100_000;
const EVERYTHING: Budget = Budget {
    jobs: u32::MAX,
    placements: u32::MAX,
    reservations: 1_000,
    depth: Some(1_000),
    reasons: u32::MAX,
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rounds = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(60);
    let only = |name: &str| {
        let named = args.iter().find_map(|arg| arg.strip_prefix("--row="));
        named.is_none_or(|row| row == name)
    };
    if only("pass") {
        big_pass(rounds);
    }
    if only("equal") {
        equal_jobs(rounds);
    }
    if only("empty") {
        empty_cluster(rounds.min(20));
    }
    if args.iter().any(|arg| arg == "--curves") {
        curves(rounds.min(15));
    }
}

/// 100,000 pending jobs on 10,000 nodes, 90 % busy, 1,000 reservations.
fn big_pass(rounds: usize) {
    let before = resident_mib();
    let mut world = World::busy(NODES, 90);
    let nodes = resident_mib();
    println!("plan_nodes_memory {} MiB", nodes - before);
    let spent = world.submit(JOBS, Dice::philly);
    say("apply_submit_mean", spent / JOBS, "ns");
    println!("plan_jobs_memory {} MiB", resident_mib() - nodes);
    let fresh = measure(&world.cluster, world.now, EVERYTHING, rounds);
    fresh.say("plan_first_pass");
    println!("plan_peak_memory {} MiB", peak_mib() - before);
    apply_plan(&mut world, fresh.plan);
    let settled = measure(&world.cluster, world.now, EVERYTHING, rounds);
    settled.say("plan_settled_pass");
    let default = measure(&world.cluster, world.now, Budget::default(), rounds);
    default.say("plan_policy_pass");
    churn(&mut world, rounds);
}

/// Passes with jobs that end in between, as a running cluster has them.
fn churn(world: &mut World, rounds: usize) {
    let mut times = Times::default();
    let mut events = (Duration::ZERO, 0u32);
    for _ in 0..rounds {
        let spent = world.end_some(200);
        events = (events.0 + spent.0, events.1 + spent.1);
        let begun = processor();
        let (took, found) = timed(|| plan(&world.cluster, world.now, EVERYTHING));
        times.processor += processor().saturating_sub(begun);
        times.add(took, &found);
        let placed = found.placements.len();
        let spent = apply_plan_timed(world, found);
        if placed > 0 {
            times
                .placed
                .push(spent / u32::try_from(placed).unwrap_or(1));
        }
    }
    times.say("plan_churn_pass");
    say("apply_end_mean", events.0 / events.1.max(1), "ns");
    times.placed.sort();
    if let Some(median) = times.placed.get(times.placed.len() / 2) {
        say("apply_placed_median", *median, "ns");
    }
}

/// One job against a million equal ones, all of them waiting.
fn equal_jobs(rounds: usize) {
    let mut one = World::busy(NODES, 100);
    let mut many = World {
        cluster: one.cluster.clone(),
        ..World::busy(1, 0)
    };
    many.now = one.now;
    one.submit_equal(1, world::gpus(8, 8, 64_000, 3_600));
    many.submit_equal(1_000_000, world::gpus(8, 8, 64_000, 3_600));
    let budget = Budget::default();
    let first = measure(&many.cluster, many.now, budget, rounds);
    first.say("plan_million_unexplained");
    let all = Budget {
        reasons: u32::MAX,
        ..budget
    };
    for world in [&mut one, &mut many] {
        let found = plan(&world.cluster, world.now, all);
        apply_plan(world, found);
    }
    let (mut a, mut b) = (Times::default(), Times::default());
    for _ in 0..rounds {
        let (took, found) = timed(|| plan(&one.cluster, one.now, budget));
        a.add(took, &found);
        let (took, found) = timed(|| plan(&many.cluster, many.now, budget));
        b.add(took, &found);
    }
    a.say("plan_one_job");
    b.say("plan_million_jobs");
    let ratio = b.p(50).as_nanos() * 100 / a.p(50).as_nanos().max(1);
    println!(
        "plan_million_to_one {}.{:02} times",
        ratio / 100,
        ratio % 100
    );
}

fn empty_cluster(rounds: usize) {
    let mut world = World::busy(NODES, 0);
    world.submit(JOBS, Dice::philly);
    let found = measure(&world.cluster, world.now, EVERYTHING, rounds);
    found.say("plan_empty_cluster");
    println!(
        "plan_empty_cluster_starts {} jobs",
        found.plan.placements.len()
    );
    let placed = u32::try_from(found.plan.placements.len()).unwrap_or(1);
    let spent = apply_plan_timed(&mut world, found.plan);
    say("apply_empty_cluster_mean", spent / placed.max(1), "ns");
}

fn curves(rounds: usize) {
    let curve = |name: &str, x: u32, world: &World, budget: Budget| {
        let found = measure(&world.cluster, world.now, budget, rounds);
        println!("curve;{name};{x};{}", millis(found.p(50)));
    };
    let settle = |world: &mut World| {
        let found = plan(&world.cluster, world.now, EVERYTHING);
        apply_plan(world, found);
    };
    let full = World::busy(NODES, 90);
    for jobs in [1_000, 3_000, 10_000, 30_000, 100_000, 300_000] {
        let mut world = full.clone();
        world.submit(jobs, Dice::philly);
        curve("first pass, by jobs", jobs, &world, EVERYTHING);
        settle(&mut world);
        curve("later passes, by jobs", jobs, &world, EVERYTHING);
    }
    for nodes in [300, 1_000, 3_000, 10_000, 30_000] {
        let mut world = World::busy(nodes, 90);
        world.submit(JOBS, Dice::philly);
        curve("first pass, by nodes", nodes, &world, EVERYTHING);
        settle(&mut world);
        curve("later passes, by nodes", nodes, &world, EVERYTHING);
    }
    let mut world = full;
    world.submit(JOBS, Dice::philly);
    settle(&mut world);
    for depth in [0, 10, 30, 100, 300, 1_000, 3_000] {
        let budget = Budget {
            reservations: depth,
            depth: Some(depth),
            ..EVERYTHING
        };
        curve("later passes, by reservations", depth, &world, budget);
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begin = Instant::now();
    let made = work();
    (begin.elapsed(), made)
}

/// Processor time of this process so far: what a busy machine does not add to.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn processor() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text
        .split_whitespace()
        .next()
        .and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

#[derive(Default)]
struct Times {
    all: Vec<Duration>,
    processor: Duration,
    placed: Vec<Duration>,
    plan: Plan,
}

impl Times {
    fn add(&mut self, took: Duration, found: &Plan) {
        self.all.push(took);
        self.plan.clone_from(found);
    }

    fn p(&self, percent: usize) -> Duration {
        let mut all = self.all.clone();
        all.sort();
        let at = (all.len() * percent).div_ceil(100).max(1) - 1;
        all.get(at).copied().unwrap_or_default()
    }

    fn say(&self, name: &str) {
        println!("{name}_p50 {} ms", millis(self.p(50)));
        println!("{name}_p99 {} ms", millis(self.p(99)));
        let each = self.processor / u32::try_from(self.all.len()).unwrap_or(1).max(1);
        println!("{name}_processor {} ms", millis(each));
        println!("{name}_started {} jobs", self.plan.placements.len());
        println!("{name}_reserved {} jobs", self.plan.outlook.reserved.len());
    }
}

fn millis(span: Duration) -> String {
    format!(
        "{}.{:03}",
        span.as_micros() / 1_000,
        span.as_micros() % 1_000
    )
}

fn say(name: &str, span: Duration, unit: &str) {
    println!("{name} {} {unit}", span.as_nanos());
}

fn measure(cluster: &Cluster, at: Millis, budget: Budget, rounds: usize) -> Times {
    let mut times = Times::default();
    for _ in 0..rounds.max(1) {
        let begun = processor();
        let (took, found) = timed(|| plan(cluster, at, budget));
        times.processor += processor().saturating_sub(begun);
        times.all.push(took);
        times.plan = found;
    }
    times
}

fn apply_plan(world: &mut World, found: Plan) {
    apply_plan_timed(world, found);
}

/// What applying the placements took.
fn apply_plan_timed(world: &mut World, found: Plan) -> Duration {
    let events = world.cluster.plan_events(found);
    let mut spent = Duration::ZERO;
    for event in events {
        let placed = matches!(event, Event::Placed { .. });
        let (took, fx) = timed(|| world.cluster.apply(world.now, &event));
        assert_eq!(fx.ignored, None, "a plan is carried out to the letter");
        if placed {
            spent += took;
        }
    }
    spent
}

impl World {
    /// Ends so many running jobs and cleans up after them; what that took, for how many events.
    fn end_some(&mut self, count: usize) -> (Duration, u32) {
        self.now = self.now.plus_secs(30);
        let running: Vec<_> = self.cluster.running().map(|job| job.id).collect();
        let mut spent = (Duration::ZERO, 0);
        for _ in 0..count.min(running.len()) {
            let at = usize::try_from(self.dice.below(running.len() as u64)).unwrap_or(0);
            let job = running[at];
            if self.cluster.jobs[&job].state != JobState::Running {
                continue;
            }
            let mut events = vec![Event::Cancelled { job, by: Uid(0) }];
            let generation = self.cluster.jobs[&job].generation;
            let nodes = self.cluster.jobs[&job].allocation.iter();
            events.extend(nodes.map(|share| Event::Cleaned {
                job,
                node: share.node,
                generation,
            }));
            for event in events {
                let (took, fx) = timed(|| self.cluster.apply(self.now, &event));
                assert_eq!(fx.ignored, None);
                spent = (spent.0 + took, spent.1 + 1);
            }
        }
        spent
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark looks at its own memory"
)]
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) / 1_024
}

fn resident_mib() -> u64 {
    status("VmRSS:")
}

fn peak_mib() -> u64 {
    status("VmHWM:")
}

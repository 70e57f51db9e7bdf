//! What a replay found.

use super::measure::{Fate, Measure, Sample};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Waits of some of the jobs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many jobs started.
    pub jobs: u64,
    /// Mean.
    pub mean: u64,
    /// Half of them waited no longer.
    pub p50: u64,
    /// Nine of ten.
    pub p90: u64,
    /// Ninety-nine of a hundred.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl Waits {
    fn of(mut waited: Vec<u64>) -> Self {
        waited.sort_unstable();
        let jobs = waited.len() as u64;
        let at = |percent: usize| {
            let rank = (waited.len() * percent).div_ceil(100).saturating_sub(1);
            waited.get(rank).map_or(0, |millis| millis / 1000)
        };
        let sum: u128 = waited.iter().map(|millis| u128::from(*millis)).sum();
        let mean = sum.checked_div(u128::from(jobs) * 1000).unwrap_or(0);
        Self {
            jobs,
            mean: u64::try_from(mean).unwrap_or(u64::MAX),
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: at(100),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Nodes and GPUs in all.
    pub nodes: u32,
    /// GPUs in all.
    pub gpus: u64,
    /// Jobs submitted.
    pub submitted: u64,
    /// Jobs that never started: what they ask for stayed away.
    pub never_started: u64,
    /// Lines and jobs that were not replayed, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Offered load in thousandths, after scaling.
    pub load_permille: u64,
    /// All jobs.
    pub all: Waits,
    /// Jobs of 16 GPUs and more.
    pub gpus_16_up: Waits,
    /// By number of GPUs, the next power of two; 0 for jobs without.
    pub by_size: BTreeMap<u64, Waits>,
    /// GPUs held, of all, between the first submission and the last; in thousandths of a percent.
    pub allocated: u64,
    /// Free GPUs on nodes that are partly held, of all, likewise.
    pub broken: u64,
    /// Seconds from the first submission to the last end.
    pub makespan: u64,
    /// Placements made.
    pub placed: u64,
    /// Planning passes.
    pub passes: u64,
    /// Hash over the log of decisions (64-bit FNV-1a).
    pub hash: u64,
    /// The curves.
    pub samples: Vec<Sample>,
}

/// What only the caller of a replay knows.
pub(super) struct Around {
    pub(super) nodes: u32,
    pub(super) gpus: u64,
    pub(super) left_out: BTreeMap<&'static str, u64>,
    pub(super) load_permille: u64,
    pub(super) makespan: u64,
    pub(super) counts: (u64, u64),
    pub(super) hash: u64,
}

impl Report {
    pub(super) fn new(around: Around, measure: Measure) -> Self {
        let started = |fate: &&Fate| fate.started.is_some();
        let fates: Vec<Fate> = measure.fates.values().filter(started).copied().collect();
        let some = |of: &dyn Fn(u64) -> bool| {
            let fates = fates.iter().filter(|fate| of(fate.gpus));
            Waits::of(fates.map(|fate| fate.waited).collect())
        };
        let size = |gpus: u64| {
            if gpus == 0 {
                0
            } else {
                gpus.next_power_of_two()
            }
        };
        let mut by_size: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for fate in &fates {
            by_size
                .entry(size(fate.gpus))
                .or_default()
                .push(fate.waited);
        }
        let [busy, broken, all] = measure.areas;
        let share = |area: u128| {
            let share = (area * 100_000).checked_div(all).unwrap_or(0);
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        Self {
            nodes: around.nodes,
            gpus: around.gpus,
            submitted: measure.fates.len() as u64,
            never_started: (measure.fates.len() - fates.len()) as u64,
            left_out: around.left_out,
            load_permille: around.load_permille,
            all: some(&|_| true),
            gpus_16_up: some(&|gpus| gpus >= 16),
            by_size: by_size
                .into_iter()
                .map(|(size, waited)| (size, Waits::of(waited)))
                .collect(),
            allocated: share(busy),
            broken: share(broken),
            makespan: around.makespan,
            placed: around.counts.0,
            passes: around.counts.1,
            hash: around.hash,
            samples: measure.samples,
        }
    }

    /// Rows of the table: who, and their waits. Sizes are the next power of two.
    pub fn rows(&self) -> Vec<(String, Waits)> {
        let mut rows = vec![("all".to_owned(), self.all)];
        let mut below = 0;
        for (size, waits) in &self.by_size {
            let label = match size {
                0 => "no GPU".to_owned(),
                1 | 2 => format!("{size} GPU{}", if *size == 1 { "" } else { "s" }),
                size => format!("{}-{size} GPUs", size / 2 + 1),
            };
            below += 1;
            rows.push((label, *waits));
        }
        if below > 0 {
            rows.push((">=16 GPUs".to_owned(), self.gpus_16_up));
        }
        rows
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} jobs on {} nodes with {} GPUs, offered load {}\n",
            self.submitted,
            self.nodes,
            self.gpus,
            decimal(self.load_permille, 1000, 3)
        );
        for (why, count) in &self.left_out {
            _ = writeln!(text, "left out: {count} jobs, {why}");
        }
        if self.never_started > 0 {
            _ = writeln!(text, "never started: {} jobs", self.never_started);
        }
        let heads = [
            "JOBS", "COUNT", "MEAN_H", "P50_H", "P90_H", "P99_H", "MAX_H",
        ];
        let [who, rest @ ..] = heads;
        _ = write!(text, "\n{who:<14}");
        rest.iter().for_each(|head| _ = write!(text, " {head:>9}"));
        for (who, waits) in self.rows() {
            _ = write!(text, "\n{who:<14} {:>9}", waits.jobs);
            for secs in [waits.mean, waits.p50, waits.p90, waits.p99, waits.max] {
                _ = write!(text, " {:>9}", decimal(secs, 3600, 2));
            }
        }
        _ = write!(
            text,
            "\n\nGPUs held {} %, free on nodes partly held {} %, between the first submission and the last\n\
             {} starts in {} passes, last end after {} days\ndecisions {:016x}\n",
            decimal(self.allocated, 1000, 2),
            decimal(self.broken, 1000, 2),
            self.placed,
            self.passes,
            decimal(self.makespan, 86_400, 1),
            self.hash
        );
        text
    }

    /// The table's rows as CSV, waits in hours.
    pub fn csv(&self) -> String {
        let mut text = "jobs,count,mean_hours,p50_hours,p90_hours,p99_hours,max_hours\n".to_owned();
        for (who, waits) in self.rows() {
            _ = write!(text, "{who},{}", waits.jobs);
            for secs in [waits.mean, waits.p50, waits.p90, waits.p99, waits.max] {
                _ = write!(text, ",{}", decimal(secs, 3600, 4));
            }
            text.push('\n');
        }
        text
    }
}

/// `amount / unit` with so many places, rounded down: the same on every machine.
pub fn decimal(amount: u64, unit: u64, places: u32) -> String {
    let scale = 10u128.pow(places.min(9));
    let scaled = u128::from(amount) * scale / u128::from(unit.max(1));
    let width = places.min(9) as usize;
    format!("{}.{:0width$}", scaled / scale, scaled % scale)
}

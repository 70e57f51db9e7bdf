//! What came of it, as a table, as CSV, as numbers.

use super::lists::Lists;
use super::{Point, Run, plot};
use std::fmt::Write as _;

/// Mean and sample standard deviation over the seeds, in percent of all GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for one seed.
    pub sd: f64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Nodes with GPUs.
    pub nodes: u64,
    /// Nodes without GPUs, which the protocol leaves out.
    pub bare_nodes: u64,
    /// GPUs.
    pub gpus: u64,
    /// Tasks in the list.
    pub tasks: u64,
    /// GPU requests of all arrivals, in percent of all GPUs.
    pub arrivals_percent: u32,
    /// One for each seed.
    pub runs: Vec<Run>,
}

impl Report {
    pub(super) fn new(lists: &Lists, arrivals_percent: u32, runs: Vec<Run>) -> Self {
        let [nodes, bare_nodes, gpus, tasks] = lists.counts();
        Self {
            nodes,
            bare_nodes,
            gpus,
            tasks,
            arrivals_percent,
            runs,
        }
    }

    /// Thousandths of a GPU as percent of all GPUs.
    pub fn percent(&self, milli: u64) -> f64 {
        // Both are far below 2^53.
        milli as f64 / (self.gpus.max(1) as f64 * 10.0)
    }

    /// GPUs given away in the end.
    pub fn allocated(&self) -> Spread {
        self.spread(|run| run.allocated())
    }

    /// Free GPUs of no use to the average task, in the end.
    pub fn fragmented(&self) -> Spread {
        self.spread(|run| run.curve.last().map_or(0, |point| point.fragmented))
    }

    fn spread(&self, milli: impl Fn(&Run) -> u64) -> Spread {
        let values: Vec<f64> = self
            .runs
            .iter()
            .map(|run| self.percent(milli(run)))
            .collect();
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (squares / (count - 1.0).max(1.0)).sqrt();
        Spread { mean, sd }
    }

    /// Decisions in all runs: tasks that came.
    pub fn decisions(&self) -> u64 {
        self.runs.iter().map(|run| run.arrived as u64).sum()
    }

    /// Over all runs in order.
    pub fn hash(&self) -> u64 {
        let bytes = self.runs.iter().flat_map(|run| run.hash.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} nodes with {} GPUs, {} tasks, arrivals up to {} % of the GPUs\n",
            self.nodes, self.gpus, self.tasks, self.arrivals_percent
        );
        if self.bare_nodes > 0 {
            _ = writeln!(text, "{} nodes without GPUs are left out", self.bare_nodes);
        }
        _ = writeln!(
            text,
            "\n{:>6} {:>9} {:>9} {:>11}  DECISIONS",
            "SEED", "ARRIVED", "PLACED", "ALLOCATED_%"
        );
        for run in &self.runs {
            _ = writeln!(
                text,
                "{:>6} {:>9} {:>9} {:>11.2}  {:016x}",
                run.seed,
                run.arrived,
                run.placed,
                self.percent(run.allocated()),
                run.hash
            );
        }
        let Spread { mean, sd } = self.allocated();
        _ = writeln!(
            text,
            "\nallocated {mean:.2} % of the GPUs (sd {sd:.2}), decisions {:016x}",
            self.hash()
        );
        text
    }

    /// One line for each seed and curve, a column for each percentage of arrivals, as in the published results.
    pub fn csv(&self) -> String {
        let mut text = "curve,seed,total_gpus".to_owned();
        for percent in 0..=self.arrivals_percent {
            _ = write!(text, ",{percent}");
        }
        text.push('\n');
        type Value = fn(&Point) -> u64;
        let curves: [(&str, Value); 2] = [
            ("allocated", |point| point.allocated),
            ("fragmented", |point| point.fragmented),
        ];
        for (name, value) in curves {
            for run in &self.runs {
                _ = write!(text, "{name},{},{}", run.seed, self.gpus);
                for point in &run.curve {
                    _ = write!(text, ",{:.2}", self.percent(value(point)));
                }
                text.push('\n');
            }
        }
        text
    }

    /// The curves as one picture.
    pub fn svg(&self) -> String {
        plot::svg(self)
    }

    /// Mean over the seeds at each percentage of arrivals.
    pub(super) fn mean_curve(&self, value: fn(&Point) -> u64) -> Vec<f64> {
        let runs = self.runs.len().max(1) as f64;
        let at = |at: usize| {
            let points = self.runs.iter().filter_map(|run| run.curve.get(at));
            points.map(|point| self.percent(value(point))).sum::<f64>() / runs
        };
        (0..=self.arrivals_percent as usize).map(at).collect()
    }
}

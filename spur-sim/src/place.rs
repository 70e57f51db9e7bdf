//! FGD's protocol (USENIX ATC'23) on lists of nodes and tasks: how much of a cluster's GPUs can be given away before nothing
//! more fits, when tasks come one by one, never leave, and are placed by the real score with what it has learned so far.
//!
//! The GPU nodes only; tasks sorted by name, then shuffled; random copies of tasks are appended (or random tasks taken out)
//! until their GPU requests are a given percentage of all GPUs. Each task is placed when it comes, or never. Nothing is known
//! of the tasks to come but what came before.

mod arrivals;
mod board;
mod lists;
mod plot;
mod report;

#[cfg(test)]
mod tests;

pub use lists::{BadList, Lists};
pub use report::{Report, Spread};

use crate::rng::Rng;
use arrivals::Short;
use board::Board;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// GPU requests of all arrivals, in percent of all GPUs.
    pub arrivals_percent: u32,
    /// One run each.
    pub seeds: Vec<u64>,
    /// Also measure fragmentation along the way, which takes longer than placing.
    pub fragmentation: bool,
}

/// Most that [`Setup::arrivals_percent`] may be.
pub const ARRIVALS_MAX: u32 = 1_000;
/// Most seeds of one call.
pub const SEEDS_MAX: usize = 1_000;

/// The state when so many percent of all GPUs were asked for. In thousandths of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Given away.
    pub allocated: u64,
    /// Free, and of no use to the average task that came so far; 0 where it was not measured.
    pub fragmented: u64,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// Tasks that came.
    pub arrived: usize,
    /// Tasks that found a place.
    pub placed: usize,
    /// By percent of all GPUs asked for, from 0; the last entry is the end.
    pub curve: Vec<Point>,
    /// Over which task went where, in order (64-bit FNV-1a).
    pub hash: u64,
}

impl Run {
    /// Thousandths of a GPU given away in the end.
    pub fn allocated(&self) -> u64 {
        self.curve.last().map_or(0, |point| point.allocated)
    }
}

/// Why a protocol cannot be run on lists that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unable {
    /// Copies of such tasks never add up to anything.
    #[error("no task asks for a GPU, so that no number of tasks asks for {percent} % of the GPUs")]
    NoDemand {
        /// What was wanted.
        percent: u32,
    },
    /// The tasks ask for so little that it would take too many.
    #[error(
        "it takes more than {most} tasks of this list to ask for {percent} % of the GPUs: give fewer percent"
    )]
    Long {
        /// What was wanted.
        percent: u32,
        /// The bound.
        most: usize,
    },
}

/// Runs every seed.
pub fn place(lists: &Lists, setup: &Setup) -> Result<Report, Unable> {
    let runs: Result<Vec<Run>, Unable> = setup
        .seeds
        .iter()
        .map(|seed| run(lists, setup, *seed))
        .collect();
    Ok(Report::new(lists, setup.arrivals_percent, runs?))
}

fn run(lists: &Lists, setup: &Setup, seed: u64) -> Result<Run, Unable> {
    let percent = setup.arrivals_percent;
    let order = arrivals::draw(lists, percent, &mut Rng::new(seed));
    let order = order.map_err(|short| match short {
        Short::NoDemand => Unable::NoDemand { percent },
        Short::TooMany(most) => Unable::Long { percent, most },
    })?;
    let capacity = lists.capacity();
    let mut board = Board::new(lists);
    let mut curve = vec![Point::default()];
    let (mut asked, mut placed) = (0, 0);
    for task in &order {
        asked += lists.demand(*task);
        placed += usize::from(board.arrive(*task));
        // An entry for each percentage that this task passed.
        while (curve.len() as u64) * capacity <= asked * 100 && curve.len() < percent as usize {
            curve.push(board.point(setup.fragmentation));
        }
    }
    curve.resize(percent as usize, *curve.last().unwrap_or(&Point::default()));
    curve.push(board.point(setup.fragmentation));
    Ok(Run {
        seed,
        arrived: order.len(),
        placed,
        curve,
        hash: board.hash(),
    })
}

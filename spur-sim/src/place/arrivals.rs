//! Which tasks come, in which order.

use super::lists::Lists;
use crate::rng::Rng;

/// Most tasks of one run.
const ARRIVALS_MAX: usize = 5_000_000;

/// Why there is no such order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    NoDemand,
    TooMany(usize),
}

/// Positions of tasks in the list, so many that their GPU requests are just below the percentage of all GPUs.
pub(super) fn draw(lists: &Lists, percent: u32, rng: &mut Rng) -> Result<Vec<usize>, Short> {
    let count = lists.tasks().len();
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(rng, last + 1));
    }
    let wanted = lists.capacity() * u64::from(percent) / 100;
    let mut asked: u64 = order.iter().map(|task| lists.demand(*task)).sum();
    if asked == 0 {
        return Err(Short::NoDemand);
    }
    if asked > wanted {
        while asked > wanted {
            let task = order.remove(below(rng, order.len()));
            asked -= lists.demand(task);
        }
        return Ok(order);
    }
    loop {
        let task = below(rng, count);
        asked += lists.demand(task);
        if asked > wanted {
            return Ok(order);
        }
        if order.len() >= ARRIVALS_MAX {
            return Err(Short::TooMany(ARRIVALS_MAX));
        }
        order.push(task);
    }
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    let drawn = rng.between(0, (bound as u64).saturating_sub(1));
    usize::try_from(drawn).unwrap_or(0)
}

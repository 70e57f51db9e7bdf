//! Repeated timings, and what is said of them.

use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Instant;

/// Milliseconds, sorted; never empty.
pub(super) struct Sample(Vec<f64>);

impl Sample {
    /// Sorts measurements; `None` if there are none.
    pub(super) fn of(mut ms: Vec<f64>) -> Option<Self> {
        ms.sort_by(f64::total_cmp);
        (!ms.is_empty()).then_some(Self(ms))
    }

    /// Half are below.
    pub(super) fn median(&self) -> f64 {
        self.at(50)
    }

    /// 95 in 100 are below.
    pub(super) fn p95(&self) -> f64 {
        self.at(95)
    }

    fn at(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100]
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        format!(
            "median {:.2} ms, p95 {:.2} ms, n {}",
            self.median(),
            self.p95(),
            self.0.len()
        )
    }
}

/// Times a program from its start to its end, `count` times after two that do not count. Every one must succeed.
pub(super) fn time(command: &mut Command, count: u32) -> Result<Sample> {
    let mut ms = Vec::new();
    for round in 0..count + 2 {
        let elapsed = once(command)?;
        if round >= 2 {
            ms.push(elapsed);
        }
    }
    Sample::of(ms).context("nothing was measured")
}

/// Times two programs in turns, so that a machine that is slower for a while is so for both.
pub(super) fn time_in_turns(
    (one, other): (&mut Command, &mut Command),
    count: u32,
) -> Result<(Sample, Sample)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for round in 0..count + 2 {
        let elapsed = (once(one)?, once(other)?);
        if round >= 2 {
            ones.push(elapsed.0);
            others.push(elapsed.1);
        }
    }
    Sample::of(ones)
        .zip(Sample::of(others))
        .context("nothing was measured")
}

fn once(command: &mut Command) -> Result<f64> {
    let started = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("starting {:?}", command.get_program()))?;
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    ensure!(
        status.success(),
        "{:?} ended with {status}",
        command.get_program()
    );
    Ok(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_tails() {
        let sample = Sample::of((1..=100).rev().map(f64::from).collect()).unwrap();
        assert!((sample.median() - 50.0).abs() < 0.01 && (sample.p95() - 95.0).abs() < 0.01);
        assert!(Sample::of(Vec::new()).is_none());
    }
}

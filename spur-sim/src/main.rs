//! `spur-sim --seeds A..B`: runs the simulation for every seed from A to B (B excluded), stops at the first failure.

use spur_sim::{Params, sweep};
use std::ops::Range;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(seeds) = seeds_of(&args) else {
        eprintln!("usage: spur-sim --seeds A..B");
        return ExitCode::from(2);
    };
    match sweep(seeds, &Params::default()) {
        Ok(sum) => {
            println!(
                "{} runs: {} jobs acknowledged, {} placements, {} events, {} faults, no promise broken",
                sum.runs, sum.acknowledged, sum.placements, sum.events, sum.faults
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("spur-sim: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn seeds_of(args: &[String]) -> Option<Range<u64>> {
    let [flag, range] = args else { return None };
    let (from, to) = range.split_once("..").filter(|_| flag == "--seeds")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let args = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(seeds_of(&args(&["--seeds", "3..9"])), Some(3..9));
        for bad in [
            args(&[]),
            args(&["--seeds"]),
            args(&["--seeds", "3"]),
            args(&["-s", "3..9"]),
        ] {
            assert_eq!(seeds_of(&bad), None, "{bad:?}");
        }
    }
}

//! CPU time of runs within a window, by account and user.

use super::super::failure::Failure;
use spur_core::api::{AccountedJob, JobView};
use spur_core::time::Millis;
use std::collections::BTreeMap;

/// How amounts are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Minutes,
    Hours,
    Percent,
    MinutesPercent,
    HoursPercent,
    SecondsPercent,
}

impl Unit {
    /// What `-t` says; minutes without it.
    pub(super) fn of(text: Option<&str>) -> Result<Self, Failure> {
        let Some(text) = text else {
            return Ok(Self::Minutes);
        };
        let lower = text.to_ascii_lowercase();
        let is = |full: &str, least: usize| full.starts_with(&lower) && lower.len() >= least;
        match () {
            () if is("secper", 4) || is("secondspercent", 8) => Ok(Self::SecondsPercent),
            () if is("minper", 4) || is("minutespercent", 8) => Ok(Self::MinutesPercent),
            () if is("hourper", 5) || is("hourspercent", 6) => Ok(Self::HoursPercent),
            () if is("seconds", 1) => Ok(Self::Seconds),
            () if is("minutes", 1) => Ok(Self::Minutes),
            () if is("hours", 1) => Ok(Self::Hours),
            () if is("percent", 1) => Ok(Self::Percent),
            () => Err(Failure::error(
                "sreport",
                format!("unknown time format {text}"),
            )),
        }
    }

    /// `CPU Minutes`.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Seconds => "CPU Seconds",
            Self::Minutes => "CPU Minutes",
            Self::Hours => "CPU Hours",
            Self::Percent => "Percentage of Total",
            Self::SecondsPercent => "CPU Seconds/Percentage of Total",
            Self::MinutesPercent => "CPU Minutes/Percentage of Total",
            Self::HoursPercent => "CPU Hours/Percentage of Total",
        }
    }

    /// CPU seconds, of so many in all.
    pub(super) fn shown(self, secs: u64, all: u64) -> String {
        let percent = || {
            let hundredths = u128::from(secs) * 10_000 / u128::from(all.max(1));
            format!("{}.{:02}%", hundredths / 100, hundredths % 100)
        };
        match self {
            Self::Seconds => secs.to_string(),
            Self::Minutes => (secs / 60).to_string(),
            Self::Hours => (secs / 3600).to_string(),
            Self::Percent => percent(),
            Self::SecondsPercent => format!("{secs}({})", percent()),
            Self::MinutesPercent => format!("{}({})", secs / 60, percent()),
            Self::HoursPercent => format!("{}({})", secs / 3600, percent()),
        }
    }
}

/// CPU seconds by account and user.
pub(super) struct Sums(BTreeMap<(String, String), u64>);

impl Sums {
    /// Of these runs, as far as they lie in the window.
    pub(super) fn of(runs: &[AccountedJob], from: Millis, until: Millis) -> Self {
        let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
        for run in runs {
            let job = &run.job;
            let spec = &job.spec;
            let key = (spec.account.clone(), spec.owner.user.clone());
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(cpus(job).saturating_mul(secs(job, from, until)));
        }
        Self(sums)
    }

    /// All together.
    pub(super) fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// Account, user, CPU seconds.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, String, u64)> + '_ {
        let entries = self.0.iter();
        entries.map(|((account, user), secs)| (account.clone(), user.clone(), *secs))
    }
}

fn cpus(job: &JobView) -> u64 {
    job.nodes
        .iter()
        .map(|node| u64::from(node.share.cpus.len()))
        .sum()
}

/// Seconds that it ran in the window.
fn secs(job: &JobView, from: Millis, until: Millis) -> u64 {
    let Some(started) = job.started else { return 0 };
    let end = match job.ended {
        Some(ended) if job.state.is_terminal() => ended.min(until),
        Some(_) | None => until,
    };
    end.secs_since(started.max(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_their_unit() {
        assert_eq!(
            Unit::of(None).map(|unit| unit.shown(7260, 0)),
            Ok("121".to_owned())
        );
        assert_eq!(
            Unit::of(Some("Hours")).map(|unit| unit.shown(7260, 0)),
            Ok("2".to_owned())
        );
        assert_eq!(
            Unit::of(Some("minper")).map(|unit| unit.shown(600, 2400)),
            Ok("10(25.00%)".to_owned())
        );
        assert!(Unit::of(Some("days")).is_err());
    }
}

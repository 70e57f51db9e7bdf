//! CPU time of runs within a window, by account and user.

use super::super::failure::Failure;
use spur_core::api::{AccountedJob, JobView};
use spur_core::resources::Inventory;
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

    /// `CPU Minutes`, or of all resources that are told of.
    pub(super) fn words(self, of_tres: bool) -> String {
        let words = self.of_cpus();
        if of_tres {
            words.replace("CPU", "TRES")
        } else {
            words.to_owned()
        }
    }

    fn of_cpus(self) -> &'static str {
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

    /// An amount times seconds, of so many in all.
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

/// A resource that is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tres {
    Cpu,
    /// MiB.
    Mem,
    Node,
    /// What a job costs: its CPUs.
    Billing,
    Gpu,
    /// One of Slurm's that nothing is recorded of.
    None(&'static str),
}

impl Tres {
    const ALL: [Self; 9] = [
        Self::Cpu,
        Self::Mem,
        Self::None("energy"),
        Self::Node,
        Self::Billing,
        Self::None("fs/disk"),
        Self::None("vmem"),
        Self::None("pages"),
        Self::Gpu,
    ];

    /// What `-T` lists.
    pub(super) fn list(text: &str) -> Result<Vec<Self>, Failure> {
        let words = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        let mut list = Vec::new();
        for word in words {
            if word.eq_ignore_ascii_case("all") {
                list.extend(Self::ALL);
                continue;
            }
            let known = |tres: &Self| tres.name().eq_ignore_ascii_case(word);
            let found = Self::ALL.into_iter().find(known).ok_or_else(|| {
                let text = format!("No TRES known by type {word}");
                Failure::error("sreport", text).nearest(word, Self::ALL.map(Self::name))
            });
            list.push(found?);
        }
        Ok(list)
    }

    /// Slurm's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Mem => "mem",
            Self::Node => "node",
            Self::Billing => "billing",
            Self::Gpu => "gres/gpu",
            Self::None(name) => name,
        }
    }

    /// What a node has of it.
    pub(super) fn of_node(self, node: &Inventory) -> u64 {
        match self {
            Self::Cpu | Self::Billing => u64::from(node.cpus),
            Self::Mem => node.memory_mib,
            Self::Node => 1,
            Self::Gpu => node.gpus.len() as u64,
            Self::None(_) => 0,
        }
    }

    /// What a job holds of it.
    fn of_job(self, job: &JobView) -> u64 {
        let shares = job.nodes.iter().map(|node| &node.share);
        match self {
            Self::Cpu | Self::Billing => shares.map(|share| u64::from(share.cpus.len())).sum(),
            Self::Mem => shares.map(|share| share.memory_mib).sum(),
            Self::Node => shares.count() as u64,
            Self::Gpu => shares.map(|share| u64::from(share.gpus.len())).sum(),
            Self::None(_) => 0,
        }
    }
}

/// An amount times seconds by account and user.
pub(super) struct Sums(BTreeMap<(String, String), u64>);

impl Sums {
    /// Of these runs, as far as they lie in the window.
    pub(super) fn of(runs: &[AccountedJob], (from, until): (Millis, Millis), tres: Tres) -> Self {
        let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
        for run in runs {
            let job = &run.job;
            let spec = &job.spec;
            let key = (spec.account.clone(), spec.owner.user.clone());
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(tres.of_job(job).saturating_mul(secs(run, from, until)));
        }
        Self(sums)
    }

    /// All together.
    pub(super) fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// What a user's runs in an account have together.
    pub(super) fn of_user(&self, account: &str, user: &str) -> u64 {
        let key = (account.to_owned(), user.to_owned());
        self.0.get(&key).copied().unwrap_or_default()
    }

    /// Account, user, amount times seconds.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, String, u64)> + '_ {
        let entries = self.0.iter();
        entries.map(|((account, user), secs)| (account.clone(), user.clone(), *secs))
    }
}

/// Seconds that it ran in the window. When it was stopped is not recorded, only for how long: each part of its time has its share.
fn secs(run: &AccountedJob, from: Millis, until: Millis) -> u64 {
    let job = &run.job;
    let Some(started) = job.started else { return 0 };
    let ended = job.ended.filter(|_| job.state.is_terminal());
    let ended = run.requeued.or(ended).unwrap_or(until);
    let whole = ended.0.saturating_sub(started.0);
    let ran = whole.saturating_sub(job.stopped_ms(ended));
    let here = ended.min(until).0.saturating_sub(started.max(from).0);
    let share = u128::from(here) * u128::from(ran) / u128::from(whole.max(1));
    u64::try_from(share / 1000).unwrap_or(u64::MAX)
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

    #[test]
    fn what_did_not_run_is_not_summed() {
        use crate::cli::render::tests::samples::{at, job, running, spec};
        let mut job = running(job(1, spec("sleeper")), &[]);
        job.state = spur_core::job::state::JobState::Completed;
        job.ended = Some(at(101));
        job.suspended_ms = 20_000;
        let run = |job: JobView, requeued| AccountedJob {
            job: std::sync::Arc::new(job),
            requeued,
            nodes: Vec::new(),
            steps: Vec::new(),
            live: false,
        };
        let ended = run(job.clone(), None);
        assert_eq!(secs(&ended, at(0), at(200)), 80);
        assert_eq!(secs(&ended, at(0), at(51)), 40, "of what was stopped, half");
        job.suspended_ms = 0;
        job.state = spur_core::job::state::JobState::Running;
        let requeued = run(job, Some(at(31)));
        assert_eq!(secs(&requeued, at(0), at(200)), 30);
    }

    #[test]
    fn resources_are_known_by_slurms_names() {
        let names = |text: &str| {
            let list = Tres::list(text)?;
            Ok::<_, Failure>(list.into_iter().map(Tres::name).collect::<Vec<_>>())
        };
        assert_eq!(names("gres/gpu,CPU").unwrap(), ["gres/gpu", "cpu"]);
        assert_eq!(names("all").unwrap().len(), 9);
        let text = names("cpu,gres/gup").unwrap_err().text;
        assert_eq!(
            text,
            "sreport: error: No TRES known by type gres/gup\nDid you mean gres/gpu?\n"
        );
        assert!(Unit::Minutes.words(true).starts_with("TRES Minutes"));
    }
}

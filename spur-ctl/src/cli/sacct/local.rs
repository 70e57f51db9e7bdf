//! What `sacct` looks at by itself, in what the controller sent.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::resolve::filter;
use super::{failed, lists};
use spur_core::api::{AccountFilter, AccountedJob, JobView};
use spur_core::manage::accounts::{Accounts, Association};
use spur_core::slurm::timespec;
use spur_core::time::{Millis, TimeLimit};
use std::sync::Arc;

/// Numbers from one to another; one alone is exactly that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    from: u64,
    to: u64,
}

impl Range {
    fn has(self, number: u64) -> bool {
        (self.from..=self.to).contains(&number)
    }
}

/// Conditions; empty lists mean "any".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Local {
    qos: Vec<String>,
    groups: Vec<String>,
    keys: Vec<String>,
    reasons: Vec<String>,
    nodes: Option<Range>,
    cpus: Option<Range>,
    limit: Option<(u64, u64)>,
    /// Accounts and users whose associations were named.
    charged: Option<Vec<(String, String)>>,
    truncate: bool,
    tasks: bool,
}

impl Local {
    /// Reads them.
    pub(super) fn read(options: &Options) -> Result<Self, Failure> {
        let words = |long: &str| {
            given(options, long)
                .map(|text| filter::list(&text))
                .unwrap_or_default()
        };
        Ok(Self {
            qos: words("qos"),
            groups: lists(options, "gid"),
            keys: words("wckeys"),
            reasons: words("reason"),
            nodes: range(options, "nnodes")?,
            cpus: range(options, "ncpus")?,
            limit: limit(options)?,
            charged: None,
            truncate: is_on(options, "truncate"),
            tasks: is_on(options, "array"),
        })
    }

    /// Only jobs that are charged to associations with these numbers.
    pub(super) fn charged_to(&mut self, numbers: &[String], accounts: &Accounts) {
        let rows = accounts.associations.iter();
        let named = rows.filter(|own| numbers.contains(&own.id.to_string()));
        let pair = |own: &Association| (own.account.clone(), own.user.clone());
        self.charged = Some(named.map(pair).collect());
    }

    /// Whether a run is one of those meant.
    pub(super) fn passes(&self, run: &AccountedJob) -> bool {
        fn any(list: &[String], text: &str) -> bool {
            list.is_empty() || list.iter().any(|word| word == text)
        }
        let (job, spec) = (&run.job, &run.job.spec);
        let owner = &spec.owner;
        let group = self.groups.is_empty()
            || any(&self.groups, &owner.group)
            || any(&self.groups, &owner.gid.to_string());
        let reason = super::super::render::accounts::recorded_reason(job);
        let pair = (&spec.account, &owner.user);
        let charged = |all: &Vec<(String, String)>| all.iter().any(|(a, u)| (a, u) == pair);
        group
            && self.charged.as_ref().is_none_or(charged)
            && any(&self.qos, &spec.qos)
            && any(&self.reasons, &reason)
            && any(&self.keys, &spec.extras().wckey)
            && self
                .nodes
                .is_none_or(|range| range.has(job.nodes.len() as u64))
            && self.cpus.is_none_or(|range| range.has(cpus(job)))
            && self.limit.is_none_or(|limit| within(job, limit))
    }

    /// With its times cut to the window, and once for each task of an array that waits, if that is asked for.
    pub(super) fn shaped(
        &self,
        mut run: AccountedJob,
        window: &AccountFilter,
    ) -> Vec<AccountedJob> {
        if self.truncate {
            truncate(&mut run, window);
        }
        let waiting = run
            .job
            .array
            .as_ref()
            .filter(|array| self.tasks && array.task.is_none());
        let Some(waiting) = waiting else {
            return vec![run];
        };
        let one = |task| {
            let mut one = run.clone();
            let array = &mut Arc::make_mut(&mut one.job).array;
            if let Some(array) = array {
                array.task = Some(task);
            }
            one
        };
        waiting.tasks.iter().map(one).collect()
    }
}

fn truncate(run: &mut AccountedJob, window: &AccountFilter) {
    let job = Arc::make_mut(&mut run.job);
    cut(&mut job.started, &mut job.ended, window);
    for step in &mut job.steps {
        let mut started = Some(step.started);
        cut(&mut started, &mut step.ended, window);
        step.started = started.unwrap_or(step.started);
    }
}

fn cut(started: &mut Option<Millis>, ended: &mut Option<Millis>, window: &AccountFilter) {
    if let (Some(at), Some(since)) = (started.as_mut(), window.since) {
        *at = (*at).max(since);
    }
    if let (Some(at), Some(until)) = (ended.as_mut(), window.until) {
        *at = (*at).min(until);
    }
}

fn cpus(job: &JobView) -> u64 {
    let nodes = job.nodes.iter();
    nodes.map(|node| u64::from(node.share.cpus.len())).sum()
}

/// Whether a job's limit is between these, in seconds.
fn within(job: &JobView, (from, to): (u64, u64)) -> bool {
    match job.spec.time_limit {
        Some(TimeLimit::Secs(secs)) => (from..=to).contains(&secs),
        Some(TimeLimit::Unlimited) => to == u64::MAX,
        None => false,
    }
}

/// The last value of an option; `None` also for a command that has no such option.
fn given(options: &Options, long: &str) -> Option<String> {
    let given = options.given().iter().rev();
    let mut given = given.filter(|given| given.flag.named(long));
    given.find_map(|given| given.value.clone())
}

/// Whether an option was given.
pub(super) fn is_on(options: &Options, long: &str) -> bool {
    options.given().iter().any(|given| given.flag.named(long))
}

fn range(options: &Options, long: &str) -> Result<Option<Range>, Failure> {
    let Some(text) = given(options, long) else {
        return Ok(None);
    };
    let (from, to) = text.split_once('-').unwrap_or((&text, &text));
    let bad = || failed(format!("invalid --{long} specification: {text}"));
    let number = |word: &str| word.trim().parse().map_err(|_| bad());
    let range = Range {
        from: number(from)?,
        to: number(to)?,
    };
    if range.from > range.to {
        return Err(bad());
    }
    Ok(Some(range))
}

/// `-k` is the least limit, and exactly that one without `-K`; `-K` alone says nothing, as with Slurm.
fn limit(options: &Options) -> Result<Option<(u64, u64)>, Failure> {
    let read = |long: &str| {
        let Some(text) = given(options, long) else {
            return Ok(None);
        };
        match timespec::parse_limit(&text) {
            Ok(TimeLimit::Secs(secs)) => Ok(Some(secs)),
            Ok(TimeLimit::Unlimited) => Ok(Some(u64::MAX)),
            Err(_) => Err(failed(format!("Invalid {long}: {text}"))),
        }
    };
    let (least, most) = (read("timelimit-min")?, read("timelimit-max")?);
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        return Err(failed(format!(
            "timelimit-max of {} is less than timelimit-min",
            given(options, "timelimit-max").unwrap_or_default()
        )));
    }
    Ok(least.map(|least| (least, most.unwrap_or(least))))
}

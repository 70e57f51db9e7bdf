//! The same as one object. Keys only grow.

use super::{basis, moment, word};
use crate::cli::render::clock::Clock;
use serde::Serialize;
use spur_core::api::Explanation;
use spur_core::id::NodeName;
use spur_core::plan::why::sentence;

#[derive(Serialize)]
struct Object<'a> {
    job: u32,
    reason: String,
    words: &'a str,
    sentence: String,
    partition: &'a str,
    need: &'a str,
    nodes: u32,
    stopped: Vec<Group<'a>>,
    releases: Vec<Back<'a>>,
    by_limits_ms: Option<u64>,
    ahead: u32,
    eligible_ms: u64,
    expected: Option<Start<'a>>,
    advice: &'a [String],
    network: Option<&'a str>,
    network_until_ms: Option<u64>,
    blocked: Option<&'a str>,
}

#[derive(Serialize)]
struct Group<'a> {
    by: &'static str,
    detail: &'a str,
    nodes: u32,
    names: Vec<&'a str>,
    until_ms: Option<u64>,
}

#[derive(Serialize)]
struct Back<'a> {
    node: &'a str,
    job: u32,
    user: &'a str,
    gives: &'a str,
    until_ms: Option<u64>,
    cleaning: bool,
}

#[derive(Serialize)]
struct Start<'a> {
    start_ms: Option<u64>,
    basis: &'static str,
    nodes: Vec<&'a str>,
}

fn names(names: &[NodeName]) -> Vec<&str> {
    names.iter().map(NodeName::as_str).collect()
}

/// Moments are milliseconds since the epoch; absent ones are `null`.
pub(super) fn text(clock: &Clock, why: &Explanation) -> String {
    let object = Object {
        job: why.job.0,
        reason: why.reason.to_string(),
        words: &why.words,
        sentence: sentence(why, &|at| moment(clock, at)),
        partition: &why.partition,
        need: &why.need,
        nodes: why.nodes,
        stopped: why
            .stopped
            .iter()
            .map(|group| Group {
                by: word(group.by),
                detail: &group.detail,
                nodes: group.nodes,
                names: names(&group.names),
                until_ms: group.until.map(|at| at.0),
            })
            .collect(),
        releases: why
            .releases
            .iter()
            .map(|release| Back {
                node: release.node.as_str(),
                job: release.job.0,
                user: &release.user,
                gives: &release.gives,
                until_ms: release.until.map(|at| at.0),
                cleaning: release.cleaning,
            })
            .collect(),
        by_limits_ms: why.by_limits.map(|at| at.0),
        ahead: why.ahead,
        eligible_ms: why.eligible.0,
        expected: why.expected.as_ref().map(|expected| Start {
            start_ms: expected.start.map(|at| at.0),
            basis: basis(expected.basis),
            nodes: names(&expected.nodes),
        }),
        advice: &why.advice,
        network: why.network.as_deref(),
        network_until_ms: why.network_until.map(|at| at.0),
        blocked: why.blocked.as_deref(),
    };
    serde_json::to_string_pretty(&object)
        .expect("these types have names for keys and no failing parts")
        + "\n"
}

//! Programs that agents run: around jobs, and to see whether their node is well.

use crate::hooks::ControllerPrograms;
use serde::Deserialize;
use spur_core::agent::programs::{HealthCheck, NodePrograms};
use std::path::PathBuf;

/// One program or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Paths {
    One(String),
    Some(Vec<String>),
}

impl Default for Paths {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHealth {
    program: String,
    #[serde(default = "default_interval")]
    interval: u64,
    #[serde(default)]
    states: Vec<String>,
}

fn default_interval() -> u64 {
    60
}

/// As written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPrograms {
    prolog: Paths,
    epilog: Paths,
    prolog_timeout: u64,
    epilog_timeout: u64,
    health_check: Option<RawHealth>,
    controller_prolog: Paths,
    controller_epilog: Paths,
}

fn absolute(key: &str, paths: Paths) -> Result<Vec<String>, String> {
    let paths = match paths {
        Paths::One(path) => vec![path],
        Paths::Some(paths) => paths,
    };
    match paths.iter().find(|path| !path.starts_with('/')) {
        Some(path) => Err(format!("{key}: {path}: use an absolute path")),
        None => Ok(paths),
    }
}

/// What agents run, and what the controller runs itself.
pub(super) fn check(written: RawPrograms) -> Result<(NodePrograms, ControllerPrograms), String> {
    let (prolog_timeout, epilog_timeout) = (written.prolog_timeout, written.epilog_timeout);
    let paths = |key: &str, paths| -> Result<Vec<PathBuf>, String> {
        Ok(absolute(key, paths)?
            .into_iter()
            .map(PathBuf::from)
            .collect())
    };
    let controller = ControllerPrograms {
        prolog: paths("controller_prolog", written.controller_prolog)?,
        epilog: paths("controller_epilog", written.controller_epilog)?,
        prolog_timeout,
        epilog_timeout,
    };
    let node = NodePrograms {
        prolog: absolute("prolog", written.prolog)?,
        epilog: absolute("epilog", written.epilog)?,
        prolog_timeout,
        epilog_timeout,
        health: written.health_check.map(check_health).transpose()?,
    };
    Ok((node, controller))
}

fn check_health(health: RawHealth) -> Result<HealthCheck, String> {
    let program = absolute("health_check", Paths::One(health.program))?.concat();
    if health.interval == 0 {
        return Err("health_check: interval = 0: use at least 1 second".to_owned());
    }
    let states: Vec<String> = health
        .states
        .iter()
        .map(|state| state.to_uppercase())
        .collect();
    let known = ["ANY", "IDLE", "ALLOC", "MIXED"];
    match states.iter().find(|state| !known.contains(&state.as_str())) {
        Some(state) => Err(format!(
            "health_check: states: {state}: use any of {}",
            known.join(", ")
        )),
        None => Ok(HealthCheck {
            program,
            interval: health.interval,
            states,
        }),
    }
}

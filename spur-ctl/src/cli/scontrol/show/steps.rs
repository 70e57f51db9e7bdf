//! `scontrol show step`, `liststeps` and `listjobs`.

use super::super::{ask, worded};
use super::{cluster, finish, loaded, view};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::render::data::{self, Document, step as structured};
use crate::cli::render::show_step;
pub use crate::cli::render::step_columns::Row;
use crate::cli::render::step_columns::step_word;
use crate::cli::{link, output, process};
use spur_core::api::{JobFilter, RefusalKind, Reply, Request};
use spur_core::job::state::JobState;
use spur_core::job::step::StepState;
use spur_core::slurm::codes;

/// What every failure to load steps begins with.
const PREFIX: &str = "slurm_get_job_steps error";

/// Running steps, in order of job and step.
fn load() -> Result<Vec<Row>, Failure> {
    let filter = JobFilter {
        states: vec![JobState::Running, JobState::Suspended],
        ..JobFilter::default()
    };
    let Reply::Jobs(jobs) = ask(&Request::Jobs { filter }, PREFIX)? else {
        return Err(worded(PREFIX, &link::unexpected()));
    };
    let rows = jobs.iter().flat_map(|job| {
        let running = job
            .steps
            .iter()
            .filter(|step| step.state == StepState::Running);
        running.map(|step| Row {
            job: job.clone(),
            step: step.clone(),
        })
    });
    Ok(rows.collect())
}

/// `12`, `12.0`, `9_3.batch`: whether a step is meant.
pub fn meant(row: &Row, text: &str) -> bool {
    let (job, step) = text
        .split_once('.')
        .map_or((text, None), |(job, step)| (job, Some(step)));
    let array = row.job.array.as_ref();
    let by_job = match job.split_once('_') {
        None => {
            let part = row.job.het;
            job == row.job.id.to_string()
                || array.is_some_and(|a| job == a.job.to_string())
                || part
                    .is_some_and(|part| job == part.leader.to_string() || job == part.to_string())
        }
        Some((job, task)) => array.is_some_and(|a| {
            job == a.job.to_string() && a.task.is_some_and(|own| task == own.to_string())
        }),
    };
    by_job && step.is_none_or(|step| step == step_word(row.step.kind))
}

/// Refuses a step of a job that is not there.
fn known(text: &str) -> Result<(), Failure> {
    let job = text.split_once('.').map_or(text, |(job, _)| job);
    let Ok(target) = job.parse() else {
        return Ok(());
    };
    let filter = JobFilter {
        targets: vec![target],
        all_states: true,
        ..JobFilter::default()
    };
    let Reply::Jobs(jobs) = ask(&Request::Jobs { filter }, PREFIX)? else {
        return Err(worded(PREFIX, &link::unexpected()));
    };
    if jobs.is_empty() {
        let text = codes::message(RefusalKind::InvalidJobId);
        return Err(Failure::plain(format!("{PREFIX}: {text}"), 1));
    }
    Ok(())
}

/// All running steps, or those of a job, or one.
pub fn show(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let asked = data::asked(options)?;
    let mut rows = load()?;
    rows.retain(|row| which.is_none_or(|text| meant(row, text)));
    let mut view = view([]);
    if let Some(asked) = asked {
        let cluster = cluster()?;
        view.cluster.clone_from(&cluster);
        let mut doc = Document::begin(asked);
        structured::all(&mut doc, &view, &rows);
        finish(options, doc, &cluster, None);
        return Ok(0);
    }
    loaded(options, &view, rows.len());
    if rows.is_empty() {
        let Some(text) = which else {
            output::print("No job steps in the system\n");
            return Ok(0);
        };
        known(text)?;
        let shown = if text.contains('.') {
            text.to_owned()
        } else {
            format!("{text}.TBD")
        };
        output::print(&format!("Job step {shown} not found\n"));
        return Ok(1);
    }
    let record = |row: &Row| show_step::record(&view, row, options.on("oneliner"));
    output::print(&rows.iter().map(record).collect::<String>());
    Ok(0)
}

/// Steps with a part on a node. Slurm lists those of its own host; without a name, ours are those of all nodes of this host.
fn on_node(rows: &mut Vec<Row>, node: Option<&str>) -> Result<(), Failure> {
    let own = process::host();
    let nodes = super::nodes::load()?;
    let here: Vec<&str> = match node {
        Some(name) => vec![name],
        None => {
            let local = nodes.iter().filter(|node| node.node.hostname == own);
            local.map(|node| node.node.name.as_str()).collect()
        }
    };
    rows.retain(|row| {
        let mut names = row.job.nodes.iter().map(|node| node.name.as_str());
        names.any(|name| here.contains(&name))
    });
    Ok(())
}

/// Running steps with a part on a node, or on any node of this host.
pub fn on(node: Option<&str>) -> Result<Vec<Row>, Failure> {
    let mut rows = load()?;
    on_node(&mut rows, node)?;
    Ok(rows)
}

/// `scontrol liststeps [NODE]`.
pub fn list_steps(node: Option<&str>) -> Result<u8, Failure> {
    let rows = on(node)?;
    if rows.is_empty() {
        return Err(Failure::plain("No job steps exist on this node.", 1));
    }
    let mut text = "JOBID    STEPID  \n".to_owned();
    for row in &rows {
        text.push_str(&format!(
            "{:<8} {:<8}\n",
            row.job.id,
            step_word(row.step.kind)
        ));
    }
    output::print(&text);
    Ok(0)
}

/// `scontrol listjobs [NODE]`.
pub fn list_jobs(node: Option<&str>) -> Result<u8, Failure> {
    let rows = on(node)?;
    let mut jobs: Vec<u32> = rows.iter().map(|row| row.job.id.0).collect();
    jobs.dedup();
    if jobs.is_empty() {
        return Err(Failure::plain("No job steps exist on this node.", 1));
    }
    let lines: String = jobs.iter().map(|job| format!("{job:<8}\n")).collect();
    output::print(&format!("JOBID\n{lines}"));
    Ok(0)
}

//! `sstat`: what running steps use now.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::named::{self, Named};
use super::render::accounts::sheet::{self, Sheet};
use super::render::accounts::{Row, fields, rows};
use super::resolve::filter;
use super::{output, sacct};
use spur_core::api::{RefusalKind, Reply, Request, UsageReport};
use spur_core::id::StepKind;
use spur_core::job::step::StepState;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    if options.on("helpformat") {
        output::print(&sheet::help(fields::of_steps()));
        return Ok(0);
    }
    let named = named(options)?;
    let list = options.value("format").unwrap_or(fields::STEPS);
    let sheet = Sheet::parse(list, fields::FIELDS, sacct::style(options)).map_err(failed)?;
    let context = sacct::context(options)?;
    if !options.on("noheader") {
        output::print(&sheet.header());
    }
    for Named { target, step } in named {
        let Some(report) = ask(&Named {
            target: target.clone(),
            step,
        })?
        else {
            continue;
        };
        let UsageReport { record, now, .. } = report;
        let rows = rows(record, now, true);
        let shown = shown(&rows, step, options.on("allsteps"));
        if shown.is_empty() {
            let what = match step {
                Some(step) => format!("step {target}.{step} does not run"),
                None => format!("no steps running for job {target}"),
            };
            output::complain(&[format!("sstat: error: {what}")]);
        }
        let text: String = shown.iter().map(|row| sheet.row(&context, row)).collect();
        output::print(&text);
    }
    Ok(0)
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error(Command::Sstat, why)
}

fn named(options: &Options) -> Result<Vec<Named>, Failure> {
    let mut texts = sacct::lists(options, "jobs");
    let operands = options.operands.iter();
    texts.extend(operands.flat_map(|word| filter::list(&word.to_string_lossy())));
    if texts.is_empty() {
        return Err(failed("No job specified; use -j JOB[.STEP]"));
    }
    let read = |text: &String| {
        let bad = || Failure::fatal(Command::Sstat, format!("Bad job/step specified: {text}"));
        named::read(text).ok_or_else(bad)
    };
    texts.iter().map(read).collect()
}

/// What the job uses; `None`, and a word on stderr, if it is not there or not the caller's.
fn ask(named: &Named) -> Result<Option<UsageReport>, Failure> {
    let gone = |why: &str| {
        let line = format!(
            "sstat: error: couldn't get steps for job {}{why}",
            named.target
        );
        output::complain(&[line]);
    };
    let request = |job| Request::Usage {
        job,
        watch: true,
        details: false,
    };
    let answer = named.job_of().and_then(|job| link::question(&request(job)));
    match answer {
        Ok(Reply::Usage(report)) => Ok(Some(*report)),
        Ok(_) => Err(failed(link::unexpected().text())),
        Err(Trouble::Refused(refusal)) if refusal.kind == RefusalKind::InvalidJobId => {
            gone("");
            Ok(None)
        }
        Err(trouble @ Trouble::Refused(_)) => {
            gone(&format!(": {}", trouble.text()));
            Ok(None)
        }
        Err(trouble) => Err(failed(trouble.text())),
    }
}

/// The step that is named; or all that run; or of those the first of `srun`'s, for want of one the batch script.
fn shown(rows: &[Row], named: Option<StepKind>, all: bool) -> Vec<&Row> {
    let running = rows.iter().filter(|row| {
        let step = row.step.as_ref();
        step.is_some_and(|step| step.state == StepState::Running)
    });
    let kind = |row: &&Row| row.step.as_ref().map(|step| step.kind);
    if let Some(named) = named {
        return running.filter(|row| kind(row) == Some(named)).collect();
    }
    let running: Vec<&Row> = running.collect();
    if all {
        return running;
    }
    let numbered = |row: &&Row| matches!(kind(row), Some(StepKind::Numbered(_)));
    let first = running.iter().copied().find(numbered);
    first
        .or_else(|| running.first().copied())
        .into_iter()
        .collect()
}

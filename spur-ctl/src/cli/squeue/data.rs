//! `squeue --json` and `--yaml`.

use super::{Passes, steps};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::link::{self, Trouble};
use crate::cli::process;
use crate::cli::render::View;
use crate::cli::render::data::{Asked, Document, Meta, job, step};
use spur_core::api::JobView;
use std::sync::Arc;

/// Prints the jobs, or their steps (`-s`), that pass the filters.
pub fn show(options: &Options, asked: Asked, passes: &Passes<'_>) -> Result<(), Failure> {
    let filter = super::asked_for(passes.query);
    let came = filter.map(|filter| link::jobs(&super::whole(filter)));
    let came = came.transpose().map_err(|why| super::load_error(&why))?;
    let none = came.as_ref().is_none_or(|jobs| jobs.is_empty());
    super::there_is_one(passes.query, none)?;
    let cluster = link::cluster_name().map_err(|trouble| super::load_error(&trouble))?;
    let mut view = View::new(process::clock());
    view.cluster.clone_from(&cluster);
    let mut doc = Document::begin(asked);
    let jobs = came.iter().flat_map(link::each);
    let jobs = jobs.filter_map(|job| job.map(|job| passes.part(Arc::new(job))).transpose());
    let whole = if options.on("step") {
        of_steps(&mut doc, &view, jobs, passes)
    } else {
        job::all(&mut doc, &view, jobs, passes.query.is_of_one_job())
    };
    let problem = whole.as_ref().err().map(Trouble::problem);
    doc.finish(
        &Meta::of_process(&cluster, words()),
        problem.as_slice(),
        &[],
    );
    whole.map_err(|trouble| super::load_error(&trouble))
}

fn of_steps(
    doc: &mut Document,
    view: &View,
    jobs: impl Iterator<Item = Result<Arc<JobView>, Trouble>>,
    passes: &Passes<'_>,
) -> Result<(), Trouble> {
    let jobs: Vec<_> = jobs.collect::<Result<_, _>>()?;
    step::all(doc, view, &steps::rows(passes.query, &jobs));
    Ok(())
}

/// The words of the command, by its own name.
fn words() -> Vec<String> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = words.collect();
    if let Some(own) = words.first_mut() {
        *own = "squeue".to_owned();
    }
    words
}

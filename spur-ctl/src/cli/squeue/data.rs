//! `squeue --json` and `--yaml`.

use super::query::Query;
use super::steps;
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::link;
use crate::cli::process;
use crate::cli::render::View;
use crate::cli::render::data::{Asked, Document, Meta, job, step};
use spur_core::api::JobView;
use std::sync::Arc;

/// Prints the jobs, or their steps (`-s`), that passed the filters.
pub fn show(
    options: &Options,
    asked: Asked,
    jobs: &[Arc<JobView>],
    query: &Query,
) -> Result<(), Failure> {
    let cluster = link::cluster_name().map_err(|trouble| super::load_error(&trouble))?;
    let mut view = View::new(process::clock());
    view.cluster.clone_from(&cluster);
    let mut doc = Document::begin(asked);
    if options.on("step") {
        step::all(&mut doc, &view, &steps::rows(query, jobs));
    } else {
        let nodes = job::nodes_for(jobs).map_err(|trouble| super::load_error(&trouble))?;
        job::all(&mut doc, &view, jobs, &nodes, query.is_of_one_job());
    }
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = words.collect();
    if let Some(own) = words.first_mut() {
        *own = "squeue".to_owned();
    }
    doc.finish(&Meta::of_process(&cluster, words), &[], &[]);
    Ok(())
}

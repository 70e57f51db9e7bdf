//! `scontrol show` and `scontrol write`.

pub mod config;
pub mod hosts;
pub mod jobs;
pub mod nodes;
pub mod others;
pub mod steps;

pub use steps::{list_jobs, list_steps};

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::link::{self, Trouble};
use super::super::render::View;
use super::super::render::data::{Document, Meta, Problem};
use super::super::{named, output, process, users};
use super::{abbreviates, ask, invalid, later, worded};
use spur_core::api::{RefusalKind, Reply, Request};
use spur_core::id::Uid;
use spur_core::slurm::codes;

/// What Slurm shows and nothing here stands behind, with what to do instead.
const LATER: [(&str, &str); 8] = [
    ("aliases", ""),
    ("assoc_mgr", "see `sacctmgr show assoc`"),
    ("cache", "see `sacctmgr show assoc`"),
    ("bbstat", ""),
    ("burstbuffer", ""),
    ("dwstat", ""),
    ("frontendname", ""),
    ("slurmd", "run `spurd doctor` on the node"),
];

/// What there is to show.
pub const ENTITIES: [&str; 12] = [
    "config",
    "daemons",
    "hostlist",
    "hostlistsorted",
    "hostnames",
    "job",
    "licenses",
    "node",
    "partition",
    "reservation",
    "step",
    "topology",
];

/// `scontrol show WHAT [WHICH]`.
pub fn main(options: &Options, what: &str, rest: &[String]) -> Result<u8, Failure> {
    let (word, attached) = what
        .split_once('=')
        .map_or((what, None), |(w, v)| (w, Some(v.to_owned())));
    if rest.len() > 1 {
        return Err(Failure::plain("too many arguments for keyword:show", 1));
    }
    let which = attached.or_else(|| rest.first().cloned());
    let name = which.as_deref();
    let is = |full: &str, least: usize| abbreviates(word, full, least);
    match () {
        // Slurm says nothing where there is no federation.
        () if is("federations", 1) => Ok(0),
        () if is("config", 1) => config::show(name),
        () if is("daemons", 1) => others::daemons(),
        () if is("hostnames", 5) => hosts::names(which),
        () if is("hostlist", 5) => hosts::fold(which, false),
        () if is("hostlistsorted", 9) => hosts::fold(which, true),
        () if is("jobs", 1) || is("jobid", 1) => jobs::show(options, name),
        () if is("licenses", 2) => others::licenses(options, name),
        () if is("nodes", 1) || is("nodename", 1) => nodes::show(options, name),
        () if is("partitions", 2) || is("partitionname", 2) => nodes::partitions(options, name),
        () if is("reservations", 1) || is("reservationname", 1) => {
            others::reservations(options, name)
        }
        () if is("steps", 2) || is("stepid", 2) => steps::show(options, name),
        () if is("topology", 1) => others::topology(name),
        () => {
            let nobodys = || {
                let text = format!("invalid entity:{word} for keyword:show ");
                Failure::plain(text, 1).nearest(word, ENTITIES)
            };
            let known = LATER.iter().find(|(full, _)| abbreviates(word, full, 2));
            let refused = known.and_then(|(full, _)| later(&LATER, full));
            Err(refused.unwrap_or_else(nobodys))
        }
    }
}

fn view(users: impl IntoIterator<Item = Uid>) -> View {
    let mut view = View::new(process::clock());
    view.users = users::names(users);
    view
}

/// What `scontrol -v` says before it shows anything: how old it is and how many records came.
fn loaded(options: &Options, view: &View, records: usize) {
    if options.on("verbose") && !options.on("quiet") {
        let at = view.clock.stamp(process::now());
        output::print(&format!("last_update_time={at}, records={records}\n"));
    }
}

/// Ends a document of structured output, with what went wrong on the way.
fn finish(options: &Options, doc: Document, cluster: &str, wrong: Option<&Trouble>) {
    let words = options
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let errors: Vec<Problem> = wrong.map(Trouble::problem).into_iter().collect();
    doc.finish(&Meta::of_process(cluster, words.collect()), &errors, &[]);
}

/// The cluster's name, for structured output.
fn cluster() -> Result<String, Failure> {
    link::cluster_name().map_err(|trouble| worded("slurm_load_ctl_conf error", &trouble))
}

/// `scontrol write batch_script JOB [FILE]`.
pub fn write_script(rest: &[String]) -> Result<u8, Failure> {
    let [what, job, more @ ..] = rest else {
        return Err(invalid("write"));
    };
    if !abbreviates(what, "batch_script", 1) {
        return Err(Failure::plain(
            format!("invalid entity:{what} for keyword:write"),
            1,
        ));
    }
    let prefix = "job script retrieval failed";
    let unknown = || {
        let why = codes::message(RefusalKind::InvalidJobId);
        Failure::plain(format!("{prefix}: {why}"), 1)
    };
    let named = named::read(job).filter(|named| named.step.is_none());
    let named = named.ok_or_else(unknown)?;
    let id = named.job_of().map_err(|trouble| worded(prefix, &trouble))?;
    let Reply::Script(script) = ask(&Request::Script { job: id }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let path = more
        .first()
        .cloned()
        .unwrap_or_else(|| format!("slurm-{}.sh", named.target));
    if path == "-" {
        output::write(&script);
        return Ok(0);
    }
    let failed = |why| Failure::plain(format!("failed to open file `{path}`: {why}"), 1);
    std::fs::write(&path, script).map_err(failed)?;
    output::print(&format!(
        "batch script for job {} written to {path}\n",
        named.target
    ));
    Ok(0)
}

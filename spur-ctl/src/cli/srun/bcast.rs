//! `--bcast`: the program goes to the step's nodes before it runs there.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::{self, Options, Source};
use super::super::process;
use super::super::resolve::input::Surroundings;
use super::super::sbcast;
use super::grant::{self, Granted};
use super::hooks::search;
use super::program;
use super::session;
use spur_core::slurm::hostlist;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Finds the program of a step with `--bcast`, before anything is asked for.
pub fn find(parts: &[Options], here: &Surroundings) -> Result<Option<PathBuf>, Failure> {
    let fatal = |why: String| Failure::fatal(Command::Srun, why);
    if !parts.iter().any(|part| part.on("bcast")) {
        return Ok(None);
    }
    let [part] = parts else {
        let why = "--bcast: not over several components: use sbcast";
        return Err(fatal(why.to_owned()));
    };
    if part.on("multi-prog") {
        return Ok(None);
    }
    let name = program(part);
    // As the tasks would find it.
    let cwd = part
        .value("chdir")
        .map_or_else(|| here.cwd.clone(), |dir| here.absolute(dir));
    let found = search(
        &name,
        &Surroundings {
            cwd,
            ..here.clone()
        },
    );
    found
        .map(Some)
        .ok_or_else(|| fatal(format!("Can not execute {name}")))
}

/// Copies the program to all nodes of the step, by a step of its own that shares with all, and has the step run the copy.
pub async fn copy(
    parts: &mut [Options],
    from: &PathBuf,
    here: &Surroundings,
    granted: &Granted,
) -> Result<(), Failure> {
    let Some(part) = parts.first_mut() else {
        return Ok(());
    };
    let failed = || {
        let from = from.display();
        let why = format!("Failed to broadcast '{from}'. Step launch aborted.");
        Failure::fatal(Command::Srun, why)
    };
    let about = std::fs::metadata(from).map_err(|_| failed())?;
    let step = granted.grant.step;
    let asked = part.value("bcast").filter(|name| name.starts_with('/'));
    let to = match asked {
        Some(file) if !file.ends_with('/') => file.to_owned(),
        Some(dir) => format!("{dir}slurm_bcast_{step}"),
        None => {
            let of = (&*granted.grant.job.spec, granted.own_job);
            format!("{}/slurm_bcast_{step}", session::work_dir(part, here, of))
        }
    };
    let nodes = &granted.grant.nodes;
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let count = names.len();
    let mut words: Vec<OsString> = [
        format!("--jobid={}", granted.grant.job.id),
        format!("--nodes={count}"),
        format!("--ntasks={count}"),
        format!("--nodelist={}", hostlist::compress(&names)),
        "--ntasks-per-node=1".to_owned(),
        "--gres=none".to_owned(),
        "--job-name=sbcast".to_owned(),
        "--quiet".to_owned(),
        "--overlap".to_owned(),
    ]
    .map(OsString::from)
    .to_vec();
    let mut input = OsString::from("--input=");
    input.push(from);
    words.push(input);
    words.extend(["sh", "-c", sbcast::WRITE, "sbcast", &to, "yes"].map(OsString::from));
    words.push(format!("{:04o}", about.mode() & 0o777).into());
    words.push(about.mtime().to_string().into());
    let options = [getopt::parse(Command::Srun, &words, Source::CommandLine)?];
    let here = &Surroundings {
        request_id: process::request_id(),
        ..here.clone()
    };
    let own = grant::obtain(&options, here).await?;
    let code = session::run((&options, vec![None]), here, own).await?;
    if code != 0 {
        return Err(failed());
    }
    if let Some(word) = part.operands.first_mut() {
        *word = to.into();
    }
    Ok(())
}

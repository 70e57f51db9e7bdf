//! Programs around a step, which srun runs itself, and around each task, which the nodes run.

use super::super::flags::getopt::Options;
use super::super::process;
use super::super::resolve::input::Surroundings;
use super::{err, say};
use spur_core::api::Grant;
use spur_core::slurm::hostlist;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The programs that were asked for, found.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    prolog: Option<PathBuf>,
    epilog: Option<PathBuf>,
    /// Before and after each task.
    task: [Option<PathBuf>; 2],
}

/// Finds the programs; what is not found is said.
pub fn find(options: &Options, here: &Surroundings) -> Hooks {
    let found = |long: &str| {
        let name = options.value(long)?;
        if name.eq_ignore_ascii_case("none") && !long.starts_with("task-") {
            return None;
        }
        let path = search(name, here);
        if path.is_none() {
            let cwd = &here.cwd;
            err(format_args!(
                "{long} '{name}' not found in PATH or CWD ({cwd}), or wrong permissions"
            ));
        }
        path
    };
    Hooks {
        prolog: found("prolog"),
        epilog: found("epilog"),
        task: ["task-prolog", "task-epilog"].map(found),
    }
}

/// A program by its path, in the working directory, or in `PATH`.
pub fn search(name: &str, here: &Surroundings) -> Option<PathBuf> {
    let cwd = process::path(&here.cwd);
    let name = process::path(name);
    let fits = |path: &PathBuf| {
        let access = rustix::fs::Access::EXEC_OK | rustix::fs::Access::READ_OK;
        path.is_file() && rustix::fs::access(path, access).is_ok()
    };
    let own = Path::new(&cwd).join(&name);
    if name.as_os_str().as_bytes().contains(&b'/') {
        return Some(own).filter(fits);
    }
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&dirs).map(|dir| cwd.join(dir).join(&name));
    fits(&own).then_some(own).or_else(|| places.find(fits))
}

impl Hooks {
    /// What runs before and after each task; empty: nothing.
    pub fn of_tasks(&self) -> [Vec<u8>; 2] {
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let path = |path: &Option<PathBuf>| path.as_ref().map(bytes).unwrap_or_default();
        [path(&self.task[0]), path(&self.task[1])]
    }

    /// Runs what comes before the step; `false` if that wants no step.
    pub async fn before(&self, options: &Options, grant: &Grant) -> bool {
        let Some(program) = &self.prolog else {
            return true;
        };
        let code = run(program, "prolog_srun", options, grant).await;
        if code != 0 {
            err(format_args!(
                "srun prolog failed rc = {code}. Aborting step."
            ));
        }
        code == 0
    }

    /// Runs what comes after the step.
    pub async fn after(&self, options: &Options, grant: &Grant) {
        if let Some(program) = &self.epilog {
            let code = run(program, "epilog_srun", options, grant).await;
            if code != 0 {
                err(format_args!("srun epilog failed rc = {code}."));
            }
        }
    }
}

/// Runs a program with the step's command as its arguments; its exit code. It is killed if it is not waited for to the end.
async fn run(program: &Path, context: &str, options: &Options, grant: &Grant) -> i32 {
    let names: Vec<&str> = grant.nodes.iter().map(|node| node.name.as_str()).collect();
    let nodes = hostlist::compress(&names);
    let (job, step) = (grant.job.id.to_string(), grant.step.step.to_string());
    let status = Command::new(program)
        .args(&options.operands)
        .env("SLURM_SCRIPT_CONTEXT", context)
        .env("SLURM_JOB_ID", &job)
        .env("SLURM_JOBID", &job)
        .env("SLURM_STEP_ID", &step)
        .env("SLURM_STEPID", &step)
        .env("SLURM_STEP_NODELIST", nodes)
        .kill_on_drop(true)
        .status()
        .await;
    match status {
        Ok(status) => status.code().unwrap_or_else(|| {
            err("script did not exit normally");
            1
        }),
        Err(why) => {
            let program = program.display();
            say(options, format_args!("Access denied for {program}: {why}"));
            0
        }
    }
}

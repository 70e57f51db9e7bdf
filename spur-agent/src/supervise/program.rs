//! Finding and executing a task's program, with Slurm's messages and exit codes.

use super::child::reason;
use super::hooks;
use crate::launch::record::private_file;
use crate::launch::{StepLaunch, TaskLaunch};
use crate::sys;
use spur_core::job::spec::Owner;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Puts a batch script into the step's folder under Slurm's name for it, for its owner to read and execute. Gives its path.
///
/// The supervisor does this and not the agent: while any process has the file open for writing, exec fails with `ETXTBSY`, and a
/// child that another thread of the agent is just starting could have it.
pub(crate) fn write_script(dir: &Path, script: &[u8], owner: &Owner) -> io::Result<PathBuf> {
    let path = dir.join("slurm_script");
    let mut file = private_file(&path)?;
    file.write_all(script)?;
    file.set_permissions(fs::Permissions::from_mode(0o500))?;
    fchown(&file, Some(owner.uid.0), Some(owner.gid.0))?;
    Ok(path)
}

/// Executes the task's program, or the script, after what runs before it, under its user's resource limits; `warn` gets what cannot be limited. Returns only if that fails:
/// the exit code, which is Slurm's (the `errno`), and the message.
pub(crate) fn execute(
    (spec, task, pmix): (&StepLaunch, &TaskLaunch, &[Vec<u8>]),
    (prolog, script): (&[u8], Option<&Path>),
    warn: impl Fn(String),
) -> (i32, String) {
    let mut env = environment(spec, task, pmix);
    if !prolog.is_empty()
        && let Err(failed) = hooks::prolog(prolog, &mut env)
    {
        return failed;
    }
    let given = task
        .argv
        .first()
        .map(|arg| PathBuf::from(OsStr::from_bytes(arg)))
        .unwrap_or_default();
    let program = script.map_or_else(
        || find(&given, env.get(b"PATH".as_slice())),
        Path::to_path_buf,
    );
    // A script comes before the arguments; a program is the first of them, by the path at which it was found.
    let rest = if script.is_some() { 0 } else { 1 };
    let argv = [program.clone().into_os_string()];
    let argv = argv.into_iter().chain(
        task.argv
            .iter()
            .skip(rest)
            .map(|arg| OsString::from_vec(arg.to_vec())),
    );
    let argv: Vec<CString> = argv.map(|arg| c_string(arg.into_vec())).collect();
    let env: Vec<CString> = env
        .into_iter()
        .map(|(name, value)| c_string([name.as_slice(), b"=", value.as_slice()].concat()))
        .collect();
    let path = c_string(program.clone().into_os_string().into_vec());
    limit(spec, warn);
    let error = sys::exec::execve(&path, &argv, &env);
    let code = error.raw_os_error().unwrap_or(1);
    (code, explain(&program, &error))
}

/// Sets the user's soft limits: last of all, since what is too little to prepare in (of memory, of descriptors) must harm the job
/// and not pass for a fault of the node.
fn limit(spec: &StepLaunch, warn: impl Fn(String)) {
    for limit in &spec.rlimits {
        if let Err(error) = sys::process::set_soft_limit(limit.resource, limit.soft) {
            let (number, soft, why) = (limit.resource, limit.soft, reason(&error));
            warn(format!(
                "Can't propagate resource limit {number} of {soft}: {why}"
            ));
        }
    }
}

fn c_string(bytes: Vec<u8>) -> CString {
    CString::new(bytes).expect("the spec was checked to hold no NUL")
}

/// The environment: the step's, then the task's own entries, then PMIx's, then the process id that only the child knows.
fn environment(
    spec: &StepLaunch,
    task: &TaskLaunch,
    pmix: &[Vec<u8>],
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut env = BTreeMap::new();
    let own = spec
        .env
        .iter()
        .chain(&task.env)
        .map(|entry| entry.as_slice());
    for entry in own.chain(pmix.iter().map(Vec::as_slice)) {
        let at = entry
            .iter()
            .position(|byte| *byte == b'=')
            .filter(|at| *at > 0);
        if let Some((name, value)) = at.and_then(|at| entry.split_at_checked(at)) {
            env.insert(name.to_vec(), value.get(1..).unwrap_or_default().to_vec());
        }
    }
    env.insert(
        b"SLURM_TASK_PID".into(),
        std::process::id().to_string().into_bytes(),
    );
    env
}

/// Looks a bare name up in `PATH`, as the user; one that is not found stays as it is.
fn find(name: &Path, path: Option<&Vec<u8>>) -> PathBuf {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return name.into();
    }
    let dirs = path
        .map(|path| path.split(|byte| *byte == b':'))
        .into_iter()
        .flatten();
    let mut places = dirs.map(|dir| {
        Path::new(if dir.is_empty() {
            OsStr::new(".")
        } else {
            OsStr::from_bytes(dir)
        })
        .join(name)
    });
    places
        .find(|place| executable(place))
        .unwrap_or_else(|| name.into())
}

fn executable(place: &Path) -> bool {
    let access = rustix::fs::access(place, rustix::fs::Access::EXEC_OK);
    access.is_ok() && fs::metadata(place).is_ok_and(|found| found.is_file())
}

/// Slurm's message for a failed exec: a script whose interpreter is missing is told apart from a missing program.
fn explain(program: &Path, error: &io::Error) -> String {
    let why = reason(error);
    if error.kind() == io::ErrorKind::NotFound
        && let Some(interpreter) = interpreter(program)
    {
        return format!("execve(): bad interpreter({interpreter}): {why}");
    }
    format!("execve(): {}: {why}", program.display())
}

/// What follows `#!` on a file's first line.
fn interpreter(program: &Path) -> Option<String> {
    let mut start = [0; 256];
    let length = fs::File::open(program).ok()?.read(&mut start).ok()?;
    let line = start.get(..length)?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line.strip_prefix(b"#!")?).into_owned())
}

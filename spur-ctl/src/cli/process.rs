//! What a command takes from its process, once.

use super::render::clock::Clock;
use super::resolve::input::Surroundings;
use rustix::process::{Resource, getrlimit};
use spur_core::slurm::raw;
use spur_core::time::Millis;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The present.
pub fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A variable of the environment; bytes that are no UTF-8 as [`raw`] has them.
pub fn var(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| raw::text(value.as_bytes()))
}

/// A word of a command line as text.
pub fn text(word: &OsStr) -> String {
    raw::text(word.as_bytes())
}

/// The file that a text names.
pub fn path(text: &str) -> PathBuf {
    OsString::from_vec(raw::bytes(text).into_owned()).into()
}

/// The user's clock.
pub fn clock() -> Clock {
    Clock::local(
        now(),
        var("TZ").as_deref(),
        var("SLURM_TIME_FORMAT").as_deref(),
    )
}

/// Whether standard output is a terminal, and somebody looks at it.
pub fn to_terminal() -> bool {
    use std::io::IsTerminal as _;
    std::io::stdout().is_terminal()
}

/// The number of the calling user.
pub fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The number of the calling user's group.
pub fn gid() -> u32 {
    rustix::process::getgid().as_raw()
}

/// The name of this host.
pub fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Everything that a submission needs to know.
pub fn surroundings() -> Surroundings {
    let clock = clock();
    let cwd = std::env::current_dir()
        .ok()
        .map(|dir| raw::text(dir.as_os_str().as_bytes()));
    Surroundings {
        env: environment(),
        cwd: cwd.unwrap_or_else(|| "/".to_owned()),
        host: host(),
        session: session(),
        uid: uid(),
        gid: rustix::process::getgid().as_raw(),
        now: clock.now,
        utc_offset: clock.utc_offset(clock.now),
        niceness: rustix::process::getpriority_process(None).unwrap_or(0),
        umask: umask(),
        submit_line: submit_line(),
        request_id: request_id(),
        rlimits: limits(),
    }
}

/// All that a file has to say, up to so many bytes: a device or a pipe may never end.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn bounded(from: impl Read, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The name by which the program was called.
pub fn command_name() -> String {
    let first = std::env::args_os().next().unwrap_or_default();
    text(Path::new(&first).file_name().unwrap_or_default())
}

/// The longest submit line that is kept, in bytes.
const LINE_MAX: usize = 65_000;

/// A number that no other request has: what the standard library draws for its hash tables, from the kernel.
pub fn request_id() -> u64 {
    let drawn = std::hash::BuildHasher::build_hasher(&std::hash::RandomState::new());
    std::hash::Hasher::finish(&drawn).max(1)
}

/// The command as it was called, with blanks between its words as Slurm has it.
fn submit_line() -> String {
    let mut words = std::env::args_os().peekable();
    let ours = |word: &OsString| Path::new(word).file_name() == Some("spur".as_ref());
    words.next_if(ours);
    let mut line = Vec::new();
    for word in words {
        if !line.is_empty() {
            line.push(b' ');
        }
        line.extend_from_slice(word.as_bytes());
        if line.len() > LINE_MAX {
            line.truncate(LINE_MAX);
            break;
        }
    }
    // A byte that is no text may take four in its place.
    let mut text = raw::text(&line);
    while text.len() > LINE_MAX {
        text.pop();
    }
    text
}

/// The session of this process, 0 if its leader is outside of our pid namespace (a container's `exec`). Read from `/proc`, since
/// `rustix::process::getsid` panics on 0.
fn session() -> u32 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold anything; then state, parent, group, session.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ')
        .nth(3)
        .and_then(|sid| sid.parse().ok())
        .unwrap_or(0)
}

fn environment() -> Vec<String> {
    let entry = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        text(&name)
    };
    std::env::vars_os().map(entry).collect()
}

/// The mask can only be read by setting it.
fn umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

fn limits() -> Vec<(u32, u64)> {
    let resources = [
        (0, Resource::Cpu),
        (1, Resource::Fsize),
        (2, Resource::Data),
        (3, Resource::Stack),
        (4, Resource::Core),
        (5, Resource::Rss),
        (6, Resource::Nproc),
        (7, Resource::Nofile),
        (8, Resource::Memlock),
        (9, Resource::As),
    ];
    let soft = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
    resources
        .into_iter()
        .map(|(number, resource)| (number, soft(resource)))
        .collect()
}

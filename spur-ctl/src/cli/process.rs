//! What a command takes from its process, once.

use super::render::clock::Clock;
use super::resolve::input::Surroundings;
use rustix::process::{Resource, getrlimit};
use spur_core::time::Millis;
use std::time::{SystemTime, UNIX_EPOCH};

/// The present.
pub fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A variable of the environment, if it is valid UTF-8.
pub fn var(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The user's clock.
pub fn clock() -> Clock {
    Clock::local(
        now(),
        var("TZ").as_deref(),
        var("SLURM_TIME_FORMAT").as_deref(),
    )
}

/// The number of the calling user.
pub fn uid() -> u32 {
    rustix::process::getuid().as_raw()
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
        .and_then(|dir| dir.into_os_string().into_string().ok());
    let session = rustix::process::getsid(None).map_or(0, |sid| sid.as_raw_nonzero().get());
    Surroundings {
        env: environment(),
        cwd: cwd.unwrap_or_else(|| "/".to_owned()),
        host: host(),
        session: session.unsigned_abs(),
        uid: uid(),
        gid: rustix::process::getgid().as_raw(),
        now: clock.now,
        utc_offset: clock.utc_offset(clock.now),
        niceness: rustix::process::getpriority_process(None).unwrap_or(0),
        umask: umask(),
        rlimits: limits(),
    }
}

fn environment() -> Vec<String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some(format!("{}={}", name.to_str()?, value.to_str()?))
    };
    std::env::vars_os().filter_map(text).collect()
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

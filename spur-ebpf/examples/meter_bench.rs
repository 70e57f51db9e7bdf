//! What the meter adds to a switch of tasks: two processes that hand a byte to and fro on one CPU, with and without it.
//!
//! `cargo run --release -p spur-ebpf --example meter_bench [ROUNDS]` as root, on a machine with a cgroup v2 tree. Prints one JSON object
//! per line: nanoseconds per switch of each case, then the ratios, then what the kernel itself says the programs took.

use spur_ebpf::meter::{Meter, Source, Timing};
use spur_ebpf::mount_bpffs_if_needed;
use std::error::Error;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROUNDS_DEFAULT: usize = 30;
/// Times that the byte goes to and fro in one batch: two switches each.
const TURNS: u32 = 20_000;
/// Level of the jobs' cgroups: this run's is below the tree's root.
const JOB_LEVEL: u32 = 2;

/// What is compared. `none` has no meter, `other` has one that is not concerned, `step` and `nested` are metered.
const CASES: [&str; 4] = ["none", "other", "step", "nested"];

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args()
        .nth(1)
        .map_or(Ok(ROUNDS_DEFAULT), |word| word.parse())?;
    let place = Place::new()?;
    let mut times: [Vec<f64>; CASES.len()] = Default::default();
    for _ in 0..rounds {
        times[0].push(pingpong(&place.group("none"))?);
        let meter = place.meter()?;
        // What was taken off before may still be on its way out.
        pingpong(&place.group("none"))?;
        for (case, times) in CASES.iter().zip(&mut times).skip(1) {
            times.push(pingpong(&place.group(case))?);
        }
        meter.remove_all()?;
    }
    report(&times);
    for case in ["other", "nested"] {
        own_time(&place, case)?;
    }
    place.leave()?;
    Ok(())
}

fn report(times: &[Vec<f64>]) {
    let quantiles = |times: &[f64]| [0.0, 0.1, 0.5].map(|share| quantile(times, share));
    for (case, times) in CASES.iter().zip(times) {
        let [min, p10, median] = quantiles(times);
        println!(
            r#"{{"bench":"meter","case":"{case}","min_ns":{min:.0},"p10_ns":{p10:.0},"median_ns":{median:.0},"batches":{}}}"#,
            times.len()
        );
    }
    let none = quantiles(&times[0]);
    for (case, times) in CASES.iter().zip(times).skip(1) {
        let with = quantiles(times);
        println!(
            r#"{{"bench":"meter_ratio","case":"{case}","min":{:.3},"p10":{:.3},"median":{:.3},"added_p10_ns":{:.0}}}"#,
            with[0] / none[0],
            with[1] / none[1],
            with[2] / none[2],
            with[1] - none[1]
        );
    }
}

/// The kernel's own measurement of the programs, its clock included.
fn own_time(place: &Place, case: &str) -> Result<(), Box<dyn Error>> {
    let meter = place.meter()?;
    let timing = Timing::start()?;
    let before = meter.own_time_ns().unwrap_or(0);
    pingpong(&place.group(case))?;
    let spent = meter.own_time_ns().unwrap_or(0).saturating_sub(before);
    drop(timing);
    meter.remove_all()?;
    println!(
        r#"{{"bench":"meter_own","case":"{case}","run_time_ns_per_switch":{:.0}}}"#,
        spent as f64 / f64::from(2 * TURNS)
    );
    Ok(())
}

/// The time below which this share of the batches stayed.
fn quantile(times_ns: &[f64], share: f64) -> f64 {
    let mut sorted = times_ns.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Cgroups and a BPF file system of this run's own.
struct Place {
    folder: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Result<Place, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let mounts = fs::read_to_string("/proc/mounts")?;
        let mount = mounts
            .lines()
            .find(|line| line.split(' ').nth(2) == Some("cgroup2"))
            .and_then(|line| line.split(' ').nth(1))
            .ok_or("no cgroup v2 tree is mounted")?;
        let root = Path::new(mount).join(format!("spur-bench-{}", std::process::id()));
        mount_bpffs_if_needed(&folder.path().join("bpf"))?;
        let place = Place { folder, root };
        for case in CASES {
            fs::create_dir_all(place.group(case))?;
        }
        Ok(place)
    }

    /// Where the processes of a case are.
    fn group(&self, case: &str) -> PathBuf {
        match case {
            "nested" => self.root.join("job/step/container/payload"),
            "step" => self.root.join("job/step"),
            other => self.root.join(other).join("step"),
        }
    }

    /// A meter that counts for the job and its step.
    fn meter(&self) -> Result<Meter, Box<dyn Error>> {
        let meter = Meter::open(&self.folder.path().join("bpf/spur"), JOB_LEVEL)?;
        if !meter.coverage().counts(Source::Cpu) {
            return Err(format!("nothing is counted here: {:?}", meter.coverage()).into());
        }
        for path in ["job", "job/step"] {
            meter.add(fs::metadata(self.root.join(path))?.ino())?;
        }
        Ok(meter)
    }

    fn leave(&self) -> io::Result<()> {
        remove_groups(&self.root)
    }
}

fn remove_groups(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove_groups(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

impl Drop for Place {
    fn drop(&mut self) {
        let bpf = self.folder.path().join("bpf");
        let Ok(bpf) = CString::new(bpf.as_os_str().as_bytes()) else {
            return;
        };
        // SAFETY: a C string that lives through the call.
        unsafe { libc::umount2(bpf.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Nanoseconds per switch between two processes in a cgroup, on one CPU.
fn pingpong(group: &Path) -> io::Result<f64> {
    let (there, back) = (pipe()?, pipe()?);
    let folder = File::open(group)?;
    let start = Instant::now();
    let first = start_in(&folder, || turns(there[1], back[0], true))?;
    let second = start_in(&folder, || turns(back[1], there[0], false))?;
    for pid in [first, second] {
        let mut status = 0;
        // SAFETY: `status` has room for the answer and the child is ours.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid || status != 0 {
            return Err(io::Error::other(format!("a child ended with {status:#x}")));
        }
    }
    let elapsed = start.elapsed();
    for fd in there.into_iter().chain(back) {
        // SAFETY: descriptors of this function's own.
        unsafe { libc::close(fd) };
    }
    Ok(elapsed.as_nanos() as f64 / f64::from(2 * TURNS))
}

fn pipe() -> io::Result<[i32; 2]> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    match unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } {
        0 => Ok(fds),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Hands the byte on as often as it comes. Runs after a fork: system calls alone.
fn turns(to: i32, from: i32, begins: bool) -> i32 {
    let mut byte = 0u8;
    // SAFETY: one byte into and out of one byte; the set is a plain value.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        for _ in 0..TURNS {
            if begins && libc::write(to, (&raw const byte).cast(), 1) != 1 {
                return 1;
            }
            if libc::read(from, (&raw mut byte).cast(), 1) != 1 {
                return 2;
            }
            if !begins && libc::write(to, (&raw const byte).cast(), 1) != 1 {
                return 3;
            }
        }
    }
    0
}

/// Starts a process inside the cgroup.
fn start_in(folder: &File, act: impl FnOnce() -> i32) -> io::Result<i32> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    args.cgroup = u64::from(folder.as_raw_fd().cast_unsigned());
    let size = size_of::<libc::clone_args>();
    // SAFETY: as fork; the child below only runs `act` and leaves.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size) };
    if pid == 0 {
        let code = act();
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(code) };
    }
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 0)
        .ok_or_else(io::Error::last_os_error)
}

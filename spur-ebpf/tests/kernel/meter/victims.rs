//! Processes that the kernel kills for want of memory.

use super::*;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

/// Bytes that a cgroup may have.
const LIMIT: &str = "16777216";

/// Where the limit is set: the job's own cgroup, or one of the older kind of which the process becomes a member.
struct Limited {
    older: Option<PathBuf>,
}

impl Limited {
    fn new(metered: &Metered, job: &Group) -> Option<Limited> {
        let own = job.path.join("memory.max");
        // Where the controller is on this tree, it is handed down.
        fs::write(metered.lab.cgroup.join("cgroup.subtree_control"), "+memory").ok();
        if own.exists() {
            fs::write(&own, LIMIT).unwrap();
            fs::write(job.path.join("memory.swap.max"), "0").ok();
            return Some(Limited { older: None });
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let is_memory = |line: &&str| {
            let mut words = line.split(' ').skip(2);
            words.next() == Some("cgroup")
                && words
                    .next()
                    .is_some_and(|options| options.split(',').any(|o| o == "memory"))
        };
        let mount = mounts.lines().find(is_memory)?.split(' ').nth(1)?;
        let folder = Path::new(mount).join(format!("spur-test-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        fs::write(folder.join("memory.limit_in_bytes"), LIMIT).ok()?;
        Some(Limited {
            older: Some(folder),
        })
    }

    /// The file by which a process becomes a member.
    fn door(&self) -> Option<CString> {
        let folder = self.older.as_ref()?;
        Some(CString::new(folder.join("cgroup.procs").as_os_str().as_bytes()).unwrap())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Some(folder) = &self.older {
            fs::remove_dir(folder).ok();
        }
    }
}

/// Takes more memory than there is. Safe to call after a fork.
fn take_too_much(door: Option<&CString>) -> i32 {
    const SIZE: usize = 64 << 20;
    // SAFETY: a C string and one byte that live through the calls; new memory, every page of which is written.
    unsafe {
        if let Some(door) = door {
            let fd = libc::open(door.as_ptr(), libc::O_WRONLY);
            if fd < 0 || libc::write(fd, c"0".as_ptr().cast(), 1) != 1 {
                return 1;
            }
        }
        let start = libc::mmap(
            std::ptr::null_mut(),
            SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        for page in 0..SIZE / 4096 {
            start.cast::<u8>().add(page * 4096).write_volatile(1);
        }
    }
    0
}

#[test]
fn a_process_that_the_kernel_kills_for_memory_is_counted() {
    check_kills(&Metered::new());
}

#[test]
fn a_process_that_the_kernel_kills_for_memory_is_counted_without_types() {
    check_kills(&Metered::of(Flavour::Raw));
}

fn check_kills(metered: &Metered) {
    let (job, other) = (metered.job("job_1"), metered.job("job_2"));
    let Some(limited) = Limited::new(metered, &job) else {
        println!("skipped: no memory controller here");
        return;
    };
    let door = limited.door();
    let folder = fs::File::open(&job.path).unwrap();
    const KILLS: u64 = 3;
    for _ in 0..KILLS {
        let pid = spawn(folder.as_raw_fd(), || take_too_much(door.as_ref()));
        let mut status = 0;
        // SAFETY: `status` has room for the answer and the child is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFSIGNALED(status), "it ended with {status:#x}");
    }
    let counts = metered.counts(&job);
    assert_eq!((counts.oom_kills, counts.ends), (Some(KILLS), Some(KILLS)));
    assert_eq!(metered.counts(&other).oom_kills, Some(0));
    if limited.older.is_none() {
        assert_eq!(job.stat("memory.events", "oom_kill "), KILLS);
    }
}

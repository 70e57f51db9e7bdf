//! Block I/O, against `io.stat` where the controller is on the v2 tree.

use super::modules::{self, await_file};
use super::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

/// A RAM disk, in the virtual machines.
const RAM_DISK: &str = "/dev/ram0";
const BLOCK: usize = 256 * 1024;
const BLOCKS: usize = 32;
const TOTAL: u64 = (BLOCK * BLOCKS) as u64;

/// What is read and written: a RAM disk, or a file on whatever disk there is.
struct Disk {
    path: CString,
    is_device: bool,
    _folder: Option<tempfile::TempDir>,
    _module: Option<modules::Loaded>,
}

impl Disk {
    fn new() -> Disk {
        let module = modules::load("brd", "rd_nr=1 rd_size=65536");
        if module.is_some() {
            await_file(Path::new(RAM_DISK));
            let path = CString::new(RAM_DISK).unwrap();
            return Disk {
                path,
                is_device: true,
                _folder: None,
                _module: module,
            };
        }
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("data");
        let data = vec![1; BLOCK * BLOCKS];
        fs::write(&path, data).unwrap();
        fs::File::open(&path).unwrap().sync_all().unwrap();
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        Disk {
            path,
            is_device: false,
            _folder: Some(folder),
            _module: None,
        }
    }
}

/// Memory that the kernel takes for direct transfers.
#[repr(align(4096))]
struct Aligned {
    _bytes: [u8; BLOCK],
}

static mut BUFFER: Aligned = Aligned { _bytes: [7; BLOCK] };

/// Reads or writes everything; 0 or the errno. Safe to call after a fork.
fn transfer(path: &CString, flags: i32, writes: bool) -> i32 {
    // SAFETY: a C string, and memory of this size that this process, with its one thread, uses for nothing else.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDWR | flags);
        if fd < 0 {
            return errno();
        }
        let buffer = (&raw mut BUFFER).cast();
        for _ in 0..BLOCKS {
            let done = if writes {
                libc::write(fd, buffer, BLOCK)
            } else {
                libc::read(fd, buffer, BLOCK)
            };
            if done.cast_unsigned() != BLOCK {
                return if done < 0 { errno() } else { libc::EIO };
            }
        }
        // The last reference to a device would write what is dirty.
        libc::fsync(fd)
    }
}

/// Sums over the devices of `io.stat`; `None` where the controller is not on this tree.
fn io_stat(job: &Group) -> Option<[u64; 4]> {
    let text = fs::read_to_string(job.path.join("io.stat")).ok()?;
    let sum = |key: &str| {
        let words = text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix(key));
        words.map(|number| number.parse::<u64>().unwrap()).sum()
    };
    Some([sum("rbytes="), sum("wbytes="), sum("rios="), sum("wios=")])
}

fn measured(counts: &Counts) -> [u64; 4] {
    [
        counts.read_bytes,
        counts.write_bytes,
        counts.reads,
        counts.writes,
    ]
    .map(Option::unwrap)
}

/// At most a hundredth off.
#[track_caller]
fn assert_same(measured: [u64; 4], told: [u64; 4]) {
    println!("meter: block I/O measured {measured:?}, io.stat {told:?}");
    for (ours, theirs) in measured.into_iter().zip(told) {
        assert!(
            ours.abs_diff(theirs) <= theirs / 100,
            "measured {measured:?}, io.stat {told:?}"
        );
    }
}

#[test]
fn direct_reads_and_writes_are_counted() {
    check_direct(&Metered::new());
}

#[test]
fn direct_reads_and_writes_are_counted_without_types() {
    check_direct(&Metered::of(Flavour::Raw));
}

fn check_direct(metered: &Metered) {
    let job = metered.job("job_1");
    fs::write(metered.lab.cgroup.join("cgroup.subtree_control"), "+io").ok();
    let disk = Disk::new();
    for writes in [true, false] {
        let errno = first_act(&job.path, || transfer(&disk.path, libc::O_DIRECT, writes));
        assert_eq!(errno, 0, "{}", std::io::Error::from_raw_os_error(errno));
    }
    let counts = metered.counts(&job);
    let [read, written, reads, writes] = measured(&counts);
    println!("meter: direct: {counts:?}");
    match io_stat(&job) {
        Some(told) if disk.is_device => {
            assert_same([read, written, reads, writes], told);
            assert_eq!((read, written, counts.guessed_ios), (TOTAL, TOTAL, 0));
        }
        Some(told) => assert_same([read, written, reads, writes], told),
        None => {
            // A file system's own blocks come on top.
            let expected = TOTAL..=TOTAL + TOTAL / 20;
            assert!(expected.contains(&read), "{read}");
            assert!(expected.contains(&written), "{written}");
            assert_eq!(counts.guessed_ios, reads + writes);
        }
    }
}

/// The kernel writes what a job left dirty, long after and from a worker of its own.
#[test]
fn what_a_worker_writes_later_is_charged_to_who_dirtied_it() {
    let metered = Metered::new();
    let (job, other) = (metered.job("job_1"), metered.job("job_2"));
    fs::write(
        metered.lab.cgroup.join("cgroup.subtree_control"),
        "+io +memory",
    )
    .ok();
    let disk = Disk::new();
    if io_stat(&job).is_none() || !disk.is_device {
        println!("skipped: the io controller is not on the v2 tree here");
        return;
    }
    // Held open, so that it is not written at the last close.
    let device = fs::OpenOptions::new().write(true).open(RAM_DISK).unwrap();
    let path = CString::new(RAM_DISK).unwrap();
    let errno = first_act(&job.path, || {
        // SAFETY: as in `transfer`.
        unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_WRONLY);
            for _ in 0..BLOCKS {
                libc::write(fd, (&raw mut BUFFER).cast(), BLOCK);
            }
        }
        0
    });
    assert_eq!(errno, 0);
    let dirty = metered.counts(&job).write_bytes;
    first_act(&other.path, || {
        // SAFETY: no arguments, no memory.
        unsafe { libc::sync() };
        0
    });
    device.sync_all().unwrap();
    let counts = metered.counts(&job);
    println!(
        "meter: written at once {dirty:?}, in the end {counts:?}; others {:?}",
        metered.counts(&other)
    );
    assert_same(measured(&counts), io_stat(&job).unwrap());
    assert_same(measured(&metered.counts(&other)), io_stat(&other).unwrap());
}

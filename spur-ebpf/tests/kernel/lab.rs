//! A place of one test's own: a cgroup, a BPF file system, device nodes, and processes inside the cgroup.

use spur_ebpf::*;
use std::ffi::CString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A LOCAL/EXPERIMENTAL major without a driver: an allowed open gives ENXIO or ENODEV.
pub(crate) const STAND_IN: u32 = 120;

/// The folder of this ABI's pins below an agent's.
pub(crate) const FOLDER: &str = "abi2";

/// The broken program that allows everything; part of the test binary, so that it also runs elsewhere than it was built.
pub(crate) const ALLOW_ALL: &[u8] = include_bytes!(env!("SPUR_ALLOW_ALL_OBJECT"));

/// What an open that reached the kernel's device layer gives for want of a driver.
pub(crate) const REACHED: [i32; 2] = [libc::ENXIO, libc::ENODEV];

pub(crate) struct Lab {
    folder: tempfile::TempDir,
    pub(crate) cgroup: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        // SAFETY: no arguments, no memory.
        assert_eq!(unsafe { libc::geteuid() }, 0, "these tests need root");
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let unique = folder
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace('.', "");
        let cgroup = cgroup2_mount().join(format!("spur-test-{unique}"));
        fs::create_dir(&cgroup).unwrap();
        mount_bpffs_if_needed(&folder.path().join("bpf")).unwrap();
        Lab { folder, cgroup }
    }

    pub(crate) fn pins(&self) -> PathBuf {
        self.folder.path().join("bpf/spur")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A fence under which the stand-ins 0 to 7 have bits 0 to 7 and memory is fenced.
    pub(crate) fn fence(&self) -> Fence {
        let fence = Fence::open_or_load(&self.pins()).unwrap();
        fence.set_devices(&stand_ins(8)).unwrap();
        fence
    }

    /// Waits until this program alone is on the cgroup: the kernel takes a link off from a worker after its last pin went.
    pub(crate) fn await_sole_program(&self, name: &str, cgroup: &Path, program: u32) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let proof = doctor::verify(&self.pins(), name, cgroup).unwrap();
            if proof.own == [program] {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{:?}, not only {program}",
                proof.own
            );
            std::thread::yield_now();
        }
    }

    /// A new cgroup below the lab's.
    pub(crate) fn cgroup(&self, name: &str) -> PathBuf {
        let path = self.cgroup.join(name);
        fs::create_dir(&path).unwrap();
        path
    }

    /// A character device node that anybody may open.
    pub(crate) fn node(&self, major: u32, minor: u32) -> CString {
        self.make_node(libc::S_IFCHR, major, minor)
    }

    pub(crate) fn block_node(&self, major: u32, minor: u32) -> CString {
        self.make_node(libc::S_IFBLK, major, minor)
    }

    fn make_node(&self, kind: libc::mode_t, major: u32, minor: u32) -> CString {
        let path = self.path(&format!("node-{kind}-{major}-{minor}"));
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        assert_eq!(mknod(&path, kind, major, minor), 0, "mknod {path:?}");
        // SAFETY: a C string that lives through the call.
        assert_eq!(unsafe { libc::chmod(path.as_ptr(), 0o666) }, 0);
        path
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        remove_cgroup(&self.cgroup);
        let bpf = CString::new(self.path("bpf").as_os_str().as_bytes()).unwrap();
        // SAFETY: a C string that lives through the call.
        unsafe { libc::umount2(bpf.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Kills what is left in a cgroup tree and removes it, children first.
fn remove_cgroup(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_cgroup(&entry.path());
        }
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = fs::remove_dir(path) {
        assert!(
            Instant::now() < deadline,
            "cannot remove {}: {error}",
            path.display()
        );
        for pid in fs::read_to_string(path.join("cgroup.procs"))
            .unwrap_or_default()
            .lines()
        {
            // SAFETY: no memory; the pid is of a process in this test's own cgroup.
            unsafe { libc::kill(pid.parse().unwrap(), libc::SIGKILL) };
        }
        std::thread::yield_now();
    }
}

/// The cgroup v2 tree, wherever it is mounted.
pub(crate) fn cgroup2_mount() -> PathBuf {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mount = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some("cgroup2"));
    PathBuf::from(
        mount
            .expect("a cgroup v2 tree is mounted")
            .split(' ')
            .nth(1)
            .unwrap(),
    )
}

pub(crate) fn bit(number: u16) -> GrantBit {
    GrantBit::new(number).unwrap()
}

pub(crate) fn number(major: u32, minor: u32) -> DeviceNumber {
    DeviceNumber { major, minor }
}

/// Stand-in K is minor K and bit K.
pub(crate) fn stand_ins(count: u16) -> DeviceTable {
    let mut table = DeviceTable::new();
    table.deny_memory().set_major(STAND_IN, MajorClass::Whole);
    for index in 0..count {
        table.list(number(STAND_IN, u32::from(index)), Rule::Bit(bit(index)));
    }
    table
}

pub(crate) fn granting(bits: impl IntoIterator<Item = u16>) -> Policy {
    Policy {
        job: 7,
        step: 1,
        generation: 3,
        grants: bits.into_iter().map(bit).collect(),
        ..Policy::default()
    }
}

/// Opens and closes; 0 or the errno. Safe to call after a fork.
pub(crate) fn open(path: &CString) -> i32 {
    // SAFETY: a C string that lives through the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return errno();
    }
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { libc::close(fd) };
    0
}

/// 0 or the errno. Safe to call after a fork.
pub(crate) fn mknod(path: &CString, kind: libc::mode_t, major: u32, minor: u32) -> i32 {
    // SAFETY: a C string that lives through the call.
    let result = unsafe { libc::mknod(path.as_ptr(), kind | 0o666, libc::makedev(major, minor)) };
    if result == 0 { 0 } else { errno() }
}

pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// Runs `act` as the first and only act of a process that is created inside the cgroup; returns what `act` returns (0 to 255).
///
/// The test process may have threads, so `act` keeps to system calls and touches neither locks nor the heap.
pub(crate) fn first_act(cgroup: &Path, act: impl FnOnce() -> i32) -> i32 {
    let folder = fs::File::open(cgroup).unwrap();
    first_act_in(folder.as_raw_fd(), act)
}

/// As [`first_act`], with the cgroup's descriptor.
pub(crate) fn first_act_in(cgroup: i32, act: impl FnOnce() -> i32) -> i32 {
    let pid = spawn(cgroup, act);
    let mut status = 0;
    // SAFETY: `status` has room for the answer and the child is ours.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child was killed: {status:#x}");
    libc::WEXITSTATUS(status)
}

/// `clone3` into the cgroup.
pub(crate) fn spawn(cgroup: i32, act: impl FnOnce() -> i32) -> i32 {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = libc::SIGCHLD as u64;
    args.cgroup = u64::from(cgroup.cast_unsigned());
    // SAFETY: as fork; the child below only runs `act` and leaves.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            size_of::<libc::clone_args>(),
        )
    };
    assert!(pid >= 0, "clone3: {}", std::io::Error::last_os_error());
    if pid == 0 {
        let code = act();
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(code) };
    }
    i32::try_from(pid).unwrap()
}

/// A process inside a cgroup that opens a path whenever it is asked.
pub(crate) struct Resident {
    talk: UnixStream,
    pub(crate) pid: i32,
}

impl Resident {
    /// Starts one. It opens nothing of its own accord.
    pub(crate) fn start(cgroup: &Path, paths: &[CString]) -> Resident {
        let (talk, theirs) = UnixStream::pair().unwrap();
        let folder = fs::File::open(cgroup).unwrap();
        let pid = spawn(folder.as_raw_fd(), || {
            let fd = theirs.as_raw_fd();
            // SAFETY: closes the parent's end in the child, whose own table this is.
            unsafe { libc::close(talk.as_raw_fd()) };
            loop {
                let mut index = 0u8;
                // SAFETY: one byte into one byte.
                if unsafe { libc::read(fd, (&raw mut index).cast(), 1) } != 1 {
                    return 0;
                }
                let answer = open(&paths[usize::from(index)]).to_ne_bytes();
                // SAFETY: as many bytes as there are.
                unsafe { libc::write(fd, answer.as_ptr().cast(), answer.len()) };
            }
        });
        Resident { talk, pid }
    }

    /// Errno of an open of path `index`, or 0.
    pub(crate) fn open(&mut self, index: u8) -> i32 {
        self.talk.write_all(&[index]).unwrap();
        let mut answer = [0; 4];
        self.talk.read_exact(&mut answer).unwrap();
        i32::from_ne_bytes(answer)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // SAFETY: the child is ours and not yet waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

#[track_caller]
pub(crate) fn assert_reached(errno: i32) {
    assert!(
        REACHED.contains(&errno),
        "expected ENXIO or ENODEV, got {}",
        std::io::Error::from_raw_os_error(errno)
    );
}

#[track_caller]
pub(crate) fn assert_refused(errno: i32) {
    assert_eq!(
        errno,
        libc::EPERM,
        "expected EPERM, got {}",
        std::io::Error::from_raw_os_error(errno)
    );
}

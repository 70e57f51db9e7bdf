//! The system calls that `libbpf-rs` and `std` have no safe form for.

use libbpf_rs::libbpf_sys;
use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kernel runs at most this many programs of one kind per cgroup (`BPF_CGROUP_MAX_PROGS`).
const CGROUP_PROGRAMS_MAX: u32 = 64;
/// Ids that one query may return: every level of a deep tree may add its own. More is an error, not a short answer.
const QUERY_MAX: u32 = CGROUP_PROGRAMS_MAX * 16;

/// Turns libbpf's "negative errno" into an error.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(result)
    }
}

/// Takes over a descriptor that a libbpf call returned, or its error.
fn owned(result: i32) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// `BPF_LINK_CREATE`: attaches a device program to a cgroup beside (never instead of) others.
pub(crate) fn link_create(program: BorrowedFd<'_>, cgroup: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match try_link_create(program, cgroup) {
        // Before Linux 5.11 a cgroup's storage counts as locked memory. libbpf lifts that limit for whoever loads a program, but
        // not for whoever finds one pinned.
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
            lift_memory_lock_limit()?;
            try_link_create(program, cgroup)
        }
        result => result,
    }
}

fn lift_memory_lock_limit() -> io::Result<()> {
    let all = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the structure lives through the call, which only reads it.
    match unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const all) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn try_link_create(program: BorrowedFd<'_>, cgroup: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: both descriptors are open for the length of the call and a null options pointer is allowed.
    owned(unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            cgroup.as_raw_fd(),
            libbpf_sys::BPF_CGROUP_DEVICE,
            std::ptr::null(),
        )
    })
}

/// `BPF_LINK_UPDATE`: replaces the program of a link in one step.
pub(crate) fn link_update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open for the length of the call and a null options pointer is allowed.
    check(unsafe {
        libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
    })
    .map(drop)
}

/// `BPF_LINK_DETACH`: takes the program off also while others hold the link.
pub(crate) fn link_detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for the length of the call.
    check(unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) }).map(drop)
}

/// What the kernel says of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkFacts {
    pub(crate) id: u32,
    pub(crate) program_id: u32,
    /// `enum bpf_link_type`
    pub(crate) kind: u32,
    /// Of a link of a cgroup: its id, 0 once it is detached, and `enum bpf_attach_type`.
    pub(crate) cgroup: u64,
    pub(crate) attach_type: u32,
}

/// `BPF_OBJ_GET_INFO_BY_FD` of a link.
pub(crate) fn link_facts(link: BorrowedFd<'_>) -> io::Result<LinkFacts> {
    let mut info = libbpf_sys::bpf_link_info::default();
    #[expect(clippy::cast_possible_truncation, reason = "a small struct")]
    const SIZE: u32 = size_of::<libbpf_sys::bpf_link_info>() as u32;
    let mut len = SIZE;
    // SAFETY: `info` is a zeroed struct of `len` bytes, which the kernel fills and does not keep.
    check(unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            link.as_raw_fd(),
            std::ptr::from_mut(&mut info).cast(),
            &raw mut len,
        )
    })?;
    // SAFETY: all members of the union are plain integers, and the whole struct was zeroed before the kernel filled it.
    let (cgroup, attach_type) = unsafe {
        let of_cgroup = info.__bindgen_anon_1.cgroup;
        (of_cgroup.cgroup_id, of_cgroup.attach_type)
    };
    Ok(LinkFacts {
        id: info.id,
        program_id: info.prog_id,
        kind: info.type_,
        cgroup,
        attach_type,
    })
}

/// `BPF_LINK_GET_FD_BY_ID`.
pub(crate) fn link_by_id(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    owned(unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) })
}

/// `BPF_OBJ_PIN`.
pub(crate) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the descriptor is open and the path is a C string, both for the length of the call.
    check(unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), path.as_ptr()) }).map(drop)
}

/// `BPF_OBJ_GET`.
pub(crate) fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string for the length of the call.
    owned(unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) })
}

/// Id, type and tag of a program.
pub(crate) struct ProgramFacts {
    pub(crate) id: u32,
    pub(crate) kind: u32,
    pub(crate) tag: [u8; 8],
}

/// `BPF_OBJ_GET_INFO_BY_FD` of a program.
fn program_info(program: BorrowedFd<'_>) -> io::Result<libbpf_sys::bpf_prog_info> {
    #[expect(clippy::cast_possible_truncation, reason = "a small struct")]
    const SIZE: u32 = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = SIZE;
    // SAFETY: `info` is a zeroed struct of `len` bytes, which the kernel fills and does not keep.
    check(unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            std::ptr::from_mut(&mut info).cast(),
            &raw mut len,
        )
    })?;
    Ok(info)
}

/// What of a program's info tells it from others.
pub(crate) fn program_facts(program: BorrowedFd<'_>) -> io::Result<ProgramFacts> {
    let info = program_info(program)?;
    Ok(ProgramFacts {
        id: info.id,
        kind: info.type_,
        tag: info.tag,
    })
}

/// A program's name, of which the kernel keeps 15 bytes.
pub(crate) fn program_name(program: BorrowedFd<'_>) -> io::Result<String> {
    let name = program_info(program)?.name.map(|byte| byte.cast_unsigned());
    let end = name
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// How often a program ran while the kernel measured it, and for how many nanoseconds.
pub(crate) fn run_time(program: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let info = program_info(program)?;
    Ok((info.run_cnt, info.run_time_ns))
}

/// How often the kernel left a program out, because it was on the same CPU in the middle of another run of it (Linux 5.12 and newer).
pub(crate) fn missed_runs(program: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(program_info(program)?.recursion_misses)
}

/// `BPF_PROG_GET_FD_BY_ID`.
pub(crate) fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes a number and returns a new descriptor or an error.
    owned(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })
}

/// `BPF_ENABLE_STATS` of run times: the kernel measures as long as the descriptor is open.
pub(crate) fn enable_run_time() -> io::Result<OwnedFd> {
    // SAFETY: the call takes a number and returns a new descriptor or an error.
    owned(unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) })
}

/// `BPF_PROG_QUERY`: ids of the device programs on a cgroup, or of all that run for it (`effective`).
///
/// libbpf passes a full-size `bpf_attr`, which Linux 6.17 to 7.1 write beyond what was asked for.
pub(crate) fn cgroup_programs(cgroup: BorrowedFd<'_>, effective: bool) -> io::Result<Vec<u32>> {
    let mut ids = vec![0u32; QUERY_MAX as usize];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        query_flags: if effective {
            libbpf_sys::BPF_F_QUERY_EFFECTIVE
        } else {
            0
        },
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.prog_cnt = QUERY_MAX;
    // SAFETY: `ids` has room for `prog_cnt` ids and both it and `options` live through the call.
    check(unsafe {
        libbpf_sys::bpf_prog_query_opts(
            cgroup.as_raw_fd(),
            libbpf_sys::BPF_CGROUP_DEVICE,
            &raw mut options,
        )
    })?;
    // SAFETY: the kernel and libbpf write this member as a plain u32.
    let count = unsafe { options.__bindgen_anon_1.prog_cnt };
    ids.truncate(count as usize);
    Ok(ids)
}

/// `BPF_PROG_QUERY`: how many device programs are on a cgroup itself, and the flags with which they were attached.
pub(crate) fn cgroup_attach_flags(cgroup: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: no room for ids is given, so the kernel writes none; `options` lives through the call.
    check(unsafe {
        libbpf_sys::bpf_prog_query_opts(
            cgroup.as_raw_fd(),
            libbpf_sys::BPF_CGROUP_DEVICE,
            &raw mut options,
        )
    })?;
    // SAFETY: the kernel and libbpf write this member as a plain u32.
    let count = unsafe { options.__bindgen_anon_1.prog_cnt };
    Ok((count, options.attach_flags))
}

/// A handle of `open_by_handle_at(2)` for a file of kernfs: its type is `FILEID_KERNFS` of `<linux/exportfs.h>`, and it holds the id.
#[repr(C)]
struct KernfsHandle {
    bytes: u32,
    kind: i32,
    id: u64,
}

/// Opens the folder of a cgroup by the cgroup's id; `mount` is any folder of its file system.
pub(crate) fn open_cgroup(mount: BorrowedFd<'_>, id: u64) -> io::Result<OwnedFd> {
    const FILEID_KERNFS: i32 = 0xfe;
    let mut handle = KernfsHandle {
        bytes: u64::BITS / 8,
        kind: FILEID_KERNFS,
        id,
    };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the handle has the layout of `struct file_handle` with `bytes` bytes, and lives through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            flags,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts a process in a cgroup whose only act is a harmless `bpf()`; its errno, or 0.
pub(crate) fn bpf_errno_in(cgroup: BorrowedFd<'_>) -> io::Result<i32> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    /// `BPF_PROG_GET_NEXT_ID` of `<linux/bpf.h>`, and more bytes than it has.
    const NEXT_ID: libc::c_int = 11;
    const SIZE: libc::c_uint = 128;
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    args.cgroup = u64::from(cgroup.as_raw_fd().cast_unsigned());
    let mut attr = [0u64; SIZE as usize / 8];
    // SAFETY: as fork. The child, which may be the copy of a process with threads, makes two system calls and leaves.
    let pid = unsafe {
        let size = size_of::<libc::clone_args>();
        let pid = libc::syscall(libc::SYS_clone3, &raw const args, size);
        if pid == 0 {
            let result = libc::syscall(libc::SYS_bpf, NEXT_ID, attr.as_mut_ptr(), SIZE);
            let errno = if result < 0 {
                *libc::__errno_location()
            } else {
                0
            };
            libc::_exit(errno);
        }
        pid
    };
    let Ok(pid @ 1..) = libc::pid_t::try_from(pid) else {
        return Err(io::Error::last_os_error());
    };
    let mut status = 0;
    // SAFETY: `status` has room for the answer and the child is ours.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(libc::WEXITSTATUS(status))
}

/// The `f_type` of the file system that holds an open file.
pub(crate) fn fs_magic(file: BorrowedFd<'_>) -> io::Result<i64> {
    let mut stat = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open and `stat` has room for the struct.
    if unsafe { libc::fstatfs(file.as_raw_fd(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and filled the struct.
    Ok(unsafe { stat.assume_init() }.f_type)
}

/// Mounts a BPF file system that only its owner may enter.
pub(crate) fn mount_bpffs(path: &Path) -> io::Result<()> {
    let target = c_path(path)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: all pointers are C strings that live through the call.
    let result = unsafe {
        libc::mount(
            c"bpf".as_ptr(),
            target.as_ptr(),
            c"bpf".as_ptr(),
            flags,
            c"mode=0700".as_ptr().cast(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Waits until no program still runs with what it read from a map before this call (`synchronize_rcu`).
pub(crate) fn wait_for_running_programs() -> io::Result<()> {
    /// `MEMBARRIER_CMD_GLOBAL` of `<linux/membarrier.h>`.
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: the call takes three integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock of [`crate::abi::RawEvent::time_ns`].
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` has room for the answer; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Waits until a descriptor is readable, at most `timeout_ms` (-1: for ever). A signal ends the wait early.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout_ms: i32) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `poll` is one valid entry that lives through the call.
    let result = unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
    if result >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted {
        Ok(())
    } else {
        Err(error)
    }
}

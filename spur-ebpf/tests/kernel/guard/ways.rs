//! Side ways: other processes, sysfs, `bpf()`, rings, pins, control groups.

use super::{Yard, policy};
use crate::actor::Actor;
use crate::lab::*;
use spur_ebpf::*;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Opens and closes; 0 or the errno.
fn open_for(path: &CString, flags: i32) -> i32 {
    // SAFETY: a C string that lives through the call; closes what was opened.
    unsafe {
        let fd = libc::open(path.as_ptr(), flags);
        if fd < 0 { errno() } else { libc::close(fd) }
    }
}

pub(super) fn result(value: libc::c_long) -> i32 {
    if value < 0 { errno() } else { 0 }
}

/// An order as an index.
fn at(order: i32) -> usize {
    usize::try_from(order).unwrap_or(usize::MAX)
}

/// Ways into another process; 0 or the errno.
fn into_process(pid: i32, way: i32) -> i32 {
    let mut byte = 0u8;
    let near = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // The parent's memory is the child's: both were forked from one process.
    let far = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: system calls with integers and memory that lives through them.
    unsafe {
        match way {
            0 => {
                let attached = result(libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0));
                if attached == 0 {
                    libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0);
                }
                attached
            }
            _ => result(
                libc::process_vm_readv(pid, &raw const near, 1, &raw const far, 1, 0)
                    as libc::c_long,
            ),
        }
    }
}

#[test]
fn another_jobs_process_is_out_of_reach() {
    let Some(mut yard) = Yard::new() else { return };
    let outside = yard.lab.cgroup("outside");
    let start = |cgroup: &Path| Actor::start(cgroup, |_| 0);
    let victims = [
        start(yard.cgroup(0)),
        start(yard.cgroup(1)),
        start(&outside),
    ];
    let pids = victims.each_ref().map(|victim| victim.pid);
    let mut attacker = Actor::start(yard.cgroup(0), |order| {
        into_process(pids[at(order / 2)], order % 2)
    });
    assert_eq!(
        (attacker.ask(0), attacker.ask(1)),
        (0, 0),
        "within the job it is allowed"
    );
    for order in 2..6 {
        assert_eq!(attacker.ask(order), libc::EPERM);
    }
    yard.assert_events(&[(1, Operation::Ptrace, Reason::Foreign); 4]);
    let memory = pids.map(|pid| c_path(Path::new(&format!("/proc/{pid}/mem"))));
    let mut reader = Actor::start(yard.cgroup(0), |order| {
        open_for(&memory[at(order)], libc::O_RDWR)
    });
    assert_eq!(reader.ask(0), 0);
    assert!(
        [reader.ask(1), reader.ask(2)]
            .iter()
            .all(|error| [libc::EPERM, libc::EACCES].contains(error))
    );
    yard.assert_events(&[(1, Operation::Ptrace, Reason::Foreign); 2]);
    // What `ps` asks of every process is refused without a word.
    let stat = c_path(Path::new(&format!("/proc/{}/stat", pids[1])));
    let mut ps = Actor::start(yard.cgroup(0), |_| {
        let mut text = [0u8; 64];
        // SAFETY: reads into a buffer of that length.
        unsafe {
            let fd = libc::open(stat.as_ptr(), libc::O_RDONLY);
            result(libc::read(fd, text.as_mut_ptr().cast(), text.len()) as libc::c_long)
        }
    });
    assert_eq!(ps.ask(0), 0);
    yard.assert_events(&[]);
    yard.assert_denied(0, 6);
}

#[test]
fn signals_to_other_jobs_are_noted_or_refused() {
    for deny in [false, true] {
        let Some(mut yard) = Yard::with(deny) else {
            return;
        };
        let victims = [0, 1].map(|job| Actor::start(yard.cgroup(job), |_| 0));
        let pids = victims.each_ref().map(|victim| victim.pid);
        // SAFETY: system calls with integers only. SIGCONT does nothing to a process that runs.
        let mut sender = Actor::start(yard.cgroup(0), |order| unsafe {
            let signal = if order < 2 { libc::SIGCONT } else { 0 };
            result(libc::kill(pids[at(order % 2)], signal).into())
        });
        let expected = if deny { libc::EPERM } else { 0 };
        assert_eq!(
            (sender.ask(0), sender.ask(1), sender.ask(3)),
            (0, expected, 0)
        );
        let events = yard.assert_events(&[(1, Operation::Signal, Reason::Foreign)]);
        assert_eq!(
            (events[0].refused, events[0].target),
            (deny, u32::try_from(pids[1]).ok())
        );
        let counters = yard.jobs[0].1.counters().unwrap();
        assert_eq!(
            (counters.denied, counters.noted),
            (u64::from(deny), u64::from(!deny))
        );
    }
}

/// A harmless `bpf()`: asks for the first program's id.
pub(super) fn next_program() -> libc::c_long {
    const BPF_PROG_GET_NEXT_ID: i32 = 11;
    let mut attr = [0u64; 16];
    // SAFETY: the kernel reads and writes within the size given.
    unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_GET_NEXT_ID, attr.as_mut_ptr(), 128) }
}

#[test]
fn bpf_and_rings_with_a_thread_are_no_jobs_business() {
    let Some(mut yard) = Yard::new() else { return };
    let next_program = || result(next_program());
    let ring = |flags: u32| {
        let mut params = [0u32; 30];
        params[2] = flags;
        // SAFETY: the kernel writes within the struct of 120 bytes.
        let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
        result(fd)
    };
    const SQPOLL: u32 = 2;
    assert_eq!(
        (next_program(), ring(SQPOLL)),
        (0, 0),
        "outside jobs they work"
    );
    assert_eq!(first_act(yard.cgroup(0), next_program), libc::EPERM);
    assert_eq!(first_act(yard.cgroup(0), || ring(SQPOLL)), libc::EPERM);
    assert_eq!(
        first_act(yard.cgroup(0), || ring(0)),
        0,
        "ordinary rings do no harm"
    );
    let forbidden = |operation| (1, operation, Reason::Forbidden);
    yard.assert_events(&[forbidden(Operation::Bpf), forbidden(Operation::Sqpoll)]);
    yard.assert_denied(0, 2);
}

/// A PCI device with a first BAR; QEMU's VGA has one.
fn pci_device() -> std::path::PathBuf {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").unwrap();
    let mut with_bar = devices
        .map(|entry| entry.unwrap().path())
        .filter(|device| device.join("resource0").exists());
    with_bar.next().expect("a PCI device with a BAR")
}

#[test]
fn sysfs_gives_no_way_around_the_nodes() {
    let Some(mut yard) = Yard::new() else { return };
    let device = pci_device();
    let attempts = [
        ("resource0", libc::O_RDONLY, libc::EPERM),
        ("resource0", libc::O_RDWR, libc::EPERM),
        ("rescan", libc::O_WRONLY, libc::EPERM),
        ("enable", libc::O_WRONLY, libc::EPERM),
        ("config", libc::O_RDWR, libc::EPERM),
        ("config", libc::O_RDONLY, 0),
        ("resource", libc::O_RDONLY, 0),
        ("vendor", libc::O_RDONLY, 0),
    ];
    for (name, flags, expected) in attempts {
        let path = c_path(&device.join(name));
        assert_eq!(open_for(&path, flags), 0, "{name} outside jobs");
        assert_eq!(
            first_act(yard.cgroup(0), || open_for(&path, flags)),
            expected,
            "{name}"
        );
    }
    let events = yard.assert_events(&[(1, Operation::Sysfs, Reason::Forbidden); 5]);
    let names: Vec<&str> = events.iter().map(|event| event.object.as_str()).collect();
    assert_eq!(
        names,
        ["resource0", "resource0", "rescan", "enable", "config"]
    );
    debugfs(&mut yard);
}

fn debugfs(yard: &mut Yard) {
    let folder = yard.lab.path("debug");
    std::fs::create_dir(&folder).unwrap();
    let at = c_path(&folder);
    // SAFETY: C strings that live through the call.
    let mounted = unsafe {
        libc::mount(
            c"debugfs".as_ptr(),
            at.as_ptr(),
            c"debugfs".as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    let file = c_path(&folder.join("sleep_time"));
    let any = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_file());
    let path = any.map_or(file, |path| c_path(&path));
    let outcome = first_act(yard.cgroup(0), || open_for(&path, libc::O_RDONLY));
    // SAFETY: a C string that lives through the call.
    unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    assert_eq!(outcome, libc::EPERM);
    yard.assert_events(&[(1, Operation::Sysfs, Reason::Forbidden)]);
}

#[test]
fn a_root_job_takes_no_pin_away() {
    let Some(mut yard) = Yard::new() else { return };
    let links = links_folder(&yard.lab.pins());
    let (pin, aside) = (c_path(&links.join("job_1")), c_path(&links.join("aside")));
    let mount = c_path(&yard.lab.path("bpf"));
    // SAFETY: C strings that live through the calls.
    unsafe {
        assert_eq!(
            first_act(yard.cgroup(0), || result(libc::unlink(pin.as_ptr()).into())),
            libc::EPERM
        );
        let rename = || result(libc::rename(pin.as_ptr(), aside.as_ptr()).into());
        assert_eq!(first_act(yard.cgroup(0), rename), libc::EPERM);
        let umount = || result(libc::umount2(mount.as_ptr(), libc::MNT_DETACH).into());
        assert_eq!(first_act(yard.cgroup(0), umount), libc::EPERM);
    }
    assert_eq!(yard.jobs[0].1.check().unwrap(), LinkState::Up);
    let events = yard.assert_events(&[(1, Operation::Unpin, Reason::Forbidden); 3]);
    assert_eq!(events[0].object, "job_1");
}

#[test]
fn a_root_job_stays_in_its_control_group() {
    let Some(mut yard) = Yard::new() else { return };
    let own = yard.cgroup(0).to_path_buf();
    let step = own.join("step_0");
    std::fs::create_dir(&step).unwrap();
    let fence = yard.fence.attach(&step, "job_1_step_0").unwrap();
    fence.write_policy(&policy(1, [])).unwrap();
    let procs = |folder: &Path| c_path(&folder.join("cgroup.procs"));
    let (sibling, above, job, inner) = (
        procs(yard.cgroup(1)),
        procs(&yard.lab.cgroup),
        procs(&own),
        step.join("inner"),
    );
    std::fs::create_dir(&inner).unwrap();
    for (path, expected) in [
        (&sibling, libc::EPERM),
        (&above, libc::EPERM),
        (&job, libc::EPERM),
        (&procs(&inner), libc::EPERM),
        (&c_path(&step.join("cgroup.threads")), libc::EPERM),
        (&c_path(&inner.join("cgroup.max.depth")), 0),
        (&c_path(&own.join("cgroup.max.depth")), libc::EPERM),
    ] {
        assert_eq!(
            first_act(&step, || open_for(path, libc::O_WRONLY)),
            expected,
            "{path:?}"
        );
    }
    assert_eq!(
        first_act(&own, || open_for(
            &c_path(&own.join("cgroup.max.depth")),
            libc::O_WRONLY
        )),
        0,
        "a process of the job itself"
    );
    yard.assert_events(&[(1, Operation::Cgroup, Reason::Forbidden); 6]);
    let folder = std::fs::File::open(yard.cgroup(1)).unwrap();
    let elsewhere = || clone_into(folder.as_raw_fd());
    assert_eq!(elsewhere(), 0);
    assert_eq!(first_act(&own, elsewhere), libc::EPERM);
    yard.assert_events(&[(1, Operation::Cgroup, Reason::Forbidden)]);
}

/// Starts a process in another group and waits for its end; 0 or the errno.
fn clone_into(cgroup: i32) -> i32 {
    // SAFETY: as fork; the child leaves at once. All-zero is a valid value of the plain struct.
    unsafe {
        let mut args: libc::clone_args = std::mem::zeroed();
        args.flags = 0x2_0000_0000;
        args.exit_signal = libc::SIGCHLD as u64;
        args.cgroup = u64::from(cgroup.cast_unsigned());
        match libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            size_of::<libc::clone_args>(),
        ) {
            0 => libc::_exit(0),
            pid if pid < 0 => errno(),
            pid => {
                libc::waitpid(i32::try_from(pid).unwrap_or(-1), std::ptr::null_mut(), 0);
                0
            }
        }
    }
}

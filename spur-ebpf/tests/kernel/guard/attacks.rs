//! Descriptors of a real DRM device and its dma-bufs, on ways on which no node is opened.

use super::{Yard, policy};
use crate::actor::{self, Actor};
use crate::drm;
use crate::lab::*;
use spur_ebpf::*;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// What an attempt over a socket or by `pidfd_getfd` came to.
const PASSED: i32 = 0;

fn pidfd_getfd(pid: i32, fd: i32) -> i32 {
    // SAFETY: system calls with integers only.
    unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        let got = libc::syscall(libc::SYS_pidfd_getfd, pidfd, fd, 0);
        if got < 0 {
            -errno()
        } else {
            i32::try_from(got).unwrap_or(0)
        }
    }
}

/// One process makes a descriptor, the other takes it over a socket and uses it: 0, or the errno of the first thing refused.
fn pass(
    from: &std::path::Path,
    to: &std::path::Path,
    make: impl Fn() -> i32,
    take: impl Fn(i32) -> i32,
) -> i32 {
    let (one, two) = UnixStream::pair().unwrap();
    let (one, two) = (one.as_raw_fd(), two.as_raw_fd());
    let mut sender = Actor::start(from, |_| {
        let fd = make();
        if fd < 0 { -fd } else { actor::send(one, fd) }
    });
    assert_eq!(
        sender.ask(0),
        0,
        "the accomplice has a descriptor and sends it"
    );
    let mut receiver = Actor::start(to, |_| {
        let fd = actor::receive(two);
        if fd < 0 { -fd } else { take(fd) }
    });
    receiver.ask(0)
}

/// A folder outside every job.
fn outside(yard: &Yard) -> std::path::PathBuf {
    yard.lab.cgroup.join("outside")
}

#[test]
fn a_device_passed_over_a_socket_stays_with_its_job() {
    let Some(mut yard) = Yard::new() else { return };
    yard.lab.cgroup("outside");
    for node in [drm::CARD, drm::RENDER] {
        let (one, two) = (yard.cgroup(0), yard.cgroup(1));
        let open = || drm::open(node);
        assert_eq!(pass(one, one, open, drm::version), PASSED);
        // Job 2 holds the same device, and still must not have job 1's descriptor.
        assert_eq!(pass(one, two, open, drm::version), libc::EPERM);
        // Nor one of a process in no job, whose descriptor may lie where one of the job's lay before.
        assert_eq!(pass(&outside(&yard), two, open, drm::version), libc::EPERM);
        // It does not leave its job, for it would outlive it. What was opened outside is left alone there.
        assert_eq!(pass(two, &outside(&yard), open, drm::version), libc::EPERM);
        let outside = outside(&yard);
        assert_eq!(pass(&outside, &outside, open, drm::version), PASSED);
        let foreign = (2, Operation::Receive, Reason::Foreign);
        let events = yard.assert_events(&[foreign, foreign]);
        assert!(
            events
                .iter()
                .all(|event| event.by_guard && event.refused && event.device.major == drm::MAJOR)
        );
    }
    yard.jobs[1].1.write_policy(&policy(2, [])).unwrap();
    let open = || drm::open(drm::RENDER);
    assert_eq!(
        pass(yard.cgroup(0), yard.cgroup(1), open, drm::version),
        libc::EPERM
    );
    yard.assert_events(&[(2, Operation::Receive, Reason::NotGranted)]);
    yard.assert_denied(0, 0);
    yard.assert_denied(1, 5);
}

/// Opens what a descriptor names; 0 or the errno.
fn reopen(fd: i32) -> i32 {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0";
    let mut digits = [0u8; 4];
    let (mut rest, mut count) = (fd, 0);
    while (rest > 0 || count == 0) && count < digits.len() {
        digits[count] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        (rest, count) = (rest / 10, count + 1);
    }
    for index in 0..count {
        path[14 + index] = digits[count - 1 - index];
    }
    std::ffi::CStr::from_bytes_until_nul(&path).map_or(libc::EINVAL, |path| {
        let fd = drm::open(path);
        if fd < 0 { -fd } else { drm::version(fd) }
    })
}

#[test]
fn a_descriptor_that_only_names_a_device_passes_and_opens_nothing() {
    let Some(mut yard) = Yard::new() else { return };
    // SAFETY: a C string that lives through the call.
    let name = || unsafe { libc::open(drm::RENDER.as_ptr(), libc::O_PATH) };
    let (one, two) = (yard.cgroup(0), yard.cgroup(1));
    assert_eq!(pass(one, two, name, reopen), 0, "job 2 holds the device");
    assert_eq!(pass(one, two, name, drm::version), libc::EBADF);
    yard.jobs[1].1.write_policy(&policy(2, [])).unwrap();
    assert_eq!(
        pass(yard.cgroup(0), yard.cgroup(1), name, reopen),
        libc::EPERM
    );
    yard.assert_events(&[(2, Operation::ReadWrite, Reason::NotGranted)]);
}

#[test]
fn a_descriptor_is_not_taken_out_of_another_jobs_process() {
    let Some(mut yard) = Yard::new() else { return };
    let holder = |cgroup: &std::path::Path| {
        let mut actor = Actor::start(cgroup, |_| drm::open(drm::RENDER));
        let fd = actor.ask(0);
        assert!(fd >= 0, "errno {}", -fd);
        (actor, fd)
    };
    let outside = yard.lab.cgroup("outside");
    let (own, theirs, free) = (
        holder(yard.cgroup(0)),
        holder(yard.cgroup(1)),
        holder(&outside),
    );
    for ((victim, fd), expected) in [(&own, 0), (&theirs, libc::EPERM), (&free, libc::EPERM)] {
        let mut thief = Actor::start(yard.cgroup(0), |_| {
            let got = pidfd_getfd(victim.pid, *fd);
            if got < 0 { -got } else { drm::version(got) }
        });
        assert_eq!(thief.ask(0), expected);
    }
    let events = yard.assert_events(&[(1, Operation::Ptrace, Reason::Foreign); 2]);
    assert_eq!(
        events.iter().map(|event| event.target).collect::<Vec<_>>(),
        [&theirs, &free].map(|(victim, _)| u32::try_from(victim.pid).ok())
    );
    yard.assert_denied(0, 2);
}

#[test]
fn a_descriptor_opened_before_joining_follows_the_policy() {
    let Some(mut yard) = Yard::new() else { return };
    let card = drm::open(drm::CARD);
    let handle = drm::create(card);
    assert!(card >= 0 && handle >= 0, "card {card}, buffer {handle}");
    // The child inherits the descriptor.
    let mut actor = Actor::start(yard.cgroup(0), |order| match order {
        0 => drm::version(card),
        _ => drm::map(card, handle),
    });
    assert_eq!((actor.ask(0), actor.ask(1)), (0, 0));
    yard.jobs[0].1.write_policy(&policy(1, [1])).unwrap();
    assert_eq!(actor.ask(0), libc::EPERM);
    yard.assert_events(&[(1, Operation::Ioctl, Reason::NotGranted)]);
    yard.jobs[0].1.write_policy(&policy(1, [0])).unwrap();
    assert_eq!((actor.ask(0), actor.ask(1)), (0, 0));
    yard.jobs[0].1.clear_policy().unwrap();
    assert_eq!(actor.ask(0), libc::EPERM);
    yard.assert_events(&[(0, Operation::Ioctl, Reason::NoPolicy)]);
    yard.assert_denied(0, 2);
    // SAFETY: closes what was opened above.
    unsafe { libc::close(card) };
}

#[test]
fn mapping_an_open_device_follows_the_policy() {
    let Some(mut yard) = Yard::new() else { return };
    // `/dev/mem` is never granted and can be mapped without an ioctl first; the lab's process may open it.
    let node = yard.lab.node(1, 1);
    // SAFETY: a C string that lives through the call.
    let memory = unsafe { libc::open(node.as_ptr(), libc::O_RDONLY) };
    assert!(memory >= 0, "{}", std::io::Error::last_os_error());
    let map = || {
        // SAFETY: maps new memory that nobody touches, and unmaps it.
        unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ,
                libc::MAP_SHARED,
                memory,
                0xf_0000,
            );
            if start == libc::MAP_FAILED {
                return errno();
            }
            libc::munmap(start, 4096)
        }
    };
    assert_eq!(map(), 0, "outside jobs it works");
    assert_eq!(first_act(yard.cgroup(0), map), libc::EPERM);
    yard.assert_events(&[(1, Operation::Mmap, Reason::Never)]);
    // SAFETY: closes what was opened above.
    unsafe { libc::close(memory) };
}

#[test]
fn a_step_narrows_what_the_guard_lets_through() {
    let Some(mut yard) = Yard::new() else { return };
    let cgroup = yard.cgroup(0).join("step_0");
    std::fs::create_dir(&cgroup).unwrap();
    let step = yard.fence.attach(&cgroup, "job_1_step_0").unwrap();
    step.write_policy(&Policy {
        step: 2,
        ..policy(1, [])
    })
    .unwrap();
    let card = drm::open(drm::CARD);
    let mut actor = Actor::start(&cgroup, |_| drm::version(card));
    assert_eq!(actor.ask(0), libc::EPERM);
    let events = yard.assert_events(&[(1, Operation::Ioctl, Reason::NotGranted)]);
    assert_eq!(events[0].step, 2);
    step.write_policy(&Policy {
        step: 2,
        ..policy(1, [0])
    })
    .unwrap();
    assert_eq!(actor.ask(0), 0);
    yard.jobs[0].1.write_policy(&policy(1, [])).unwrap();
    assert_eq!(actor.ask(0), libc::EPERM, "the job's policy holds too");
    // A group below the step, as a container's, is still in the step.
    let inner = cgroup.join("container");
    std::fs::create_dir(&inner).unwrap();
    assert_eq!(first_act(&inner, || drm::version(card)), libc::EPERM);
    yard.assert_denied(0, 3);
    // SAFETY: closes what was opened above.
    unsafe { libc::close(card) };
}

#[test]
fn a_grant_taken_away_stops_a_loop_of_ioctls() {
    let Some(yard) = Yard::new() else { return };
    let mut actor = Actor::start(yard.cgroup(0), |order| match order {
        0 => drm::open(drm::RENDER),
        // How many of so many calls were refused.
        fd => (0..2000)
            .map(|_| i32::from(drm::version(fd) == libc::EPERM))
            .sum(),
    });
    let fd = actor.ask(0);
    assert_eq!(actor.ask(fd), 0);
    for _ in 0..20 {
        yard.jobs[0].1.write_policy(&policy(1, [1])).unwrap();
        assert_eq!(actor.ask(fd), 2000, "not one call after the write");
        yard.jobs[0].1.write_policy(&policy(1, [0])).unwrap();
        assert_eq!(actor.ask(fd), 0);
    }
    yard.assert_denied(0, 20 * 2000);
}

#[test]
fn a_dma_buf_stays_with_its_job() {
    let Some(mut yard) = Yard::new() else { return };
    let outside = yard.lab.cgroup("outside");
    let map = |fd| drm::map_at(fd, 0);
    let (one, two) = (yard.cgroup(0), yard.cgroup(1));
    assert_eq!(pass(one, one, drm::new_dma_buf, map), PASSED);
    assert_eq!(pass(one, two, drm::new_dma_buf, map), libc::EPERM);
    assert_eq!(pass(&outside, two, drm::new_dma_buf, map), libc::EPERM);
    assert_eq!(pass(one, &outside, drm::new_dma_buf, map), libc::EPERM);
    assert_eq!(pass(&outside, &outside, drm::new_dma_buf, map), PASSED);
    let foreign = (2, Operation::Receive, Reason::Foreign);
    let events = yard.assert_events(&[foreign, foreign]);
    assert!(events.iter().all(|event| event.object == "dma-buf"));
    // One that was there before the job.
    let buffer = drm::new_dma_buf();
    assert!(buffer >= 0, "errno {}", -buffer);
    assert_eq!(drm::map_at(buffer, 0), 0);
    assert_eq!(
        first_act(yard.cgroup(0), || drm::map_at(buffer, 0)),
        libc::EPERM
    );
    yard.assert_events(&[(1, Operation::Mmap, Reason::Foreign)]);
    // SAFETY: closes what was opened above.
    unsafe { libc::close(buffer) };
}

#[test]
fn an_address_that_is_used_again_is_not_taken_for_the_jobs() {
    let Some(yard) = Yard::new() else { return };
    // The job's own descriptors come and go, so that their addresses are free for the accomplice's.
    let mut own = Actor::start(yard.cgroup(1), |_| {
        for _ in 0..64 {
            // SAFETY: closes what is opened here.
            unsafe { libc::close(drm::open(drm::RENDER)) };
        }
        0
    });
    let outside = yard.lab.cgroup("outside");
    let render = || drm::open(drm::RENDER);
    for _ in 0..20 {
        own.ask(0);
        assert_eq!(
            pass(&outside, yard.cgroup(1), render, drm::version),
            libc::EPERM
        );
        own.ask(0);
        assert_eq!(
            pass(yard.cgroup(0), yard.cgroup(1), render, drm::version),
            libc::EPERM
        );
        own.ask(0);
        assert_eq!(
            pass(
                &outside,
                yard.cgroup(1),
                drm::new_dma_buf,
                |fd| drm::map_at(fd, 0)
            ),
            libc::EPERM
        );
    }
}

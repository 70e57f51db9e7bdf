use super::report::{Extra, Known, Number, Told, report};
use super::*;
use spur_core::denial::{DenialLabel, DenialReason, DeviceOp, ROWS_MAX};
use spur_core::id::NodeName;
use spur_core::time::Millis;
use spur_ebpf::{DeviceNumber, Operation, Reason};
use std::time::SystemTime;

/// A refused open for reading, at this millisecond.
fn event(job: u64, minor: u32, at: u64) -> Event {
    Event {
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(at),
        job,
        step: 0,
        generation: 1,
        cgroup: 1,
        thread: 1,
        pid: 1,
        uid: 1,
        command: "x".into(),
        device: DeviceNumber { major: 226, minor },
        operation: Operation::Read,
        reason: Reason::NotGranted,
        target: None,
        object: String::new(),
        by_guard: false,
        refused: true,
    }
}

fn minors(taken: &Taken) -> Vec<u32> {
    taken.lines.iter().map(|event| event.device.minor).collect()
}

#[test]
fn a_noisy_device_hides_no_other_and_all_are_counted() {
    let buffer = Buffer::default();
    for at in 0..100_000 {
        buffer.put(event(1, 7, at / 100));
    }
    buffer.put(event(1, 8, 1000));
    buffer.put(event(2, 5, 1000));
    buffer.put(event(2, canary::MINOR, 1000));
    buffer.put(event(0, 5, 1000));
    let canary = DeviceNumber {
        major: canary::MAJOR,
        minor: canary::MINOR,
    };
    buffer.put(Event {
        device: canary,
        ..event(2, 0, 1000)
    });
    let taken = buffer.take();
    assert_eq!(taken.len(), 2, "job 0 is none");
    assert_eq!(minors(&taken[0]), [7, 7, 7, 7, 7, 7, 7, 7, 8]);
    let tallies: Vec<Tally> = taken[0].kinds.iter().map(|(_, tally)| *tally).collect();
    let flood = Tally {
        total: 100_000,
        cut: 99_992,
    };
    assert_eq!(tallies, [flood, Tally { total: 1, cut: 0 }]);
    assert!(buffer.take().is_empty(), "nothing new");
    // Later there is a line again, and the counts go on.
    buffer.put(event(1, 7, 60_000));
    let taken = buffer.take();
    assert_eq!(minors(&taken[0]), [7]);
    assert_eq!(taken[0].kinds[0].1.total, 100_001);
}

#[test]
fn what_is_kept_is_bounded_and_what_has_no_row_is_counted_with_the_others() {
    let buffer = Buffer::default();
    for minor in 0..100_000 {
        buffer.put(event(1, minor, 0));
    }
    let taken = buffer.take().swap_remove(0);
    let with_own_line = u64::try_from(taken.lines.len()).unwrap();
    assert_eq!((taken.kinds.len(), taken.lines.len()), (ROWS_MAX, 64 + 8));
    let in_rows: u64 = taken.kinds.iter().map(|(_, tally)| tally.total).sum();
    assert_eq!(in_rows + taken.others.total, 100_000);
    let cut: u64 = taken.kinds.iter().map(|(_, tally)| tally.cut).sum();
    assert_eq!(cut + taken.others.cut + with_own_line, 100_000);
    for job in 1..10_000 {
        buffer.put(event(job, 0, 0));
    }
    assert_eq!(buffer.take().len(), JOBS_MAX);
    buffer.forget(JobId(9_999));
    buffer.say_again();
    assert_eq!(buffer.take().len(), JOBS_MAX - 1, "all are said again");
}

#[test]
fn a_new_placement_counts_from_nothing() {
    let buffer = Buffer::default();
    buffer.put(event(1, 7, 0));
    buffer.put(Event {
        generation: 2,
        ..event(1, 8, 0)
    });
    let taken = buffer.take().swap_remove(0);
    assert_eq!((taken.generation.0, minors(&taken)), (2, vec![8]));
    assert_eq!(taken.kinds.len(), 1);
}

/// A job on render node 128 of a node with AMD's 128 to 135.
fn told(events: &[Event]) -> Told {
    let buffer = Buffer::default();
    for event in events {
        buffer.put(event.clone());
    }
    let node = NodeName::new("n1").unwrap();
    let is_render = |(major, minor): Number| major == 226 && (128..136).contains(&minor);
    let known = Known {
        node: &node,
        since: Millis(5),
        holds: &|number| number == (226, 128),
        path: &|(major, minor)| match is_render((major, minor)) {
            true => format!("/dev/dri/renderD{minor}"),
            false => String::new(),
        },
        is_amd_render_node: &is_render,
        holds_amd: true,
    };
    report(buffer.take().swap_remove(0), &known)
}

/// A program's start on AMD's runtime: KFD asks about each GPU.
#[test]
fn kfd_s_questions_are_labelled_and_no_alarm() {
    let start: Vec<Event> = (129..136)
        .map(|minor| Event {
            operation: Operation::ReadWrite,
            ..event(1, minor, 0)
        })
        .collect();
    let told = told(&start);
    assert_eq!((told.lines.len(), told.rows.rows.len()), (7, 7));
    for (line, row) in told.lines.iter().zip(&told.rows.rows) {
        assert_eq!(
            (line.label, row.key.label, line.is_alarm()),
            (
                Some(DenialLabel::KfdProbe),
                Some(DenialLabel::KfdProbe),
                false
            )
        );
        assert_eq!(row.key.device, line.device);
    }
    assert_eq!(told.lines[0].device, "/dev/dri/renderD129");
}

#[test]
fn a_step_s_narrower_fence_is_counted_where_the_job_s_is_silent() {
    let narrow = |minor| Event {
        step: 2,
        ..event(1, minor, 0)
    };
    // The guard counts for the job, whatever the step.
    let guard = Event {
        by_guard: true,
        operation: Operation::Ioctl,
        ..narrow(129)
    };
    let told = told(&[narrow(128), narrow(129), event(1, 129, 0), guard]);
    assert_eq!(
        told.extra,
        Extra {
            narrower: 1,
            cut: 0
        }
    );
    let seen: Vec<(u32, DeviceOp)> = told
        .lines
        .iter()
        .map(|line| (line.minor, line.op))
        .collect();
    assert_eq!(
        seen,
        [
            (128, DeviceOp::Read),
            (129, DeviceOp::Read),
            (129, DeviceOp::Ioctl)
        ]
    );
    let rows: Vec<u64> = told.rows.rows.iter().map(|row| row.total).collect();
    assert_eq!(rows, [1, 1, 1]);
}

#[test]
fn what_the_guard_saw_is_told() {
    let none = DeviceNumber { major: 0, minor: 0 };
    let of_guard = |operation, reason| Event {
        device: none,
        operation,
        reason,
        by_guard: true,
        ..event(1, 0, 0)
    };
    let told = told(&[
        Event {
            object: "dma-buf".into(),
            ..of_guard(Operation::Receive, Reason::Foreign)
        },
        Event {
            target: Some(77),
            refused: false,
            ..of_guard(Operation::Signal, Reason::Foreign)
        },
        Event {
            object: "resource0".into(),
            ..of_guard(Operation::Sysfs, Reason::Forbidden)
        },
    ]);
    let [buffer, signal, sysfs] = told.lines.as_slice() else {
        panic!("{:?}", told.lines)
    };
    assert_eq!(
        (buffer.op, buffer.object.as_str(), buffer.is_alarm()),
        (DeviceOp::Receive, "dma-buf", true)
    );
    assert_eq!(
        (signal.target_pid, signal.noted, signal.is_alarm()),
        (Some(77), true, false)
    );
    assert_eq!(
        (sysfs.object.as_str(), sysfs.reason, sysfs.is_alarm()),
        ("resource0", DenialReason::Forbidden, true)
    );
    let device = |op| {
        let row = told.rows.rows.iter().find(|row| row.key.op == op).unwrap();
        (row.key.device.as_str(), row.key.noted)
    };
    assert_eq!(device(DeviceOp::Receive), ("dma-buf", false));
    assert_eq!(device(DeviceOp::Signal), ("", true));
}

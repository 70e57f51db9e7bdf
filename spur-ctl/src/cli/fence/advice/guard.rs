//! What the guard saw: other things than opens of devices.

use super::{Advice, Level, count};
use crate::cli::fence::facts::Facts;
use spur_core::denial::DeviceOp;
use std::collections::BTreeSet;

/// An operation, and what to say of it.
struct Rule {
    op: DeviceOp,
    /// Whether it is about what was let through and only noted.
    noted: bool,
    rule: &'static str,
    level: Level,
    text: &'static str,
}

const RULES: [Rule; 11] = [
    Rule {
        op: DeviceOp::Receive,
        noted: false,
        rule: "receive",
        level: Level::Alarm,
        text: "A descriptor of a GPU, or of a buffer in its memory (dma-buf), was passed to this job from outside it and dropped: recvmsg gives the \
               message without the descriptor and sets MSG_CTRUNC, pidfd_getfd gives EPERM. Processes share GPU memory within one job only; let \
               each job open its own devices.",
    },
    Rule {
        op: DeviceOp::Ioctl,
        noted: false,
        rule: "ioctl",
        level: Level::Fix,
        text: "A process used a device that it had opened and may not use (any more): it inherited the descriptor, or the job's devices changed. Start \
               the process again within the job.",
    },
    Rule {
        op: DeviceOp::Mmap,
        noted: false,
        rule: "mmap",
        level: Level::Fix,
        text: "A process wanted to map a device, or a buffer (dma-buf), that is not its job's (any more). Start the process again within the job; \
               buffers are shared within one job only.",
    },
    Rule {
        op: DeviceOp::Sysfs,
        noted: false,
        rule: "sysfs-open",
        level: Level::Alarm,
        text: "Jobs read sysfs and do not write it, and never open a PCI device's memory, debugfs or tracefs: settings there (power limits, partitions, \
               MIG, driver binding) concern everybody on the node. rocm-smi --set…, nvidia-smi -mig, setpci and perf's tracing need an operator, \
               outside jobs.",
    },
    Rule {
        op: DeviceOp::Ptrace,
        noted: false,
        rule: "ptrace",
        level: Level::Alarm,
        text: "A process looked into a process outside its job. py-spy, gdb, strace, lsof and psutil see the processes of their own job only, also \
               where the other is the same user's: run the tool as a step of that job.",
    },
    Rule {
        op: DeviceOp::Bpf,
        noted: false,
        rule: "bpf",
        level: Level::Alarm,
        text: "bpf() is refused in jobs: with it root could take the fence off. bpftrace, bpftool, and container runtimes that set device rules do not \
               work inside.",
    },
    Rule {
        op: DeviceOp::Sqpoll,
        noted: false,
        rule: "io_uring-sqpoll",
        level: Level::Fix,
        text: "io_uring with a kernel thread that submits (IORING_SETUP_SQPOLL) is refused in jobs, since such a thread can open files for another \
               process. Use io_uring without it: fio's sqthread_poll=0, SPDK and storage clients have an option.",
    },
    Rule {
        op: DeviceOp::Signal,
        noted: false,
        rule: "signal",
        level: Level::Fix,
        text: "A signal to a process outside the job was refused: this node keeps jobs of one user apart as well. Use scancel -s.",
    },
    Rule {
        op: DeviceOp::Signal,
        noted: true,
        rule: "signal-noted",
        level: Level::Note,
        text: "The job sent a signal to a process outside it, of the same user; it was let through and noted. Scripts that kill by name (pkill) hit \
               the user's other jobs on the node.",
    },
    Rule {
        op: DeviceOp::Unpin,
        noted: false,
        rule: "unpin",
        level: Level::Alarm,
        text: "The job tried to take the fence's pins or their file system away. No program does that by accident.",
    },
    Rule {
        op: DeviceOp::Cgroup,
        noted: false,
        rule: "cgroup-write",
        level: Level::Fix,
        text: "A control group outside the job's own was written to, or a process was started in one. Container managers and systemd-run do that: let \
               them use groups below their own (/proc/self/cgroup).",
    },
];

/// What each operation means, and which processes and objects it was about.
pub(super) fn by_operation(facts: &Facts) -> Vec<Advice> {
    let rules = RULES.iter().filter_map(|rule| {
        let total = count(facts, |_, key| key.op == rule.op && key.noted == rule.noted);
        let who = facts
            .lines
            .iter()
            .filter(|line| line.op == rule.op && line.noted == rule.noted);
        let who: BTreeSet<&str> = who.map(|line| line.command.as_str()).collect();
        let total = total.max(u64::from(!who.is_empty()));
        let text = match who.len() {
            0 => rule.text.to_owned(),
            1..=5 => {
                let who: Vec<&str> = who.into_iter().collect();
                format!("{} (By {}.)", rule.text, who.join(", "))
            }
            many => format!("{} (By {many} programs.)", rule.text),
        };
        (total > 0).then(|| Advice::new(rule.rule, rule.level, total, text))
    });
    rules.collect()
}

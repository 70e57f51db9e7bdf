use super::{Advice, Level, advice};
use crate::cli::fence::facts::Facts;
use crate::cli::fence::tests::{denied, facts, job, node, number, row};
use spur_core::denial::{Denial, DenialLabel, DenialReason, DenialRow, DeviceOp};
use spur_core::job::state::JobState;
use spur_core::node::FenceState;
use spur_core::resources::GpuVendor::{self, Amd, Nvidia};

const OPEN: DeviceOp = DeviceOp::ReadWrite;

/// A job with GPUs 0 and 1.
fn two(vendor: GpuVendor, rows: Vec<DenialRow>, lines: Vec<Denial>) -> Facts {
    let total = rows
        .iter()
        .filter(|row| !row.key.noted)
        .map(|row| row.total)
        .sum();
    facts(job(&[0, 1], total), node(vendor), rows, lines)
}

/// Opens of these GPUs by one process, each so often, as rows and lines.
fn opens(vendor: GpuVendor, pid: u32, gpus: &[(u32, usize)]) -> (Vec<DenialRow>, Vec<Denial>) {
    let row = |(gpu, times): &(u32, usize)| row(number(vendor, *gpu), OPEN, *times as u64);
    let lines = gpus.iter().flat_map(|(gpu, times)| {
        std::iter::repeat_n(denied(number(vendor, *gpu), OPEN, pid), *times)
    });
    (gpus.iter().map(row).collect(), lines.collect())
}

fn with(reason: DenialReason, mut row: DenialRow) -> DenialRow {
    row.key.reason = reason;
    row
}

fn noted(mut row: DenialRow) -> DenialRow {
    row.key.noted = true;
    row
}

fn rules(facts: &Facts) -> Vec<(&'static str, Level)> {
    advice(facts)
        .iter()
        .map(|advice| (advice.rule, advice.level))
        .collect()
}

fn only(facts: &Facts, rule: &str) -> Advice {
    let mut all = advice(facts);
    all.retain(|advice| advice.rule == rule);
    assert_eq!(all.len(), 1, "{rule} in {:?}", advice(facts));
    all.remove(0)
}

/// What happens to users, and what they are told.
#[test]
fn each_story_gets_its_advice() {
    use Level::{Alarm, Fix, Harmless, Note};
    let glance = opens(Nvidia, 7, &[(2, 1), (3, 1), (4, 2), (5, 1), (6, 1), (7, 1)]);
    let fixed = opens(Nvidia, 7, &[(5, 8)]);
    let asks = |mut row: DenialRow| {
        row.key.label = Some(DenialLabel::KfdProbe);
        row
    };
    let probes = (2..8).map(|gpu| asks(row(number(Amd, gpu), OPEN, 3)));
    let never = |major, minor| with(DenialReason::NeverGranted, row((major, minor), OPEN, 1));
    let mut unfenced = node(Nvidia);
    unfenced.node.fence = FenceState::Unfenced;
    let mut pending = job(&[], 0);
    pending.state = JobState::Pending;
    let of = |op| {
        two(
            Nvidia,
            vec![with(DenialReason::Foreign, row((0, 0), op, 1))],
            Vec::new(),
        )
    };
    let shape = ("error-shape", Note);
    let table: Vec<(Facts, Vec<(&str, Level)>)> = vec![
        (
            two(Nvidia, Vec::new(), Vec::new()),
            vec![("nothing-refused", Note)],
        ),
        (
            facts(job(&[], 0), node(Nvidia), Vec::new(), Vec::new()),
            vec![("no-gpu-asked", Note)],
        ),
        (
            facts(
                job(&[], 1),
                node(Nvidia),
                vec![row(number(Nvidia, 0), OPEN, 1)],
                Vec::new(),
            ),
            vec![("no-gpu", Fix), shape],
        ),
        (
            two(Nvidia, glance.0, glance.1),
            vec![shape, ("tries-every-gpu", Harmless)],
        ),
        (
            two(Nvidia, fixed.0, fixed.1),
            vec![("chosen-by-number", Fix), shape],
        ),
        (
            two(Nvidia, vec![row(number(Nvidia, 1), OPEN, 2)], Vec::new()),
            vec![("narrow-step", Fix), shape],
        ),
        (
            two(Amd, probes.collect(), Vec::new()),
            vec![("kfd-probe", Harmless)],
        ),
        (
            two(
                Amd,
                vec![never(226, 0), never(1, 1), never(195, 254)],
                Vec::new(),
            ),
            vec![
                ("memory-node", Alarm),
                ("display-node", Note),
                ("never-granted", Note),
            ],
        ),
        (
            two(
                Amd,
                vec![with(DenialReason::UnknownMinor, row((226, 190), OPEN, 1))],
                Vec::new(),
            ),
            vec![("unknown-minor", Fix)],
        ),
        (
            two(
                Amd,
                vec![with(DenialReason::NoPolicy, row((226, 128), OPEN, 1))],
                Vec::new(),
            ),
            vec![("no-policy", Fix)],
        ),
        (
            two(Nvidia, vec![row((195, 5), DeviceOp::Mknod, 1)], Vec::new()),
            vec![("mknod", Note)],
        ),
        (
            two(Nvidia, vec![row((195, 5), DeviceOp::Probe, 1)], Vec::new()),
            vec![("probe", Harmless)],
        ),
        (of(DeviceOp::Receive), vec![("receive", Alarm)]),
        (of(DeviceOp::Ioctl), vec![("ioctl", Fix)]),
        (of(DeviceOp::Mmap), vec![("mmap", Fix)]),
        (of(DeviceOp::Sysfs), vec![("sysfs-open", Alarm)]),
        (of(DeviceOp::Ptrace), vec![("ptrace", Alarm)]),
        (of(DeviceOp::Bpf), vec![("bpf", Alarm)]),
        (of(DeviceOp::Sqpoll), vec![("io_uring-sqpoll", Fix)]),
        (of(DeviceOp::Signal), vec![("signal", Fix)]),
        (of(DeviceOp::Unpin), vec![("unpin", Alarm)]),
        (of(DeviceOp::Cgroup), vec![("cgroup-write", Fix)]),
        (of(DeviceOp::Other), vec![("other", Note)]),
        (
            two(
                Nvidia,
                vec![noted(row((0, 0), DeviceOp::Signal, 4))],
                Vec::new(),
            ),
            vec![("signal-noted", Note)],
        ),
        (
            facts(job(&[0], 1_000_000), node(Nvidia), Vec::new(), Vec::new()),
            vec![("only-counted", Note)],
        ),
        (
            facts(job(&[0], 0), unfenced, Vec::new(), Vec::new()),
            vec![("unfenced", Fix), ("nothing-refused", Note)],
        ),
        (
            facts(pending, node(Nvidia), Vec::new(), Vec::new()),
            vec![("waiting", Note)],
        ),
    ];
    for (facts, expected) in table {
        assert_eq!(
            rules(&facts),
            expected,
            "{:?} {:?}",
            facts.places[0].rows,
            facts.lines
        );
    }
}

#[test]
fn a_wrong_number_is_named_with_the_numbers_that_are_right() {
    let (rows, lines) = opens(Nvidia, 7, &[(5, 8)]);
    let said = only(&two(Nvidia, rows, lines), "chosen-by-number");
    assert_eq!(said.times, 8);
    assert_eq!(
        said.text,
        "python on n0001 chose GPU index 5 by its number, but the job holds only index 0-1. Leave CUDA_VISIBLE_DEVICES as the job gets it and use \
         the first 2 that the program sees, counted from 0."
    );
    // Many workers with one mistake are one piece of advice.
    let (rows, mut lines) = opens(Amd, 7, &[(5, 8)]);
    for pid in 8..20 {
        lines.extend(opens(Amd, pid, &[(5, 3)]).1);
    }
    let said = only(&two(Amd, rows, lines), "chosen-by-number");
    assert!(
        said.text.contains("Leave ROCR_VISIBLE_DEVICES as"),
        "{said:?}"
    );
}

#[test]
fn trying_some_and_then_insisting_on_one_is_no_glance() {
    let (rows, lines) = opens(Nvidia, 7, &[(2, 1), (3, 1), (4, 6)]);
    assert_eq!(only(&two(Nvidia, rows, lines), "chosen-by-number").times, 6);
    // Where there is but one other GPU, one try is a glance.
    let mut small = node(Nvidia);
    small.node.inventory.gpus.truncate(3);
    let (rows, lines) = opens(Nvidia, 7, &[(2, 1)]);
    let small = facts(job(&[0, 1], 1), small, rows, lines);
    assert_eq!(only(&small, "tries-every-gpu").times, 1);
}

#[test]
fn on_amd_a_gpu_that_came_later_needs_a_new_process() {
    let refused = |vendor| vec![row(number(vendor, 1), OPEN, 2)];
    let amd = only(&two(Amd, refused(Amd), Vec::new()), "narrow-step");
    assert!(amd.text.contains("KFD asks") && amd.text.contains("restart the process"));
    let nvidia = only(&two(Nvidia, refused(Nvidia), Vec::new()), "narrow-step");
    assert!(!nvidia.text.contains("KFD"));
}

#[test]
fn advice_names_who_did_it() {
    let mut line = denied((0, 0), DeviceOp::Ptrace, 9);
    line.command = "py-spy".to_owned();
    let facts = two(Nvidia, vec![row((0, 0), DeviceOp::Ptrace, 12)], vec![line]);
    let said = only(&facts, "ptrace");
    assert_eq!(said.times, 12);
    assert!(said.text.ends_with("(By py-spy.)"), "{said:?}");
}

/// Whatever the kernel says, people are told something, and never that nothing was refused.
#[test]
fn nothing_that_was_refused_is_left_without_a_word() {
    for op in DeviceOp::ALL {
        for reason in DenialReason::ALL {
            for number in [(0, 0), (1, 1), (195, 0), (195, 5), (226, 0)] {
                let facts = two(Nvidia, vec![with(reason, row(number, op, 1))], Vec::new());
                let rules = rules(&facts);
                assert!(
                    !rules.is_empty() && rules.iter().all(|(rule, _)| *rule != "nothing-refused"),
                    "{op:?} {reason:?} {number:?}: {rules:?}"
                );
            }
        }
    }
}

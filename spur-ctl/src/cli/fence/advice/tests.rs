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

type Story = (Facts, Vec<(&'static str, Level)>);

const SHAPE: (&str, Level) = ("error-shape", Level::Note);

fn check(stories: Vec<Story>) {
    for (facts, expected) in stories {
        let place = facts.places.first();
        let rows = place.map(|place| &place.rows);
        assert_eq!(rules(&facts), expected, "{rows:?} {:?}", facts.lines);
    }
}

/// What happens to users, and what they are told.
#[test]
fn each_story_about_gpus_gets_its_advice() {
    use Level::{Fix, Harmless};
    let glance = opens(Nvidia, 7, &[(2, 1), (3, 1), (4, 2), (5, 1), (6, 1), (7, 1)]);
    let fixed = opens(Nvidia, 7, &[(5, 8)]);
    let asked = |gpu| {
        let mut row = row(number(Amd, gpu), OPEN, 3);
        row.key.label = Some(DenialLabel::KfdProbe);
        row
    };
    let first = row(number(Nvidia, 0), OPEN, 1);
    check(vec![
        (
            facts(job(&[], 1), node(Nvidia), vec![first], Vec::new()),
            vec![("no-gpu", Fix), SHAPE],
        ),
        (
            two(Nvidia, glance.0, glance.1),
            vec![SHAPE, ("tries-every-gpu", Harmless)],
        ),
        (
            two(Nvidia, fixed.0, fixed.1),
            vec![("chosen-by-number", Fix), SHAPE],
        ),
        (
            two(Nvidia, vec![row(number(Nvidia, 1), OPEN, 2)], Vec::new()),
            vec![("narrow-step", Fix), SHAPE],
        ),
        (
            two(Amd, (2..8).map(asked).collect(), Vec::new()),
            vec![("kfd-probe", Harmless)],
        ),
    ]);
}

#[test]
fn each_story_without_a_refusal_gets_its_advice() {
    use Level::{Fix, Note};
    let mut unfenced = node(Nvidia);
    unfenced.node.fence = FenceState::Unfenced;
    let mut pending = job(&[], 0);
    pending.state = JobState::Pending;
    let without = |job, node| facts(job, node, Vec::new(), Vec::new());
    let signal = noted(row((0, 0), DeviceOp::Signal, 4));
    check(vec![
        (
            without(job(&[0, 1], 0), node(Nvidia)),
            vec![("nothing-refused", Note)],
        ),
        (
            without(job(&[], 0), node(Nvidia)),
            vec![("no-gpu-asked", Note)],
        ),
        (
            without(job(&[0], 1_000_000), node(Nvidia)),
            vec![("only-counted", Note)],
        ),
        (
            without(job(&[0], 0), unfenced),
            vec![("unfenced", Fix), ("nothing-refused", Note)],
        ),
        (without(pending, node(Nvidia)), vec![("waiting", Note)]),
        (
            two(Nvidia, vec![signal], Vec::new()),
            vec![("signal-noted", Note)],
        ),
    ]);
}

#[test]
fn each_kind_of_refusal_gets_its_advice() {
    use Level::{Alarm, Fix, Harmless, Note};
    let of = |reason, number, op, rule, level| {
        let row = with(reason, row(number, op, 1));
        (two(Nvidia, vec![row], Vec::new()), vec![(rule, level)])
    };
    let guard = |op, rule, level| of(DenialReason::Foreign, (0, 0), op, rule, level);
    let never = |number, rule, level| of(DenialReason::NeverGranted, number, OPEN, rule, level);
    let own = DenialReason::NotGranted;
    check(vec![
        never((1, 1), "memory-node", Alarm),
        never((226, 0), "display-node", Note),
        never((195, 254), "never-granted", Note),
        of(
            DenialReason::UnknownMinor,
            (195, 90),
            OPEN,
            "unknown-minor",
            Fix,
        ),
        of(DenialReason::NoPolicy, (195, 0), OPEN, "no-policy", Fix),
        of(own, (195, 5), DeviceOp::Mknod, "mknod", Note),
        of(own, (195, 5), DeviceOp::Probe, "probe", Harmless),
        guard(DeviceOp::Receive, "receive", Alarm),
        guard(DeviceOp::Ioctl, "ioctl", Fix),
        guard(DeviceOp::Mmap, "mmap", Fix),
        guard(DeviceOp::Sysfs, "sysfs-open", Alarm),
        guard(DeviceOp::Ptrace, "ptrace", Alarm),
        guard(DeviceOp::Bpf, "bpf", Alarm),
        guard(DeviceOp::Sqpoll, "io_uring-sqpoll", Fix),
        guard(DeviceOp::Signal, "signal", Fix),
        guard(DeviceOp::Unpin, "unpin", Alarm),
        guard(DeviceOp::Cgroup, "cgroup-write", Fix),
        guard(DeviceOp::Other, "other", Note),
    ]);
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
